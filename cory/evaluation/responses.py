"""What an evaluation asks and collects: responses, and what every held-out prompt contributes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cory.config import EvaluationConfig
from cory.episode import Metrics, Prompt, Turn, further_columns
from cory.functional.statistics import mean
from cory.runs.files import Line

TEAM = "team"
# kinds of line in samples.jsonl; runs/recorder.py and runtime/loop.py write the others
MEASURED = "evaluation"
PROBE = "probe"
BEFORE = "before"  # group of the metrics of untrained agents, in place of `eval`
BEFORE_ANY = -1  # iteration of the evaluation before the training; the first one is 0
# before_each(rows done, rows in all): called before each batch of rows
BeforeEach = Callable[[int, int], None]
R = TypeVar("R", bound="ResponseSet")
T = TypeVar("T")


@dataclass
class PromptScores:
    """Filled by an evaluation, in the order of its prompts."""

    prompts: list[str] = field(default_factory=list)  # their ids
    # metrics whose values are shares of what is right or won -> tries that each value is from
    shares: dict[str, int] = field(default_factory=dict)
    # metric -> one value per prompt; their mean is the metric, and their spread says how sure it is
    values: dict[str, list[float]] = field(default_factory=dict)

    def by_prompt(self, rows: Sequence[T]) -> list[Sequence[T]]:
        """Each prompt's rows, out of those of every prompt once, then every prompt again."""
        return [rows[start :: len(self.prompts)] for start in range(len(self.prompts))]

    def add(self, metric: str, rows: Sequence[float], tries: int | None) -> None:
        """Keep a metric's value of each prompt, the mean of its rows.

        tries: they are shares, of so many right or wrong tries each; None: they are not
        """
        self.values[metric] = [*map(mean, self.by_prompt(rows))]
        if tries is not None:
            self.shares[metric] = tries

    def metrics(self) -> Metrics:
        """The means, named `before/...` in place of `eval/...`."""
        return {
            f"{BEFORE}/{metric.removeprefix('eval/')}": mean(values)
            for metric, values in self.values.items()
        }


@dataclass(frozen=True)
class EvalRequest:
    """The settings of one evaluation and its place in the run."""

    config: EvaluationConfig
    seed: int
    iteration: int
    final: bool  # no training follows: the probes are asked, too
    # filled by the evaluator: what prompts contribute to its metrics, and the responses
    scores: PromptScores = field(default_factory=PromptScores)
    lines: list[Line] = field(default_factory=list)  # as of samples.jsonl
    trained: int | None = None  # iterations of training before it; None: those up to `iteration`

    @property
    def done(self) -> int:
        """Iterations of training before it."""
        return self.iteration + 1 if self.trained is None else self.trained

    @property
    def untrained(self) -> bool:
        """Agents are as before any training; only what is compared with later is measured."""
        return self.iteration == BEFORE_ANY


@dataclass
class ResponseSet:
    """The responses of one agent, or of the team: every prompt once, then every prompt again."""

    who: str  # an agent, alone on the bare query; or TEAM, in its roles
    kind: str  # MEASURED | PROBE
    prompts: Sequence[Prompt]
    samples: int | None  # responses per prompt; None: one, greedily
    probe: str = field(default="", kw_only=True)  # how the team is changed; "": it is as it is
    lines: list[Line] = field(default_factory=list, kw_only=True)  # one per row

    def __len__(self) -> int:
        return len(self.prompts) * (self.samples or 1)

    def prompt(self, row: int) -> Prompt:
        return self.prompts[row % len(self.prompts)]


def in_batches(
    request: EvalRequest,
    sets: Sequence[R],
    size: int,
    answer: Callable[[R, range], list[Line]],
    before_each: BeforeEach,
) -> None:
    """Ask all rows, batch by batch; their lines go to their sets, and to `request`.

    sets: no batch has rows of two of them
    size: rows of a batch, at most
    answer(set, rows): what is specific to an evaluation in the lines of a batch
    """
    request.scores.prompts = [prompt.id for prompt in sets[0].prompts]
    total = len(request.lines) + sum(map(len, sets))
    for one in sets:
        for start in range(0, len(one), size):
            before_each(len(request.lines), total)
            rows = range(start, min(start + size, len(one)))
            for row, own in zip(rows, answer(one, rows), strict=True):
                prompt = one.prompt(row)
                line = {
                    "iteration": request.iteration,
                    "kind": one.kind,
                    "who": one.probe or one.who,
                    "split": request.config.split if one.kind == MEASURED else None,
                    "sample": None if one.samples is None else row // len(one.prompts),
                    "prompt_id": prompt.id,
                    "prompt": prompt.text,
                    "answer": prompt.answer,
                    **own,
                }
                one.lines.append(line)
                request.lines.append(line)


def line_turn(turn: Turn, prompt: Prompt) -> dict[str, Any]:
    """A turn in a line of samples.jsonl."""
    return {
        "agent": turn.agent,
        "role": turn.role,
        "context": None if turn.context == prompt.text else turn.context,
        "response": None if turn.absent else turn.response,
        "score": turn.score,
        **further_columns(turn),
    }
