"""The command `cory-curves`: the curves of any runs in one figure."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cory.config import nearest
from cory.report.compare import add_grouping, listed, note_left_out
from cory.report.comparison import compare
from cory.report.figures.groups import cut_short, draw_groups
from cory.report.figures.style import COLOURS
from cory.report.run_groups import find_runs, group_runs, grouping_keys, without_repeats
from cory.runs.run_dir import METRICS, read_lines

ABOUT = """Draw the curves of any runs side by side.

    cory-curves outputs/adhoc/2026-01-31_12-00-00 -o curves.png
    cory-curves outputs/mine_sweep --metric objective/kl,rollout/distinct_2 --smooth 5
    cory-curves outputs/quickstart/*_seed0 --group-by kl_coef --label 'weak penalty,strong penalty'

A folder stands for every run below it. Runs that differ in their seed alone make one line per
agent, with a band of one standard deviation; what else differs names the lines. Runs that are not
finished, and all but the last of runs with equal settings and seed, are left out with a note.
"""
PANELS = ("objective/score", "objective/kl", "objective/combined")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    add_grouping(parser)
    parser.add_argument(
        "--smooth",
        type=int,
        default=1,
        metavar="N",
        help="draw running means over N iterations, and the values as logged behind them",
    )
    parser.add_argument(
        "--label",
        type=listed,
        default=[],
        metavar="NAME,...",
        help="names in the legend, in the order of the groups that the command prints",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("curves.png"))
    parser.add_argument("--unfinished", action="store_true", help="draw unfinished runs, too")
    args = parser.parse_args()
    try:
        if args.smooth < 1:
            raise ValueError(f"--smooth must be at least 1, got {args.smooth}")
        found, left_out = find_runs(args.run_dirs, args.unfinished)
        groups, repeated = without_repeats(group_runs(found, args.group_by))
        _, pooled = grouping_keys(found, args.group_by)
        metrics = metrics_of(found, args.metric)
        groups, undrawn = parted(groups, metrics)
        if not groups:
            raise ValueError(f"no run has a line of {', '.join(metrics)} to draw")
        require_few(groups, found)
        groups = labelled(groups, args.label)
        draw_groups(
            groups, metrics, args.output, args.smooth, title_of(groups, pooled, args.smooth)
        )
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    note_left_out(left_out, repeated)
    if pooled:
        print(f"note: pooled although they differ: {', '.join(pooled)}", file=sys.stderr)
    if undrawn:
        print(
            f"note: not drawn, without {', '.join(metrics)}: {'; '.join(undrawn)}", file=sys.stderr
        )
    logged = {
        name: [read_lines(run_dir / METRICS) for run_dir in own] for name, own in groups.items()
    }
    for said in cut_short(logged, metrics):
        print(f"note: {said}", file=sys.stderr)
    for name, run_dirs in groups.items():
        print(f"{name}: {len(run_dirs)} run{'s' if len(run_dirs) > 1 else ''}")
    print(args.output)


def parted(
    groups: Mapping[str, list[Path]], metrics: Sequence[str]
) -> tuple[dict[str, list[Path]], list[str]]:
    """The groups of which some run has one of the metrics, and the names of the others."""
    drawn = {}
    for name, run_dirs in groups.items():
        having = {
            key for run_dir in run_dirs for line in read_lines(run_dir / METRICS) for key in line
        }
        if any(
            metric in having or any(k.startswith(f"{metric}/") for k in having)
            for metric in metrics
        ):
            drawn[name] = run_dirs
    return drawn, [name for name in groups if name not in drawn]


def require_few(groups: Mapping[str, list[Path]], run_dirs: Sequence[Path]) -> None:
    """ValueError, with what to do, where there are more groups than colours."""
    if len(groups) <= len(COLOURS):
        return
    keys, _ = grouping_keys(run_dirs)
    pool = f"--group-by with some of {', '.join(keys)} pools the others, or " if keys[1:] else ""
    raise ValueError(
        f"at most {len(COLOURS)} groups fit one figure, and these are {len(groups)}: "
        f"{'; '.join(groups)}; {pool}name fewer run directories"
    )


def metrics_of(run_dirs: Sequence[Path], asked: Sequence[str]) -> list[str]:
    """The metrics to draw: those that were asked for, CORY's three panels, or what there is."""
    comparison = compare(run_dirs)
    every = comparison.metrics
    families = {metric.rpartition("/")[0] for metric in every}
    for metric in asked:
        if metric not in every and metric not in families:
            raise ValueError(
                f"{metric} is no metric of these runs{nearest(metric, [*every, *sorted(families)])}"
            )
    usual = [metric for metric in PANELS if metric in families]
    return [*asked] or usual or curves_of(run_dirs, [*comparison.headlines(), *every])


def curves_of(run_dirs: Sequence[Path], metrics: Sequence[str]) -> list[str]:
    """The first metric with several values in some run; the first one where there is none."""
    logged = [read_lines(run_dir / METRICS) for run_dir in run_dirs]
    several = (
        metric
        for metric in metrics
        if any(sum(metric in line for line in own) > 1 for own in logged)
    )
    return [next(several, metrics[0])] if metrics else []


def labelled(groups: Mapping[str, list[Path]], labels: Sequence[str]) -> dict[str, list[Path]]:
    """The groups under other names, where there are some."""
    if not labels:
        return dict(groups)
    if len(labels) != len(groups) or len(set(labels)) < len(labels):
        raise ValueError(
            f"--label needs a name of its own for each of {len(groups)} groups "
            f"({'; '.join(groups)}), got {', '.join(labels)}"
        )
    return dict(zip(labels, groups.values(), strict=True))


def title_of(groups: Mapping[str, Sequence[Path]], pooled: Sequence[str], smooth: int) -> str:
    """What lines and bands are."""
    counts = sorted({len(own) for own in groups.values()})
    several = counts[-1] > 1
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    words = [f"mean ± one standard deviation of {number} runs" if several else "one run a line"]
    words += [f"pooled: {', '.join(pooled)}"] if pooled else []
    words += [f"running means over {smooth} iterations; thin: as logged"] if smooth > 1 else []
    return "; ".join(words)


if __name__ == "__main__":
    main()
