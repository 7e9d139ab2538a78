"""Loading models, tokenizers and files of weights: no file runs code.

A pickle can call any function while it is read. torch's own unpickler (`weights_only`) builds
tensors, containers and numbers alone. A safetensors file holds nothing else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTextEncoding,
    AutoTokenizer,
    BitsAndBytesConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from cory.config import ConfigError, require
from cory.models.paths import context_length, resolve

# names of weights in a checkpoint that sees images, too -> in one of its language model alone
OF_LANGUAGE_MODEL = {
    r"^language_model\.lm_head\.": "lm_head.",
    r"^(language_model\.model|model\.language_model)\.": "model.",
}


@contextmanager
def readable(said: str) -> Iterator[None]:
    """ConfigError in one line for what damaged or made-up files raise in the libraries' readers.

    said: what cannot be read, which the line begins with
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # the readers let pass whatever the bytes make them raise
        (first, *_) = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(f"{said}: {first}") from error


def load_plain(path: Path) -> Any:
    """What torch.save has written, in main memory; ConfigError where it holds code or is cut."""
    with readable(f"{path} cannot be read"):
        return torch.load(path, map_location="cpu", weights_only=True)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file; ConfigError where it cannot be read."""
    with readable(f"{path} cannot be read"):
        return load_file(path)


def load_tokenizer(path: str, key: str, remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a model; a missing pad token becomes the EOS token."""
    tokenizer = _load(AutoTokenizer, path, key, remote_code)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    require(
        tokenizer.pad_token is not None,
        f"the tokenizer of {key}={path} has neither a pad token nor an EOS token; put one into its "
        f"tokenizer_config.json",
    )
    return tokenizer


def load_language_model(
    path: str, key: str, keep_dropout: bool, remote_code: bool = False, **options: Any
) -> PreTrainedModel:
    """A causal language model in evaluation mode; in float32, unless `options` have a dtype.

    keep_dropout: leave the checkpoint's dropout rates; else every rate is set to 0
    options: of the library's `from_pretrained`, as those of `nf4`
    """
    whole = _load(AutoConfig, path, key, remote_code)
    config = _of_language_model(whole, path, key, remote_code)
    if not keep_dropout:
        # some models read the rate from their config at every pass, others when they are built
        for name in [n for n in vars(config) if n.endswith(("dropout", "pdrop"))]:
            setattr(config, name, 0.0)
    options |= {"config": config, "key_mapping": None if config is whole else OF_LANGUAGE_MODEL}
    return _load_weights(AutoModelForCausalLM, path, key, remote_code=remote_code, **options)


def language_config(path: str, key: str, remote_code: bool = False) -> Any:
    """The configuration of a checkpoint's language model, without its weights."""
    return _of_language_model(_load(AutoConfig, path, key, remote_code), path, key, remote_code)


def _of_language_model(config: Any, path: str, key: str, remote_code: bool = False) -> Any:
    """The part of a checkpoint's configuration that describes its language model."""
    require(
        not config.to_dict().get("quantization_config"),
        f"{key}={path}: its weights are already quantised; cory trains, merges and exports plain "
        f"ones: take the checkpoint that they were made from, and quantisation=nf4 for 4 bits",
    )
    config = config.get_text_config(decoder=True)
    causal = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING or remote_code
    require(
        causal and not config.is_encoder_decoder,
        f"{key}={path}: {config.model_type} is no causal language model, which agents must be",
    )
    return config


def nf4(double: bool, compute: torch.dtype, dtype: torch.dtype, device: Any) -> dict[str, Any]:
    """Options that load linear layers in 4 bits, by bitsandbytes (Dettmers et al., 2023).

    dtype: of all other weights. ZeRO-3 splits all as if of one type, so quantised ones are stored
        in it, too
    device: where they are quantised
    """
    packing = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=double,
        bnb_4bit_compute_dtype=compute,
        bnb_4bit_quant_storage=dtype,
    )
    return {"quantization_config": packing, "device_map": {"": device}, "dtype": dtype}


def load_classifier(path: str, key: str, **options: Any) -> PreTrainedModel:
    """A sequence classifier, frozen, in evaluation mode; arguments as `load_language_model`."""
    kind = AutoModelForSequenceClassification
    return _load_weights(kind, path, key, **options).requires_grad_(False)


def load_encoder(path: str, key: str, dtype: torch.dtype) -> PreTrainedModel:
    """A model for hidden states of texts, frozen, in evaluation mode; of T5 the encoder."""
    whole = not _load(AutoConfig, path, key).is_encoder_decoder
    kind = AutoModel if whole else AutoModelForTextEncoding
    # many checkpoints lack the pooling layer, which is not used here
    return _load_weights(kind, path, key, unused="pooler.", dtype=dtype).requires_grad_(False)


def longest_text(path: str, key: str) -> int | None:
    """A model's context length, in tokens; None where it is not limited."""
    return context_length(_load(AutoConfig, path, key))


def skeleton(
    path: str,
    key: str,
    architecture: dict[str, Any] | None = None,
    remote_code: bool = False,
    classifier: bool = False,
) -> PreTrainedModel:
    """A language model, or a classifier, without weights, as its config.json describes it.

    architecture: the contents of config.json, used where that is not on this machine, or describes
        a class that the checkpoint brings
    """
    here = architecture is not None  # then without the hub, and the checkpoint's own Python
    try:
        config = _load(AutoConfig, path, key, remote_code and not here, local_files_only=here)
    except ConfigError:
        if architecture is None:
            raise
        with readable(f"{key.removesuffix('path')}architecture"):
            config = AutoConfig.for_model(**architecture)
    if not classifier:
        config = _of_language_model(config, path, key, remote_code)
    kind = AutoModelForSequenceClassification if classifier else AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(config, trust_remote_code=remote_code)


def _load_weights(
    kind: Any, path: str, key: str, unused: str = "no weight", **options: Any
) -> PreTrainedModel:
    """A model in evaluation mode; ConfigError for weights that it lacks: they would be random.

    unused: begins the names of those that it may lack
    """
    options = {"dtype": torch.float32} | options
    model, info = _load(kind, path, key, output_loading_info=True, **options)
    missing = [name for name in sorted(info["missing_keys"]) if not name.startswith(unused)]
    require(
        not missing, f"{key}={path}: the checkpoint has no weights for {', '.join(missing[:3])}"
    )
    for parameter in model.parameters() if "quantization_config" in options else ():
        if not hasattr(parameter, "quant_state"):
            # a view of the file, which would stay in memory with all that was quantised
            parameter.data = parameter.data.clone()
    for module in model.modules():
        # bitsandbytes, on processors with bfloat16: once a pass without gradient has repacked the
        # weights in 4 bits, passes with gradient give none, without an error
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    checked: PreTrainedModel = model.eval()
    return checked


def _load(auto_class: Any, path: str, key: str, remote_code: bool = False, **options: Any) -> Any:
    """What a class of the library loads from a checkpoint; ConfigError where it cannot.

    remote_code: whether the checkpoint's own Python may run; without a word the library would ask
    """
    name = resolve(path, key)
    transformers.logging.disable_progress_bar()  # of weights; downloads have their own
    with readable(f"{key}={path}: cannot be loaded"):
        return auto_class.from_pretrained(name, trust_remote_code=remote_code, **options)
