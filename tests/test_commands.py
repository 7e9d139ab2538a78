"""Every command of README.md, CONTRIBUTING.md and docs/ can be typed as it stands there.

Settings are composed and checked, options and targets looked up. What needs no GPU, hub, server,
account, package or run of the reader's also runs, with settings that make it short.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override

from cory import train
from cory.config import parse_config, read_sweep
from cory.config.sweep_files import key_of
from cory.runtime.sweeps import jobs_of
from tests.support.chat_models import save_chat_model
from tests.support.commands import Command
from tests.support.composing import CONF, compose_config
from tests.support.warm import WarmCommand

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = [README, *(page.read_text(encoding="utf-8") for page in PAGES)]
REWARDS = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8")
DOTS = re.MULTILINE | re.DOTALL
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", DOTS)
PROGRAM = r"(?:python -m|python scripts/|make|cory-\w+|pip install)\s"
GIVEN = "given"  # in the place of <what the reader gives>
OTHERS = ("git", "cd", "source", "export", "'first=$(scontrol'", "scontrol", "'['")  # of the system
ASSETS = ROOT / "cory" / "assets"
TYPED_THERE = "".join((ASSETS / own / "README.md").read_text() for own in ("project", "team"))


def commands() -> Iterator[str]:
    """Each command in a block of shell or within a line, from the name of the program on."""
    for text in TEXTS:
        lines = re.findall(rf"`({PROGRAM}[^`]*)`", BLOCK.sub("", text))
        for kind, block in BLOCK.findall(text):
            assert kind == "bash" or not re.search(f"^{PROGRAM}", block, re.MULTILINE), block
            lines += block.replace("\\\n", " ").splitlines() if kind == "bash" else []
        for line in lines:
            words = shlex.split(re.sub(r"<[^>]*>", GIVEN, line.replace("\n", " ")), comments=True)
            if words[:1] == ["srun"]:
                words = [re.sub(r"\$\w+", "2", word) for word in words[words.index("python") :]]
            for command in shlex.join(words).split(" '&&' "):
                if command and not command.startswith(OTHERS):
                    yield command.replace("cory-train", "python -m cory.train")


ALL = sorted(set(commands()))
TRAIN = [shlex.split(command)[3:] for command in ALL if command.startswith("python -m cory.train")]
PROGRAMS = [command for command in ALL if not command.startswith("python -m cory.train")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's: with the files and models that commands name, and those of `cory-new`."""
    made = tmp_path_factory.mktemp("reader")
    for family in ("qwen3", "gemma3"):
        save_chat_model(family, made / f"my-{family}", max_position_embeddings=4096)
    rows = [json.dumps({"prompt": f"What is {n} plus 1?", "answer": n + 1}) for n in range(20)]
    (made / "data").mkdir()
    for name in ("mine", "questions", "data/train", "data/test"):
        own = rows[10:] if name.endswith("test") else rows[:10] if "/" in name else rows
        (made / f"{name}.jsonl").write_text("\n".join(own))
    score = "def score(completions, **more):\n    return [len(set(c)) for c in completions]\n"
    play = "async def play(prompt, team):\n    said = await team.solver.say(prompt.text)\n"
    play += "    return {'planner': 0, 'solver': len((await team.planner.say(said.text)).text)}\n"
    (made / "mine.py").write_text(score + play)
    block = re.search(r"^```python\n(# my_rewards.py.+?)^```", REWARDS, DOTS)
    assert block is not None
    (made / "my_rewards.py").write_text(block[1])
    for own in ("project", "team"):
        for place in ("experiment", "sweeps"):
            (made / place).mkdir(exist_ok=True)
            for file in (ASSETS / own / place).glob("*.yaml"):
                (made / place / file.name).write_text(file.read_text())
    return made


def ends(override: Override) -> list[str]:
    """The first and the last word of one that stands for several."""
    if not override.is_sweep_override():
        return [override.input_line or ""] * 2
    value, key = override.value(), override.key_or_group
    several = isinstance(value, IntervalSweep)
    values = [value.start, value.end] if several else [*override.sweep_string_iterator()]
    return [f"{key}={values[0]}", f"{key}={values[-1]}"]


def runs(typed: Sequence[str]) -> list[list[str]]:
    """The words of the first and the last run of a command."""
    words = [word for word in typed if "=" in word and not word.startswith("hydra")]
    own = {key_of(word): word.partition("=")[2] for word in words}
    if "model.path" in own and not {"model", "experiment", "sweep"} & {*own}:
        words.append("model=own")  # as the command does
    if "sweep" in own:
        only = own["only"].split(",") if "only" in own else []
        folders = [CONF, *([Path.cwd()] if "--config-dir" in typed else [])]
        sweep = read_sweep(own["sweep"], own.get("scale", "paper"), folders, only)
        found = [jobs_of(sweep, [word for word in words if not word.startswith("only=")])[0].words]
    else:
        parsed = OverridesParser.create().parse_overrides(words)
        found = [list(one) for one in zip(*map(ends, parsed), strict=True)] or [[]]
    search = [f"hydra.searchpath=[file://{Path.cwd()}]"] if "--config-dir" in typed else []
    return [[*one, *search] for one in ([found[0]] if found[0] == found[-1] else found)]


@pytest.mark.parametrize("typed", TRAIN, ids=" ".join)
def test_settings_are_composed_and_checked(typed, folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    for words in runs(typed):
        parse_config(compose_config(*words))
    if "--config-dir" in typed:  # tests/runtime/test_new_project.py runs what is typed there
        assert f"    cory-train {shlex.join(typed)}" in TYPED_THERE


# words of commands that need more than two cores and what a clone has
MORE = re.compile(
    rf"{GIVEN}|hardware=|sampler=vllm"  # a run or file of the reader's; GPUs, servers
    r"|endpoint|wandb\.mode=online|model=(qwen3_4b|phi3_mini)|verifier_gsm8k"  # accounts, the hub
    r"|--config-dir|--help|--cfg"  # run by tests/runtime/test_new_project.py; shown only
)
SHORT = {
    "algorithm.iterations": "1",
    "algorithm.prompts_per_iteration": "8",
    "algorithm.minibatch_size": "8",
    "evaluation.prompts": "4",
    "seed": "0",
}


def shortened(typed: Sequence[str]) -> str:
    """The command with few prompts, in the small form of its experiment or sweep."""
    named = {key_of(word) for word in typed} & {"experiment", "sweep"}
    few = {**SHORT, **({"scale": "small"} if named else {})}
    few |= {"parallel_runs": "1"} if "sweep" in named or "-m" in typed else {}
    if "experiment=spag/llama2_im" in typed:
        few |= {"task.max_turns": "2", "algorithm.opponents.scripted": "null"}
    kept = [word for word in typed if key_of(word) not in few]
    return shlex.join([*kept, *(f"{key}={value}" for key, value in few.items())])


# what runs -> a command that it stands for
RUN = {shortened(one): " ".join(one) for one in TRAIN if not MORE.search(" ".join(one))}


@pytest.mark.slow
@pytest.mark.parametrize("words", RUN, ids=[*RUN.values()])
def test_it_runs(words: str, folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    typed = shlex.split(words)
    # the first of them as users start it, the others from where all is imported
    first = words == next(iter(RUN))
    answer = (
        Command(tmp_path, ["-m", "cory.train", *typed]) if first else WarmCommand(tmp_path, typed)
    )
    assert answer.wait(300) == 0, answer.err
    assert list(tmp_path.rglob("record.json"))


def test_the_readme_is_short_and_names_what_to_type_first() -> None:
    assert len(README.splitlines()) <= 120
    assert {"make demo", "make test"} <= {*PROGRAMS} and len(TRAIN) > 50 and len(RUN) > 20


def test_help_shows_the_groups(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["cory-train", "--help"])
    train.main()
    shown = capsys.readouterr().out
    assert "algorithm   how agents act together and learn" in shown
    names = {
        file.stem: {*yaml.safe_load(file.read_text(encoding="utf-8"))["sweeps"]}
        for file in (ROOT / "conf" / "sweeps").glob("*.yaml")
    }
    folders = [folder for folder in (ROOT / "conf" / "experiment").iterdir() if folder.is_dir()]
    experiments = {own.name: {file.stem for file in own.glob("*.yaml")} for own in folders}
    first, second = re.split("^ +sweep  ", shown, flags=re.M)
    for text, listed in ((first, experiments), (second, names)):
        for paper, own in listed.items():
            block = re.search(rf"^ +{paper}/ (.*?)(?=^ +\w+/ |\Z)", text, re.M | re.S)
            assert block is not None and own == {*block[1].split()}, paper


@pytest.mark.parametrize("command", PROGRAMS)
def test_a_program_has_what_is_typed(command: str) -> None:
    name, *words = shlex.split(command)
    project, makefile = ((ROOT / file).read_text() for file in ("pyproject.toml", "Makefile"))
    if name == "make":  # refuses a target that there is not
        subprocess.run(["make", "--dry-run", *words], cwd=ROOT, check=True, capture_output=True)
        assert all(f"$({key_of(word)})" in makefile for word in words if "=" in word)
    elif name == "pip":
        extras = [extra for one in re.findall(r"\.\[(.+)\]", command) for extra in one.split(",")]
        assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)
    elif name == ".venv/bin/pytest":
        assert all((ROOT / word).exists() for word in words if word.startswith("tests"))
    else:
        module = re.findall(rf'^{name} = "([\w.]+):main"$', project, re.MULTILINE)
        file = words.pop(0) if name == "python" else f"{module[0].replace('.', '/')}.py"
        source = (ROOT / file).read_text(encoding="utf-8")
        options = [word.removeprefix("--") for word in words if word.startswith("--")]
        assert all(re.search(rf'"(--)?{option}"', source) for option in options)
        if "experiment=" in command:
            parse_config(compose_config(*words))


def test_a_checkout_does_not_hide_the_package() -> None:
    """Beside a folder `cory`, as of a clone, `from cory import run` finds nothing."""
    clones = [into for text in TEXTS for into in re.findall(r"git clone <[^>]*> ?(\S*)", text)]
    assert clones and not {"", "&&", "cory"} & {*clones}


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


def test_a_question_reaches_the_script_as_it_is() -> None:
    asked = """Is $100 "100 $a" or '`b`'? \\ c"""
    words = ["make", "--dry-run", "ask", "RUN=r", f"QUESTION={asked}"]
    out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in out.splitlines() if "scripts/ask.py" in line)
    assert shlex.split(line)[-2:] == ["r", asked]


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
