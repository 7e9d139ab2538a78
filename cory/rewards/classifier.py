"""The output of a sequence classifier or reward model for a prompt with its response."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cory import distributed
from cory.config import ClassifierConfig, ConfigError, require
from cory.episode import Prompt, Turn
from cory.functional.logprobs import padded
from cory.models.actor_critic import (
    DTYPES,
    cast_weights,
    exact,
    products,
    set_products,
    store_as_products,
)
from cory.models.attention import attention_for
from cory.models.loading import load_classifier, load_tokenizer
from cory.models.paths import context_length
from cory.models.tokenization import Texts
from cory.rewards import Reward, Row


class Classifier(Reward):
    """The logit or probability of one class for each text; its outputs are float32."""

    def __init__(self, config: ClassifierConfig, task: Any, device: torch.device, run: Any) -> None:
        self.config = config
        self.device = device
        self.tokenizer = load_tokenizer(config.path, "reward.path")
        self.tokenizer.truncation_side = "left"  # the response stays
        has_template = self.tokenizer.chat_template is not None
        self.chat = has_template if config.chat is None else config.chat
        self.model = _loaded(config, device)
        self.texts = Texts(self.tokenizer, f"reward.path={config.path}", self.chat)
        self.texts.fit(self.model)
        self.column = _column(config, self.model)
        self.longest = _longest(self.model)

    def scores(self, rows: Sequence[Row]) -> list[float]:
        """The text is query + response, also for an observer (Ma et al., Alg. 1, line 13, with
        r(s_0, a_2) for the printed r(s_0, a_1))."""
        texts = [self._text(prompt, turn) for prompt, turn in rows]
        return distributed.map_rows(texts, self.config.batch_size, self._scores, len)

    def _text(self, prompt: Prompt, turn: Turn) -> str:
        """A prompt with a response; in a chat, a message of the user and one of the assistant."""
        if not self.chat:
            if prompt.messages is not None and len(prompt.messages) > 1:
                raise ConfigError(
                    f"reward.path={self.config.path} reads texts: it cannot be shown prompt "
                    f"{prompt.id}, which is made of several chat messages"
                )
            return prompt.text + turn.response
        return self.texts.render(prompt.opening, turn.response)

    @torch.no_grad()
    def _scores(self, texts: Sequence[str]) -> list[float]:
        rows = self.texts.ids(texts, self.longest)
        # a token in which no row ends: the usual one, or else the first of the others
        pad, ends = int(self.tokenizer.pad_token_id), {row[-1] for row in rows if row}
        pad = min({*range(len(ends) + 1)} - ends) if pad in ends else pad
        # decoders take their score at the last token that is not this one, whatever the mask says
        self.model.config.pad_token_id = self.model.config.get_text_config().pad_token_id = pad
        ids, mask = padded(rows, pad)
        with products(self.model):
            logits: Tensor = self.model(
                input_ids=ids.to(self.device), attention_mask=mask.long().to(self.device)
            ).logits
        logits = logits.float()
        if self.config.output == "probability":
            logits = logits.sigmoid() if logits.shape[1] == 1 else logits.softmax(-1)
        scores: list[float] = logits[:, self.column].tolist()
        return scores


def _loaded(config: ClassifierConfig, device: torch.device) -> Any:
    """The classifier in its precision, on its device, with a head that computes in float32."""
    dtype, compute = DTYPES[config.precision], DTYPES[config.compute_precision]
    attention = attention_for(config.attention, device, compute)
    options = {"dtype": dtype, "attn_implementation": attention}
    model = load_classifier(config.path, "reward.path", **options)
    cast_weights(model, dtype)
    model.to(device)
    set_products(model, compute)
    store_as_products(model)
    (*_, head) = (module for module in model.modules() if isinstance(module, nn.Linear))
    gives_logits = head.out_features == int(model.config.num_labels)
    if gives_logits and (dtype, compute) != (torch.float32, torch.float32):
        exact(head)
    return model


def _column(config: ClassifierConfig, model: Any) -> int:
    """The place of the class among the logits; ConfigError where it is none of them."""
    labels = model.config.label2id
    known = ", ".join(map(str, labels))
    if config.label is None:
        require(
            len(labels) == 1,
            f"reward.label=null needs a model with one output; {config.path} has {known}",
        )
        return 0
    require(
        config.label in labels,
        f"reward.label={config.label} is not a class of {config.path}; choose one of {known}",
    )
    return int(labels[config.label])


def _longest(model: Any) -> int | None:
    """Tokens to which texts are cut, at their beginning; None: the model's length has no limit.

    Models after RoBERTa number their positions from behind that of padding, and have so many less.
    """
    most = context_length(model.config)
    if most is not None:
        first = [
            module.padding_idx + 1
            for name, module in model.named_modules()
            if name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
        ]
        most -= max(first, default=0)
    return most
