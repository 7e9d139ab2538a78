"""Settings of `model=`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cory.config.checks import require, require_at_least, require_choice, require_positive

PRECISIONS = ("fp32", "bf16", "fp16")


@dataclass
class AdapterConfig:
    """A LoRA adapter (Hu et al., 2021) per agent."""

    rank: int
    alpha: float  # the update is scaled by alpha / rank
    dropout: float  # before the adapter, while updating
    targets: list[str] | None  # names of the layers; None: PEFT's choice for the architecture

    def __post_init__(self) -> None:
        require_at_least("model.adapter.rank", self.rank, 1)
        require_positive("model.adapter.alpha", self.alpha)
        require(
            0 <= self.dropout < 1,
            f"model.adapter.dropout must lie in [0, 1), got {self.dropout}",
        )
        require(
            self.targets is None or len(self.targets) > 0,
            "model.adapter.targets must name a layer; null takes PEFT's choice",
        )


@dataclass
class ModelConfig:
    """Settings of `model=`: the language model that every agent starts from."""

    name: str
    path: str  # hub name, local folder, asset:<name> for cory/assets/<name>, or package:<name>
    remote_code: bool  # the checkpoint's own Python may run on this machine
    chat: bool  # prompts go through the tokenizer's chat template
    precision: str  # fp32 | bf16 | fp16
    dropout: bool  # keep the checkpoint's dropout while updating
    value_dropout: float  # before the value head, while updating
    sharing: str  # copies | adapters | adapter_copies
    adapter: AdapterConfig  # used unless sharing=copies
    quantisation: str  # none | nf4: the frozen base in 4 bits
    double_quantisation: bool  # nf4: its scales in 8 bits
    compute_precision: str  # nf4: what its products are computed in
    architecture: dict[str, Any] | None  # for preflight where config.json is out of reach

    def __post_init__(self) -> None:
        require_choice("model.precision", self.precision, PRECISIONS)
        require_choice("model.compute_precision", self.compute_precision, PRECISIONS)
        require_choice("model.sharing", self.sharing, ("copies", "adapters", "adapter_copies"))
        require_choice("model.quantisation", self.quantisation, ("none", "nf4"))
        require(
            0 <= self.value_dropout < 1,
            f"model.value_dropout must lie in [0, 1), got {self.value_dropout}",
        )
        require(
            self.quantisation == "none" or self.sharing != "copies",
            f"model.quantisation={self.quantisation} needs model.sharing=adapters: "
            f"weights in 4 bits cannot be trained themselves",
        )
        require(
            self.quantisation == "none" or not self.path.startswith("package:"),
            f"model.quantisation={self.quantisation} cannot pack model.path={self.path}: its GGUF "
            f"file is unpacked while loading; set model.quantisation=none",
        )
