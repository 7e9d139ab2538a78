"""trackio: what it is given, what its database holds, also of a run that was resumed."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cory.config import ConfigError
from cory.episode import Episode, Prompt, Turn
from cory.runs.mirrors.mirror import mirrors_of
from cory.runs.mirrors.trackio_mirror import RUN_NAME, TrackioMirror, show_hint
from cory.runs.run_dir import write_settings
from cory.runtime import before
from cory.runtime.before import refuse_early
from tests.support.composing import compose_config, parsed

TURN = Turn("agent_0", "pioneer", 0, "seen", "said", [1], [2], score=0.25, credit=0.5)
EPISODE = Episode(Prompt("p-1", "a query"), [TURN])
ROW = dict(
    iteration=3, prompt="p-1", role="pioneer", agent="agent_0", context="seen", response="said",
    score=0.25, credit=0.5,
)  # fmt: skip


class FakeRun:
    """Keeps what it is given."""

    def __init__(self, **words: Any) -> None:
        self.words, self.logged, self.finished = words, [], False  # type: ignore[var-annotated]

    def log(self, metrics: dict[str, Any], step: int) -> None:
        self.logged.append((step, metrics))

    def finish(self) -> None:
        print("trackio says how it went")
        self.finished = True


def table(columns: list[str], data: list[list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in data]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in place of trackio, which may not be installed."""

    def init(**words: Any) -> FakeRun:
        print("trackio says what it does")
        if words["project"].startswith("registry-"):
            raise ValueError("names beginning with 'registry-' are reserved")
        return FakeRun(**words)

    monkeypatch.setitem(sys.modules, "trackio", SimpleNamespace(init=init, Table=table))  # type: ignore[arg-type]


@pytest.mark.usefixtures("fake")
def test_trackio_gets_name_group_settings_metrics_and_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mirror,) = mirrors_of(parsed("trackio=films", "seed=7"), tmp_path, None, 0)
    assert isinstance(mirror, TrackioMirror)
    mirror.log(3, {"objective/score/agent_0": 0.5})
    mirror.log_samples(3, [EPISODE])
    mirror.finish()
    run = mirror.run
    assert (run.words["project"], run.words["group"]) == ("films", "quickstart")
    assert run.words["name"].startswith("quickstart/seed7/")
    assert run.words["config"]["seed"] == 7
    assert run.logged == [(3, {"objective/score/agent_0": 0.5}), (3, {"samples": [ROW]})]
    assert run.finished
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("fake")
def test_a_directory_keeps_its_name_and_another_one_has_another(tmp_path: Path) -> None:
    config = parsed("trackio=films")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, resumed, other = (TrackioMirror(config, tmp_path / name).run.words for name in "aab")
    assert first["name"] == resumed["name"] == (tmp_path / "a" / RUN_NAME).read_text()
    assert resumed["resume"] == "allow"
    assert other["name"] != first["name"]


@pytest.mark.usefixtures("fake")
def test_a_name_that_trackio_refuses_is_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^trackio=registry-a: names beginning with 'registry-'"):
        TrackioMirror(parsed("trackio=registry-a"), tmp_path)


def test_without_the_package_a_run_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(before, "find_spec", {"trackio": None}.__getitem__)
    said = r'^trackio=films needs the package trackio: pip install "\.\[trackio\]"$'
    with pytest.raises(ConfigError, match=said):
        refuse_early(tmp_path / "run", parsed("trackio=films"))
    refuse_early(tmp_path / "run", parsed())


def test_the_end_of_a_run_says_how_to_look_at_it(tmp_path: Path) -> None:
    write_settings(tmp_path, compose_config("trackio='my films'"), [])
    assert show_hint(tmp_path) == ("trackio: to look at the run: trackio show --project 'my films'")
    write_settings(tmp_path, compose_config(), [])
    assert show_hint(tmp_path) == ""


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read once, by the import
    storage = pytest.importorskip("trackio.sqlite_storage").SQLiteStorage
    config = parsed("trackio=films", "seed=7")
    for iterations in ((0, 1), (2,)):
        mirror = TrackioMirror(config, tmp_path)
        for iteration in iterations:
            mirror.log(iteration, {"objective/score/agent_0": 0.5 * iteration, "a": math.nan})
        mirror.log_samples(3, [EPISODE])
        mirror.finish()
    (name,) = storage.get_runs("films")
    assert name == (tmp_path / RUN_NAME).read_text()
    rows = storage.get_logs("films", name)
    scores = [(row["step"], row["objective/score/agent_0"]) for row in rows if len(row) > 3]
    assert scores == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert [row["samples"]["_value"] for row in rows if "samples" in row] == [[ROW], [ROW]]
