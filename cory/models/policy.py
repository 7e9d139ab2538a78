"""Policies: models that respond to contexts."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from cory import distributed
from cory.config import Config, HardwareConfig, PPOConfig, SamplingConfig
from cory.episode import Asked, Batch, Context, TokenRow, Turn
from cory.functional.advantages import CreditScale, RunningMoments, adapted_kl_coef
from cory.functional.logprobs import LogitsOf, pad_turns, sampled_kl, token_statistics
from cory.models.actor_critic import (
    ActorCriticModel,
    output_head,
    products,
    response_states,
    spread,
)
from cory.models.bundle import ModelBundle, StoredWeights
from cory.models.engine import Engine
from cory.models.generation import Response, generate
from cory.models.passes import reads_once

if TYPE_CHECKING:
    from cory.models.served import Served

CARRIED = ("kl_coef", "updates", "updated")  # of a policy, as they are


class Policy:
    """One policy: a model of a bundle, with its engine."""

    def __init__(
        self,
        bundle: ModelBundle,
        model: ActorCriticModel,
        engine: Engine | None,
        hardware: HardwareConfig,
        stored: StoredWeights | None = None,
    ) -> None:
        """engine: None where it is never trained; stored: its weights, if it shares the engine."""
        self.name = model.name if stored is None else stored.name
        # in place of how the others sample; None: as they do
        self.sampling: SamplingConfig | None = None
        self.frozen = False  # responds with the reference instead of its own weights
        # True during a roll-out with `model.rollout_dropout`, as in CORY's released code
        self.samples_with_dropout = False
        self.bundle = bundle
        # a full copy's own reference, if it began with other weights than the pretrained model
        self.start = bundle.starts.get(self.name)
        self.texts = bundle.texts  # how it is shown what it is asked; with a system of its own
        self._model = model
        self.base = model.base  # which carries its adapter, and others'; None: it has none
        self._engine = engine
        self._stored = stored
        self.hardware = hardware
        self.responses_at_once = hardware.responses_at_once
        able = bundle.device.type == "cuda" and not bundle.config.rollout_dropout
        self.recorded = able if hardware.cuda_graphs is None else hardware.cuda_graphs
        if self.recorded:
            with self.whole():
                self.recorded = bundle.recordable(model.lm.eval(), hardware.cuda_graphs is True)

    def as_member(self, config: Config) -> "Policy":
        """This policy, sampling and shown prompts as the run's settings say of its name."""
        self.sampling = config.own_sampling(self.name)
        self.texts = self.bundle.texts_of(config.model_of(self.name), config.key_of(self.name))
        return self

    def reference(self, name: str) -> "Policy":
        """The frozen reference of its bundle, which responds under this name."""
        reference = copy.copy(self)
        reference.name, reference.frozen = name, True
        reference.sampling, reference.texts = None, self.bundle.texts
        return reference

    @property
    def model(self) -> ActorCriticModel:
        """Its model; where several share an engine, with its weights."""
        self._enter()
        return self._model

    @property
    def engine(self) -> Engine:
        """Trains it; ValueError where it has none."""
        if self._engine is None:
            raise ValueError(f"{self.name} never learns")
        self._enter()
        return self._engine

    @property
    def in_engine(self) -> bool:
        """Whether its engine, which others may use, too, holds its weights now."""
        return self._stored is None or self._stored.engine.occupant is self._stored

    def _enter(self) -> None:
        """Have its weights in an engine that others use, too; the reference needs none."""
        if self._stored is not None and not self.frozen:
            self._stored.enter()

    def whole(self) -> AbstractContextManager[None]:
        """Gather all of its weights, for passes without gradient."""
        return nullcontext() if self._engine is None else self.engine.whole()

    def own_sampling(self, sampling: SamplingConfig | None) -> SamplingConfig | None:
        """How it samples where others do as `sampling` says; None: greedily, as they."""
        return sampling and (self.sampling or sampling)

    @property
    def adapter(self) -> str:
        """The adapter that it responds with, of its base; "": none."""
        base, name = self.base, self._model.name
        if base is None:
            return ""
        return base.start_of(name) if self.frozen else name

    @property
    def version(self) -> int:
        """Another number whenever the weights that it responds with have changed."""
        own = self._engine is not None and self._engine.model is self._model
        return self._engine.version if self._engine and own and not self.frozen else 0

    @property
    def served(self) -> "Served | None":
        """The server that samples for it; None: it samples here, as a full copy's reference."""
        return None if self.frozen and self._model.base is None else self.bundle.served

    def fits(self, context: Context, limit: int) -> bool:
        """Whether a context leaves room for a response of `limit` tokens, or of its own limit."""
        limit = limit if self.sampling is None else self.sampling.max_response_tokens
        return self.texts.tokens(context) + limit <= self.bundle.context_length

    def turns(
        self, asked: Sequence[Asked], limit: int, sampling: SamplingConfig | None
    ) -> list[Turn]:
        """A turn for each that it is asked, sampled here, with its tokens' log-probabilities.

        A response depends neither on the size of a pass nor on the number of processes.

        limit: the most tokens of a response
        sampling: None decodes greedily; else the policy's own takes its place, where it has one
        """
        if not asked:
            return []
        sampling = self.own_sampling(sampling)
        shown, rows = self.shown(asked, limit)
        said = self.sampled(asked, rows, limit, sampling)
        return [self.turn(*each) for each in zip(asked, shown, rows, said, strict=True)]

    def shown(self, asked: Sequence[Asked], limit: int) -> tuple[list[str], list[list[int]]]:
        """What it reads, as text and as tokens; ConfigError where a response has no room."""
        return self.texts.read([one.context for one in asked], limit, self.bundle.context_length)

    def sampled(
        self,
        asked: Sequence[Asked],
        rows: Sequence[list[int]],
        limit: int,
        sampling: SamplingConfig | None,
        of: Sequence[str] = (),
    ) -> list[Response]:
        """A response to each row of tokens, sampled here.

        of: the adapter of each row, as of `SharedBase.routed`; none: its own for all
        """
        bundle, base = self.bundle, self.base
        numbers = [one.uniforms for one in asked if one.uniforms is not None]
        uniforms = torch.stack(numbers) if sampling is not None and numbers else None
        with self.acting() as lm:

            def answer(batch: Sequence[int]) -> list[Response]:
                batch = batch[::-1]  # the longest first
                own = None if uniforms is None else uniforms[list(batch)]
                contexts, pad = [rows[number] for number in batch], bundle.tokenizer.pad_token_id
                how = pad, bundle.stops, self.recorded
                routed = base.routed([of[n] for n in batch]) if of and base else nullcontext()
                with routed as route:
                    return generate(lm, contexts, limit, sampling, own, *how, route)[::-1]

            return distributed.map_rows(
                range(len(rows)), self.responses_at_once, answer, lambda n: len(rows[n])
            )

    def turn(self, asked: Asked, shown: str, ids: list[int], said: Response) -> Turn:
        """The turn of a response to what was asked, shown as a text and its tokens."""
        plain = not self.bundle.config.special_tokens_in_text
        return Turn(
            agent=self.name,
            role=asked.role,
            round=asked.round,
            context=shown,
            asked=asked.context,
            **self.texts.parts(shown, ids, said.ids, plain),
            context_ids=ids,
            response_ids=said.ids,
            sampler_logprobs=said.sampler_logprobs,
            cut_off=said.ids[-1] not in self.bundle.stops,
        )

    @contextmanager
    def acting(self) -> Iterator[PreTrainedModel]:
        """The language model that responds, whole: its own, or the frozen reference."""
        self.model.train(self.samples_with_dropout and not self.frozen)
        with self.whole():
            self.model.activate()
            own = nullcontext(self.model.lm)
            with self.reference_model() if self.frozen else own as lm, products(lm, computed=False):
                yield lm

    @contextmanager
    def reference_model(self) -> Iterator[PreTrainedModel]:
        """The frozen reference (`model.reference`): of an adapter the base without any, or with
        the one that it began as."""
        model = self.model
        if model.base is None:
            yield self.start or self.bundle.pretrained
            return
        with model.base.reference(model.name):
            yield model.lm

    @torch.no_grad()
    def reference_states(self, *inputs: Tensor) -> tuple[Tensor, LogitsOf]:
        """Hidden states of the reference before the response tokens (N, H), and its output head.

        An adapter never lies on the output head: with adapters it is the policy's own.

        inputs: as of `response_states`
        """
        self.model.activate()
        with self.reference_model() as lm:
            return response_states(lm, *inputs), output_head(lm)

    def tensors(self, rows: Sequence[TokenRow | None]) -> tuple[Tensor, Tensor, Tensor]:
        """input_ids, attention_mask (B, L), response_mask (B, R); None: a row without tokens."""
        pad = self.bundle.tokenizer.pad_token_id
        tensors = pad_turns(
            # attention needs a token to look at, in absent rows, too
            [[pad] if row is None else row.context_ids for row in rows],
            [[] if row is None else row.response_ids for row in rows],
            pad,
        )
        ids, attention_mask, response_mask = (tensor.to(self.bundle.device) for tensor in tensors)
        return ids, attention_mask, response_mask

    def start_update(self, dropout: bool = False) -> None:
        """Evaluation mode: an update computes what was scored, without dropout and routers' noise.

        dropout: that of the settings acts, where an update compares with no earlier pass
        """
        self.model.eval()
        if dropout:
            self.model.lm.train(self.bundle.config.dropout)
            for name, module in self.model.named_modules():
                if ".lora_dropout" in name or module is self.model.value_head:
                    module.train()
        for module in self.model.modules():  # the library looks at the mode of these alone
            if getattr(module, "gradient_checkpointing", False):
                module.training = True


class PPOPolicy(Policy):
    """A policy with its KL coefficient and running score statistics, kept through every role."""

    def __init__(
        self,
        bundle: ModelBundle,
        model: ActorCriticModel,
        engine: Engine,
        config: PPOConfig,
        hardware: HardwareConfig,
        from_reference: bool,
    ) -> None:
        """config: as it is for this policy; from_reference: it starts as the reference."""
        super().__init__(bundle, model, engine, hardware)
        self.config = config
        model.temperature = config.policy_temperature
        self.from_reference = from_reference
        self.updates = 0  # iterations with an update, from the first that changed weights on
        self.start_statistics()

    def start_statistics(self) -> None:
        """Reset the KL coefficient and the running score statistics, as of a new trainer."""
        self.updated = False  # since then
        self.kl_coef = self.config.kl_coef
        config = self.config
        decay = config.baseline_decay if config.advantages == "rae" else None
        self.scale = CreditScale(config.score_scaling, config.score_clip, decay)

    @contextmanager
    def rolling_out(self) -> Iterator[None]:
        """Sample as in a roll-out: with dropout where `model.rollout_dropout` asks for it."""
        self.samples_with_dropout = self.updated and self.bundle.config.rollout_dropout
        try:
            yield
        finally:
            self.samples_with_dropout = False

    def annotate(self, turns: list[Turn], critic: Tensor | None = None) -> Batch:
        """The turns as tensors, with each token's statistics under policy and reference.

        Credits are scaled by this agent's running statistics, which first take in the turns. What a
        central critic reads is as of `Batch`.
        """
        credits, inputs = self._scaled(turns), self.tensors(turns)
        self.model.eval()
        with self.engine.whole(), products(self.model.lm, computed=False):
            rows = distributed.map_rows(
                range(len(turns)),
                self.hardware.rollout_batch_size,
                partial(self._statistics, turns, inputs, critic),
                lambda number: turns[number].tokens,
            )
        columns = torch.stack(rows, dim=1).to(self.bundle.device)
        logprobs, entropy, ref_logprobs, full, *values = columns
        estimator = self.config.kl_estimator
        kl = full if estimator == "full" else sampled_kl(logprobs, ref_logprobs, estimator)
        return Batch(
            *inputs,
            credits=torch.tensor(credits, dtype=torch.float32, device=self.bundle.device),
            logprobs=logprobs,
            ref_logprobs=ref_logprobs,
            kl=kl,
            entropy=entropy,
            values=values[0] if values else None,
            critic=critic,
        )

    def _scaled(self, turns: Sequence[Turn]) -> list[float]:
        """The credits, scaled by the running statistics; 0 of absent turns."""
        present = [turn for turn in turns if not turn.absent]
        if any(turn.credit is None for turn in present):
            raise ValueError(f"{self.name}: a turn has no credit")
        own = iter(self.scale([turn.credit or 0.0 for turn in present], [t.role for t in present]))
        return [0.0 if turn.absent else next(own) for turn in turns]

    @torch.no_grad()
    def _statistics(
        self,
        turns: Sequence[Turn],
        inputs: tuple[Tensor, Tensor, Tensor],
        critic: Tensor | None,
        batch: Sequence[int],
    ) -> Tensor:
        """Of the turns at `batch`: (b, 5, R); without a value head (b, 4, R).

        In this order log-probability, entropy, the reference's log-probability, exact KL, value.
        """
        rows, model = torch.tensor(batch), self.model
        ids, attention_mask, mask = (one[rows] for one in inputs)
        pairs = [(turns[n].context_ids, turns[n].response_ids) for n in batch]
        once = reads_once(pairs, self.responses_at_once, self.bundle.tokenizer.pad_token_id)
        states = once or (lambda lm: response_states(lm, ids, attention_mask, mask))
        model.activate()
        hidden = states(model.lm)
        with self.reference_model() as reference:
            ref_hidden, ref_head = states(reference), output_head(reference)
        tokens = ids[:, -mask.shape[1] :][mask]
        heads = hidden, output_head(model.lm), ref_hidden, ref_head
        found = token_statistics(*heads, tokens, model.vocabulary, model.temperature)
        columns = [spread(column, mask) for column in found]
        if model.value_head is not None:
            values = model.values(hidden, mask, None if critic is None else critic[rows])
            columns.append(spread(values, mask))
        return torch.stack(columns, dim=1).cpu()

    def adapt_kl_coef(self, kl: float, turns: int) -> None:
        """Update the KL coefficient after an iteration, when the controller is adaptive.

        kl: mean over turns of the KL summed over tokens, nats
        """
        if self.config.kl_controller == "adaptive":
            self.kl_coef = adapted_kl_coef(
                self.kl_coef, kl, self.config.kl_target, self.config.kl_horizon, turns
            )

    def state_dict(self) -> dict[str, Any]:
        """KL coefficient, running score statistics, updates so far; weights are the engine's."""
        return {name: getattr(self, name) for name in CARRIED} | {
            "moments": asdict(self.scale.moments),
            "baselines": dict(self.scale.baselines),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update({name: state[name] for name in CARRIED})
        self.scale.moments = RunningMoments(**state["moments"])
        self.scale.baselines = dict(state["baselines"])
