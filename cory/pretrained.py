"""Finding and loading models and tokenizers: by hub name, local folder or asset:<name>."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from cory.config import ConfigError, require

ASSETS = Path(__file__).parent / "assets"


def resolve(path: str, key: str) -> str:
    """The folder or hub name behind `path`; `key` names the setting in errors."""
    if path.startswith("asset:"):
        folder = ASSETS / path.removeprefix("asset:")
        known = sorted(p.parent.name for p in ASSETS.glob("*/config.json"))
        require(
            folder.is_dir() and folder.parent == ASSETS,
            f"{key}={path}: cory ships no such model; choose one of {', '.join(known)}",
        )
        return str(folder)
    local = Path(path).expanduser()
    if local.exists() or path.startswith((".", "/", "~")):
        require(local.is_dir(), f"{key}={path}: there is no such folder")
        require((local / "config.json").is_file(), f"{key}={path}: the folder has no config.json")
        return str(local)
    return path


def load_tokenizer(path: str, key: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a model; a missing pad token becomes the EOS token."""
    tokenizer = _load(AutoTokenizer, path, key)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_language_model(path: str, key: str, keep_dropout: bool) -> PreTrainedModel:
    """A causal language model in float32, in evaluation mode.

    keep_dropout: leave the checkpoint's dropout rates; else every rate is set to 0
    """
    model, info = _load(
        AutoModelForCausalLM, path, key, dtype=torch.float32, output_loading_info=True
    )
    _refuse_missing(info, path, key)
    if not keep_dropout:
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    return model.eval()


def load_classifier(path: str, key: str) -> PreTrainedModel:
    """A sequence classifier in float32, frozen, in evaluation mode."""
    model, info = _load(
        AutoModelForSequenceClassification, path, key, dtype=torch.float32, output_loading_info=True
    )
    _refuse_missing(info, path, key)
    return model.eval().requires_grad_(False)


def _refuse_missing(info: dict[str, Any], path: str, key: str) -> None:
    """A weight that the checkpoint lacks would be drawn at random without a word."""
    missing = sorted(info["missing_keys"])
    require(
        not missing, f"{key}={path}: the checkpoint has no weights for {', '.join(missing[:3])}"
    )


def _load(auto_class: Any, path: str, key: str, **options: Any) -> Any:
    name = resolve(path, key)
    try:
        return auto_class.from_pretrained(name, **options)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        if Path(name).is_dir():
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            if isinstance(error, RuntimeError):  # the library's own words name no file
                reason = "the weights do not fit config.json"
            raise ConfigError(f"{key}={path}: cannot be loaded: {reason}") from error
        raise ConfigError(
            f"{key}={path}: no local folder, not in the local cache, and the hub did not give it; "
            f"to work offline set {key} to a folder (HF_HUB_OFFLINE=1 stops asking the hub)"
        ) from error
