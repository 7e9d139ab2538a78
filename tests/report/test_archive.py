"""What is kept of runs: exact, noticed when changed, and never replaced in silence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from cory.report.pages.write import checked, gather_tables
from cory.report.records import archive, gather
from tests.support.made_up_runs import WriteRun, lines_of
from tests.support.reporting import made, places_in, write_all


@pytest.mark.slow
def test_an_archived_run_is_what_was_run(write_run: WriteRun, tmp_path: Path) -> None:
    run_dir = write_run("cory/imdb_cory", 1, lines_of(2, 4, 2, 1), answers={"Hello": "you"})
    made(tmp_path)
    path = tmp_path / "docs/cory/records/small/imdb_cory/seed1.json"
    (run,) = archive.read(path.parent.parent)
    asked = gather.load_run(run_dir, "cory/imdb_cory", "small")
    assert (run.settings, run.probes) == (asked.settings, asked.probes)
    assert run.record["settings_sha256"] and "final" not in run.record
    assert "run_dir:" in (run_dir / "config.yaml").read_text()
    assert "run_dir" not in run.settings  # nobody's folders are committed
    for line, whole in zip(run.lines, asked.lines, strict=True):  # exact, and nothing else
        assert line == {k: v for k, v in whole.items() if k == "iteration" or archive.kept(k)}
    assert "ppo/loss/policy/agent_0" in asked.lines[0] and len(run.lines[0]) > 10
    before = path.read_bytes()
    path.unlink()
    made(tmp_path)
    assert path.read_bytes() == before == archive.encode(run).encode()


@pytest.mark.slow
def test_pages_come_out_the_same_without_outputs(write_run: WriteRun, tmp_path: Path) -> None:
    write_all(write_run)
    (write_run("cory/imdb_ppo", 7, lines_of(2, 20, 1, 7)) / "record.json").unlink()
    made(tmp_path)
    page = tmp_path / "docs/cory/fig3_small.md"
    before = page.read_bytes(), page.with_suffix(".png").read_bytes()
    assert b"cory/imdb_ppo/seed7" in before[0]
    shutil.rmtree(tmp_path / "outputs")
    page.unlink()
    made(tmp_path)
    assert (page.read_bytes(), page.with_suffix(".png").read_bytes()) == before


@pytest.mark.slow
def test_a_refusal_goes_when_its_run_is_there(write_run: WriteRun, tmp_path: Path) -> None:
    run_dir = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0), clean=False)
    found, _ = made(tmp_path)
    assert [refused.name for refused in found.refused] == ["cory/imdb_ppo/seed0"]
    shutil.rmtree(run_dir)
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    found, _ = made(tmp_path)
    assert not found.refused and len(found.runs) == 1
    assert not (tmp_path / "docs/cory/records/small/refused.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("record", "wins", "note"),
    [
        ({"began": "2027-01-01T00:00:00+00:00"}, True, "replaced by one of commit aaaaaaa"),
        ({"began": "2025-01-01T00:00:00+00:00"}, False, "the archive keeps its own run"),
        (
            {"began": "2027-01-01T00:00:00+00:00", "clean": False},
            False,
            "the archive keeps its own run of commit aaaaaaa: its tree was clean",
        ),
    ],
)
def test_a_worse_run_never_replaces_an_archived_one_in_silence(
    write_run: WriteRun, tmp_path: Path, record: dict[str, Any], wins: bool, note: str
) -> None:
    run_dir = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    shutil.rmtree(run_dir)
    write_run("cory/imdb_ppo", 0, lines_of(9, 20, 1, 0), **record)
    places = places_in(tmp_path)
    table = checked(places, "cory", "fig3", "small")
    done = gather_tables([table], places, tmp_path / "outputs", allow_dirty=True)
    assert [note in line for line in done.notes] == [True]
    (run,) = archive.read(places.records("cory", "small"))
    assert (run.lines[-1]["objective/score/agent_0"] > 5) == wins


@pytest.mark.slow
def test_a_run_that_says_the_same_again_replaces_nothing(
    write_run: WriteRun, tmp_path: Path
) -> None:
    run_dir = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    path = tmp_path / "docs/cory/records/small/imdb_ppo/seed0.json"
    before = path.read_bytes()
    shutil.rmtree(run_dir)
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0), began="2027-01-01T00:00:00+00:00")
    places = places_in(tmp_path)
    table = checked(places, "cory", "fig3", "small")
    done = gather_tables([table], places, tmp_path / "outputs", allow_dirty=False)
    (note,) = done.notes
    assert note.endswith(
        "the archive keeps its own run of commit aaaaaaa: the new one has the same numbers"
    )
    assert path.read_bytes() == before and not done.written


@pytest.mark.slow
def test_an_archived_run_counts_while_another_of_its_seed_does_not_finish(
    write_run: WriteRun, tmp_path: Path
) -> None:
    run_dir = write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    (run_dir / "record.json").unlink()
    found, text = made(tmp_path)
    assert [run.name for run in found.runs] == ["cory/imdb_ppo/seed0"] and not found.refused
    said = "an earlier run; the latest is left out: failed or stopped (40 of"
    assert f"`cory/imdb_ppo/seed0`: {said}" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"seed":0', '"seed":1', "its sha256 is another one"),
        ('"wall_s":90.0', '"wall_s":9.0', "its sha256 is another one"),
        ('"metrics": [', '"metrics": [[],', "its sha256 is another one"),
        ('"record"', '"recorded"', "its sha256 is another one"),
        ("{", "", "cannot be read"),
    ],
)
def test_a_record_that_was_changed_is_named(
    write_run: WriteRun, tmp_path: Path, old: str, new: str, said: str
) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    path = tmp_path / "docs/cory/records/small/imdb_ppo/seed0.json"
    text = path.read_text()
    changed = text.replace(old, new, 1)
    assert changed != text
    path.write_text(changed)
    for again in (lambda: archive.read(path.parent.parent), lambda: made(tmp_path)):
        with pytest.raises(ValueError, match=r"imdb_ppo/seed0\.json cannot be read") as error:
            again()
        assert said in str(error.value) and "\n" not in str(error.value)


def test_a_record_in_anothers_place_is_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("cory/imdb_ppo", 0, lines_of(2, 20, 1, 0))
    made(tmp_path)
    folder = places_in(tmp_path).records("cory", "small")
    (folder / "imdb_ppo/seed0.json").rename(folder / "imdb_ppo/seed0 copy.json")
    with pytest.raises(ValueError, match=r"seed0 copy.json holds cory/imdb_ppo/seed0 of scale"):
        archive.read(folder)
    (folder / "refused.json").write_text("[{")
    with pytest.raises(ValueError, match=r"refused\.json cannot be read"):
        archive.read_refused(folder)


def test_the_error_of_a_mean_score_is_that_of_its_draw() -> None:
    """(n - 1) times its square is the variance over turns; of scores 0 and 1, that of the mean."""

    def run(reward: str, line: dict[str, float]) -> archive.Archived:
        settings = {"algorithm": {"prompts_per_iteration": 17}, "reward": {"name": reward}}
        record: dict[str, Any] = {}
        return archive.Archived("e", 0, "small", "paper", record, None, [], settings, [line], [])

    kept = {"objective/score/agent_1": 0.2, "objective/score_std/agent_1": 2.0}
    (line,) = run("sentiment", kept).measured
    assert line == {**kept, "objective/score_se/agent_1": 0.5}
    mean = {"objective/score/agent_1": 0.2, "objective/score/turn_1": 0.2}
    (line,) = run("sentiment", mean).measured
    assert line == mean
    (line,) = run("exact_match", mean).measured
    assert line == {**mean, "objective/score_se/agent_1": pytest.approx(0.4 / 4)}
