"""`cory-new`: the folder that it makes, and that what its README says to type works there."""

import re
import shlex
import sys
from functools import partial
from pathlib import Path

import pytest

from cory import load_team
from cory.config import ConfigError
from cory.report import compare
from cory.runtime import new_project as new
from cory.runtime.new_project import ASSETS
from tests.support.commands import Command, metrics
from tests.support.warm import Fork, WarmCommand


def compare_runs(words: list[str]) -> None:
    """`cory-compare <words>`"""
    sys.argv = ["cory-compare", *words]
    compare.main()


def test_what_is_there_is_not_touched(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine").touch()
    monkeypatch.setattr(sys, "argv", ["cory-new", str(tmp_path)])
    with pytest.raises(SystemExit, match=f"error: .*File exists: '{tmp_path}'"):
        new.main()
    assert [*tmp_path.iterdir()] == [tmp_path / "mine"]


@pytest.mark.slow
def test_what_its_readme_says_to_type_works(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    source = "from cory.runtime.new_project import main; main()"
    command = Command(tmp_path, ["-c", source, str(folder)])
    assert command.wait() == 0 and command.out.endswith(
        f"cd {folder}; README.md says what to type\n"
    )
    typed = re.findall(r"^    (cory-.*?) *(?:#.*)?$", (folder / "README.md").read_text(), re.M)
    assert len(typed) == 7
    short = ["algorithm.iterations=2", "evaluation.samples=1"]
    short += ["algorithm.prompts_per_iteration=16", "algorithm.minibatch_size=16"]
    for words in typed:
        name, *rest = words.split()
        few = [*short] if name == "cory-train" else []
        few += ["seed=0"] if any(word.startswith("sweep=") for word in rest) else []  # of several
        started = (
            WarmCommand(folder, [*rest, *few])
            if name == "cory-train"
            else Fork(folder, partial(compare_runs, rest))
        )
        assert started.wait(600) == 0, (words, started.out, started.err)
    assert "the single agent" in started.out  # beside which the team was not sampled equally here
    runs = sorted(path.parent for path in folder.rglob("record.json"))
    assert len(runs) == 3 + 4 + 2
    for run_dir in runs:
        assert all(0 < line["objective/score/agent_0"] < 1 for line in metrics(run_dir))
    for name in ("curves.png", "sweep.png"):
        assert (folder / name).stat().st_size > 10_000


def test_the_page_shows_an_example_of_a_team_whole() -> None:
    page = (ASSETS.parents[1] / "docs" / "own.md").read_text()
    text = (ASSETS / "team" / "calculator.py").read_text()
    assert text.split('"""\n\n', 1)[1] in page


@pytest.mark.slow
def test_the_examples_of_teams_are_trained(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "mine"
    monkeypatch.setattr(sys, "argv", ["cory-new", "--team", str(folder)])
    new.main()
    typed = re.findall(r"^    cory-train (.*)$", (folder / "README.md").read_text(), re.M)
    assert len(typed) == 3
    few = ["algorithm.prompts_per_iteration=8", "algorithm.minibatch_size=8"]
    few += ["algorithm.iterations=1", "evaluation.samples=1", "evaluation.prompts=4"]
    speakers = {
        "guess": ["guesser"],
        "nim": ["first", "second"],
        "calculator": ["solver", "checker"],
    }
    for words in typed:
        name = (re.findall(r"(\w+)\.py", words) or ["guess"])[0]
        started = WarmCommand(folder, [*shlex.split(words), *few, f"run_dir={name}"])
        assert started.wait(600) == 0, (words, started.out, started.err)
        assert "rewards: algorithm.play returns them" in started.err
        assert f"\n  {speakers[name][0]}: " in started.out
        (line,) = metrics(folder / name)
        for who in [*speakers[name], "team"]:
            assert f"eval/score/{who}" in line and f"rollout/return/{who}" in line
        agents = {path.name for path in (folder / name / "agents").iterdir()}
        assert agents == {*speakers[name]}
    monkeypatch.chdir(folder)
    said = load_team("nim", "cpu").ask("Heap 9", columns={"heap": 9}, seed=3)
    assert said[0].role == "first" and [one.role for one in said[1:2]] in ([], ["second"])
    with pytest.raises(ConfigError, match=r"nim\.py, line 7: KeyError"):
        load_team("nim", "cpu").ask("Heap 9")
