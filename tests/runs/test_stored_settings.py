"""Settings on disk: secrets stay out of them, and a damaged run stands in nobody's way."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.config import parse_config
from cory.runs.run_dir import unfinished_run, write_settings
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
