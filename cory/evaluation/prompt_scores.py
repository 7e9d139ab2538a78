"""What every held-out prompt contributes to the numbers that are compared before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cory.episode import Metrics
from cory.functional.statistics import mean
from cory.runs.files import Line

BEFORE = "before"  # group of the metrics of untrained agents, in place of `eval`


@dataclass
class PromptScores:
    """Filled by an evaluation, in the order of its prompts."""

    prompts: list[str] = field(default_factory=list)  # their ids
    # metric -> one value per prompt; their mean is the metric, and their spread says how sure it is
    values: dict[str, list[float]] = field(default_factory=dict)
    # metrics whose values are shares of what is right or won -> tries that each value is from
    shares: dict[str, int] = field(default_factory=dict)

    def add(self, metric: str, values: Sequence[float], tries: int | None) -> None:
        """Keep a metric's values; ValueError where they are not one per prompt.

        tries: they are shares, of so many right or wrong tries each; None: they are not
        """
        if len(values) != len(self.prompts):
            raise ValueError(f"{metric}: {len(values)} values for {len(self.prompts)} prompts")
        self.values[metric] = list(values)
        if tries is not None:
            self.shares[metric] = tries

    def metrics(self) -> Metrics:
        """The means, named `before/...` in place of `eval/...`."""
        return {
            f"{BEFORE}/{metric.removeprefix('eval/')}": mean(values)
            for metric, values in self.values.items()
        }

    def as_line(self, iteration: int) -> Line:
        """A line of prompt_scores.jsonl."""
        return {
            "iteration": iteration,
            "prompts": self.prompts,
            "shares": self.shares,
            "values": self.values,
        }


def by_prompt(rows: Sequence[float], prompts: int) -> list[float]:
    """The mean of every prompt's rows.

    rows: every prompt once, then every prompt again
    """
    return [mean(rows[start::prompts]) for start in range(prompts)]


def compared(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Whether two lines of prompt_scores.jsonl are about the same prompts."""
    return before["prompts"] == after["prompts"]
