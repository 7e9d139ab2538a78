"""Tasks, rewards, games and algorithms of other packages, found by their entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl

from cory.config import ConfigError, builder, game, option, plug_in_folders
from cory.config.options import KINDS
from cory.games import rules_of
from cory.games.state import GameState
from cory.inference import load_team
from cory.runtime.hydra_setup import CONF, OtherPlaces, refuse_same_names
from tests.support.commands import Command, last_wins, metrics
from tests.support.refusals import refusal

PACKAGE = '''"""Options for cory."""

from pydantic import PositiveInt

from cory.config import Game, Option, Settings


class LengthConfig(Settings):
    """Settings of `reward=acme_length`."""

    name: str
    wanted: PositiveInt


LENGTH = Option(LengthConfig, "acme.length:Length")
LOST = Option(LengthConfig, "acme.length:Lost")
WITHOUT = Option(LengthConfig, "acme.nowhere:Length")
SNAP = Game("acme.length:Snap", one_wins=True)
NOTHING = 3
'''
LENGTH = '''"""A reward: how near a response is to the wanted number of tokens."""


class Length:
    def __init__(self, config, task, device) -> None:
        self.wanted = config.wanted

    def score(self, episodes) -> None:
        for episode in episodes:
            for turn in episode.turns:
                turn.score = -abs(len(turn.response_ids) - self.wanted)


class Snap:
    def __init__(self, judge) -> None:
        self.judge = judge
        self.roles, self.knows = ("first", "second"), "first"

    def outcome(self, position):
        return None

    def legal(self, position, text):
        return self.judge.mentions(text, position.word)
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs a package `acme` with these entry points; returns its folder."""

    def install(package: str = "acme", **groups: str) -> Path:
        site = tmp_path / "site"
        for file, text in (("__init__.py", PACKAGE), ("length.py", LENGTH)):
            path = site / package / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        about = site / f"{package}-1.0.dist-info"
        about.mkdir()
        about.joinpath("METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        lines = "".join(f"[cory.{group}]\n{points}\n" for group, points in groups.items())
        about.joinpath("entry_points.txt").write_text(lines)
        if str(site) not in sys.path:
            monkeypatch.syspath_prepend(str(site))
        # as if both had been installed before the interpreter started
        sys.path.append(f"{site}/{package}")
        monkeypatch.delitem(sys.modules, package, raising=False)
        return site / package

    yield install
    sys.path[:] = [place for place in sys.path if not place.startswith(str(tmp_path))]


def test_without_plug_ins_the_tables_are_all() -> None:
    assert plug_in_folders() == []
    for kind, (table, _) in KINDS.items():
        for name in table:
            assert (game(name) if kind == "game" else option(kind, name)) is table[name]


def test_an_entry_point_adds_an_option(installed: Callable[..., Path]) -> None:
    installed(rewards="acme_length = acme:LENGTH", games="snap = acme:SNAP")
    found = option("reward", "acme_length")
    assert found.settings.__name__ == "LengthConfig"
    reward = builder("reward", "acme_length")(
        found.settings(name="acme_length", wanted=3), None, None
    )
    assert reward.wanted == 3
    with pytest.raises(ConfigError, match=r"^task\.name=acme_length: must be one of a"):
        option("task", "acme_length")
    with pytest.raises(ConfigError, match=r"^reward\.name=acme: must be one of acme_l"):
        option("reward", "acme")
    assert game("snap").one_wins
    rules = rules_of("snap", "words")
    assert rules.roles == ("first", "second") and rules.legal(GameState("cat", 2), "a cat")


@pytest.mark.parametrize(
    ("points", "name", "said"),
    [
        ("exact_match = acme:LENGTH", "exact_match", "'exact_match' is there already"),
        ("exact_match = acme:LENGTH", "sentiment", "'exact_match' is there already"),
        ("lost = acmee:LENGTH", "lost", "cannot be imported: ModuleNotFoundError: No module named"),
        ("lost = acme:LENGHT", "lost", "cannot be imported: AttributeError: module 'acme' has no"),
        ("lost = acme:NOTHING", "lost", "must be a cory.config.Option, got int"),
        ("lost = acme:SNAP", "lost", "must be a cory.config.Option, got Game"),
        ("x = acme:LOST", "x", "its builder acme.length:Lost cannot be imported: AttributeError"),
        ("x = acme:WITHOUT", "x", "its builder acme.nowhere:Length cannot be imported: ModuleNot"),
    ],
)
def test_a_plug_in_that_cannot_be_is_refused_by_name(
    points: str, name: str, said: str, installed: Callable[..., Path]
) -> None:
    installed(rewards=points)
    message = refusal(lambda: builder("reward", name))
    assert message.startswith(f"plug-in '{points}' of package acme") and said in message


def test_two_plug_ins_of_one_name_are_refused(installed: Callable[..., Path]) -> None:
    installed(rewards="x = acme:LENGTH")
    installed("other", rewards="x = other:LENGTH")
    with pytest.raises(ConfigError, match="reward 'x' is there already"):
        option("reward", "sentiment")


def test_what_lies_in_the_folder_conf_of_the_package(installed: Callable[..., Path]) -> None:
    package = installed(rewards="acme_length = acme:LENGTH", games="snap = acme:SNAP")
    assert plug_in_folders() == []
    (package / "conf" / "reward").mkdir(parents=True)
    assert plug_in_folders() == [package / "conf"]
    (package / "conf" / "reward" / "acme_length.yaml").write_text("name: acme_length\nwanted: 5\n")
    refuse_same_names(package / "conf")
    taken = package / "conf" / "reward" / "exact_match.yaml"
    taken.write_text("name: exact_match\n")
    with pytest.raises(ConfigError, match=r"reward=exact_match is an option of cory already"):
        OtherPlaces().manipulate_search_path(ConfigSearchPathImpl())


TEAM = '''"""Two agents with names of their own: the solver reads what the planner says."""

from cory.algorithms.ppo import build_ppo
from cory.config import Option, PPOConfig
from cory.algorithms.cory import shared_sum


class RelayConfig(PPOConfig):
    def policy_count(self):
        return 2


def build(config, parts):
    agents = parts.new_ppo_policies(["planner", "solver"])

    async def relay(prompt, cast):
        plan = await cast["planner"].say(prompt.text, "plan")
        await cast["solver"].say(plan.response + prompt.text, "solve")

    class Known:
        def new_ppo_policies(self, names):
            return agents

        def __getattr__(self, name):
            return getattr(parts, name)

    trainer = build_ppo(config, Known())
    trainer.play, trainer.assign_credit = relay, shared_sum
    return trainer


RELAY = Option(RelayConfig, "acme.team:build")
'''


@pytest.mark.slow
def test_a_run_with_a_team_and_a_reward_of_another_package(
    installed: Callable[..., Path], short: list[str]
) -> None:
    """As a user starts it: Hydra finds the options, the worker builds them, the run is paid so.

    Each agent answers, and nobody guesses how they do together.
    """
    package = installed(rewards="acme_length = acme:LENGTH", algorithms="relay = acme.team:RELAY")
    (package / "team.py").write_text(TEAM)
    relay = "defaults:\n  - /algorithm/ppo@_here_\n  - _self_\nname: relay\n"
    length = "name: acme_length\nwanted: 5\n"
    for group, name, text in (("algorithm", "relay", relay), ("reward", "acme_length", length)):
        folder = package / "conf" / group
        folder.mkdir(parents=True)
        (folder / f"{name}.yaml").write_text(text)
    place = package.parent
    words = last_wins([*short, "algorithm=relay"])
    words = [word for word in words if not word.startswith("reward")]
    words += ["reward=acme_length", "reward.wanted=9"]
    words += [f"run_dir={place}/run", "evaluation.team=true"]
    command = Command(place, ["-m", "cory.train", *words], PYTHONPATH=f"{CONF.parent}:{place}")
    assert command.wait() == 0, command.err
    assert (place / "run" / "curves.png").is_file() and "planner" in command.out
    for line in metrics(place / "run"):
        for agent in ("planner", "solver"):  # of four to six tokens
            assert -5 <= line[f"objective/score/{agent}"] <= -3
    team = load_team(place / "run", "cpu")
    assert team.names == ["planner", "solver"] and team.ask("The film", "solver", seed=1)
    assert "speak together is known to its package alone" in refusal(lambda: team.ask("The film"))
