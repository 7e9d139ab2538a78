"""What differs between runs, in short."""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf

from cory.report.runs import settings_of, short_words, telling_keys


def test_the_seed_counts_neither_by_itself_nor_in_a_path(tmp_path: Path) -> None:
    def of(name: str, seed: int, **settings: object) -> dict[str, object]:
        run_dir = tmp_path / name
        run_dir.mkdir()
        OmegaConf.save(OmegaConf.create({"seed": seed, **settings}), run_dir / "config.yaml")
        return settings_of(run_dir)

    two = of("a", 2, init_from="runs/im/seed2", model={"path": "seed2", "width": 2})
    assert two == {"init_from": "runs/im/seed*", "model.path": "seed*", "model.width": 2}
    assert of("b", 3, init_from="runs/im/seed3", model={"path": "seed3", "width": 2}) == two
    other = of("c", 3, init_from="runs/im/seed2", model={"path": "seed31", "width": 2})
    assert other == {"init_from": "runs/im/seed2", "model.path": "seed31", "model.width": 2}


def test_what_tells_runs_apart_is_written_in_short() -> None:
    runs = [{"model.path": path, "reward.path": "b", "a.kl": 0.1} for path in ("a", "c")]
    assert telling_keys(runs) == ["model.path"]
    keys = ["model.path", "reward.path", "a.kl"]
    assert short_words(runs[0], keys) == ["model.path=a", "reward.path=b", "kl=0.1"]
    assert short_words(runs[1], ["model.path"]) == ["path=c"]
