"""The agents' models and their frozen reference: full copies, or adapters on one base."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cory.config import ModelConfig, renamed, require
from cory.episode import Context
from cory.functional.logprobs import TokenStatistics, token_statistics
from cory.models.actor_critic import ActorCriticModel, ValueHead, response_states, spread
from cory.models.context import require_context_length
from cory.models.loading import load_language_model, load_tokenizer, nf4
from cory.models.precision import (
    DTYPES,
    attention_for,
    cast_weights,
    set_products,
    store_as_products,
)
from cory.models.sampling.supported import require_supported
from cory.models.tokenization import Texts

if TYPE_CHECKING:  # imported at run time only where adapters are asked for: it takes five seconds
    from cory.models.lora import SharedBase


class ModelBundle:
    """The models of one run: tokenizer, pretrained model, and frozen reference.

    `sharing=copies`: a full copy per agent, and one frozen reference for all of them.
    `sharing=adapters`: one frozen base with an adapter per agent; the reference is the base alone.
    """

    def __init__(self, config: ModelConfig, device: torch.device, group: str = "model") -> None:
        """group: `model` or `partner`: the group of settings that `config` is, for refusals"""
        self.config = config
        self.group = group
        self.device = device
        self.tokenizer: PreTrainedTokenizerBase = load_tokenizer(
            config.path, f"{group}.path", config.remote_code
        )
        require(
            not config.chat or self.tokenizer.chat_template is not None,
            f"{group}.chat=true: the tokenizer of {group}.path={config.path} has no chat template",
        )
        self.texts = Texts(self.tokenizer, f"{group}.path={config.path}", config.chat)
        keep_dropout = config.dropout or config.rollout_dropout
        self.pretrained = self._frozen(config.path, f"{group}.path", keep_dropout)
        require_supported(self.pretrained, f"{group}.path={config.path}")
        self.texts.fit(self.pretrained)
        ends = self.tokenizer("a")["input_ids"][-1:]
        require(
            ends != [self.tokenizer.eos_token_id],
            f"{group}.path={config.path}: the tokenizer ends every text with EOS, so that no "
            f"response could follow a prompt; set add_eos_token to false in its "
            f"tokenizer_config.json",
        )

    def _frozen(self, path: str, key: str, keep_dropout: bool) -> PreTrainedModel:
        """A language model on the device, in the precisions of the settings."""
        config, compute = self.config, DTYPES[self.config.compute_precision]
        dtype, quantisation = DTYPES[config.precision], None
        if config.quantisation == "nf4":
            quantisation = nf4(config.double_quantisation, compute, dtype, self.group)
        attention = attention_for(config.attention, self.device, compute)
        lm = load_language_model(
            path, key, keep_dropout, dtype, quantisation, self.device, config.remote_code, attention
        ).requires_grad_(False)
        if quantisation is None:
            lm.to(self.device)
            set_products(lm, compute)
        return lm

    def render(self, context: Context) -> str:
        """A context as the model is shown it: in a chat model's template."""
        return self.texts.render(context)

    def tokens(self, context: Context) -> int:
        """The number of tokens of a rendered context."""
        return self.texts.tokens(context)

    @property
    def context_length(self) -> int:
        """The model's context length, in tokens; see `cory.models.context`."""
        return require_context_length(
            self.pretrained.config, f"{self.group}.path={self.config.path}"
        )

    @cached_property
    def stops(self) -> frozenset[int]:
        """The tokens that end a response: the tokenizer's EOS, and those of the checkpoint.

        Chat models end their turns with a token that may not be the tokenizer's EOS: the one that
        their template puts after an answer.
        """
        generation = getattr(self.pretrained, "generation_config", None)
        named = generation.eos_token_id if generation is not None else None
        several = named if isinstance(named, list) else [named]
        found = {self.tokenizer.eos_token_id, self.texts.end, *several}
        return frozenset(int(token) for token in found if token is not None)

    def new_models(
        self, names: list[str], init: torch.Generator, value_head: bool = True
    ) -> Iterator[ActorCriticModel]:
        """The agents' initial models: the pretrained one, each with a new value head.

        value_head: False makes them without
        Each is made when the iterator comes to it: of copies that ZeRO-3 then splits, one is whole
        at a time.
        """
        base = None if self.config.sharing == "copies" else self._base(names, init)
        for name in names:
            lm = copy.deepcopy(self.pretrained).requires_grad_(True) if base is None else base.lm
            head = ValueHead(lm, self.config, init) if value_head else None
            model = ActorCriticModel(name, lm, base, head)
            # one precision throughout: ZeRO-3 needs it, and DeepSpeed keeps its own float32 weights
            cast_weights(model, DTYPES[self.config.precision])
            yield model.to(self.device)

    def _base(self, names: list[str], init: torch.Generator) -> SharedBase:
        """The pretrained model with an adapter for each agent."""
        from cory.models.lora import SharedBase  # noqa: PLC0415  see above

        drawn = torch.randint(2**31, (len(names),), generator=init).tolist()
        with renamed("model", self.group, self.config):
            return SharedBase(
                self.pretrained, self.config.adapter, dict(zip(names, drawn, strict=True))
            )

    def loaded(self, name: str, path: str, key: str) -> ActorCriticModel:
        """An agent that another run has exported as a full model; it never trains.

        path: of the exported model
        key: the setting that named it
        """
        lm = self._frozen(path, key, keep_dropout=False)
        store_as_products(lm)
        return ActorCriticModel(name, lm)

    def drop_reference(self) -> None:
        """Free the weights of a frozen reference that nobody reads; its configuration stays.

        With `sharing=copies` alone: adapters lie on these weights.
        """
        if self.config.sharing != "copies":
            raise ValueError(f"sharing={self.config.sharing}: agents need these weights")
        self.pretrained.to("meta")

    @torch.no_grad()
    def statistics(
        self,
        model: ActorCriticModel,
        input_ids: Tensor,
        attention_mask: Tensor,
        response_mask: Tensor,
    ) -> tuple[TokenStatistics, Tensor | None]:
        """Statistics of response tokens under policy and reference, and their values.

        input_ids, attention_mask: (B, L)
        response_mask: (B, R) bool
        returns: statistics, each (B, R); values (B, R), None where the model has no value head;
            float32, 0 where the mask is False
        """
        inputs = input_ids, attention_mask, response_mask
        model.activate()
        hidden = response_states(model.lm, *inputs)
        with self.reference(model) as lm:
            ref_hidden = response_states(lm, *inputs)
        statistics = token_statistics(
            hidden,
            model.lm.get_output_embeddings(),
            ref_hidden,
            # an adapter never lies on the output head: with adapters this is the same head
            (self.pretrained if model.base is None else model.lm).get_output_embeddings(),
            input_ids[:, -response_mask.shape[1] :][response_mask],
            model.vocabulary,
            model.temperature,
        )
        return (
            TokenStatistics(*(spread(column, response_mask) for column in statistics)),
            model.spread_values(hidden, response_mask),
        )

    @torch.no_grad()
    def reference_outputs(
        self,
        model: ActorCriticModel,
        input_ids: Tensor,
        attention_mask: Tensor,
        response_mask: Tensor,
    ) -> tuple[Tensor, nn.Module]:
        """Hidden states of the reference before the response tokens (N, H), and its output head.

        For the exact KL in an update.

        input_ids, attention_mask: (B, L)
        response_mask: (B, R) bool, True on N tokens
        """
        model.activate()
        with self.reference(model) as lm:
            hidden = response_states(lm, input_ids, attention_mask, response_mask)
            head: nn.Module = lm.get_output_embeddings()
        return hidden, head

    @contextlib.contextmanager
    def reference(self, model: ActorCriticModel) -> Iterator[PreTrainedModel]:
        """The frozen reference of `model`; ValueError where it was dropped."""
        if model.base is None:
            if self.pretrained.device.type == "meta":
                raise ValueError("the frozen reference was not kept")
            yield self.pretrained
        else:
            with model.base.off():
                yield model.lm
