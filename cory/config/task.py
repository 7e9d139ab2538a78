"""Settings of `task=`."""

from __future__ import annotations

from dataclasses import dataclass

from cory.config.checks import require, require_at_least, require_choice, require_fields


@dataclass
class ImdbConfig:
    """Settings of `task=imdb`: continue the first words of a movie review."""

    name: str
    source: str  # package (offline) | hub | path
    path: str  # hub: data set name; path: a .jsonl, .json, .csv or .parquet file
    text_column: str  # hub, path: the column that holds the review
    train_split: str  # split for training prompts; path: a slice, as train[:90%]
    test_split: str  # split for evaluation prompts; path: a slice, as train[90%:]
    min_characters: int  # shorter reviews are left out
    min_prompt_tokens: int  # a prompt is the first n tokens of a review, n drawn anew each time
    max_prompt_tokens: int
    observer_template: str  # {answers}: what was said before; {query}: the prompt
    answer_template: str  # one answer inside {answers}: {query} and {response}
    answer_separator: str  # between two answers, with three or more agents

    def __post_init__(self) -> None:
        require_choice("task.source", self.source, ("package", "hub", "path"))
        require_at_least("task.min_characters", self.min_characters, 0)
        require_at_least("task.min_prompt_tokens", self.min_prompt_tokens, 1)
        require(
            self.max_prompt_tokens >= self.min_prompt_tokens,
            f"task.max_prompt_tokens ({self.max_prompt_tokens}) must not be below "
            f"task.min_prompt_tokens ({self.min_prompt_tokens})",
        )
        require_fields("task.observer_template", self.observer_template, ("answers", "query"))
        require_fields("task.answer_template", self.answer_template, ("response",), ("query",))
