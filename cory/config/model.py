"""Language models: those that are loaded (`model=`), and one behind an endpoint (`endpoint=`)."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

from cory.config.checks import require, require_at_least, require_choice, require_positive

PRECISIONS = ("fp32", "bf16", "fp16")
PRODUCTS = ("fp32", "tf32", "bf16", "fp16")  # in which matrix products are computed
ATTENTION = ("auto", "eager", "sdpa", "flash_attention_2")


class Precision(Protocol):
    """In which precision a model is held and computed."""

    precision: str
    quantisation: str
    compute_precision: str


def require_products(key: str, model: Precision) -> None:
    """Products in another precision than the weights': of nf4, or less exact ones of float32."""
    require(
        model.quantisation == "nf4"
        or model.compute_precision == model.precision
        or (model.precision == "fp32" and model.compute_precision in ("tf32", "bf16")),
        f"{key}.compute_precision={model.compute_precision} does not go with {key}.precision="
        f"{model.precision}: set both alike, or bf16 or tf32 products on fp32 weights",
    )


@dataclass
class AdapterConfig:
    """A LoRA adapter (Hu et al., 2021) per agent."""

    rank: int
    alpha: float  # the update is scaled by alpha / rank
    dropout: float  # before the adapter, in supervised updates
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
    precision: str  # fp32 | bf16 | fp16: of the weights
    dropout: bool  # keep the checkpoint's dropout in supervised updates
    value_dropout: float  # before the value head, in supervised updates
    value_init: str  # uniform | zero: the value head's first weights
    value_detached: bool  # the value loss trains the head alone, not the model below it
    rollout_dropout: bool  # ... while sampling a roll-out, once an agent has been updated
    special_tokens_in_text: bool  # texts of responses keep special tokens, as that of the end
    sharing: str  # copies | adapters | adapter_copies
    adapter: AdapterConfig  # used unless sharing=copies
    quantisation: str  # none | nf4: the frozen base in 4 bits
    double_quantisation: bool  # nf4: its scales in 8 bits
    compute_precision: str  # of matrix products; other than `precision`: fp32 weights, or nf4
    attention: str  # auto | eager | sdpa | flash_attention_2
    architecture: dict[str, Any] | None  # to estimate memory without config.json

    @property
    def described(self) -> dict[str, Any] | None:
        """The contents of `architecture`; None where it describes another model than `path`."""
        if self.architecture is None or self.architecture.get("of", self.path) != self.path:
            return None
        return {key: value for key, value in self.architecture.items() if key != "of"}

    def __post_init__(self) -> None:
        require_choice("model.precision", self.precision, PRECISIONS)
        require_choice("model.compute_precision", self.compute_precision, PRODUCTS)
        require_choice("model.attention", self.attention, ATTENTION)
        require_choice("model.sharing", self.sharing, ("copies", "adapters", "adapter_copies"))
        require_choice("model.quantisation", self.quantisation, ("none", "nf4"))
        require(
            0 <= self.value_dropout < 1,
            f"model.value_dropout must lie in [0, 1), got {self.value_dropout}",
        )
        require_choice("model.value_init", self.value_init, ("uniform", "zero"))
        require(
            self.quantisation == "none" or self.sharing != "copies",
            f"model.quantisation={self.quantisation} needs model.sharing=adapters: "
            f"weights in 4 bits cannot be trained themselves",
        )
        require_products("model", self)
        require(
            not self.rollout_dropout or self.sharing == "copies",
            f"model.rollout_dropout=true needs model.sharing=copies, got {self.sharing}",
        )
        require(
            not self.special_tokens_in_text or not self.chat,
            "model.special_tokens_in_text=true needs model.chat=false: in a chat they end turns",
        )
        require(
            self.quantisation == "none" or not self.path.startswith("package:"),
            f"model.quantisation={self.quantisation} cannot pack model.path={self.path}: its GGUF "
            f"file is unpacked while loading; set model.quantisation=none",
        )


def is_this_machine(host: str) -> bool:
    """Whether a name or address in a URL is this machine, whatever its network."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@dataclass
class EndpointConfig:
    """Which model is asked where, how it samples, and how patiently it is asked."""

    key: ClassVar[str] = "algorithm.endpoint"  # the group of these settings, for refusals
    base_url: str  # without /chat/completions
    model: str  # its name there
    key_variable: str | None  # NAME of the environment variable with the key; None: no key is sent
    temperature: float | None  # None: not sent, the server decides
    top_p: float | None  # None: not sent, the server decides
    max_tokens: int  # of one reply
    limit_name: str  # max_tokens | max_completion_tokens: what the server calls this limit
    parallel: int  # requests under way at once
    retries: int  # further tries of a request that failed for a passing reason
    timeout: float  # seconds without a sign of life after which a try has failed
    plain_http: bool  # whether the key may go to another machine without encryption

    def __post_init__(self) -> None:
        key = self.key
        # no value is named in this refusal: who mistakes the setting has put the key there
        require(
            self.key_variable is None or bool(re.fullmatch("[A-Z_][A-Z0-9_]*", self.key_variable)),
            f"{key}.key_variable must name an environment variable, in capitals, that holds the "
            f"key; the key itself never stands in settings",
        )
        self._check_url(f"{key}.base_url")
        self._check_secrecy()
        require(bool(self.model.strip()), f"{key}.model must name a model, got '{self.model}'")
        require_choice(
            f"{key}.limit_name", self.limit_name, ("max_tokens", "max_completion_tokens")
        )
        for name, least in (("max_tokens", 1), ("parallel", 1), ("retries", 0)):
            require_at_least(f"{key}.{name}", getattr(self, name), least)
        require_positive(f"{key}.timeout", self.timeout)
        if self.temperature is not None:
            require_at_least(f"{key}.temperature", self.temperature, 0)
        require(
            self.top_p is None or 0 < self.top_p <= 1,
            f"{key}.top_p must lie in (0, 1], got {self.top_p}",
        )

    def _check_url(self, key: str) -> None:
        try:
            parts = urlsplit(self.base_url)
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            bare = not parts.query and not parts.fragment and parts.username is None
        except ValueError:  # a port that is none
            whole = bare = False
        # not named either: a password may stand in it
        require(
            whole and bare,
            f"{key} must be http:// or https:// with a host and a path, as "
            f"https://api.openai.com/v1, without user, password and query",
        )
        require(
            not parts.path.rstrip("/").endswith("/chat/completions"),
            f"{key} must end before /chat/completions, got {self.base_url}",
        )

    def _check_secrecy(self) -> None:
        """An API key goes to other machines only encrypted, unless a setting allows it."""
        parts = urlsplit(self.base_url)
        open_to_all = parts.scheme == "http" and not is_this_machine(str(parts.hostname))
        require(
            self.key_variable is None or self.plain_http or not open_to_all,
            f"{self.key}.base_url={self.base_url} would send the key of {self.key}.key_variable="
            f"{self.key_variable} without encryption: use https://, set key_variable=null where "
            f"the server asks for none, or allow it by {self.key}.plain_http=true",
        )
