"""Finding and loading models and tokenizers: hub names, folders, asset:<name>, package:<name>."""

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import (
    CONFIG_MAPPING,
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
from cory.models.context import context_length
from cory.models.paths import packaged, resolve
from cory.models.precision import cast_weights
from cory.models.weight_files import UNREADABLE, first_line

QUANTISED = "quantization_config"  # config.json's name for how its weights are packed
# names of weights in a checkpoint that sees images, too -> in one of its language model alone
OF_LANGUAGE_MODEL = {
    r"^language_model\.lm_head\.": "lm_head.",
    r"^(language_model\.model|model\.language_model)\.": "model.",
}


def load_tokenizer(path: str, key: str, remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a model; a missing pad token becomes the EOS token.

    ConfigError where there is neither, and where it ends every text with EOS.

    remote_code: whether the checkpoint's own Python may run
    """
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
    path: str,
    key: str,
    keep_dropout: bool,
    dtype: torch.dtype = torch.float32,
    quantisation: BitsAndBytesConfig | None = None,
    device: torch.device | None = None,
    remote_code: bool = False,
    attention: str | None = None,
) -> PreTrainedModel:
    """A causal language model in evaluation mode.

    keep_dropout: leave the checkpoint's dropout rates; else every rate is set to 0
    dtype: of all weights, or with quantisation of those that are not quantised
    device: with quantisation, where the weights are quantised
    remote_code: whether the checkpoint's own Python may run
    attention: the library's word for an implementation; None: its own choice
    """
    whole = _load(AutoConfig, path, key, remote_code)
    config = _of_language_model(whole, path, key, remote_code)
    if not keep_dropout:
        # some models read the rate from their config at every pass, others when they are built
        for name in [n for n in vars(config) if n.endswith(("dropout", "pdrop"))]:
            setattr(config, name, 0.0)
    packed = path.startswith("package:")
    model = _load_weights(
        AutoModelForCausalLM,
        path,
        key,
        quantisation,
        device,
        remote_code=remote_code,
        config=config,
        key_mapping=None if config is whole else OF_LANGUAGE_MODEL,
        dtype=torch.float32 if packed else dtype,
        attn_implementation=attention,
    )
    if packed:
        model = _unpacked(model)
        cast_weights(model, dtype)
    return model


def _of_language_model(config: Any, path: str, key: str, remote_code: bool = False) -> Any:
    """The part of a configuration that describes the language model; ConfigError for another kind.

    config: of the checkpoint, which may see images, too
    """
    quantisation = None if path.startswith("package:") else config.to_dict().get(QUANTISED)
    require(
        not quantisation,
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


def _unpacked(model: PreTrainedModel) -> PreTrainedModel:
    """A model from a GGUF file without the marks of quantised weights.

    With them the library would neither train nor save it.
    """
    model.hf_quantizer, model.is_quantized = None, False
    vars(model).pop("quantization_method", None)
    vars(model.config).pop(QUANTISED, None)
    return model


def nf4(
    double: bool, compute: torch.dtype, storage: torch.dtype, group: str = "model"
) -> BitsAndBytesConfig:
    """Settings of bitsandbytes for linear layers in 4 bits (Dettmers et al., 2023).

    storage: ZeRO-3 splits all weights as if of one type, so quantised ones are stored in it, too
    group: of the settings that ask for it, for the refusal
    """
    require(
        importlib.util.find_spec("bitsandbytes") is not None,
        f"{group}.quantisation=nf4 needs the package bitsandbytes: pip install bitsandbytes",
    )
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=double,
        bnb_4bit_compute_dtype=compute,
        bnb_4bit_quant_storage=storage,
    )


def load_classifier(
    path: str,
    key: str,
    dtype: torch.dtype = torch.float32,
    quantisation: BitsAndBytesConfig | None = None,
    device: torch.device | None = None,
    attention: str | None = None,
) -> PreTrainedModel:
    """A sequence classifier, frozen, in evaluation mode; arguments as `load_language_model`.

    Its output layer is not quantised.
    """
    if quantisation is not None:
        config = _load(AutoConfig, path, key)
        head = output_head(_empty(config, classifier=True))
        # by itself the library keeps the last layer of some classifiers, and quantises others'
        quantisation.llm_int8_skip_modules = None if head is None else [head[0]]
    kind = AutoModelForSequenceClassification
    model = _load_weights(
        kind, path, key, quantisation, device, dtype=dtype, attn_implementation=attention
    )
    return model.requires_grad_(False)


def output_head(model: PreTrainedModel) -> tuple[str, nn.Linear] | None:
    """The layer that a classifier's logits come from, and its name; None: it is no linear layer."""
    linear = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Linear)]
    if not linear or linear[-1][1].out_features != int(model.config.num_labels):
        return None
    return linear[-1]


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
    path: str, key: str, architecture: dict[str, Any] | None, remote_code: bool = False
) -> PreTrainedModel:
    """A language model without weights, as its config.json describes it.

    architecture: the contents of config.json, used where that is not on this machine
    remote_code: the checkpoint brings its own class, and architecture is the nearest known one
    """
    if architecture is None:
        config = _load(AutoConfig, path, key, remote_code)
        return _empty(_of_language_model(config, path, key, remote_code), remote_code)
    config = _described(architecture, f"{key.removesuffix('path')}architecture")
    local = None if remote_code else local_skeleton(path, key)
    return _empty(config) if local is None else local


def local_skeleton(path: str, key: str, classifier: bool = False) -> PreTrainedModel | None:
    """A model without weights; None where its config.json is not on this machine."""
    try:
        config = _load(AutoConfig, path, key, local_files_only=True)
    except ConfigError:
        if Path(path).expanduser().exists():  # it is there, and damaged
            raise
        return None
    return _empty(
        config if classifier else _of_language_model(config, path, key), False, classifier
    )


def _empty(config: Any, remote_code: bool = False, classifier: bool = False) -> PreTrainedModel:
    kind = AutoModelForSequenceClassification if classifier else AutoModelForCausalLM
    with torch.device("meta"):
        return kind.from_config(config, trust_remote_code=remote_code)


def _described(architecture: dict[str, Any], key: str) -> Any:
    """The library's configuration of an architecture, with the given settings."""
    kind = architecture.get("model_type")
    require(kind in CONFIG_MAPPING, f"{key}.model_type={kind} is no such class")
    known = AutoConfig.for_model(kind)
    for name in architecture:
        require(hasattr(known, name), f"{key}.{name} is no setting of model_type={kind}")
    try:
        return AutoConfig.for_model(**architecture)
    except (ValueError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{key}: {reason}") from error


def _load_weights(
    kind: Any,
    path: str,
    key: str,
    quantisation: BitsAndBytesConfig | None = None,
    device: torch.device | None = None,
    unused: str = "no weight",
    **options: Any,
) -> PreTrainedModel:
    """A model in evaluation mode; ConfigError where the checkpoint lacks one of its weights.

    The library would draw that at random.

    device: with quantisation, where the weights are quantised
    unused: begins the names of those that it may lack
    """
    if quantisation is not None:
        options |= {"quantization_config": quantisation, "device_map": {"": device or "cpu"}}
    model, info = _load(kind, path, key, output_loading_info=True, **options)
    missing = [name for name in sorted(info["missing_keys"]) if not name.startswith(unused)]
    require(
        not missing, f"{key}={path}: the checkpoint has no weights for {', '.join(missing[:3])}"
    )
    for parameter in model.parameters() if quantisation is not None else ():
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


def _file_of(path: str, key: str) -> dict[str, str]:
    """The loader's argument for a model that is one file of its folder."""
    return {"gguf_file": packaged(path, key).name} if path.startswith("package:") else {}


def _load(auto_class: Any, path: str, key: str, remote_code: bool = False, **options: Any) -> Any:
    """What a class of the library loads from a checkpoint; ConfigError where it cannot.

    remote_code: whether the checkpoint's own Python may run; without a word the library would ask
    """
    name = resolve(path, key)
    try:
        return auto_class.from_pretrained(
            name, trust_remote_code=remote_code, **_file_of(path, key), **options
        )
    except torch.OutOfMemoryError:
        raise
    except UNREADABLE as error:
        if isinstance(error, OSError) and not Path(name).is_dir():
            raise ConfigError(
                f"{key}={path}: no local folder, not in the local cache, and the hub did not give "
                f"it ({first_line(error)}); to work offline set {key} to a folder "
                f"(HF_HUB_OFFLINE=1 stops asking the hub)"
            ) from error
        reason = first_line(error)
        if isinstance(error, RuntimeError):  # the library's own words name no file
            reason = "the weights do not fit config.json"
        if isinstance(error, pickle.UnpicklingError):
            reason = "its weights hold code, which is not run; take a .safetensors form"
        raise ConfigError(f"{key}={path}: cannot be loaded: {reason}") from error
