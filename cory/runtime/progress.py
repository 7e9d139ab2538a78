"""The progress bar: what it says of an iteration, and that other output stands above it."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

from tqdm import tqdm

from cory.functional.statistics import mean

# kind of number that the bar shows -> the metrics that are of this kind, of each agent or turn
SHOWN = {
    "reward": r"objective/score/.+",
    "kl": r"objective/kl/.+",
    "combined": r"objective/combined/.+",
    "loss": r"(supervised|offline)/loss/.+|verifier/loss",
    "accuracy": r"verifier/accuracy",
    "accuracy by turn": r"debate/right/turn_\d+",
    "win rate": r"eval/win_rate/(?!itself).+",
}
MOST_VALUES = 3  # of a kind that are shown one by one


class AboveBars:
    """A stream whose whole lines appear above the bars, which are drawn again below them.

    What a reward function prints would otherwise stand on the bar's own line.
    """

    def __init__(self, stream: TextIO, bars: TextIO) -> None:
        """stream: where lines go; bars: where bars are drawn"""
        self.stream, self.bars = stream, bars
        self._rest = ""  # a line that is not finished

    def write(self, text: str) -> int:
        """As a text stream's; a line waits for its end."""
        lines, newline, self._rest = (self._rest + text).rpartition("\n")
        if newline:
            with tqdm.external_write_mode(file=self.bars):
                self.stream.write(lines + newline)
                self.stream.flush()
        return len(text)

    def flush(self) -> None:
        """Whole lines are written at once."""

    def finish(self) -> None:
        """Write what is left as a line."""
        if self._rest:
            self.write("\n")

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def bar_stream() -> TextIO:
    """The stream that bars are drawn on: standard output, also within `above_bars`."""
    stream = sys.stdout
    return stream.stream if isinstance(stream, AboveBars) else stream


@contextmanager
def above_bars() -> Iterator[None]:
    """Inside, what is printed stands above the bars on `bar_stream()`."""
    bars = sys.stdout
    out, err = AboveBars(sys.stdout, bars), AboveBars(sys.stderr, bars)
    try:
        with redirect_stdout(out), redirect_stderr(err):  # type: ignore[type-var]  # all that is used of them is there
            yield
    finally:
        out.finish()
        err.finish()


def progress(metrics: Mapping[str, float]) -> str:
    """What the bar says: of each kind in SHOWN its values, or the mean of more than three.

    metrics: the latest value of each metric
    """
    parts = []
    for kind, pattern in SHOWN.items():
        values = [value for name, value in metrics.items() if re.fullmatch(pattern, name)]
        if len(values) > MOST_VALUES:
            kind, values = f"mean {kind}", [mean(values)]
        if values:
            parts.append(" ".join([kind, *(f"{value:.2f}" for value in values)]))
    return " | ".join(parts)
