"""One policy that learns: it responds, annotates its turns, and carries its own statistics."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from cory import processes
from cory.config import HardwareConfig, PPOConfig, SamplingConfig, require
from cory.engine import Engine
from cory.episode import Batch, Turn
from cory.functional.logprobs import sampled_kl
from cory.functional.masking import pad_left, pad_right
from cory.functional.scores import RunningMoments, adapted_kl_coef, scaled
from cory.generation import Response, draw_uniforms, generate
from cory.team import PolicyModel, Team


class Agent:
    """A policy with its value head, optimiser, KL coefficient and running score statistics.

    All of these belong to the agent and follow it through every role.
    """

    def __init__(
        self,
        team: Team,
        model: PolicyModel,
        engine: Engine,
        config: PPOConfig,
        hardware: HardwareConfig,
        from_reference: bool,
    ) -> None:
        """from_reference: the weights are the reference's as yet."""
        self.name = model.name
        self.team = team
        self.model = model
        self.engine = engine
        self.config = config
        self.hardware = hardware
        self.from_reference = from_reference
        self.start_statistics()

    def start_statistics(self) -> None:
        """KL coefficient and running score statistics as at the beginning of a run."""
        self.kl_coef = self.config.kl_coef
        self.moments = RunningMoments()

    def respond(
        self,
        contexts: list[str],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
    ) -> list[tuple[list[int], Response]]:
        """Token ids of each context, and a response of at most `limit` tokens to it.

        sampling: None decodes greedily
        """
        tokenizer = self.team.tokenizer
        rows: list[list[int]] = tokenizer(contexts)["input_ids"]  # with BOS where the model has one
        longest, room = max(map(len, rows)), self.team.context_length
        require(min(map(len, rows)) > 0, "a prompt has no tokens: the model needs at least one")
        require(
            longest + limit <= room,
            f"a prompt of {longest} tokens and algorithm.sampling.max_response_tokens ({limit}) "
            f"exceed the model's context of {room} tokens",
        )
        # drawn for all rows at once: a response depends neither on rollout_batch_size nor on
        # the number of processes, and no two rows share their numbers
        uniforms = None if sampling is None else draw_uniforms(len(rows), limit, stream)
        own = range(len(rows))[processes.own_rows(len(rows))]
        responses: list[Response] = []
        self.model.eval()
        with self.engine.whole():
            self.model.activate()
            for start in range(own.start, own.stop, self.hardware.rollout_batch_size):
                part = slice(start, min(start + self.hardware.rollout_batch_size, own.stop))
                responses += generate(
                    self.model.lm,
                    rows[part],
                    limit,
                    sampling,
                    None if uniforms is None else uniforms[part],
                    tokenizer.pad_token_id,
                    tokenizer.eos_token_id,
                )
        responses = processes.gathered(responses)
        return list(zip(rows, responses, strict=True))

    def turns(
        self,
        role: str,
        round: int,
        contexts: list[str],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
    ) -> list[tuple[Turn, list[float]]]:
        """A turn per context, and the log-probability of its tokens under what was sampled from."""
        decode = self.team.tokenizer.decode
        return [
            (
                Turn(
                    agent=self.name,
                    role=role,
                    round=round,
                    context=context,
                    response=decode(response.ids, skip_special_tokens=True),
                    context_ids=ids,
                    response_ids=response.ids,
                ),
                response.sampler_logprobs,
            )
            for context, (ids, response) in zip(
                contexts, self.respond(contexts, limit, sampling, stream), strict=True
            )
        ]

    def annotate(self, turns: list[Turn]) -> Batch:
        """The turns as tensors, with what policy and reference say about each token.

        Credits are scaled by this agent's running statistics, which take the turns in first.
        """
        credits = [turn.credit for turn in turns if turn.credit is not None]
        if len(credits) != len(turns):
            raise ValueError(f"{self.name}: a turn has no credit")
        if self.config.score_scaling != "none":
            self.moments.update(credits)
        credits = scaled(credits, self.moments, self.config.score_scaling, self.config.score_clip)
        input_ids, attention_mask, response_mask = self.tensors(turns)
        self.model.eval()
        own = torch.arange(len(turns))[processes.own_rows(len(turns))]
        with self.engine.whole():
            parts = [
                self.team.statistics(
                    self.model,
                    input_ids[rows],
                    attention_mask[rows],
                    response_mask[rows],
                    routed=self.hardware.routed_reference,
                )
                for rows in torch.split(own, self.hardware.rollout_batch_size)
            ]
        columns = [*zip(*(p[0] for p in parts), strict=True), [p[1] for p in parts]]
        logprobs, entropy, ref_logprobs, full, values = (
            processes.gathered_rows(torch.cat(list(column))) for column in columns
        )
        estimator = self.config.kl_estimator
        kl = full if estimator == "full" else sampled_kl(logprobs, ref_logprobs, estimator)
        return Batch(
            input_ids=input_ids,
            attention_mask=attention_mask,
            response_mask=response_mask,
            credits=torch.tensor(credits, dtype=torch.float32, device=self.team.device),
            logprobs=logprobs,
            ref_logprobs=ref_logprobs,
            kl=kl,
            entropy=entropy,
            values=values,
        )

    def tensors(self, turns: list[Turn]) -> tuple[Tensor, Tensor, Tensor]:
        """input_ids (B, L), attention_mask (B, L) and response_mask (B, R) of the turns."""
        pad = self.team.tokenizer.pad_token_id
        context, context_mask = pad_left([turn.context_ids for turn in turns], pad)
        response, response_mask = pad_right([turn.response_ids for turn in turns], pad)
        device = self.team.device
        return (
            torch.cat([context, response], dim=1).to(device),
            torch.cat([context_mask, response_mask], dim=1).to(device),
            response_mask.to(device),
        )

    def start_update(self) -> None:
        """Training mode, where something asks for it; else only the value head's."""
        config = self.team.config
        self.model.train(
            config.dropout
            or (config.sharing != "copies" and config.adapter.dropout > 0)
            or self.hardware.gradient_checkpointing
        )
        self.model.value_dropout.train()

    def adapt_kl_coef(self, kl: float, turns: int) -> None:
        """Move the KL coefficient after an iteration, when the controller is adaptive.

        kl: mean over turns of the KL summed over tokens, nats
        """
        if self.config.kl_controller == "adaptive":
            self.kl_coef = adapted_kl_coef(
                self.kl_coef, kl, self.config.kl_target, self.config.kl_horizon, turns
            )

    def state_dict(self) -> dict[str, Any]:
        """KL coefficient and running score statistics; weights are the engine's."""
        return {"kl_coef": self.kl_coef, "moments": asdict(self.moments)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        self.kl_coef = state["kl_coef"]
        self.moments = RunningMoments(**state["moments"])
