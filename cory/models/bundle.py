"""The agents' models and their frozen reference: full copies, or adapters on one base.

And what a model must be like to be sampled from and trained: found out by trying it.
"""

import copy
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cory import distributed
from cory.config import ConfigError, ModelConfig, require
from cory.config.experiment import OF_TEXTS
from cory.config.model import PackedConfig
from cory.functional.logprobs import pad_turns
from cory.models.actor_critic import (
    DTYPES,
    ActorCriticModel,
    ValueHead,
    cast_weights,
    output_head,
    response_states,
    set_products,
)
from cory.models.attention import attention_for
from cory.models.engine import Engine
from cory.models.loading import language_config, load_language_model, load_tokenizer, nf4, readable
from cory.models.passes import PlainPass, RecordedPass, Route, cache_for, prefill
from cory.models.paths import require_context_length
from cory.models.tokenization import Texts

if TYPE_CHECKING:
    from cory.models.served import Served

LENGTHS = (8, 3)  # tokens of the rows that are tried
# how far logits may be off, as a share of their spread: in float32, and in what rounds more
TOLERANCE, ROUNDED = 1e-3, 0.2


class ModelBundle:
    """The models of one run: tokenizer, pretrained model, and frozen reference.

    `sharing=copies`: a full copy per agent, and one frozen reference for all of them.
    `sharing=adapters`: one frozen base with an adapter per agent; the reference is the base alone.
    """

    def __init__(self, config: ModelConfig, device: torch.device, group: str = "model") -> None:
        """group: which of `Config.models` `config` is, for refusals."""
        self.config = config
        self.group, self.key = group, f"{group}.path"
        self.said = f"{self.key}={config.path}"
        self.device = device
        self.tokenizer: PreTrainedTokenizerBase = load_tokenizer(
            config.path, self.key, config.remote_code
        )
        require(
            not config.chat or self.tokenizer.chat_template is not None,
            f"{group}.chat=true: the tokenizer of {self.said} has no chat template",
        )
        # policy -> its reference in place of the pretrained model: with `model.reference=init_from`
        self.starts: dict[str, PreTrainedModel] = {}
        self.served: Served | None = None  # with hardware.sampler=vllm
        self._copies: dict[Path, PreTrainedModel] = {}
        self._recordable: bool | None = None  # not tried yet
        self.texts = self._texts(config, group)  # those of a policy may be others

    def texts_of(self, config: ModelConfig, key: str) -> Texts:
        """How an agent with these settings of the model, the group `key`, is shown prompts."""
        own, ours = ([getattr(one, name) for name in OF_TEXTS] for one in (config, self.config))
        return self.texts if own == ours else self._texts(config, key)

    def _texts(self, config: ModelConfig, group: str) -> Texts:
        key = f"{group}.template"
        texts = Texts(self.tokenizer, self.said, config.chat, config.template, key, config.thinking)
        return texts.with_system(config.system, f"{group}.system")

    @cached_property
    def pretrained(self) -> PreTrainedModel:
        """The model as it came; it is loaded when it is first asked for."""
        config = self.config
        dropout = config.dropout or config.rollout_dropout
        lm = load_frozen(config, config.path, self.key, self.device, dropout, config.remote_code)
        require_supported(lm, self.said)
        self.texts.fit(lm)
        return lm

    def recordable(self, lm: PreTrainedModel, must: bool) -> bool:
        """Whether passes of its models can be recorded as CUDA graphs: tried once, noted if not.

        lm: as of `require_supported`; must: ConfigError if they cannot
        """
        if self._recordable is None:
            said = f"hardware.cuda_graphs={'true' if must else 'null'}: {self.said}"
            try:
                require_supported(lm, said, recorded=True)
                self._recordable = True
            except ConfigError as error:
                if must:
                    raise
                distributed.note(f"{error}; passes are not recorded")
                self._recordable = False
        return self._recordable

    @cached_property
    def context_length(self) -> int:
        """In tokens; ConfigError where the model's config.json does not say it."""
        return require_context_length(self._described, self.said)

    @property
    def tied(self) -> bool:
        """Whether the output head has the weights of the embeddings."""
        return bool(self._described.tie_word_embeddings)

    @cached_property
    def _described(self) -> Any:
        """The language model's part of config.json."""
        return language_config(self.config.path, self.key, self.config.remote_code)

    @cached_property
    def stops(self) -> frozenset[int]:
        """The tokens that end a response: the tokenizer's EOS, and those of the checkpoint.

        Chat models end their turns with a token that may not be the tokenizer's EOS: the one that
        their template puts after an answer.
        """
        named = getattr(getattr(self.pretrained, "generation_config", None), "eos_token_id", None)
        several = named if isinstance(named, list) else [named]
        found = {self.tokenizer.eos_token_id, self.texts.end, *several}
        return frozenset(int(token) for token in found if token is not None)

    def new_models(
        self,
        names: list[str],
        init: torch.Generator,
        value_head: bool = True,
        settings: Callable[[str], ModelConfig] | None = None,
    ) -> Iterator[ActorCriticModel]:
        """The agents' initial models: the pretrained one, each with a new value head.

        value_head: False makes them without
        settings: of the adapter of each; None: the bundle's
        Each is made when the iterator comes to it: of copies that ZeRO-3 then splits, one is whole
        at a time.
        """
        base = None
        if self.config.sharing == "adapters":
            from cory.models.lora import SharedBase  # noqa: PLC0415  five seconds, and copies need none

            drawn = torch.randint(2**31, (len(names),), generator=init).tolist()
            seeds = dict(zip(names, drawn, strict=True))
            own = {name: (settings(name) if settings else self.config).adapter for name in names}
            base = SharedBase(self.pretrained, own, seeds)
        for name in names:
            lm = copy.deepcopy(self.pretrained).requires_grad_(True) if base is None else base.lm
            head = ValueHead(lm, self.config, init) if value_head else None
            model = ActorCriticModel(name, lm, base, head)
            # one precision throughout: ZeRO-3 needs it, and DeepSpeed keeps its own float32 weights
            cast_weights(model, DTYPES[self.config.precision])
            yield model.to(self.device)

    def keep_start(self, model: ActorCriticModel, folder: Path) -> None:
        """Keep a frozen copy of the weights in `folder`, which a model begins with, as reference.

        Policies that begin with the same folder share a copy; an adapter has one of its own.
        """
        if model.base is not None:
            model.base.add_start(model.name, folder)
            cast_weights(model, DTYPES[self.config.precision])
            model.to(self.device)
            return
        if folder not in self._copies:
            self._copies[folder] = copy.deepcopy(model.lm).requires_grad_(False).eval()
        self.starts[model.name] = self._copies[folder]


class StoredWeights:
    """One of several policies' weights in main memory, put into the engine that all of them use.

    The engine holds one policy's full copy of a model at a time, with gradients and Adam's moments.
    It serves policies whose every training begins with a new optimiser. Every process stores
    the part that it steps on: in the precision of the passes if every training starts from the
    pretrained weights, else in float32: the bits that rounding drops count then.
    """

    def __init__(self, name: str, engine: Engine) -> None:
        """Takes over the weights that the engine holds now."""
        self.name = name
        self.engine = engine
        self._parts = engine.kept_weights()

    def enter(self) -> None:
        """Put these weights into the engine, and its present ones back; every process does it."""
        engine = self.engine
        earlier = engine.occupant
        if earlier is self:
            return
        if earlier is not None and engine.changed:
            for stored, part in zip(earlier._parts, engine.stepped_weights(), strict=True):
                stored.copy_(part.detach())
        engine.set_stepped_weights(self._parts)
        engine.model.name = self.name
        engine.changed = False
        engine.occupant = self


def load_frozen(
    config: PackedConfig,
    path: str,
    key: str,
    device: torch.device,
    keep_dropout: bool = False,
    remote_code: bool = False,
) -> PreTrainedModel:
    """A language model that does not train, on its device, in the precisions of the settings."""
    dtype, compute = DTYPES[config.precision], DTYPES[config.compute_precision]
    attention = attention_for(config.attention, device, compute)
    options: dict[str, Any] = {"dtype": dtype, "attn_implementation": attention}
    packed = config.quantisation == "nf4"
    if packed:
        options |= nf4(config.double_quantisation, compute, dtype, device)
    lm = load_language_model(path, key, keep_dropout, remote_code, **options).requires_grad_(False)
    if not packed:
        lm.to(device)
        set_products(lm, compute)
    return lm


@torch.no_grad()
def require_supported(lm: PreTrainedModel, key: str, recorded: bool = False) -> None:
    """ConfigError unless sampling and training give the logits of a plain forward pass.

    Tried with a few tokens: a row beside a longer one, as updates see it, and with a cache, as it
    is sampled.

    lm: in evaluation mode, on its device
    recorded: sampled as with `hardware.cuda_graphs=true`
    """
    rows = [list(range(1, 1 + length)) for length in LENGTHS]
    turns = pad_turns([row[:-2] for row in rows], [[*row[-2:], 0] for row in rows], 0)
    with readable(f"{key}: cory cannot run this model as it runs others"):
        head, own, states = output_head(lm), [], []  # of each row's last three tokens
        for row in rows:
            ids = torch.tensor([row], device=lm.device)
            own.append(lm(input_ids=ids, use_cache=False).logits[0, -3:])
            body = lm.base_model(input_ids=ids, use_cache=False)
            states.append(body.last_hidden_state[0, -3:])
        cache = cache_for(lm, 2 * max(LENGTHS))
        context, mask = prefill(lm, [row[:-2] for row in rows], cache, 0, Route([""] * len(rows)))
        following = (RecordedPass if recorded else PlainPass)(lm, mask, cache)
        steps = [context]
        for place in (-2, -1):
            ids = torch.tensor([[row[place]] for row in rows], device=lm.device)
            steps.append(following(ids).clone())
        plain, headed = torch.cat(own).float(), head(torch.cat(states)).float()
        passes = {
            "updates": response_states(lm, *(tensor.to(lm.device) for tensor in turns)),
            # (2 rows x 3, H): contexts, then a token at a time
            "sampling": torch.cat(steps, dim=1).flatten(0, 1),
        }
        logits = {name: head(found).float() for name, found in passes.items()}
    require(
        torch.allclose(headed, plain, rtol=TOLERANCE, atol=TOLERANCE * float(plain.abs().max())),
        f"{key}: the logits of this model ({lm.config.model_type}) are not what its forward pass "
        f"makes of the last hidden states of its body",
    )
    exact = lm.dtype == torch.float32 and getattr(lm, "product_dtype", None) is None
    spread = (plain - plain.mean(-1, keepdim=True)).norm()
    for name, found in logits.items():
        limit = (TOLERANCE if exact else ROUNDED) * spread
        require(
            bool((found - plain).norm() <= limit),
            f"{key}: in the passes of {name} this model ({lm.config.model_type}) gives other "
            f"logits than in a plain forward pass: a row depends on the padding around it",
        )
