"""Frozen models that compare responses: an encoder and a likelihood scorer.

Their weights are in memory only while they are used: agents and their optimisers need the room.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from cory import distributed
from cory.config import DiversityConfig, require
from cory.functional.logprobs import pad_right, pad_turns
from cory.functional.votes import mean_distribution
from cory.models.actor_critic import DTYPES
from cory.models.loading import load_encoder, load_language_model, load_tokenizer, longest_text
from cory.models.tokenization import Texts

T = TypeVar("T")
KEY = "algorithm.diversity"


class FrozenModel:
    """The tokenizer and settings of an encoder or scorer; weights are loaded when used."""

    setting: ClassVar[str]  # that names it

    def __init__(self, path: str, config: DiversityConfig, device: torch.device) -> None:
        self.path = path
        self.key = key = f"{KEY}.{self.setting}"
        self.config = config
        self.device = device
        self.dtype = DTYPES[config.precision]
        self.texts = Texts(load_tokenizer(path, key), f"{key}={path}")
        self.pad = int(self.texts.tokenizer.pad_token_id)
        own = longest_text(path, key)
        self.longest = config.max_tokens if own is None else min(config.max_tokens, own)


class Encoder(FrozenModel):
    """Embeds texts: the mean of a model's last hidden states over a text's tokens.

    The paper takes the state of a [CLS] token, which its encoder, T5, does not have. A mean serves
    every kind of model; with causal ones it holds more than a first token's state, which sees
    nothing of the text.
    """

    setting = "encoder"

    @torch.no_grad()
    def embeddings(self, texts: Sequence[str]) -> Tensor:
        """(N, D) float32, in main memory: one row per text."""
        model = load_encoder(self.path, self.key, self.dtype).to(self.device)
        self.texts.fit(model)
        # of an empty text some tokenizers give no token
        rows = [row or [self.pad] for row in self.texts.ids(texts, self.longest)]

        def embed(batch: Sequence[list[int]]) -> Tensor:
            ids, mask = pad_right(batch, self.pad)
            states = model(
                input_ids=ids.to(self.device), attention_mask=mask.long().to(self.device)
            ).last_hidden_state.float()
            counted = mask[..., None].to(self.device)
            return (torch.where(counted, states, 0.0).sum(1) / counted.sum(1)).cpu()

        return torch.stack(distributed.map_rows(rows, self.config.batch_size, embed))


class Scorer(FrozenModel):
    """Turns responses into distributions over a model's vocabulary.

    The paper compares "the probability distributions" of responses by the likelihoods of a model
    that took no part, and says no more. Here the model reads question and response, and the
    distribution of a response is the mean of what the model expects next: after the question, and
    after each token of the response. So equal responses have equal distributions.
    """

    setting = "scorer"

    def __init__(
        self, path: str, config: DiversityConfig, device: torch.device, questions: Sequence[str]
    ) -> None:
        """questions: of an evaluation; ConfigError where one leaves no room for a response"""
        super().__init__(path, config, device)
        most = max(len(self._question(question)) for question in questions)
        require(
            most < self.longest,
            f"{self.key}={path}: a question of {most} tokens leaves no room for a response; it "
            f"reads {self.longest} ({KEY}.max_tokens={config.max_tokens})",
        )

    @torch.no_grad()
    def compare(
        self,
        questions: Sequence[str],
        responses: Sequence[Sequence[str]],
        compare: Callable[[Tensor], T],
    ) -> list[T]:
        """`compare` applied to the distributions of each question's responses.

        responses: several to each question
        compare: takes log-probabilities (responses, V) float32
        """
        model = load_language_model(self.path, self.key, False, self.dtype).to(self.device)
        self.texts.fit(model)
        pairs = list(zip(questions, responses, strict=True))
        return distributed.map_rows(
            pairs, 1, lambda batch: [compare(self._distributions(model, *pair)) for pair in batch]
        )

    def _distributions(
        self, model: torch.nn.Module, question: str, responses: Sequence[str]
    ) -> Tensor:
        """Log-probabilities of each response's mean distribution: (N, V) float32."""
        shown = self._question(question)
        read = self.texts.pairs([f"{question}\n"] * len(responses), responses)
        response_ids = [ids[: self.longest - len(shown)] for _, ids in read]
        distributions = []
        for start in range(0, len(response_ids), self.config.batch_size):
            rows = response_ids[start : start + self.config.batch_size]
            # padding stands on the right alone, where nothing that counts can see it
            ids, attended, mask = pad_turns([shown] * len(rows), rows, self.pad)
            logits = model(
                input_ids=ids.to(self.device),
                attention_mask=attended.long().to(self.device),
                use_cache=False,
                logits_to_keep=mask.shape[1] + 1,
            ).logits
            # after the question, and after each token of the response
            distributions += [
                mean_distribution(row[: 1 + len(r)]) for row, r in zip(logits, rows, strict=True)
            ]
        return torch.stack(distributions)

    def _question(self, question: str) -> list[int]:
        """Token ids of a question on lines of its own."""
        return self.texts.ids([f"{question}\n"])[0]
