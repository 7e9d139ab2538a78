"""Checkpoints: all of a run's state, whole or not at all, and damage is recognised."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from cory.config import Config, ConfigError
from cory.runs.checkpoint import Checkpoints
from cory.trainers.ppo import PPOTrainer
from tests.support.building import LetterShare, build, steps
from tests.support.composing import ConfigOf

SETTINGS = [
    *("algorithm.swap_every=2", "algorithm.score_scaling=normalise"),
    *("algorithm.kl_controller=adaptive", "algorithm.minibatch_size=4"),
    *("algorithm.learning_rate=1e-3", "hardware.microbatch_size=2", "hardware.keep_whole_below=0"),
]


def trainer_of(config: Config) -> PPOTrainer:
    torch.manual_seed(config.seed)
    return build(config, reward=LetterShare())


@pytest.mark.parametrize("sharing", ["copies", "adapters"])
@pytest.mark.parametrize(
    "stage", [0, 2, *(pytest.param(stage, marks=pytest.mark.slow) for stage in (1, 3))]
)
def test_four_iterations_are_two_and_two_to_the_last_bit(
    config_of: ConfigOf, tmp_path: Path, sharing: str, stage: int
) -> None:
    config = config_of(*SETTINGS, f"model.sharing={sharing}", f"hardware.zero_stage={stage}")
    checkpoints = Checkpoints(tmp_path, "this run", config.hardware, 2)
    whole = trainer_of(config)
    steps(whole, 0, 1)
    checkpoints.save(2, whole.agents, {"algorithm": whole.state_dict()})
    expected = steps(whole, 2, 3)

    again = trainer_of(config)
    torch.rand(7)  # wherever the new process's global stream is
    restored = checkpoints.restore(again.agents)
    assert restored is not None and restored[0] == 2
    again.load_state_dict(restored[1]["algorithm"])
    assert steps(again, 2, 3) == expected
    for name, agent in whole.agents.items():
        pieces = again.agents[name].engine.own_parts()
        assert all(
            torch.equal(piece, pieces[key]) for key, piece in agent.engine.own_parts().items()
        )


@pytest.mark.parametrize("stage", [0, 2])
def test_frozen_weights_are_not_written(config_of: ConfigOf, tmp_path: Path, stage: int) -> None:
    """Neither under the second name of the head, which is the embedding."""
    config = config_of("model.sharing=adapters", f"hardware.zero_stage={stage}")
    trainer = trainer_of(config)
    Checkpoints(tmp_path, "this run", config.hardware, 2).save(1, trainer.agents, {})
    for name, agent in trainer.agents.items():
        (file,) = tmp_path.glob(f"checkpoints/*/{name}/*.pt")
        written = torch.load(file, weights_only=True)["weights"]
        trained = agent.engine.trainable.values()
        found = torch.cat([part.flatten() for part in written])
        expected = torch.cat([weight.detach().flatten() for weight in trained])
        whole, rest = found[: len(expected)], found[len(expected) :]
        assert torch.equal(whole, expected) and not rest.any() and len(rest) < 8  # padding
        assert "lm.lm_head.weight" in agent.model.state_dict()  # nothing else is changed


class Saved:
    """Three checkpoints of a run without agents."""

    def __init__(self, run_dir: Path, hardware: Any, keep_last: int = 3) -> None:
        self.begin_again = lambda: Checkpoints(run_dir, "this run", hardware, keep_last)
        self.checkpoints = self.begin_again()
        self.folder = run_dir / "checkpoints"
        for done in (1, 2, 3):
            self.checkpoints.save(done, {}, {"number": done})

    def newest(self) -> int | None:
        found = self.checkpoints.restore({})
        if found is None:
            return None
        assert found[1] == {"number": found[0]}
        return found[0]


@pytest.fixture
def saved(config_of: ConfigOf, tmp_path: Path) -> Saved:
    return Saved(tmp_path, config_of().hardware)


def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_is_left(saved: Saved) -> None:
    assert saved.newest() == 3
    path = saved.folder / "000003" / "state_0.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    said = "000003 is damaged: state_0.pt is not what was written; delete it to go on from the one"
    with pytest.raises(ConfigError, match=said):
        saved.newest()
    shutil.rmtree(saved.folder / "000003")
    assert saved.newest() == 2
    shutil.rmtree(saved.folder)
    assert saved.newest() is None


@pytest.mark.parametrize(
    ("settings", "words", "said"),
    [
        ("another run", (), "000003 has settings=this run, not another run: go on with the same"),
        ("this run", ("hardware.processes=2",), "000003 has processes=1, not 2"),
        ("this run", ("hardware.zero_stage=1",), "000003 has hardware.zero_stage=0, not 1"),
        ("format", (), r"000003 has format=0, not \d: go on with the same"),
    ],
)
def test_a_checkpoint_of_another_run_or_layout_is_refused(
    saved: Saved, config_of: ConfigOf, tmp_path: Path, settings: str, words: list[str], said: str
) -> None:
    path = saved.folder / "000003" / "manifest.json"
    if settings == "format":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 0}))
        settings = "this run"
    other = Checkpoints(tmp_path, settings, config_of(*words).hardware, 3)
    with pytest.raises(ConfigError, match=said):
        other.restore({})


def test_an_unfinished_checkpoint_is_no_checkpoint(saved: Saved) -> None:
    part = (saved.folder / "000003").rename(saved.folder / "000004.part")
    (part / "manifest.json").unlink()
    saved.checkpoints = saved.begin_again()
    assert saved.newest() == 2
    assert not part.exists()  # or every kill would leave its own


def test_a_run_that_ends_keeps_none(saved: Saved) -> None:
    saved.checkpoints.end()
    assert not saved.folder.exists()


def test_only_the_last_ones_are_kept(config_of: ConfigOf, tmp_path: Path) -> None:
    saved = Saved(tmp_path, config_of().hardware, keep_last=2)
    assert sorted(p.name for p in saved.folder.iterdir()) == ["000002", "000003"]


def test_a_failed_write_leaves_the_last_good_one(saved: Saved, monkeypatch) -> None:
    def fail(*_: object) -> None:  # as torch tells of a full disk
        raise RuntimeError("write")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", fail)
        with pytest.raises(ConfigError, match=r"last good one is .*000003") as raised:
            saved.checkpoints.save(4, {}, {"number": 4})
    assert "\n" not in str(raised.value)
    assert saved.newest() == 3
    assert sorted(p.name for p in saved.folder.iterdir()) == ["000001", "000002", "000003"]
