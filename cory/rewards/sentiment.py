"""The score of a sequence classifier on the prompt with the response."""

from collections.abc import Sequence
from typing import Any

import torch

from cory import distributed
from cory.config import SentimentConfig, require
from cory.episode import Episode
from cory.functional.masking import pad_right
from cory.models.loading import load_classifier, load_tokenizer


class Sentiment:
    """The probability or logit of one class for each completed text."""

    def __init__(self, config: SentimentConfig, task: Any, device: torch.device) -> None:
        self.config = config
        self.device = device
        self.tokenizer = load_tokenizer(config.path, "reward.path")
        self.model = load_classifier(config.path, "reward.path").to(device)
        labels = self.model.config.label2id
        require(
            config.label in labels,
            f"reward.label={config.label} is not a class of {config.path}; "
            f"choose one of {', '.join(map(str, labels))}",
        )
        self.column = labels[config.label]

    def score(self, episodes: list[Episode]) -> None:
        """Fills `turn.score` of every turn that is not absent.

        The classified text is query + response, also for an observer (Ma et al., Alg. 1, line 13,
        with r(s_0, a_2) for the printed r(s_0, a_1)).
        """
        turns = [(e.prompt, turn) for e in episodes for turn in e.turns if not turn.absent]
        texts = [prompt.text + turn.response for prompt, turn in turns]
        scores = distributed.map_rows(texts, self.config.batch_size, self._scores, len)
        for (_, turn), score in zip(turns, scores, strict=True):
            turn.score = score

    @torch.no_grad()
    def _scores(self, texts: Sequence[str]) -> list[float]:
        longest = self.model.config.max_position_embeddings
        rows = self.tokenizer(list(texts), truncation=True, max_length=longest)["input_ids"]
        ids, mask = pad_right(rows, self.tokenizer.pad_token_id)
        logits = self.model(
            input_ids=ids.to(self.device), attention_mask=mask.long().to(self.device)
        ).logits.float()
        output = logits.softmax(-1) if self.config.output == "probability" else logits
        scores: list[float] = output[:, self.column].tolist()
        return scores
