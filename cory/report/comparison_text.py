"""A comparison of runs as text, Markdown and CSV."""

import csv
import io
from collections.abc import Mapping, Sequence

from cory.report.comparison import Comparison, Entry, Interval
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
    return "\n\n".join([*blocks, explanation(comparison)])


def explanation(comparison: Comparison) -> str:
    """What the columns are, and what the numbers can say."""
    counts = {len(group.runs) for group in comparison.groups}
    runs = "seeds" if not comparison.pooled else "runs"
    text = f"mean ± standard deviation over {runs}; 95 % intervals of the mean by Student's t"
    if len(comparison.groups) > 1:
        how = "paired by seed" if not comparison.pooled else "paired by seed and what is pooled"
        text += (
            f";\ndifference to the first row, {how}: 'undecided' where its interval holds 0 "
            f"(each row by itself)"
        )
    if comparison.pooled:
        text += f"\npooled although they differ: {', '.join(comparison.pooled)}"
    if max(counts) == 1:
        text += "\none run in each row: nothing says how sure a number is; add seeds, as seed=0,1,2"
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
            low, high = entry.interval or ("", "")
            below, above = entry.difference_interval or ("", "")
            own = [group.settings.get(key, "") for key in comparison.keys]
            alone = [entry.count, entry.mean, entry.std, low, high]
            paired = [entry.pairs, entry.difference, below, above]
            write.writerow([metric, group.label, *own, *alone, *paired])
    return out.getvalue()


def _block(comparison: Comparison, metric: str, title: str, form: str) -> str:
    """A metric: its name, and a row for each group."""
    compared = len(comparison.groups) > 1
    count = "runs" if comparison.pooled else "seeds"
    heads = ["", count, *(HEADS if compared else HEADS[:2])]
    rows = [heads]
    for group in comparison.groups:
        cells = _cells(comparison.entry(group, metric))
        rows.append([group.label, *cells][: len(heads)])
    name = title if title == metric else f"{title} ({metric})"
    if form == "markdown":
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([f"**{name}**", "", lines[0], "| --- " * len(heads) + "|", *lines[1:]])
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    lines = [
        "  ".join(
            cell.ljust(width) if place in (0, len(heads) - 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([name, *(f"  {line}" for line in lines)])


def _cells(entry: Entry | None) -> list[str]:
    if entry is None:
        return ["0", "", "", "", "", ""]
    spread = "" if entry.std is None else f" ± {entry.std:.3f}"
    difference = "" if entry.difference is None else f"{entry.difference:+.3f}"
    return [
        str(entry.count),
        f"{entry.mean:.3f}{spread}",
        _interval(entry.interval, ""),
        difference,
        _interval(entry.difference_interval, "+"),
        entry.verdict,
    ]


def _interval(interval: Interval | None, sign: str) -> str:
    if interval is None:
        return ""
    low, high = interval
    return f"{low:{sign}.3f} to {high:{sign}.3f}"
