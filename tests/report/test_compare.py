"""Groups of runs: what is pooled, differences by seed, curves, and `cory-compare`."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from cory.report.compare import compared, comparison_text, main, remarks, what_rose
from cory.report.plots import curve, curves_of, draw_run, main_metrics, panels
from cory.report.runs import group_runs, settings_of
from tests.support.recorded_runs import record_run

SCORE, KL = "eval/score/agent_0", "objective/kl/agent_0"


def run(run_dir: Path, score: float, seed: int = 0, kl_coef: float = 0.1, **settings: Any) -> Path:
    """Twelve iterations: a KL of 99 in the first two, of 1 then, and a score at the end."""
    lines = [{KL: 99.0 if number < 2 else 1.0} for number in range(12)]
    lines[-1][SCORE] = score
    return record_run(run_dir, lines, seed=seed, algorithm={"kl_coef": kl_coef}, **settings)


@pytest.fixture
def two_by_three(tmp_path: Path) -> list[Path]:
    """Seeds differ by far more than settings do: 0.3 is higher by 0.1, 0.2 and 0.3."""
    return [
        run(tmp_path / f"kl{eta}_seed{seed}", 10.0 * seed + gain, seed, eta)
        for eta, gains in ((0.1, (0, 0, 0)), (0.3, (0.1, 0.2, 0.3)))
        for seed, gain in enumerate(gains)
    ]


def test_seeds_are_pooled_and_nothing_else(tmp_path: Path, two_by_three: list[Path]) -> None:
    groups = group_runs(two_by_three)
    assert list(groups["group"]) == ["kl_coef=0.1"] * 3 + ["kl_coef=0.3"] * 3
    assert list(groups["seed"]) == [0, 1, 2] * 2
    alone = group_runs(two_by_three[:2])
    assert set(alone["group"]) == {"mine"}
    # where runs are stored changes no result
    moved = run(tmp_path / "x", 0.0, seed=5, hardware={"device": "cpu"}, checkpoint_every=3)
    assert set(group_runs([two_by_three[0], moved])["group"]) == {"mine"}
    # the seed in the path of a run that they start from, as sweeps and Hydra's -m write it
    for form, count in (("seed{}", 1), ("x/seed-{}", 1), ("x_seed-{}_2", 1), ("seed{}0", 2)):
        begun = [
            run(tmp_path / form.format(f"{n}_"), 0.0, seed=n, init_from=form.format(n))
            for n in (1, 2)
        ]
        assert group_runs(begun)["group"].nunique() == count, form
    # values that look alike in short
    close = [run(tmp_path / str(n), 0.0, kl_coef=0.12345678 + n * 1e-8) for n in range(2)]
    assert group_runs(close)["group"].nunique() == 2


def test_differences_are_paired_by_seed(two_by_three: list[Path]) -> None:
    table, metrics = compared(two_by_three)
    assert metrics == [SCORE, KL]
    first, second = (table.loc[(SCORE, f"kl_coef={eta}")] for eta in (0.1, 0.3))
    assert (first["seeds"], first["mean"], first["std"], first["pairs"]) == (3, 10.0, 10.0, 0)
    assert math.isnan(first["difference"])
    # without the seeds' own spread: 0.2 ± t(0.95, 2) 0.1 / sqrt(3)
    half = 2.919986 * 0.1 / math.sqrt(3)
    assert (second["pairs"], second["difference"]) == (3, pytest.approx(0.2))
    assert (second["low"], second["high"]) == pytest.approx((0.2 - half, 0.2 + half), abs=1e-6)
    # (2.920 + 0.842) 0.1 / sqrt(3) = 0.217, and with four (2.353 + 0.842) 0.1 / 2 = 0.160
    assert second["needed"] == 4
    # of the training the mean of the last ten iterations
    assert table.loc[(KL, "kl_coef=0.1"), "mean"] == 1.0
    # equal to the last digit: nothing says what other seeds would do
    assert math.isnan(table.loc[(KL, "kl_coef=0.3"), "low"])
    row = comparison_text(table, [SCORE]).splitlines()[3].split()
    assert row == ["kl_coef=0.3", "3", "10.200", "±", "10.100", "+0.200",
                   "+0.031", "to", "+0.369", "told"]  # fmt: skip


def test_a_group_changes_from_what_its_own_runs_began_with(tmp_path: Path) -> None:
    pairs = ((0.1, 0.4), (0.3, 0.5), (0.2, 0.3))  # before and after: higher by 0.3, 0.2 and 0.1
    runs = [
        record_run(tmp_path / str(seed), [{"before/score/agent_0": old, SCORE: new}], seed=seed)
        for seed, (old, new) in enumerate(pairs)
    ]
    table, metrics = compared(runs)
    row = table.loc[(SCORE, "mine")]
    half = 2.919986 * 0.1 / math.sqrt(3)
    assert (row["before"], row["mean"], row["change"]) == pytest.approx((0.2, 0.4, 0.2))
    assert (row["change_low"], row["change_high"]) == pytest.approx((0.2 - half, 0.2 + half))
    _, heads, line, _, note, _, said = comparison_text(table, metrics).splitlines()
    assert " ".join(heads.split()) == "seeds before mean ± std change 90 % interval"
    assert " ".join(line.split()) == "mine 3 0.200 0.400 ± 0.100 +0.200 +0.031 to +0.369"
    assert note == "mean ± standard deviation, and intervals, over seeds"  # nothing differs here
    assert said == "Held-out reward, agent 0: rose in mine"
    ways = pd.DataFrame(
        {
            "change_low": [-2.0, -1.0, 1.0, math.nan, 1.0],
            "change_high": [-1.0, 1.0, 2.0, math.nan, 2.0],
            "seeds": [3, 3, 3, 1, 2],
        },
        index=pd.MultiIndex.from_product([[SCORE], ["a", "b", "c", "one seed", "two seeds"]]),
    )
    said = "Held-out reward, agent 0: fell in a; undecided in b, two seeds; rose in c"
    assert what_rose(ways, [SCORE]) == said
    single, _ = compared(runs[:1])
    assert single.loc[(SCORE, "mine"), "change"] == pytest.approx(0.3)
    assert math.isnan(single.loc[(SCORE, "mine"), "change_low"])


def test_scores_of_different_rewards_are_not_compared_in_silence(tmp_path: Path) -> None:
    names = [("python", "a.py:f"), ("python", "a.py:g"), ("judge", None), ("judge", None)]
    runs = [
        run(tmp_path / str(n), 0.0, reward={"name": name, "function": function})
        for n, (name, function) in enumerate(names)
    ]
    assert remarks(runs[2:]) == ""
    for pair in (runs[:2], runs[1:3]):
        assert "different rewards" in remarks(pair)


def test_seeds_that_only_one_row_has_make_no_pairs(tmp_path: Path) -> None:
    ends = [(0.1, 0, 1.0), (0.1, 1, 2.0), (0.3, 1, 4.0), (0.3, 7, 9.0), (0.5, 8, 9.0)]
    table, _ = compared([run(tmp_path / str(n), score, seed, eta)
                         for n, (eta, seed, score) in enumerate(ends)])  # fmt: skip
    second = table.loc[(SCORE, "kl_coef=0.3")]
    assert (second["seeds"], second["pairs"], second["difference"]) == (2, 1, 2.0)
    assert math.isnan(second["low"]) and math.isnan(second["needed"])
    assert table.loc[(SCORE, "kl_coef=0.5"), "pairs"] == 0
    assert "+2.000 (1 of them)" in comparison_text(table, [SCORE])


def test_the_command(two_by_three: list[Path], tmp_path: Path, monkeypatch, capsys) -> None:
    (run(tmp_path / "open", 0.0, seed=9) / "record.json").unlink()
    table, curves = tmp_path / "all.csv", tmp_path / "$out$.png"
    words = ["--metric", "eval/score", "--csv", str(table), "--curves", str(curves)]
    monkeypatch.setattr("sys.argv", ["cory-compare", str(tmp_path), *words])
    main()
    out, err = capsys.readouterr()
    assert err == f"note: {tmp_path}: 1 unfinished left out\n"
    assert out.startswith("held-out reward, agent 0 (eval/score/agent_0)")
    assert KL not in out and "kl_coef=0.3" in out
    assert out.splitlines()[-1] == str(curves) and curves.stat().st_size > 10_000
    rows = pd.read_csv(table, index_col=["metric", "group"])
    assert rows.loc[(SCORE, "kl_coef=0.3"), "difference"] == pytest.approx(0.2)
    assert KL in rows.index.unique("metric")
    monkeypatch.setattr(
        "sys.argv", ["cory-compare", str(tmp_path), "--metric", "eval/scor/agent_0"]
    )
    with pytest.raises(SystemExit, match=r"error: eval/scor/agent_0 .* mean eval/score/agent_0\?$"):
        main()


def test_the_seed_counts_neither_by_itself_nor_in_a_path(tmp_path: Path) -> None:
    def of(name: str, seed: int, **settings: object) -> dict[str, object]:
        run_dir = tmp_path / name
        run_dir.mkdir()
        OmegaConf.save(OmegaConf.create({"seed": seed, **settings}), run_dir / "config.yaml")
        return settings_of(run_dir)

    two = of("a", 2, init_from="runs/im/seed2", model={"path": "seed2", "width": 2})
    also = {"model.width": 2, "hardware.sampler": "own"}
    assert two == {"init_from": "runs/im/seed*", "model.path": "seed*", **also}
    assert of("b", 3, init_from="runs/im/seed3", model={"path": "seed3", "width": 2}) == two
    other = of("c", 3, init_from="runs/im/seed2", model={"path": "seed31", "width": 2})
    assert other == {"init_from": "runs/im/seed2", "model.path": "seed31", **also}


def frames(*values: Sequence[float], metric: str = KL) -> list[pd.DataFrame]:
    return [pd.DataFrame({metric: own}, index=range(1, len(own) + 1)) for own in values]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_line_is_the_mean_of_a_group_with_a_band_of_one_standard_deviation() -> None:
    groups = {"ppo": frames([1.0, 2.0, 9.0], [3.0, 6.0]), "cory": frames([7.0, 9.0])}
    figure = curves_of(groups, [KL])
    (axes,) = figure.axes
    first, second = axes.get_lines()
    # up to the end of the shortest run
    assert list(first.get_xdata()) == [1, 2] and list(first.get_ydata()) == [2.0, 4.0]
    assert list(second.get_ydata()) == [7.0, 9.0]
    (band,) = axes.collections  # one run has none
    assert to_hex(band.get_facecolor()[0]) == to_hex(first.get_color()) != second.get_color()
    edges = {round(float(y), 3) for _, y in band.get_paths()[0].vertices}
    assert edges == {0.586, 3.414, 1.172, 6.828}  # ± sqrt(2) and 2 sqrt(2)
    assert legend(figure) == ["ppo", "cory"]
    assert axes.get_ylabel() == "KL to the reference (nats)"


def test_panels_by_metric_and_lines_by_agent() -> None:
    names = [f"objective/{name}/agent_{n}" for name in ("score", "kl") for n in range(2)]
    frame = pd.DataFrame({name: [float(n), n + 1.0] for n, name in enumerate(names)})
    figure = curves_of({"a": [frame], "b": [frame]}, names)
    titles = [axes.get_ylabel() for axes in figure.axes]
    assert titles == ["reward in training", "KL to the reference (nats)"]
    assert legend(figure) == ["a, agent 0", "b, agent 0", "a, agent 1", "b, agent 1"]
    looks = [(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()]
    assert len(set(looks)) == 4
    assert legend(curves_of({"": [frame]}, names)) == ["agent 0", "agent 1"]


def test_running_means_are_centred_and_reach_both_ends() -> None:
    figure = curves_of({"a": frames([0.0, 3.0, 6.0, 30.0, 0.0])}, [KL], smooth=3)
    raw, line = figure.axes[0].get_lines()
    assert list(raw.get_ydata()) == [0, 3, 6, 30, 0] and raw.get_linewidth() < 1
    shown = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
    assert shown == {1: 1.5, 2: 3.0, 3: 13.0, 4: 12.0, 5: 15.0}  # at the ends of two
    (only,) = curves_of({"a": frames([1.0, 2.0])}, [KL], smooth=3).axes[0].get_lines()
    assert list(only.get_ydata()) == [1.0, 2.0]  # too short for a window


def test_a_run_draws_what_it_learns_from_and_what_it_is_judged_by(tmp_path: Path) -> None:
    line = {KL: 1.0, "objective/score/agent_0": 0.5, "objective/score/pioneer": 0.5, "role/a": 1.0}
    run_dir = record_run(tmp_path / "run", [line, {**line, "eval/score/agent_0": 1.0}])
    draw_run(run_dir, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    draw_run(record_run(tmp_path / "none", [{"role/a": 1.0}]), tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()
    every = [*line, "eval/score/agent_0", "eval/flow_wr/team"]
    frame = pd.DataFrame({name: [1.0] for name in every})
    assert main_metrics([frame]) == [KL, "objective/score/agent_0", "eval/score/agent_0"]
    assert main_metrics([frame[["role/a"]]]) == []


def test_a_running_mean_is_over_iterations() -> None:
    """Evaluations of every fifth: ten of these are two values."""
    _, (axes, *_) = panels(1)
    values = pd.Series([float(n**2) for n in range(21)], index=[5 * n for n in range(21)])
    line = curve(axes, [values], 0, smooth=10)
    assert line.get_ydata()[-1] == (19**2 + 20**2) / 2
    assert curve(axes, [values], 0, smooth=5).get_ydata()[-1] == 400
