"""One policy that learns: it responds, annotates its turns, and carries its own statistics."""

from __future__ import annotations

import torch
from torch import Tensor

from cory.config import PPOConfig, SamplingConfig, require
from cory.engine import Engine
from cory.episode import Batch, Turn
from cory.functional.logprobs import sampled_kl
from cory.functional.masking import pad_left, pad_right
from cory.functional.scores import RunningMoments, adapted_kl_coef, scaled
from cory.generation import Response, generate
from cory.team import PolicyModel, Team


class Agent:
    """A policy with its value head, optimiser, KL coefficient and running score statistics.

    All of these belong to the agent and follow it through every role.
    """

    def __init__(
        self,
        name: str,
        team: Team,
        model: PolicyModel,
        engine: Engine,
        config: PPOConfig,
        rollout_batch_size: int,
    ) -> None:
        self.name = name
        self.team = team
        self.model = model
        self.engine = engine
        self.config = config
        self.rollout_batch_size = rollout_batch_size
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
        rows: list[list[int]] = tokenizer(contexts, add_special_tokens=False)["input_ids"]
        longest, room = max(map(len, rows)), self.team.context_length
        require(min(map(len, rows)) > 0, "a prompt has no tokens: the model needs at least one")
        require(
            longest + limit <= room,
            f"a prompt of {longest} tokens and algorithm.sampling.max_response_tokens ({limit}) "
            f"exceed the model's context of {room} tokens",
        )
        # drawn for all rows at once: a response does not depend on rollout_batch_size
        uniforms = torch.rand(len(rows), limit, dtype=torch.float64, generator=stream)
        responses: list[Response] = []
        self.model.eval()
        for start in range(0, len(rows), self.rollout_batch_size):
            part = slice(start, start + self.rollout_batch_size)
            responses += generate(
                self.model.lm,
                rows[part],
                limit,
                sampling,
                uniforms[part],
                tokenizer.pad_token_id,
                tokenizer.eos_token_id,
            )
        return list(zip(rows, responses, strict=True))

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
        parts = [
            self.team.statistics(
                self.model, *(t[rows] for t in (input_ids, attention_mask, response_mask))
            )
            for rows in torch.split(torch.arange(len(turns)), self.rollout_batch_size)
        ]
        statistics = [torch.cat(column) for column in zip(*(p[0] for p in parts), strict=True)]
        logprobs, entropy, ref_logprobs, full = statistics
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
            values=torch.cat([p[1] for p in parts]),
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
        """Training mode where dropout was asked for; else only the value head's."""
        self.model.train(self.team.config.dropout)
        self.model.value_dropout.train()

    def adapt_kl_coef(self, kl: float, turns: int) -> None:
        """Move the KL coefficient after an iteration, when the controller is adaptive.

        kl: mean over turns of the KL summed over tokens, nats
        """
        if self.config.kl_controller == "adaptive":
            self.kl_coef = adapted_kl_coef(
                self.kl_coef, kl, self.config.kl_target, self.config.kl_horizon, turns
            )
