"""One frozen language model, and a LoRA adapter on it for each agent (Hu et al., 2021)."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from peft import (
    LoraConfig,
    PeftModel,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from peft.tuners.lora import LoraLayer
from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as DEFAULT_TARGETS
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from cory.config import AdapterConfig, require
from cory.models.loading import load_tensors, readable
from cory.models.passes import Route

START = "start-{}"  # adapter of the weights that an agent's began with; agents have no - in a name
WEIGHTS = "adapter_model.safetensors"  # the name that PEFT looks for
DESCRIPTION = "adapter_config.json"
OF_PEFT = {"base_model", "model", "base_layer", "lora_A", "lora_B"}  # in the names of weights


class SharedBase:
    """A frozen language model with named adapters; one of them, or none, acts at a time.

    The reference is the same model with adapters off, or with the frozen adapter that an agent's
    began as, so there is no second copy of it.
    """

    def __init__(
        self, lm: PreTrainedModel, configs: Mapping[str, AdapterConfig], seeds: Mapping[str, int]
    ) -> None:
        """configs: of each adapter, by name; seeds: of its initial weights."""
        self.lm = lm.requires_grad_(False)
        # PEFT and we find an adapter's weights by its name in theirs
        taken = {part for weight, _ in lm.named_parameters() for part in weight.split(".")}
        for name in configs:
            free = name not in taken | OF_PEFT and not hasattr(nn.ModuleDict, name)
            require(
                free, f"an agent with an adapter cannot be called {name}, as a part of the model is"
            )
        self.settings = {
            name: LoraConfig(
                r=config.rank,
                lora_alpha=config.alpha,
                lora_dropout=config.dropout,
                target_modules=adapted_layers(lm, config.targets),
                # GPT-2 keeps its weights transposed
                fan_in_fan_out=any(isinstance(module, Conv1D) for module in lm.modules()),
                task_type="CAUSAL_LM",
            )
            for name, config in configs.items()
        }
        (first, *others) = seeds
        with torch.random.fork_rng():  # PEFT draws from torch's global generator
            torch.manual_seed(seeds[first])
            self.peft = get_peft_model(lm, self.settings[first], adapter_name=first)
            for name in others:
                torch.manual_seed(seeds[name])
                self.peft.add_adapter(name, self.settings[name])

    def save(self, name: str, folder: Path, base: str) -> None:
        """Write the adapter as a folder for PeftModel.from_pretrained on `base`."""
        config = copy.copy(self.peft.peft_config[name])
        config.base_model_name_or_path, config.inference_mode = base, True
        # a set, which every process orders otherwise
        config.target_modules = sorted(config.target_modules)
        config.save_pretrained(str(folder))
        # it would look for the base's config.json to learn whether there are new embeddings
        state = get_peft_model_state_dict(self.peft, adapter_name=name, save_embedding_layers=False)
        own = {key: value.detach().cpu().contiguous().clone() for key, value in state.items()}
        save_file(own, folder / WEIGHTS)

    def load(self, name: str, folder: Path) -> None:
        """Load the adapter's weights from such a folder; ConfigError where they are others."""
        _fill(self.peft, folder, name)

    def add_start(self, name: str, folder: Path) -> None:
        """Add the reference of an agent's adapter: the weights of such a folder, frozen."""
        with torch.random.fork_rng():
            self.peft.add_adapter(START.format(name), self.settings[name])
        self.load(START.format(name), folder)

    def start_of(self, name: str) -> str:
        """The adapter that an agent's began as; "": it began as the base."""
        start = START.format(name)
        return start if start in self.peft.peft_config else ""

    @contextmanager
    def reference(self, name: str) -> Iterator[None]:
        """Let the reference of an agent act: the adapter that its own began as, or none."""
        layers, start = self.peft.base_model, START.format(name)
        if start in self.peft.peft_config:
            self.peft.set_adapter(start, inference_mode=True)
        else:
            layers.disable_adapter_layers()
        try:
            yield
        finally:
            if start in self.peft.peft_config:
                self.peft.set_adapter(name)
            else:
                layers.enable_adapter_layers()

    @contextmanager
    def routed(self, of: Sequence[str]) -> Iterator[Route]:
        """Let several adapters act at once, without gradient and dropout, each on its own rows.

        Those of a layer are two products, between which a row's numbers for other adapters become
        0: nothing depends on where rows are routed, so these passes can be recorded.

        of: the adapter of each row; "": none
        """
        names = [name for name in dict.fromkeys(of) if name] or [*self.settings][:1]
        ranks = {name: self.peft.peft_config[name].r for name in names}
        columns = [name for name, rank in ranks.items() for _ in range(rank)]
        foreign = torch.tensor([[[own != name for name in columns]] for own in of])
        route = Route(of, foreign.to(self.lm.device))
        layers = [layer for layer in self.lm.modules() if isinstance(layer, LoraLayer)]
        dtype = getattr(self.lm, "product_dtype", None)
        try:
            for layer in layers:
                pairs = [_factors(layer, name, rank) for name, rank in ranks.items()]
                down = torch.cat([own for own, _ in pairs]).to(dtype)
                up = torch.cat([own for _, own in pairs], dim=1).to(dtype)
                layer.forward = partial(_routed, layer.base_layer, down, up, route)
            yield route
        finally:
            for layer in layers:
                vars(layer).pop("forward", None)


def _factors(layer: LoraLayer, name: str, rank: int) -> tuple[Tensor, Tensor]:
    """(rank, width in), (width out, rank) of an adapter; 0 where it has none on this layer."""
    if name in layer.lora_A:
        down, up = layer.lora_A[name].weight.detach(), layer.lora_B[name].weight.detach()
        return down, up * layer.scaling[name]
    like = next(iter(layer.lora_A.values())).weight
    return like.new_zeros(rank, layer.in_features), like.new_zeros(layer.out_features, rank)


def _routed(base: nn.Module, down: Tensor, up: Tensor, route: Route, x: Tensor) -> Tensor:
    """The output of a layer `base` and of adapters for x (rows, T, width), or (rows x T, width)."""
    output: Tensor = base(x)
    low, foreign = linear(x.to(down.dtype), down), route.foreign
    assert foreign is not None
    low.view(len(foreign), -1, len(down)).masked_fill_(foreign, 0)
    return output + linear(low, up).to(output.dtype)


def load_adapter(lm: PreTrainedModel, folder: Path) -> None:
    """Load an adapter from a folder onto a language model, frozen.

    ConfigError for something else than LoRA on plain layers: PEFT imports the module that
    `megatron_core` names. And before PEFT would look for a pickle.
    """
    path = folder / DESCRIPTION
    with readable(f"{path} cannot be read"):
        described = dict(json.loads(path.read_text(encoding="utf-8")))
    require(
        described.get("peft_type") == "LORA" and described.get("megatron_config") is None,
        f"{path} describes no LoRA adapter of plain layers (peft_type LORA, no megatron_config)",
    )
    load_tensors(folder / WEIGHTS)
    with readable(f"{folder}: the adapter does not fit the model that it is for"):
        peft = PeftModel.from_pretrained(lm, str(folder))
    _fill(peft, folder, "default")


def _fill(peft: PeftModel, folder: Path, name: str) -> None:
    """Overwrite all weights of one adapter with those of a folder, which PEFT need not have."""
    weights = load_tensors(folder / WEIGHTS)
    with readable(f"{folder}: the adapter's weights do not fit this model"):
        answer = set_peft_model_state_dict(peft, weights, name)
    require(not answer.unexpected_keys, f"{folder}: the adapter was made for other layers")
    lost = [key for key in answer.missing_keys if f".{name}." in key]
    require(not lost, f"{folder}: the adapter has no weights for {', '.join(lost[:3])}")


def adapted_layers(
    lm: PreTrainedModel, targets: list[str] | str | None, key: str = "model"
) -> list[str]:
    """Names of the layers to adapt; ConfigError lists those of the model.

    key: the group of settings that `targets` are of
    """
    head = lm.get_output_embeddings()
    linear = {
        name.rpartition(".")[2]
        for name, module in lm.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and module is not head
    }
    if targets == "all-linear":
        return sorted(linear)
    known = f"this model has {', '.join(sorted(linear))}; all-linear: all of these"
    chosen = targets or DEFAULT_TARGETS.get(lm.config.model_type)
    require(
        chosen is not None,
        f"{key}.adapter.targets=null: PEFT has no choice for {lm.config.model_type}; {known}",
    )
    wrong = sorted({*chosen} - linear)
    require(
        targets is None or not wrong,
        f"{key}.adapter.targets: {', '.join(wrong)} is no linear layer below the output head; "
        f"{known}",
    )
    return sorted(chosen)
