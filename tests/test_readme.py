"""Every command of the README runs, with settings that make it short."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import Command
from tests.support.warm import WarmCommand

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", README, flags=re.S)
LINES = [line.split("#")[0].strip() for block in BLOCKS for line in block.splitlines()]
SHORT = [
    "scale=small",  # the hub is out of reach in a test
    *("algorithm.iterations=1", "algorithm.prompts_per_iteration=4", "algorithm.minibatch_size=4"),
    "evaluation.prompts=4",
]
# two commands that differ by nothing but scale=small are one here
TRAIN = sorted(
    {
        " ".join(word for word in line.split() if word not in SHORT)
        for line in LINES
        if line.startswith("python -m cory.train")
    }
)


def test_the_readme_is_short_and_names_its_commands() -> None:
    assert len(README.splitlines()) <= 121
    assert len(TRAIN) >= 5


def test_a_checkout_does_not_hide_the_package() -> None:
    """Beside a folder `cory`, as of a clone, `from cory import run` finds nothing."""
    pages = [README, *(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))]
    clones = [into for page in pages for into in re.findall(r"git clone <[^>]*> ?(\S*)", page)]
    assert clones and not {"", "&&", "cory"} & set(clones)


def only_shows(command: str) -> bool:
    return "--help" in command


@pytest.mark.parametrize(
    "command",
    [
        command if only_shows(command) else pytest.param(command, marks=pytest.mark.slow)
        for command in TRAIN
    ],
)
def test_a_train_command_runs(command: str, tmp_path: Path) -> None:
    words = command.split()[3:]
    if not only_shows(command):
        words += [word for word in SHORT if word not in words]
    if any(word.startswith("sweep=") for word in words):
        words += ["seed=0", "parallel_runs=1"]  # a fork does not end joblib's processes
    if any(word.startswith("experiment=spag/") for word in words):
        words += ["task.max_turns=2", "algorithm.opponents.scripted=null"]
    # the first of them as users start it, the others from where all is imported
    as_users = command == TRAIN[0]
    answer = (
        Command(tmp_path, ["-m", "cory.train", *words])
        if as_users
        else WarmCommand(tmp_path, words)
    )
    assert answer.wait() == 0, answer.err
    if "--help" in words:
        assert "algorithm   how agents act together and learn" in answer.out
    if only_shows(command):
        assert not list(tmp_path.rglob("*.yaml"))
        return
    records = len(list(tmp_path.rglob("record.json")))
    assert records == (3 if "seed=0" in words else 1)


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z%-]+):", makefile, flags=re.M))
    named = set(re.findall(r"`?make ([a-z0-9-]+)", README))
    assert {"demo", "test"} <= named
    for name in named:
        assert name in targets or (name.startswith("reproduce-") and "reproduce-%" in targets)


@pytest.mark.parametrize(
    ("words", "table", "sweep"),
    [
        ([], "--scale paper", "scale=paper"),
        (["SCALE=small", "SEEDS=0,1"], "--scale small", "scale=small seed=0,1"),
        (["PARALLEL=2"], "--scale paper", "scale=paper parallel_runs=2"),
    ],
)
def test_the_words_of_reproduce_reach_the_commands(words, table, sweep) -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "reproduce-cory-fig3", *words],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    said = " ".join(shown.replace("\\\n", " ").split())
    assert f"scripts/table.py cory fig3 {table} ||" in said
    assert f"cory.train sweep=cory/fig3 {sweep} ||" in said


def test_a_demo_needs_no_tools_of_tests_and_takes_them_where_they_are(tmp_path: Path) -> None:
    def shown(target: str, there: str) -> str:
        (tmp_path / there / "bin").mkdir(parents=True, exist_ok=True)
        (tmp_path / there / "bin" / there).touch()
        words = ["make", "--dry-run", target, f"VENV={tmp_path / there}"]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert '--editable "." "torch==' in shown("demo", "nothing")
    assert '--editable ".[dev]" "torch==' in shown("test", "runs")
    for target, there in (("demo", "runs"), ("demo", "installed"), ("test", "installed")):
        assert "pip install" not in shown(target, there)
