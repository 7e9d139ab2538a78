"""Pages from made-up run directories."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from cory.claims import experiments
from cory.page import load_option, page, scale_reasons
from cory.report import Collected, Table, collect, load_table

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"
COMMIT, OTHER = "a" * 40, "b" * 40
EXPERIMENTS = ("cory/imdb_ppo", "cory/imdb_ppo_xl", "cory/imdb_cory")

WriteRun = Callable[..., Path]


def curve(start: float, end: float, iterations: int = 40) -> list[float]:
    return [start + (end - start) * i / (iterations - 1) for i in range(iterations)]


def lines_of(score: float, kl: float, agents: int, seed: int) -> list[dict[str, float]]:
    """A run that ends about there; an agent's numbers also stand under its role."""
    noise = random.Random(seed)
    lines: list[dict[str, float]] = []
    for i, (s, k) in enumerate(zip(curve(0, score), curve(0, kl), strict=True)):
        line: dict[str, float] = {"iteration": i}
        for agent, role in zip(range(agents), ("pioneer", "observer"), strict=False):
            value = s + noise.gauss(0, 0.01)
            for name in (f"agent_{agent}", role):
                line[f"objective/score/{name}"] = value
                line[f"objective/kl/{name}"] = k
                line[f"objective/combined/{name}"] = value - 0.3 * k
        lines.append(line)
    lines[-1] |= {f"eval/score/agent_{agent}": score for agent in range(agents)}
    return lines


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes a run directory below tmp_path as a small-scale sweep would."""

    def write(
        experiment: str,
        seed: int,
        lines: list[dict[str, float]],
        /,
        overrides: tuple[str, ...] = (),
        folder: str | None = None,
        **record: Any,
    ) -> Path:
        run_dir = tmp_path / "runs/small/paper" / experiment / (folder or f"seed{seed}")
        run_dir.mkdir(parents=True)
        settings = {
            "model": load_option(CONF / "model", "tiny"),
            "algorithm": load_option(CONF / "algorithm", "ppo"),
            "reward": load_option(CONF / "reward", "sentiment_tiny"),
        }
        settings["algorithm"]["prompts_per_iteration"] = 7
        (run_dir / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(settings)))
        typed = ("sweep=cory/fig3", f"experiment={experiment}", f"seed={seed}", "scale=small")
        (run_dir / "overrides.txt").write_text("".join(f"{x}\n" for x in (*typed, *overrides)))
        (run_dir / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        digest = hashlib.sha256((run_dir / "config.yaml").read_bytes()).hexdigest()
        facts = {
            "experiment": experiment,
            "sweep": "cory/fig3",
            "scale": "small",
            "seed": seed,
            "iterations": len(lines),
            "commit": COMMIT,
            "clean": True,
            "settings_sha256": digest,
            "device": "CPU x86_64, 2 cores",
            "began": "2026-01-02T03:04:05+00:00",
            "wall_s": 90.0,
        }
        (run_dir / "record.json").write_text(json.dumps(facts | record))
        return run_dir

    return write


def write_all(write_run: WriteRun, seeds: tuple[int, ...] = (0, 1, 2)) -> None:
    """Runs that agree with every claim of fig. 3: PPO pays with KL for the same reward."""
    for seed in seeds:
        write_run("cory/imdb_ppo", seed, lines_of(2.0, 20.0, 1, seed))
        write_run("cory/imdb_ppo_xl", seed, lines_of(2.5, 30.0, 1, seed))
        write_run("cory/imdb_cory", seed, lines_of(2.0, 4.0, 2, seed))


def report(outputs: Path, allow_mixed: bool = False) -> tuple[Table, Collected, str]:
    table = load_table(CONF, "cory", "fig3", "small")
    found = collect(table, outputs, allow_mixed)
    return table, found, page(table, found, "fig3_small.png" if found.runs else None)


def row(text: str, start: str) -> list[str]:
    """The cells of the only table row that starts with `start`."""
    (line,) = [x for x in text.splitlines() if x.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def test_a_whole_sweep(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    _, found, text = report(tmp_path)
    assert len(found.runs) == 9 and not found.refused and not found.notes
    assert text.startswith("# Fig. 3: training curves on IMDB (small scale, not the paper's")
    assert row(text, "small | CPU") == [
        "small",
        "CPU x86_64, 2 cores",
        "aaaaaaa",
        "2026-01-02",
        "14 min: 9 runs of 1.5 to 1.5 min",
    ]
    # the last 10 of 40 iterations on a line from 0 to 4: 4 * 34.5 / 39
    assert row(text, "CORY (tiny) LLM1")[2] == f"{4 * 34.5 / 39:.2f} ± 0.00"
    assert row(text, "CORY (tiny) LLM2")[4:] == [
        "2.00 ± 0.00",
        "- (Fig. 3(a-c), curves without numbers)",
        "3",
    ]
    assert row(text, "PPO (tiny_2x) | ")[2] == f"{30 * 34.5 / 39:.2f} ± 0.00"
    assert "![Training curves](fig3_small.png)" in text
    verdicts = [line.rsplit(" | ", 1)[1] for line in text.splitlines() if "fig. 3(" in line]
    assert verdicts == ["holds |"] * 9


def test_small_pages_list_what_was_changed(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (0,))
    _, _, text = report(tmp_path)
    assert "- `source: package`: the hub's data set is out of reach offline" in text
    assert row(text, "`algorithm.prompts_per_iteration`")[1:] == ["256", "7", "all"]
    xl = "`model.path` | openai-community/gpt2-xl"
    assert row(text, xl)[2:] == ["asset:tiny", "PPO (tiny_2x)"]
    assert "algorithm.learning_rate" not in text


def test_a_missing_seed_is_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (1,))
    (write_run("cory/imdb_ppo", 2, lines_of(2, 20, 1, 2)) / "record.json").unlink()
    _, _, text = report(tmp_path)
    assert row(text, "PPO (tiny) | ")[-1] == "1; not run (2 of 3 seeds): 0, 2"
    assert "- `cory/imdb_ppo/seed2`: unfinished (no record.json)" in text
    assert row(text, "PPO's combined")[-1] == "not run (2 of 3 seeds); holds in 1 of the other 1"


def test_nothing_was_run(tmp_path: Path) -> None:
    _, _, text = report(tmp_path)
    assert row(text, "PPO (tiny) | ")[1] == "not run (3 of 3 seeds): 0, 1, 2"
    assert row(text, "PPO's combined")[2:] == ["-", "-", "not run (3 of 3 seeds)"]
    assert "![" not in text


@pytest.mark.parametrize(
    ("record", "overrides", "why"),
    [
        ({"clean": False}, (), "from a dirty tree (commit aaaaaaa)"),
        ({"commit": OTHER}, (), "commit bbbbbbb, not aaaaaaa as its neighbours"),
        ({"commit": None, "clean": False}, (), "no commit is known"),
        ({}, ("algorithm.kl_coef=0.1",), "started with algorithm.kl_coef=0.1"),
        ({}, ("+experimental=1",), "started with +experimental=1"),
        ({}, ("fidelity=official",), "started with fidelity=official"),
        ({}, ("model=gpt2", "seed=0"), "started with model=gpt2"),
        ({"scale": "paper"}, (), "scale paper, not small"),
        ({"seed": 7}, (), "seed 7 is not of the sweep"),
        ({"settings_sha256": "0"}, (), "config.yaml was changed after the run"),
        ({"iterations": 100}, (), "metrics.jsonl holds 40 of 100 iterations"),
    ],
)
def test_a_run_that_cannot_count_is_refused_by_name(
    write_run: WriteRun,
    tmp_path: Path,
    record: dict[str, Any],
    overrides: tuple[str, ...],
    why: str,
) -> None:
    write_all(write_run, (1, 2))
    # so far off that the mean shows it if it counts
    write_run("cory/imdb_ppo", 0, lines_of(99, 99, 1, 0), overrides=overrides, **record)
    _, found, text = report(tmp_path)
    assert f"- `cory/imdb_ppo/seed0`: {why}" in text.splitlines()
    assert set(found.counted["cory/imdb_ppo"]) == {1, 2}
    cells = row(text, "PPO (tiny) | ")
    assert cells[1].startswith("1.77 ± ")
    assert cells[-1] in ("2; refused (1 of 3 seeds): 0", "2; not run (1 of 3 seeds): 0")


def test_speed_and_logging_may_differ(write_run: WriteRun, tmp_path: Path) -> None:
    typed = ("hardware=gpu1", "hardware.microbatch_size=8", "wandb.mode=offline")
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0), overrides=typed)
    _, found, _ = report(tmp_path)
    assert not found.refused


def test_mixed_runs_count_when_asked_and_stay_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run, (0,))
    write_run("cory/imdb_ppo", 1, lines_of(2, 20, 1, 1), commit=OTHER)
    write_run("cory/imdb_ppo", 2, lines_of(2, 20, 1, 2), clean=False)
    write_run("cory/imdb_cory", 1, lines_of(2, 4, 2, 1), overrides=("algorithm.kl_coef=0",))
    _, found, text = report(tmp_path, allow_mixed=True)
    assert set(found.counted["cory/imdb_ppo"]) == {0, 1, 2}
    assert "Counted because of `--allow-mixed`" in text
    assert "- `cory/imdb_ppo/seed1`: commit bbbbbbb, not aaaaaaa as its neighbours" in text
    assert "- `cory/imdb_ppo/seed2`: from a dirty tree (commit aaaaaaa)" in text
    assert "- `cory/imdb_cory/seed1`: started with algorithm.kl_coef=0" in text
    assert 1 not in found.counted["cory/imdb_cory"]


def test_a_seed_counts_once(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    write_run("cory/imdb_ppo", 0, lines_of(9, 20, 1, 0), folder="seed0_again")
    _, found, text = report(tmp_path)
    assert found.counted["cory/imdb_ppo"][0].name == "cory/imdb_ppo/seed0"
    assert "`cory/imdb_ppo/seed0_again`: seed 0 is already there" in text


def test_a_claim_that_does_not_hold_says_in_how_many_seeds(
    write_run: WriteRun, tmp_path: Path
) -> None:
    for seed, kl in enumerate((4.0, 4.0, 12.0)):
        write_run("cory/imdb_cory", seed, lines_of(2.0, kl, 2, seed))
        write_run("cory/imdb_ppo", seed, lines_of(2.0, 20.0, 1, seed))
    _, _, text = report(tmp_path)
    cells = row(text, "PPO's KL ends at more than twice that of CORY (LLM1)")
    assert cells[-1] == "does not hold (holds in 2 of 3 seeds; the mean does too)"
    assert cells[2].split("<br>")[2] == "2: 17.69 vs 2 x 10.62"
    assert cells[3] == "17.69 ± 0.00 vs 2 x (5.90 ± 4.09)"


@pytest.mark.parametrize("name", ["fig3", "fig6"])
def test_the_papers_tables_fit_their_sweeps(name: str) -> None:
    table = load_table(CONF, "cory", name, "paper")
    about = table.about["tables"][name]
    sweep = OmegaConf.load(CONF / "sweep" / f"{about['sweep']}.yaml")
    swept = set(sweep.hydra.sweeper.params.experiment.split(","))
    assert {row["experiment"] for row in table.rows} == swept
    assert table.seeds == [0, 1, 2]
    assert all(experiments(claim) <= swept for claim in table.claims)
    assert all((CONF / "model" / f"{row['model']}.yaml").exists() for row in table.rows)


def test_the_reasons_of_a_scale_are_its_comments() -> None:
    text = (CONF / "scale/small.yaml").read_text()
    commented = [x for x in text.splitlines() if "#" in x and not x.startswith("#")]
    assert len(scale_reasons(CONF / "scale/small.yaml")) == len(commented) > 0


def run_script(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_script_writes_page_and_curves(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    script = ("scripts/table.py", "cory", "fig3", "--scale", "small")
    options = ("--outputs", str(tmp_path), "--docs", str(tmp_path / "docs"))
    assert run_script(*script, *options).returncode == 0
    written = tmp_path / "docs/cory/fig3_small"
    assert written.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "](fig3_small.png)" in written.with_suffix(".md").read_text()
    shutil.rmtree(tmp_path / "runs")
    refused = run_script(*script, *options)
    assert refused.returncode == 1 and "holds no run of cory fig3" in refused.stderr
    assert written.with_suffix(".png").exists()  # what an earlier call wrote stays


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("spag", "t1"), "spag is not a paper; choose one of cory"),
        (("cory", "fig9"), "cory has no fig9; choose one of fig3, fig6"),
        (("cory", "fig3", "--scale", "huge"), "--scale huge: there is no conf/scale/huge.yaml"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(words: tuple[str, ...], message: str) -> None:
    done = run_script("scripts/table.py", *words)
    assert (done.returncode, done.stderr) == (1, f"error: {message}\n")
