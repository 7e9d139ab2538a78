"""All archived runs in one table, docs/results/runs.parquet: a row per run, metric and iteration.

Columns: scale, experiment, seed, metric, iteration, value; commit (seven digits), date (of the
run's start) and settings (JSON) are those of the run. What agents wrote is there as metrics
`probe/<how>/<agent>`, whose value is missing and whose text holds JSON: [prompt, response].
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
import yaml
from omegaconf import OmegaConf

from cory.config.sweep_files import key_of, words_of
from cory.runs.files import read_lines, write_whole
from cory.runs.run_dir import (
    FREE,
    METRICS,
    OVERRIDES,
    RECORD,
    SAMPLES,
    read_benchmarks,
    read_record,
    read_settings,
)

SWEEPS = Path(__file__).resolve().parent.parent / "conf" / "sweeps"
# words that do not make another run of the study
# (keep_state: a setting of earlier runs)
OF_EACH_RUN = {*FREE, "seed", "scale", "fidelity", "hydra", "--config-dir", "keep_state"}
RUN = ["scale", "experiment", "seed"]
KEPT = ("objective/", "eval/", "before/", "debate/", "supervised/", "offline/", "game/",
        "transfer/", "rollout/distinct_2/", "rollout/truncated_share/")  # fmt: skip
TEXT_COLUMNS = ("scale", "experiment", "metric", "commit", "date", "settings", "text")

Runs = dict[tuple[str, str], dict[str, pd.DataFrame]]  # (scale, experiment) -> metric -> rows


def by_experiment(frame: pd.DataFrame) -> Runs:
    """The archive taken apart once, because tables ask for many small parts of it."""
    found: Runs = {}
    for (scale, experiment), rows in frame.groupby(["scale", "experiment"], observed=True):
        metrics = {str(name): own for name, own in rows.groupby("metric", observed=True)}
        found[str(scale), str(experiment)] = metrics
    return found


def write(frame: pd.DataFrame, path: Path) -> None:
    """Replace the archive, in one order whatever the order of the runs."""
    order = [*RUN, "metric", "iteration"]
    types = {**dict.fromkeys(TEXT_COLUMNS, "category"), "seed": "int32", "iteration": "int32"}
    ordered = frame.sort_values(order, ignore_index=True, kind="stable").astype(types)
    write_whole(path, ordered.to_parquet(compression="zstd", compression_level=19, index=False))


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


def run_frame(run_dir: Path) -> pd.DataFrame:
    """A finished run as rows of the archive; ValueError names the folder that holds none."""
    record = read_record(run_dir)
    if record is None:
        raise ValueError(f"{run_dir} has no {RECORD}: its run is not finished")
    settings = OmegaConf.to_container(read_settings(run_dir))
    rows = [
        {"metric": name, "iteration": line["iteration"], "value": float(value)}
        for line in read_lines(run_dir / METRICS)
        for name, value in line.items()
        if name.startswith(KEPT) and value is not None
    ]
    for line in (one for one in read_lines(run_dir / SAMPLES) if one["kind"] == "probe"):
        name = f"probe/{'greedy' if line['sample'] is None else 'sampled'}/{line['who']}"
        text = json.dumps([line["prompt"], line["turns"][0]["response"]])
        rows.append({"metric": name, "iteration": -1, "text": text})
    rows += [  # scores by cory-benchmark
        {"metric": f"benchmark/{name}/{agent}", "iteration": record["iterations"] - 1,
         "value": float(score["value"])}
        for agent, scores in read_benchmarks(run_dir).items()
        for name, score in scores.items()
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["metric", "iteration", "value", "text"])
    return frame.assign(
        scale=record["scale"],
        experiment=record["experiment"],
        seed=int(record["seed"]),
        commit=(record["commit"] or "unknown")[:7],
        date=record["began"][:10],
        settings=json.dumps(settings, separators=(",", ":")),
    )


def refuse_others(run_dir: Path) -> None:
    """ValueError unless a finished run is one of the study: committed code, its sweep's words."""
    record = read_record(run_dir) or {}
    if not record.get("clean"):
        raise ValueError(f"--archive: the code of {run_dir} differed from the last commit")
    paper, _, run = record["experiment"].partition("/")
    runs = yaml.safe_load((SWEEPS / f"{paper}.yaml").read_text(encoding="utf-8"))["runs"]
    typed = (run_dir / OVERRIDES).read_text(encoding="utf-8").splitlines()
    own = {word for word in typed if key_of(word).partition(".")[0] not in OF_EACH_RUN}
    if other := own ^ {*words_of(runs, run, record["scale"])}:
        raise ValueError(f"--archive: {run_dir} and its sweep differ in {', '.join(sorted(other))}")
