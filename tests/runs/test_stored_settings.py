"""Settings on disk: secrets stay out of them, and a damaged run stands in nobody's way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.config import ConfigError, parse_config
from cory.runs.environment_values import FILE
from cory.runs.lock import LOCK, in_use, lock
from cory.runs.run_dir import METRICS, is_complete, unfinished_run, write_settings
from cory.runs.stored_settings import SETTINGS, as_written, read_settings
from tests.support.composing import compose_config

NAME = "CORY_TEST_SECRET"


def test_what_a_variable_holds_is_in_no_file_and_the_run_still_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, "s3cret")
    words = [f"wandb.project=${{oc.env:{NAME}}}", "task.path=/data/${wandb.project}.csv"]
    write_settings(tmp_path, compose_config(*words), words)
    assert not [path for path in tmp_path.iterdir() if "s3cret" in path.read_text()]
    stored = read_settings(tmp_path)
    config = parse_config(stored)
    assert (config.wandb.project, config.task.path) == ("s3cret", "/data/s3cret.csv")
    monkeypatch.delenv(NAME)
    assert as_written(read_settings(tmp_path))["wandb"]["project"] == words[0].partition("=")[2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${oc.env:CORY_TEST_SECRET}", "s3cret"),
        ("a-${oc.env:CORY_TEST_SECRET}-b", "a-s3cret-b"),
        ("${oc.env:CORY_TEST_NOT_THERE,'a \"b'}", 'a "b'),
        ("${oc.env:CORY_TEST_NOT_THERE,null}", None),
        ("${oc.decode:${oc.env:CORY_TEST_NUMBER}}", 0.25),
    ],
)
def test_the_text_of_a_variable_gives_the_same_value_again(
    text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, "s3cret")
    monkeypatch.setenv("CORY_TEST_NUMBER", "0.25")
    cfg = OmegaConf.create({"a": text, "b": "${a}", "c": ["${a}"]})
    again = OmegaConf.create(OmegaConf.to_yaml(OmegaConf.create(as_written(cfg))))
    assert (again.a, cfg.a) == (value, value)
    if "decode" not in text:  # that text is kept where it stands
        assert (again.b, again.c[0]) == (value, value)
        assert "s3cret" not in OmegaConf.to_yaml(again)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("algorithm.clip_range=${oc.env:%s}", r"algorithm\.clip_range=\$\{oc\.env"),
        # within a list, too, whose own text is that of its interpolations
        ("evaluation.probes=['${oc.env:%s}']", r"evaluation\.probes="),
    ],
)
def test_a_run_keeps_the_values_that_its_variables_had(
    word: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, "0.25")
    run_dir = tmp_path / "2026-01-01_12-00-00_seed0"
    new = tmp_path / "2026-02-01_12-00-00_seed0"
    cfg = compose_config(word % NAME)
    write_settings(run_dir, cfg, [])
    (run_dir / METRICS).touch()
    assert is_complete(run_dir, cfg) is False
    assert unfinished_run(new, cfg) == run_dir
    monkeypatch.setenv(NAME, "0.3")
    with pytest.raises(ConfigError, match=rf"another value of {key}"):
        is_complete(run_dir, cfg)
    assert unfinished_run(new, cfg) is None
    (run_dir / FILE).write_text("{")
    with pytest.raises(ConfigError, match=r"environment\.json cannot be read; delete it to trust"):
        is_complete(run_dir, cfg)
    (run_dir / FILE).unlink()
    assert is_complete(run_dir, cfg) is False


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "cannot be read ("),
        (b"- a\n- list\n", "holds no settings by name"),
        (b"just text\n", "without model.name"),
        (b"", "without model.name"),
        (b"model:\n  name: ${nowhere}\n", "cannot be read (Interpolation key 'nowhere' not found"),
        (b"model: ${oc.nothing:x}\n", "cannot be read ("),
        (b"a: [\n", "cannot be read ("),
        (b"model: 3\ntask: {}\nseed: 0\n", "without model.name"),
        (b"\x00", "cannot be read ("),
    ],
)
def test_a_damaged_neighbour_is_named_and_left_out(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = compose_config()
    good, bad, new = (tmp_path / f"2026-01-0{day}_12-00-00_seed0" for day in (1, 2, 3))
    write_settings(good, cfg, [])
    bad.mkdir()
    (bad / SETTINGS).write_bytes(content)
    assert unfinished_run(new, cfg) == good
    note = capsys.readouterr().err
    assert note.startswith(f"note: left out as no run to go on with: {bad} ") and said in note
    assert note.count("\n") == 1


def test_a_neighbour_that_may_not_be_looked_into_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, new = (tmp_path / f"2026-01-0{day}_12-00-00_seed0" for day in (1, 2))
    write_settings(bad, compose_config(), [])
    exists = Path.exists

    def refuse(path: Path) -> bool:
        if bad in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refuse)
    assert unfinished_run(new, compose_config()) is None
    assert "Permission denied" in capsys.readouterr().err


def hold(folder: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock of a folder."""
    code = "import sys; from pathlib import Path; from cory.runs.lock import lock;"
    code += "lock(Path(sys.argv[1])); print('locked', flush=True); input()"
    words = [sys.executable, "-c", code, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    holder = subprocess.Popen(words, text=True, **pipes)
    assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
    return holder


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["deleted", "emptied", "replaced", "folder", "link"])
def test_the_lock_does_not_hang_on_its_file(loss: str, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    holder = hold(run_dir)
    try:
        file = run_dir / LOCK
        if loss == "emptied":
            os.truncate(file, 0)
        else:
            file.unlink()
        if loss == "replaced":
            file.write_text("")
        elif loss == "folder":
            file.mkdir()
        elif loss == "link":
            file.symlink_to(tmp_path / "elsewhere")
        assert in_use(run_dir) == "another process"
        with pytest.raises(ConfigError, match=r"is in use by another process$"):
            lock(run_dir)
    finally:
        holder.communicate("\n")
    if loss == "folder":
        shutil.rmtree(run_dir / LOCK)
    assert in_use(run_dir) is None
    lock(run_dir).close()


def test_a_moved_run_stays_locked_and_its_old_place_is_free(tmp_path: Path) -> None:
    holder = hold(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "moved")
    try:
        assert str(in_use(tmp_path / "moved")).startswith(f"process {holder.pid} on ")
        lock(tmp_path / "run").close()
    finally:
        holder.communicate("\n")
