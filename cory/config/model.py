"""Language models: those that are loaded (`model=`), and one behind an endpoint (`endpoint=`)."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field

from cory.config.base import (
    Conflicts,
    Count,
    NotNegative,
    Number,
    Positive,
    PositiveShare,
    Settings,
    ShareBelowOne,
    Text,
    Words,
    matching,
)

Weights = Literal["fp32", "bf16", "fp16"]
URL = "must be http:// or https:// with host and path, without user, password and query"
VARIABLE = "must name an environment variable, in capitals, which holds the key"
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
DATE_FORM = "%d %b %Y"  # as Llama 3 writes a date


class PrecisionConfig(Settings):
    """In which precision a model is held and computed, and by which attention."""

    precision: Weights
    compute_precision: Literal["fp32", "tf32", "bf16", "fp16"]  # of matrix products
    attention: Literal["auto", "eager", "sdpa", "flash_attention_2"]

    def conflicts(self) -> Conflicts:
        """Products in another precision than the weights': of nf4, or less exact ones of fp32."""
        yield from super().conflicts()
        products, weights = self.compute_precision, self.precision
        rounded = weights == "fp32" and products in ("tf32", "bf16")
        packed = getattr(self, "quantisation", "none") == "nf4"
        if not packed and products != weights and not rounded:
            rule = f"does not go with precision={weights}: set both alike, or bf16 or tf32 on fp32"
            yield "compute_precision", rule


class PackedConfig(PrecisionConfig):
    """The same of a language model, whose frozen weights may have 4 bits."""

    quantisation: Literal["none", "nf4"]
    double_quantisation: bool


class AdapterConfig(Settings):
    """A LoRA adapter (Hu et al., 2021) per agent."""

    rank: Count
    alpha: Positive  # the update is scaled by alpha / rank
    dropout: ShareBelowOne
    # None: PEFT's choice
    targets: Annotated[list[Text], Field(min_length=1)] | Literal["all-linear"] | None


def _date(text: str) -> str:
    try:
        datetime.strptime(text, DATE_FORM)
    except ValueError:
        raise ValueError("must be a date such as 26 Jul 2024") from None
    return text


class TemplateConfig(Settings):
    """What a chat template reads beside the messages; None: nothing is said of it."""

    model_config = ConfigDict(extra="allow")  # each template has names of its own

    date: Annotated[Text, AfterValidator(_date)] | None  # what it shows as today's
    enable_thinking: bool | None


class ModelConfig(PackedConfig):
    """Settings of `model=`: the language model that every agent starts from."""

    name: Text
    path: Text  # hub name, local folder, or asset:<name> for cory/assets/<name>
    remote_code: bool
    chat: bool
    template: TemplateConfig
    system: Words | None  # stands before every chat
    thinking: Literal["auto", "private", "shown"]
    dropout: bool
    value_init: Literal["uniform", "zero"]
    value_detached: bool
    rollout_dropout: bool
    special_tokens_in_text: bool
    reference: Literal["pretrained", "init_from"]  # what the KL is to, and `start` in teams, games
    sharing: Literal["copies", "adapters"]
    adapter: AdapterConfig  # used unless sharing=copies
    architecture: dict[str, Any] | None  # to estimate memory without config.json

    @property
    def described(self) -> dict[str, Any] | None:
        """The contents of `architecture`; None where it describes another model than `path`."""
        if self.architecture is None or self.architecture.get("of", self.path) != self.path:
            return None
        return {key: value for key, value in self.architecture.items() if key != "of"}


class EndpointConfig(Settings):
    """Which model is asked where, how it samples, and how patiently it is asked."""

    key: ClassVar[str] = "algorithm.endpoint"  # the group of these settings, for refusals

    # without /chat/completions, user and password
    base_url: Annotated[Text, matching(r"https?://[^@?#\s]+", URL)]
    model: Words  # its name there
    # environment variable that holds the key, which never stands in settings; None: no key is sent
    key_variable: Annotated[Text, matching(r"[A-Z_][A-Z0-9_]*", VARIABLE)] | None
    temperature: NotNegative | None  # None: not sent, the server decides
    top_p: PositiveShare | None  # None: not sent, the server decides
    max_tokens: Count  # of one reply
    limit_name: Literal["max_tokens", "max_completion_tokens"]
    parallel: Count  # requests under way at once
    retries: Number  # further tries of a request that failed for a passing reason
    timeout: Positive  # seconds without a sign of life after which a try has failed
    plain_http: bool  # whether the key may go to another machine without encryption

    def conflicts(self) -> Conflicts:
        """An API key goes to other machines only encrypted, unless a setting allows it."""
        try:
            parts = urlsplit(self.base_url)
        except ValueError as error:
            yield "base_url", f"is no address ({error})"
            return
        if parts.path.rstrip("/").endswith("/chat/completions"):
            yield "base_url", "must end before /chat/completions, which requests add"
        is_open = parts.scheme == "http" and parts.hostname not in THIS_MACHINE
        if self.key_variable is not None and not self.plain_http and is_open:
            rule = "would send the key without encryption: use https://, or key_variable=null"
            yield "base_url", f"{rule} where none is asked for, or allow it by plain_http=true"
