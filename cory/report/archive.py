"""All archived runs in one table, docs/results/runs.parquet: a row per run, metric and iteration.

Columns: scale, experiment, seed, metric, iteration, value; commit (seven digits), date (of the
run's start) and settings (JSON) are those of the run. What agents wrote is there as metrics
`probe/<how>/<agent>`, whose value is missing and whose text holds JSON: [prompt, response].
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from cory.config.names import key_of, named_runs
from cory.runs.files import read_lines
from cory.runs.run_dir import (
    FREE,
    METRICS,
    OVERRIDES,
    RECORD,
    SAMPLES,
    SETTINGS,
    read_record,
    read_settings,
)

RUN = ["scale", "experiment", "seed"]
ORDER = [*RUN, "metric", "iteration"]
KEPT = ("objective/", "eval/", "debate/", "supervised/", "offline/", "game/", "transfer/")
BENCHMARK = "benchmark/"  # scores that scripts/benchmarks.py has added to a record
KEPT_OF_ROLLOUTS = ("rollout/distinct_2/", "rollout/truncated_share/")
TEXT_COLUMNS = ("scale", "experiment", "metric", "commit", "date", "settings", "text")


# settings that do not make another run of the study, and Hydra's own
OF_EACH_RUN = {*FREE, "seed", "scale", "fidelity", "hydra", "--config-dir"}

Runs = dict[tuple[str, str], dict[str, pd.DataFrame]]  # (scale, experiment) -> metric -> rows


def by_experiment(frame: pd.DataFrame) -> Runs:
    """The archive taken apart once, because tables ask for many small parts of it."""
    found: Runs = {}
    for (scale, experiment), rows in frame.groupby(["scale", "experiment"], observed=True):
        metrics = {str(name): own for name, own in rows.groupby("metric", observed=True)}
        found[str(scale), str(experiment)] = metrics
    return found


def read(path: Path) -> pd.DataFrame:
    """The archived runs; ValueError unless the file is there and has its columns."""
    if not path.exists():
        raise ValueError(f"{path} does not exist: it holds the archived runs")
    frame = pd.read_parquet(path)
    missing = {*ORDER, "value", *TEXT_COLUMNS} - set(frame.columns)
    if missing:
        raise ValueError(f"{path} has no column {', '.join(sorted(missing))}")
    return frame


def write(frame: pd.DataFrame, path: Path) -> None:
    """Replace the archive, in one order whatever the order of the runs."""
    ordered = frame.sort_values(ORDER, ignore_index=True, kind="stable")
    for name in TEXT_COLUMNS:
        ordered[name] = ordered[name].astype(str).where(ordered[name].notna()).astype("category")
    for name in ("seed", "iteration"):
        ordered[name] = ordered[name].astype("int32")
    part = path.with_name(path.name + ".part")
    ordered.to_parquet(part, compression="zstd", compression_level=19, index=False)
    part.replace(path)


def replaced(frame: pd.DataFrame, runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The archive with these runs, each in the place of an archived one of its name and seed."""
    if not runs:
        return frame
    new = pd.concat(runs, ignore_index=True)
    names = pd.MultiIndex.from_frame(new[RUN].astype(str)).unique()
    old = pd.MultiIndex.from_frame(frame[RUN].astype(str))
    return pd.concat([frame[~old.isin(names)], new], ignore_index=True)


def finished(outputs: Path, scale: str, experiments: Iterable[str]) -> list[Path]:
    """The finished runs of experiments below outputs/runs/<scale>/, with the papers' fidelity."""
    folders = [outputs / "runs" / scale / "paper" / name for name in experiments]
    return [path.parent for folder in folders for path in sorted(folder.glob(f"*/{RECORD}"))]


def obstacle(run_dir: Path, conf: Path) -> str | None:
    """Why a finished run is not one of the study, in words; None: it is.

    conf: whose sweeps/ and experiment/ say what one types for the run of this name
    """
    record = read_record(run_dir) or {}
    if not record.get("clean"):
        return "its code differed from the last commit"
    name, scale = record["experiment"], record["scale"]
    named = named_runs(conf, scale).get(name, [f"experiment={name}"])
    lines = (run_dir / OVERRIDES).read_text(encoding="utf-8").splitlines()
    typed = [w for w in lines if key_of(w).partition(".")[0] not in OF_EACH_RUN]
    other = [word for word in typed if word not in named]
    other += [f"no {word}" for word in named if word not in typed]
    return f"it was run with {', '.join(other)}" if other else None


def run_frame(run_dir: Path) -> pd.DataFrame:
    """A finished run as rows of the archive; ValueError names the folder that holds none."""
    record = read_record(run_dir)
    if record is None:
        raise ValueError(f"{run_dir} has no {RECORD}: its run is not finished")
    if not (run_dir / SETTINGS).exists():
        raise ValueError(f"{run_dir} has no {SETTINGS}")
    settings = OmegaConf.to_container(read_settings(run_dir))
    rows = [
        {"metric": name, "iteration": line["iteration"], "value": float(value)}
        for line in read_lines(run_dir / METRICS)
        for name, value in line.items()
        if name.startswith((*KEPT, *KEPT_OF_ROLLOUTS)) and value is not None
    ]
    rows += [
        {"metric": f"probe/{how}/{agent}", "iteration": -1, "text": json.dumps([prompt, response])}
        for agent, how, prompt, response in _probes(run_dir)
    ]
    rows += [
        {"metric": f"{BENCHMARK}{name}/{agent}", "iteration": record["iterations"] - 1,
         "value": float(score["value"])}
        for agent, scores in record.get("benchmarks", {}).items()
        for name, score in scores.items()
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["metric", "iteration", "value", "text"])
    about: dict[str, Any] = {
        "scale": record["scale"],
        "experiment": record["experiment"],
        "seed": int(record["seed"]),
        "commit": (record["commit"] or "unknown")[:7],
        "date": record["began"][:10],
        "settings": json.dumps(settings, separators=(",", ":")),
    }
    return frame.assign(**about)


def _probes(run_dir: Path) -> list[tuple[str, str, str, str]]:
    """Agent, greedy or sampled, prompt and response of each answer to a probe."""
    lines = read_lines(run_dir / SAMPLES) if (run_dir / SAMPLES).exists() else []
    return [
        (
            line["who"],
            "greedy" if line["sample"] is None else "sampled",
            line["prompt"],
            line["turns"][0]["response"],
        )
        for line in lines
        if line["kind"] == "probe"
    ]
