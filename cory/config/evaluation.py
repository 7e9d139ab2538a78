"""Settings of `evaluation`: how agents are measured on held-out prompts."""

from __future__ import annotations

from dataclasses import dataclass

from cory.config.checks import require, require_at_least, require_choice


@dataclass
class EvaluationConfig:
    """What every evaluation measures, during training and after it."""

    prompts: int | None  # the first so many of the split; None: all
    split: str  # train | test
    samples: int  # responses per prompt
    k: list[int]  # pass@k is estimated for each; tasks with answers only
    greedy: bool  # also one greedy response per prompt
    team: bool  # also the agents in their roles, each seeing the answers before its own
    probes: list[str]  # texts that every agent answers at the end, kept in samples.jsonl

    def __post_init__(self) -> None:
        if self.prompts is not None:
            require_at_least("evaluation.prompts", self.prompts, 1)
        require_choice("evaluation.split", self.split, ("train", "test"))
        require_at_least("evaluation.samples", self.samples, 1)
        require(bool(self.k), "evaluation.k must name at least one number of tries, got []")
        for number, k in enumerate(self.k):
            require_at_least("evaluation.k", k, 1)
            require(
                k <= self.samples,
                f"evaluation.k: {k} exceeds evaluation.samples ({self.samples})",
            )
            require(k not in self.k[:number], f"evaluation.k names {k} twice: {self.k}")
        for number, probe in enumerate(self.probes):
            require(bool(probe.strip()), f"evaluation.probes: number {number + 1} is empty")
            require(probe not in self.probes[:number], f"evaluation.probes names '{probe}' twice")
