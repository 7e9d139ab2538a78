"""Checkpoints: all of a run's state, whole or not at all, and damage is recognised."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cory.config import Config, ConfigError
from cory.episode import Metrics
from cory.runs.checkpoint import Checkpoints
from cory.runs.run_dir import WriteError
from cory.trainers.ppo import PPOTrainer
from tests.support.building import LetterShare, build

ConfigOf = Callable[..., Config]
SLOW = pytest.mark.slow
SETTINGS = [
    "algorithm.swap_every=2",
    "algorithm.score_scaling=normalise",
    "algorithm.kl_controller=adaptive",
    "algorithm.minibatch_size=4",
    "algorithm.learning_rate=1e-3",
    "hardware.microbatch_size=2",
    "hardware.keep_whole_below=0",
]


def trainer_of(config: Config) -> PPOTrainer:
    torch.manual_seed(config.seed)
    return build(config, reward=LetterShare())


def numbers(metrics: Metrics) -> Metrics:
    return {k: v for k, v in metrics.items() if not k.startswith("time/")}


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
    for iteration in range(2):
        whole.step(iteration)
    checkpoints.save(2, whole.agents, {"algorithm": whole.state_dict()})
    expected = [numbers(whole.step(iteration)) for iteration in (2, 3)]

    again = trainer_of(config)
    torch.rand(7)  # wherever the new process's global stream is
    restored = checkpoints.restore(again.agents)
    assert restored is not None and restored[0] == 2
    again.load_state_dict(restored[1]["algorithm"])
    assert [numbers(again.step(iteration)) for iteration in (2, 3)] == expected
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
        (file,) = tmp_path.glob(f"checkpoints/*/{name}/*model_states.pt")
        written = torch.load(file, weights_only=False)["module"]
        trained = agent.engine.trainable
        assert {key for key, value in written.items() if value is not None} == trained.keys()
        assert all(torch.equal(written[key], trained[key]) for key in trained)
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


def truncate(folder: Path) -> None:
    path = folder / "state_0.pt"
    path.write_bytes(path.read_bytes()[:100])


def flip_a_byte(folder: Path) -> None:
    path = folder / "state_0.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def lose_a_file(folder: Path) -> None:
    (folder / "state_0.pt").unlink()


def tear_the_manifest(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text()[:20])


def text_for_numbers(folder: Path) -> None:
    change_manifest(folder, "files", {"state_0.pt": ["many", 3]})


def text_for_the_layout(folder: Path) -> None:
    change_manifest(folder, "layout", {"processes": "one", "zero_stage": None})


def list_for_names(folder: Path) -> None:
    change_manifest(folder, "files", ["state_0.pt"])


def change_manifest(folder: Path, key: str, value: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (text_for_numbers, "is damaged"),
        (text_for_the_layout, "is torn: its manifest.json cannot be read"),
        (list_for_names, "is torn: its manifest.json cannot be read"),
        (truncate, "is damaged"),
        (flip_a_byte, "is damaged"),
        (lose_a_file, "lacks state_0.pt"),
        (tear_the_manifest, "is torn"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    saved: Saved, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None], word: str
) -> None:
    assert saved.newest() == 3
    damage(saved.folder / "000003")
    assert saved.newest() == 2
    note = capsys.readouterr().err
    assert note.count("\n") == 1 and "000003" in note and word in note
    for folder in ("000002", "000001"):
        damage(saved.folder / folder)
    assert saved.newest() is None
    assert "no checkpoint can be used: the run starts again" in capsys.readouterr().err


def test_a_finished_run_is_not_started_again(saved: Saved, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    assert saved.newest() == 3
    for folder in saved.folder.iterdir():
        truncate(folder)
    with pytest.raises(ConfigError, match="no sound training state from which the finished run"):
        saved.newest()


def test_a_foreign_checkpoint_is_not_taken(
    saved: Saved, config_of: ConfigOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    other = Checkpoints(tmp_path / "other", "another run", config_of().hardware, 3)
    other.save(9, {}, {"number": 9})
    shutil.copytree(tmp_path / "other/checkpoints/000009", saved.folder / "000009")
    assert saved.newest() == 3
    assert "000009 belongs to a run with other settings" in capsys.readouterr().err


def test_an_unfinished_checkpoint_is_no_checkpoint(saved: Saved) -> None:
    part = (saved.folder / "000003").rename(saved.folder / "000004.part")
    (part / "manifest.json").unlink()
    saved.checkpoints = saved.begin_again()
    assert saved.newest() == 2
    assert not part.exists()  # or every kill would leave its own


def test_faulty_checkpoints_do_not_count_as_kept(config_of: ConfigOf, tmp_path: Path) -> None:
    """Those of a run that has started again are numbered below them, and would go at once."""
    saved = Saved(tmp_path, config_of().hardware, keep_last=2)
    for folder in ("000002", "000003"):
        flip_a_byte(saved.folder / folder)
    saved.checkpoints = saved.begin_again()
    assert saved.newest() is None
    assert saved.checkpoints.newest() == "there is none before it"
    saved.checkpoints.save(1, {}, {"number": 1})
    saved.checkpoints = saved.begin_again()  # as a stop would
    assert saved.newest() == 1
    saved.checkpoints.save(2, {}, {"number": 2})  # in the place of a faulty one
    assert saved.checkpoints.newest().endswith("000002")
    saved.checkpoints.save(4, {}, {"number": 4})
    assert saved.newest() == 4
    kept = sorted(p.name for p in saved.folder.iterdir())
    assert kept == ["000002", "000003", "000004"]  # 3 is the faulty one


@pytest.mark.parametrize("cut_at", ["the first move", "the second move", "the end"])
def test_a_kill_while_a_checkpoint_is_replaced_leaves_one(
    saved: Saved, monkeypatch: pytest.MonkeyPatch, cut_at: str
) -> None:
    """As when one iteration is saved again, further on in it: no older checkpoint may be left."""
    for folder in ("000001", "000002"):
        shutil.rmtree(saved.folder / folder)
    moves, rename, remove = [], Path.rename, shutil.rmtree

    def move(path: Path, place: Path) -> Path:
        moves.append(place)
        if len(moves) == {"the first move": 1, "the second move": 2}.get(cut_at):
            raise KeyboardInterrupt
        return rename(path, place)

    def removing(path: Path, **settings: Any) -> None:
        if cut_at == "the end" and len(moves) == 2:
            raise KeyboardInterrupt
        remove(path, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", move)
        patch.setattr(shutil, "rmtree", removing)
        with pytest.raises(KeyboardInterrupt):
            saved.checkpoints.save(3, {}, {"number": 33})
    saved.checkpoints = saved.begin_again()
    assert not [*saved.folder.glob("*.old")]
    found = saved.checkpoints.restore({})
    expected = 3 if cut_at == "the first move" else 33
    assert found is not None and found[1]["number"] == expected
    saved.checkpoints.save(3, {}, {"number": 34})
    assert [path.name for path in saved.folder.iterdir()] == ["000003"]


def test_a_failed_move_puts_the_old_checkpoint_back(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def move(path: Path, place: Path) -> Path:
        if path.suffix == ".part":
            raise OSError(28, "No space left on device")
        return rename(path, place)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", move)
        with pytest.raises(WriteError, match=r"last good one is .*000003"):
            saved.checkpoints.save(3, {}, {"number": 33})
    assert saved.newest() == 3


def test_only_the_last_ones_are_kept(config_of: ConfigOf, tmp_path: Path) -> None:
    saved = Saved(tmp_path, config_of().hardware, keep_last=2)
    assert sorted(p.name for p in saved.folder.iterdir()) == ["000002", "000003"]
    assert saved.checkpoints.keep_newest(at_most=10) == 0  # bytes
    assert not saved.folder.exists()


@pytest.mark.parametrize("other", [0, 2, "1", [1]])
def test_another_format_is_refused(saved: Saved, other: Any) -> None:
    change_manifest(saved.folder / "000003", "format", other)
    with pytest.raises(ConfigError) as refusal:
        saved.newest()
    said = str(refusal.value)
    assert said.startswith(f"{saved.folder / '000003'} is of format {other}, and this version of")
    assert "\n" not in said


@pytest.mark.parametrize("layout", ["hardware.processes=2", "hardware.zero_stage=1"])
def test_another_layout_is_refused(
    saved: Saved, config_of: ConfigOf, tmp_path: Path, layout: str
) -> None:
    other = Checkpoints(tmp_path, "this run", config_of(layout).hardware, 3)
    with pytest.raises(ConfigError, match=r"was written by 1 processes at hardware.zero_stage=0"):
        other.restore({})


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("write")])
def test_a_failed_write_leaves_the_last_good_one(
    saved: Saved, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", fail)
        with pytest.raises(WriteError, match=r"last good one is .*000003") as raised:
            saved.checkpoints.save(4, {}, {"number": 4})
    assert "\n" not in str(raised.value)
    assert saved.newest() == 3
    assert sorted(p.name for p in saved.folder.iterdir()) == ["000001", "000002", "000003"]


def inodes(place: Path, name: str) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (place / name).iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 2])
@pytest.mark.parametrize("links", [True, False])
def test_what_has_not_changed_is_linked(
    config_of: ConfigOf, tmp_path: Path, stage: int, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(*SETTINGS, f"hardware.zero_stage={stage}")
    checkpoints = Checkpoints(tmp_path, "this run", config.hardware, 3)
    trainer = trainer_of(config)
    trainer.step(0)
    checkpoints.save(1, trainer.agents, {})
    one, other = trainer.agents
    place = tmp_path / "checkpoints/000001"
    before = {name: inodes(place, name) for name in trainer.agents}
    trainer.agents[one].engine.set_weights(
        {key: value + 1 for key, value in trainer.agents[one].engine.trainable.items()}
    )
    if not links:

        def refused(*_: object) -> None:
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(os, "link", refused)
    checkpoints.save(2, trainer.agents, {})
    later = {name: inodes(tmp_path / "checkpoints/000002", name) for name in trainer.agents}
    assert (later[other] == before[other]) == links
    assert not set(later[one].values()) & set(before[one].values())
    checkpoints.save(2, trainer.agents, {})  # in the place of the one that is linked to
    again = trainer_of(config)
    assert checkpoints.restore(again.agents) is not None
    for name, agent in trainer.agents.items():
        pieces = again.agents[name].engine.own_parts()
        assert all(
            torch.equal(piece, pieces[key]) for key, piece in agent.engine.own_parts().items()
        )
    # what was restored has not changed either
    checkpoints.save(3, again.agents, {})
    for name in trainer.agents:
        restored = inodes(tmp_path / "checkpoints/000002", name)
        assert (inodes(tmp_path / "checkpoints/000003", name) == restored) == links


def test_a_damaged_file_that_is_linked_is_recognised(
    config_of: ConfigOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(*SETTINGS)
    checkpoints = Checkpoints(tmp_path, "this run", config.hardware, 2)
    trainer = trainer_of(config)
    for number in (1, 2):
        checkpoints.save(number, trainer.agents, {})
    file = next(path for path in tmp_path.glob("checkpoints/000002/*/*.pt"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)  # of both
    assert checkpoints.restore(trainer.agents) is None
    assert capsys.readouterr().err.count("is damaged") == 2


@pytest.mark.slow
def test_everything_that_changes_an_engine_is_noticed(config_of: ConfigOf, tmp_path: Path) -> None:
    trainer = trainer_of(config_of(*SETTINGS))
    engine = next(iter(trainer.agents.values())).engine

    def read() -> None:
        with engine.whole():
            pass

    engine.saved_in = tmp_path
    read()
    assert engine.saved_in == tmp_path
    for action in (
        engine.reset_optimizer,
        lambda: engine.set_exact_weights(engine.exact_weights()),
        lambda: engine.set_weights({}),
        lambda: engine.set_learning_rate(1.0),
        lambda: trainer.step(0),
    ):
        engine.saved_in = tmp_path
        action()
        assert engine.saved_in is None


def test_a_run_directory_that_was_deleted_is_not_made_again(
    config_of: ConfigOf, tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path / "gone", "this run", config_of().hardware, 2)
    with pytest.raises(WriteError, match=r"could not be written, .*No such file or directory"):
        checkpoints.save(1, {}, {})
    assert not (tmp_path / "gone").exists()
