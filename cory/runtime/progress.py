"""The progress bar: what it says of an iteration, and that other output stands above it."""

import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

from tqdm import tqdm

from cory.functional.statistics import mean


class AboveBars:
    """A stream whose whole lines appear above the bars, which are drawn again below them.

    What a reward function prints would otherwise stand on the bar's own line.
    """

    def __init__(self, stream: TextIO) -> None:
        """stream: where lines go"""
        self.stream = stream
        self._rest = ""  # a line that is not finished

    def write(self, text: str) -> int:
        """As a text stream's; a line waits for its end."""
        lines, newline, self._rest = (self._rest + text).rpartition("\n")
        if newline:
            # as tqdm.external_write_mode, which would also draw bars that are still to wait
            with tqdm.get_lock():
                drawn = [bar for bar in [*tqdm._instances] if is_drawn(bar)]
                for bar in drawn:
                    bar.clear(nolock=True)
                self.stream.write(lines + newline)
                self.stream.flush()
                for bar in drawn:
                    bar.refresh(nolock=True)
        return len(text)

    def flush(self) -> None:
        """Whole lines are written at once."""

    def finish(self) -> None:
        """Write what is left as a line."""
        if self._rest:
            self.write("\n")

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def is_drawn(bar: Any) -> bool:
    """Whether a bar is on the screen: it is enabled, and its delay is over."""
    return hasattr(bar, "start_t") and time.time() >= bar.start_t + bar.delay


def bar_stream() -> TextIO:
    """The stream that bars are drawn on: standard output, also within `above_bars`."""
    stream = sys.stdout
    return stream.stream if isinstance(stream, AboveBars) else stream


@contextmanager
def above_bars() -> Iterator[None]:
    """Inside, what is printed stands above the bars on `bar_stream()`."""
    out, err = AboveBars(sys.stdout), AboveBars(sys.stderr)
    try:
        with redirect_stdout(out), redirect_stderr(err):  # type: ignore[type-var]  # all that is used of them is there
            yield
    finally:
        out.finish()
        err.finish()


def progress(metrics: Mapping[str, float], agents: Collection[str]) -> str:
    """What the bar says: rewards, else what the method learns from and how well it does.

    metrics: the latest value of each metric
    """
    if all(f"objective/score/{agent}" in metrics for agent in agents):
        return " | ".join(filter(None, [rewards(metrics, agents), accuracies(metrics)]))
    losses = _of(metrics, r"(?:supervised/loss|offline/loss)/.+|verifier/loss")
    accuracy = metrics.get("verifier/accuracy")
    parts = [
        f"loss {mean(losses.values()):.3f}" if losses else "",
        "" if accuracy is None else f"accuracy {accuracy:.2f}",
        accuracies(metrics),
        win_rates(metrics),
    ]
    return " | ".join(filter(None, parts))


def rewards(metrics: Mapping[str, float], agents: Collection[str]) -> str:
    """Each agent's reward, KL and combined reward; of more than two, the rewards."""
    if len(agents) > 2:
        named = [f"{metrics[f'objective/score/{agent}']:+.2f}" for agent in agents]
        return f"rewards {' '.join(named)}"
    return " | ".join(
        f"{agent.replace('_', ' ')}: reward {metrics[f'objective/score/{agent}']:+.2f} "
        f"kl {metrics[f'objective/kl/{agent}']:.2f} "
        f"combined {metrics[f'objective/combined/{agent}']:+.2f}"
        for agent in agents
    )


def accuracies(metrics: Mapping[str, float]) -> str:
    """The share of right answers at each turn of the iteration's debates; empty without debates."""
    found = _of(metrics, r"debate/right/turn_(\d+)")
    turns = [f"{found[turn]:.2f}" for turn in sorted(found, key=int)]
    return f"accuracy by turn {' '.join(turns)}" if turns else ""


def win_rates(metrics: Mapping[str, float]) -> str:
    """The last known win rates in held-out games, by opponent; empty without games."""
    found = _of(metrics, r"before/win_rate/(.+)") | _of(metrics, r"eval/win_rate/(.+)")
    rates = [f"{opponent} {rate:.2f}" for opponent, rate in found.items() if opponent != "itself"]
    return f"win rate against {', '.join(rates)}" if rates else ""


def _of(metrics: Mapping[str, float], pattern: str) -> dict[str, float]:
    """The metrics that match, by the first group of the pattern, else by their names."""
    found = {name: re.fullmatch(pattern, name) for name in metrics}
    return {
        (match[1] if match.re.groups else name): metrics[name]
        for name, match in found.items()
        if match
    }
