"""What was typed, and where it would write: refused in one line that names key, value and rule."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cory import train
from cory.runs.run_dir import SETTINGS

Typed = Callable[..., tuple[int, str, str]]
MISSPELT = "algorithm.clip_rang is not a setting; did you mean algorithm.clip_range?\n"


@pytest.fixture
def typed(command: Typed, monkeypatch, tmp_path: Path) -> Typed:
    """The command in this process, whose workers are not started: each is named on stdout."""
    launch = lambda run_dir, *_, **how: print("launch", run_dir) or True  # noqa: E731
    monkeypatch.setattr(train, "launch", launch)

    def call(*words: str) -> tuple[int, str, str]:
        places = [f"hydra.run.dir={tmp_path}/run", f"hydra.sweep.dir={tmp_path}/sweep"]
        typed = {word.partition("=")[0] for word in words}
        return command(*words, *(one for one in places if one.partition("=")[0] not in typed))

    return call


def assert_refused(answer: tuple[int, str, str], *said: str) -> None:
    code, out, err = answer
    assert code == 1, answer
    assert err.startswith("error: ") and err.count("\n") == 1, err
    for part in said:
        assert part in err, (part, err)
    assert "launch" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # a misspelt key, wherever it stands
        ("algorithm.clip_rang=0.1", MISSPELT),
        ("--config-dir={tmp} experiment=typo", MISSPELT),
        ("modl=tiny", "modl is not a setting; did you mean model?"),
        ("iterations=3", "iterations is not a setting; did you mean algorithm.iterations?"),
        ("model.template.mood=1", "model.template.mood: an argument of a chat template's"),
        ("algorithm=ppo algorithm.swap_every=3", "swap_every is not a setting of algorithm=ppo\n"),
        ("fidelity=official_cory algorithm=ppo", "is not a setting of algorithm=ppo\n"),
        # an option that a group does not have
        ("algorithm=pppo", "algorithm=pppo is not an option; did you mean ppo? (cory, "),
        ("sweep=fig3", "sweep=fig3 is not in conf/sweeps; did you mean maft/fig3 or cory/fig3?\n"),
        ("sweep=cory/fig3 only=gsm8k_ppo", "only=gsm8k_ppo: sweep=cory/fig3 has imdb_ppo, imdb_"),
        ("seed=null model=null", "model=null: choose an option of the group\n"),
        ("reward=xyz", "reward=xyz is not an option (classifier, "),
        ("scale=medium model=gpt2_large", "scale=medium has no form of reward=sentiment_tiny (no"),
        ("model=Qwen/Qwen3-0.6B", "is not an option: type model.path=Qwen/Qwen3-0.6B\n"),
        # other programs' form
        ("--learning_rate=1e-4", "--learning_rate=1e-4: settings are typed without dashes, as lea"),
        ("--num_train_epochs 3", "without dashes, as num_train_epochs=<value>\n"),
        ("experiment=cory_imdb", "did you mean cory/imdb_ppo? ("),
        # a setting without its group
        ("learning_rate=1e-4", "did you mean algorithm.learning_rate?"),
        ("--config-dir={tmp}/nowhere experiment=typo", "nowhere' not found"),
        # what is no setting at all
        ("algorithm.clip_range", "algorithm.clip_range has no value: a setting is typed as <name>"),
        # what has to be typed
        ("algorithm=team", "algorithm.play has no value: type algorithm.play=my_team.py:play\n"),
        ("model=own", "model.path has no value: type model.path=Qwen/Qwen3-0.6B\n"),
        ("--config-dir={tmp} experiment=broken", "broken.yaml"),
        # what this source of prompts or words does not read
        ("task.path=mine.csv", "task.path=mine.csv: needs task.source=path or hub, got package\n"),
        ("task=gsm8k task.kinds=[add]", "task.kinds=[add]: needs task.source=generated, got hub"),
        # a value
        ("~algorithm.clip_range", "algorithm.clip_range: no value given"),
        # one folder for several runs
        ("-m seed=0,1 run_dir=mine", "run_dir= is one folder for all runs"),
        ("sweep=spag/fig3a seed=0 algorithm.kl_coef=0,1", "kl_coef=0,1: a sweep has one value"),
        ("seed=0 -m model.path={tmp}/no", "error: 0: model.path={tmp}/no: there is no such"),
    ],
)  # fmt: skip
def test_what_was_typed_is_refused_in_one_line(words: str, said: str, typed, tmp_path) -> None:
    files = {"typo": "algorithm:\n  clip_rang: 0.1\n", "broken": "algorithm: [\n"}
    (tmp_path / "experiment" / "below").mkdir(parents=True)
    (tmp_path / "experiment" / "below" / "typo.yaml").write_text("{}\n")
    for name, text in files.items():
        file = tmp_path / "experiment" / f"{name}.yaml"
        file.write_text(f"# @package _global_\n{text}")
    assert_refused(typed(*words.format(tmp=tmp_path).split()), said.format(tmp=tmp_path))
    assert not list(tmp_path.rglob(SETTINGS)) and not (tmp_path / "sweep").exists()


def test_an_option_of_ones_own_takes_no_name_that_is_taken(typed: Typed, tmp_path: Path) -> None:
    file = tmp_path / "model/tiny.yaml"
    file.parent.mkdir()
    file.write_text("{}\n")
    answer = typed(f"--config-dir={tmp_path}", "model=tiny")
    assert_refused(answer, f"{file}: model=tiny is an option of cory already; give the")


def test_a_launcher_is_refused(typed: Typed, monkeypatch) -> None:
    said = "cory.train starts its own workers, without torchrun, deepspeed or"
    assert_refused(typed("--local_rank=0"), said)  # what deepspeed adds
    monkeypatch.setenv("RANK", "0")  # as torchrun does
    assert_refused(typed(), said)


def test_several_nodes_need_a_directory_that_all_of_them_see(typed: Typed, tmp_path: Path) -> None:
    words = ("hardware=multinode", "hardware.device=cpu", "hardware.zero_stage=0")
    words += ("hardware.gradient_checkpointing=false", "hardware.processes=1")
    words += ("hardware.rendezvous=127.0.0.1:1",)
    answer = typed(*words, f"hydra.run.dir={tmp_path}/2026-01-02_03-04-05_seed0")
    assert_refused(answer, "hardware.nodes=2 needs run_dir=<a folder that all nodes see>")
