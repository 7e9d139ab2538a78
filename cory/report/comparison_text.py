"""A comparison of runs as text, Markdown and CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from cory.report.comparison import Comparison, Entry
from cory.report.comparison_verdict import closing
from cory.report.interval_text import interval_text
from cory.report.run_intervals import Interval, Spread
from cory.runs.sweeps.differences import short_keys

HEADS = ("mean ± std", "95 % interval", "difference", "95 % interval", "")
PAIRED = ("pairs", "difference", "difference_low", "difference_high")
FORMATS = ("text", "markdown", "csv")


def written(comparison: Comparison, metrics: Mapping[str, str], form: str = "text") -> str:
    """The comparison in one of FORMATS, without a line's end.

    metrics: those to show -> what they are called
    """
    if form == "csv":
        return as_csv(comparison, list(metrics)).rstrip()
    blocks = [_block(comparison, metric, title, form) for metric, title in metrics.items()]
    said = "\n".join(closing(comparison, list(metrics)))
    columns = explanation(comparison, list(metrics))
    return "\n\n".join(filter(None, [*blocks, columns, said]))


def explanation(comparison: Comparison, metrics: Sequence[str]) -> str:
    """What the columns are, and what the numbers can say.

    metrics: those that are shown
    """
    counts = {len(group.runs) for group in comparison.groups}
    runs = "seeds" if not comparison.pooled else "runs"
    text = f"mean ± standard deviation over {runs}; 95 % intervals of the mean by Student's t"
    if len(comparison.groups) > 1:
        how = "paired by seed" if not comparison.pooled else "paired by seed and what is pooled"
        text += (
            f";\ndifference to the first row, {how}: 'undecided' where its interval holds 0, or "
            f"nothing says how wide it is (each row by itself)"
        )
    if comparison.pooled:
        text += f"\npooled although they differ: {', '.join(comparison.pooled)}"
    if _over_prompts(comparison, metrics):
        text += (
            "\nover prompts: where seeds do not differ, or there is one, an interval is about "
            "other prompts, not about other seeds"
        )
    if max(counts) == 1:
        text += "\none run in each row: nothing says how much seeds differ; add some, as seed=0,1,2"
    elif max(counts) == 2:
        text += (
            "\ntwo seeds say little: an interval reaches 12.7 standard errors to either side, "
            "with three seeds 4.3"
        )
    return text


def as_csv(comparison: Comparison, metrics: Sequence[str]) -> str:
    """A line for each metric and group; empty where a number is not known."""
    out = io.StringIO()
    names = short_keys(comparison.keys)
    write = csv.writer(out, lineterminator="\n")
    numbers = ["runs", "mean", "std", "low", "high", *PAIRED]
    write.writerow(["metric", "group", *names.values(), *numbers])
    for metric in metrics:
        for group in comparison.groups:
            entry = comparison.entry(group, metric)
            if entry is None:
                continue
            low, high = entry.own.interval or ("", "")
            paired: list[Any] = [0, None, "", ""]
            if entry.difference is not None:
                ends = entry.difference.interval or ("", "")
                paired = [entry.difference.count, entry.difference.mean, *ends]
            own = [group.settings.get(key, "") for key in comparison.keys]
            alone = [entry.own.count, entry.own.mean, entry.own.std, low, high]
            write.writerow([metric, group.label, *own, *alone, *paired])
    return out.getvalue()


def _block(comparison: Comparison, metric: str, title: str, form: str) -> str:
    """A metric: its name, and a row for each group that has it."""
    having = comparison.having(metric)
    compared = _compared(comparison, metric)
    count = "runs" if comparison.pooled else "seeds"
    heads = ["", count, *(HEADS if compared else HEADS[:2])]
    rows = [heads]
    for group in having:
        entry = comparison.entry(group, metric)
        if entry is not None:
            rows.append([group.label, *_cells(entry)][: len(heads)])
    without = [group.label for group in comparison.groups if group not in having]
    last = f"not measured by {'; '.join(without)}" if without else ""
    name = title if title == metric else f"{title} ({metric})"
    if form == "markdown":
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines = [f"**{name}**", "", lines[0], "| --- " * len(heads) + "|", *lines[1:]]
        return "\n".join([*lines, *(["", last] if last else [])])
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    lines = [
        "  ".join(
            cell.ljust(width) if place in (0, len(heads) - 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([name, *(f"  {line}" for line in [*lines, *([last] if last else [])])])


def _over_prompts(comparison: Comparison, metrics: Sequence[str]) -> bool:
    """Whether some interval that is shown is over prompts alone."""
    for metric in metrics:
        compared = _compared(comparison, metric)
        for group in comparison.having(metric):
            entry = comparison.entry(group, metric)
            assert entry is not None
            shown = [entry.own, entry.difference] if compared else [entry.own]
            if any(spread is not None and spread.over_prompts for spread in shown):
                return True
    return False


def _compared(comparison: Comparison, metric: str) -> bool:
    """Whether a metric's block has the columns of differences."""
    return len(comparison.having(metric)) > 1 and not comparison.repeats_differences(metric)


def _cells(entry: Entry) -> list[str]:
    own, difference = entry.own, entry.difference
    spread = "" if own.std is None else f" ± {own.std:.3f}"
    return [
        str(own.count),
        f"{own.mean:.3f}{spread}",
        _interval(own.interval, ""),
        "" if difference is None else f"{difference.mean:+.3f}{_of_pairs(own, difference)}",
        _interval(None if difference is None else difference.interval, "+"),
        entry.verdict,
    ]


def _of_pairs(own: Spread, difference: Spread) -> str:
    """How many pairs a difference is over, where some seeds of the row have no other to pair."""
    count = difference.count
    return f" ({count} pair{'s' * (count > 1)})" if count < own.count else ""


def _interval(interval: Interval | None, sign: str) -> str:
    return "" if interval is None else interval_text(*interval, 3, sign)
