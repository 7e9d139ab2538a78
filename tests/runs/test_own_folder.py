"""Only an empty folder, or a run by its settings, may be written into."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cory.config import ConfigError
from cory.runs.lock import lock
from cory.runs.run_dir import AGENTS, METRICS, RECORD, is_complete, require_own, write_settings
from cory.runs.stored_settings import SETTINGS
from tests.support.composing import compose_config


def one_file(name: str, content: bytes = b"mine") -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return make


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (one_file("agents/mine.txt"), "holds agents but no config.yaml: it is no run; name a new"),
        (one_file(METRICS), "holds metrics.jsonl but no config.yaml"),
        (one_file(RECORD, b"{}"), "holds record.json but no config.yaml"),
        (one_file("overrides.txt"), "holds overrides.txt but no config.yaml"),
        (one_file("output.txt"), "holds output.txt but no config.yaml"),
        (one_file("stop"), "holds stop but no config.yaml"),
        (one_file(".git/config"), "holds .git but no config.yaml"),
        (one_file("checkpoints/000001/x"), "holds checkpoints but no config.yaml"),
        (one_file("seed0/config.yaml"), "holds seed0 but no config.yaml"),
        (one_file(SETTINGS, b"host: example\n"), "holds a config.yaml without model.name"),
        (one_file(SETTINGS, b"- 1\n"), "that cannot be read: it holds no settings by name"),
        (one_file(SETTINGS, b"\xff\xfe\x00"), "that cannot be read ("),
        (one_file(SETTINGS, b""), "holds a config.yaml without model.name"),
        (one_file(SETTINGS, b"model: ${nowhere}\n"), "that cannot be read ("),
        (one_file(SETTINGS, b"a: &a [*a]\n"), "that cannot be read"),
        (one_file(SETTINGS, b"model: gpt2\nseed: 0\n"), "without model.name: torn, or not of a"),
        (one_file(f"{SETTINGS}/mine"), "there is no run"),
    ],
)
def test_a_folder_of_others_is_refused_and_stays_as_it_was(
    make: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    make(tmp_path)
    before = files_of(tmp_path)
    for refuse in (require_own, lambda folder: is_complete(folder, compose_config())):
        with pytest.raises(ConfigError) as refused:
            refuse(tmp_path)
        text = str(refused.value)
        assert text.startswith(f"run_dir={tmp_path}") and said in text and "\n" not in text, text
    assert files_of(tmp_path) == before


def test_a_link_to_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    one_file("thesis/chapter1.tex")(tmp_path)
    (tmp_path / "run").symlink_to(tmp_path / "thesis")
    with pytest.raises(ConfigError, match=r"run holds chapter1\.tex but no config\.yaml"):
        require_own(tmp_path / "run")


def test_many_files_of_others_are_named_in_part(tmp_path: Path) -> None:
    for name in "abcde":
        one_file(name)(tmp_path)
    with pytest.raises(ConfigError, match=r"holds a, b, c, \.\.\. but no config\.yaml"):
        require_own(tmp_path)


def test_new_and_empty_folders_and_runs_are_taken(tmp_path: Path) -> None:
    require_own(tmp_path / "new")
    require_own(tmp_path)
    with lock(tmp_path):  # as a command does that is refused after it
        pass
    require_own(tmp_path)
    (tmp_path / f".{SETTINGS}.host.17").touch()  # killed within `write_whole`
    require_own(tmp_path)
    write_settings(tmp_path, compose_config(), [])
    require_own(tmp_path)
    (tmp_path / "slurm-1.out").touch()  # beside a run, nobody's files are in the way
    require_own(tmp_path)
    assert is_complete(tmp_path, compose_config()) is False


@pytest.mark.parametrize("product", [RECORD, AGENTS, "games", "debates", "endpoint.jsonl"])
def test_a_run_that_has_left_anything_is_kept_from_other_settings(
    product: str, tmp_path: Path
) -> None:
    write_settings(tmp_path, compose_config(), [])
    assert is_complete(tmp_path, compose_config("seed=1")) is False  # refused before its start
    (tmp_path / product).touch()
    with pytest.raises(ConfigError, match="holds a run with seed=0, not 1"):
        is_complete(tmp_path, compose_config("seed=1"))


def test_a_folder_that_nobody_may_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(self: Path) -> None:  # as for anybody but root, who may read everything
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(Path, "iterdir", closed)
    with pytest.raises(ConfigError, match="cannot be written: Permission denied"):
        require_own(tmp_path / "closed")
