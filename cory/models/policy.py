"""A model that speaks: it responds to contexts, and its turns become tensors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

from cory import distributed
from cory.config import HardwareConfig, SamplingConfig, require
from cory.episode import Context, Turn
from cory.functional.masking import pad_turns
from cory.models.engine import Engine
from cory.models.generation import Response, draw_uniforms, generate
from cory.models.team import ActorCriticModel, Team

Spoken = list[tuple[Turn, list[float]]]  # turns, and log-probabilities of what was sampled


class Policy:
    """One policy of a team, under its engine."""

    def __init__(
        self, team: Team, model: ActorCriticModel, engine: Engine | None, hardware: HardwareConfig
    ) -> None:
        """engine: None where it never learns."""
        self.name = model.name
        self.team = team
        self.model = model
        self._engine = engine
        self.hardware = hardware

    @property
    def engine(self) -> Engine:
        """What trains it."""
        if self._engine is None:
            raise ValueError(f"{self.name} never learns")
        return self._engine

    def whole(self) -> AbstractContextManager[None]:
        """All of its weights at hand, for passes without gradient."""
        return nullcontext() if self._engine is None else self._engine.whole()

    def turns(
        self,
        role: str,
        round: int,
        contexts: Sequence[Context | None],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
        reference: str | None = None,
    ) -> Spoken:
        """A turn per context, and the log-probability of its tokens under what was sampled from.

        contexts: None where nothing is to be said; that turn is absent
        reference: let the frozen reference speak, under this name
        """
        texts = [None if context is None else self.team.render(context) for context in contexts]
        said = self.respond(texts, limit, sampling, stream, as_reference=reference is not None)
        decode = self.team.tokenizer.decode
        return [
            (
                Turn(
                    agent=reference or self.name,
                    role=role,
                    round=round,
                    context=text or "",
                    response=decode(response.ids, skip_special_tokens=True),
                    context_ids=ids,
                    response_ids=response.ids,
                ),
                response.sampler_logprobs,
            )
            for text, (ids, response) in zip(texts, said, strict=True)
        ]

    def respond(
        self,
        contexts: list[str | None],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
        as_reference: bool = False,
    ) -> list[tuple[list[int], Response]]:
        """Token ids of each context, and a response of at most `limit` tokens to it.

        contexts: rendered; None where nothing is to be said: numbers are drawn for it all the same
        sampling: None decodes greedily
        as_reference: let the frozen reference speak instead of the policy
        """
        tokenizer = self.team.tokenizer
        asked = [number for number, context in enumerate(contexts) if context is not None]
        # one token stands for the context of an absent turn: attention needs something to look at
        rows: list[list[int]] = [[int(tokenizer.pad_token_id)] for _ in contexts]
        if asked:
            texts = [context for context in contexts if context is not None]
            for number, ids in zip(asked, tokenizer(texts)["input_ids"], strict=True):
                rows[number] = ids  # with BOS where the model has one
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
        self.model.eval()
        with self.whole():
            self.model.activate()
            with self.team.speaking(self.model, as_reference) as lm:

                def answer(batch: Sequence[int]) -> list[Response]:
                    return generate(
                        lm,
                        [rows[number] for number in batch],
                        limit,
                        sampling,
                        None if uniforms is None else uniforms[list(batch)],
                        tokenizer.pad_token_id,
                        self.team.stops,
                    )

                responses = distributed.map_rows(asked, self.hardware.rollout_batch_size, answer)
        found = dict(zip(asked, responses, strict=True))
        nothing = Response([], [])
        return [(row, found.get(number, nothing)) for number, row in enumerate(rows)]

    def tensors(self, turns: list[Turn]) -> tuple[Tensor, Tensor, Tensor]:
        """input_ids (B, L), attention_mask (B, L) and response_mask (B, R) of the turns."""
        tensors = pad_turns(
            [turn.context_ids for turn in turns],
            [turn.response_ids for turn in turns],
            self.team.tokenizer.pad_token_id,
        )
        ids, attended, said = (tensor.to(self.team.device) for tensor in tensors)
        return ids, attended, said

    def start_update(self) -> None:
        """Training mode, where something asks for it; else only the value head's."""
        config = self.team.config
        self.model.train(
            config.dropout
            or (config.sharing != "copies" and config.adapter.dropout > 0)
            or self.hardware.gradient_checkpointing
        )
        self.model.value_dropout.train()


class Reference:
    """The model as it was before training, in turns in which nobody learns."""

    def __init__(self, name: str, voice: Policy) -> None:
        """voice: one of the team whose reference speaks."""
        self.name = name
        self.voice = voice

    def turns(
        self,
        role: str,
        round: int,
        contexts: Sequence[Context | None],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
    ) -> Spoken:
        """As `Voice.turns`."""
        return self.voice.turns(role, round, contexts, limit, sampling, stream, self.name)


class Actor(Protocol):
    """Whoever answers contexts."""

    name: str

    def turns(
        self,
        role: str,
        round: int,
        contexts: Sequence[Context | None],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
    ) -> Spoken:
        """As `Voice.turns`."""
        ...
