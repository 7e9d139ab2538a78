"""What `task=`, `reward=`, `algorithm=` and `task.game=` can name: one table for each.

An installed package adds to a table by an entry point of the group `cory.tasks`, `cory.rewards`,
`cory.algorithms` or `cory.games`, whose object is an `Option` or a `Game`. Its YAML files lie in
the folder `conf` of the package.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from cory.config import algorithm, debate, maft, offline, reward, task, team
from cory.config.base import Settings
from cory.config.errors import ConfigError, require
from cory.config.game import GameConfig


@dataclass(frozen=True)
class Option:
    """A task, reward or algorithm: its settings, and what builds it from them."""

    settings: type[Settings]
    builder: str  # module:name of a class or function, imported when a run is built


@dataclass(frozen=True)
class Game:
    """A word game: its rules, and how they end."""

    rules: str  # module:name of a class with the members of `GameRules`, built from a judge
    one_wins: bool  # the roles play against each other; False: both win or both lose


Entry = TypeVar("Entry", Option, Game)

# builder: (settings, tokenizer, random stream of the order of training prompts) -> Task
TASKS: Mapping[str, Option] = {
    "imdb": Option(task.ImdbConfig, "cory.tasks.imdb:ImdbTask"),
    "gsm8k": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "arithmetic": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "tinygsm": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "anli": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "math": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "mmlu": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "prompts": Option(task.PromptsConfig, "cory.tasks.prompts:PromptsTask"),
    "taboo": Option(GameConfig, "cory.tasks.game:GameTask"),
    "twenty_questions": Option(GameConfig, "cory.tasks.game:GameTask"),
    "guess_my_city": Option(GameConfig, "cory.tasks.game:GameTask"),
}
# builder: (settings, task, device) -> Reward
REWARDS: Mapping[str, Option] = {
    "python": Option(reward.PythonRewardConfig, "cory.rewards.python_function:PythonReward"),
    "returned": Option(reward.ReturnedConfig, "cory.rewards.returned:Returned"),
    "classifier": Option(reward.ClassifierConfig, "cory.rewards.classifier:Classifier"),
    "sentiment": Option(reward.ClassifierConfig, "cory.rewards.classifier:Classifier"),
    "judge": Option(reward.JudgeConfig, "cory.rewards.judge:Judge"),
    "sum": Option(reward.SumConfig, "cory.rewards.weighted_sum:WeightedSum"),
    "exact_match": Option(reward.ExactMatchConfig, "cory.rewards.exact_match:ExactMatch"),
    "verifier": Option(reward.VerifierRewardConfig, "cory.rewards.verifier:Verifier"),
    "game_outcome": Option(reward.GameOutcomeConfig, "cory.rewards.game_outcome:GameOutcome"),
}
# builder: (settings, Parts) -> Algorithm
ALGORITHMS: Mapping[str, Option] = {
    "ppo": Option(algorithm.PPOConfig, "cory.algorithms.ppo:build_ppo"),
    "grpo": Option(algorithm.PPOConfig, "cory.algorithms.ppo:build_ppo"),
    "rloo": Option(algorithm.PPOConfig, "cory.algorithms.ppo:build_ppo"),
    "cory": Option(algorithm.CoryConfig, "cory.algorithms.cory:build_cory"),
    "team": Option(team.TeamConfig, "cory.algorithms.team:build_team"),
    "maporl": Option(debate.MaporlConfig, "cory.algorithms.maporl:build_maporl"),
    "verifier": Option(debate.VerifierConfig, "cory.algorithms.verifier:build_verifier"),
    "sft": Option(debate.SFTConfig, "cory.algorithms.sft:build_sft"),
    "imitation": Option(offline.ImitationConfig, "cory.algorithms.spag:build_imitation"),
    "spag": Option(offline.SpagConfig, "cory.algorithms.spag:build_spag"),
    "maft": Option(maft.MaftConfig, "cory.algorithms.maft:build_maft"),
}
GAMES: Mapping[str, Game] = {
    "taboo": Game("cory.games.rules:Taboo", one_wins=True),
    "twenty_questions": Game("cory.games.rules:Naming", one_wins=False),
    "guess_my_city": Game("cory.games.rules:Naming", one_wins=False),
}
# what a table is called in an error -> the table, the group of its entry points
KINDS: Mapping[str, tuple[Mapping[str, Option] | Mapping[str, Game], str]] = {
    "task": (TASKS, "cory.tasks"),
    "reward": (REWARDS, "cory.rewards"),
    "algorithm": (ALGORITHMS, "cory.algorithms"),
    "game": (GAMES, "cory.games"),
}


def plug_ins(kind: str) -> dict[str, EntryPoint]:
    """The entry points that other packages add to a table, by the name of the option.

    Raises ConfigError where two have one name, or one has a name of the table.
    """
    table, group = KINDS[kind]
    found: dict[str, EntryPoint] = {}
    for point in _points(group, tuple(sys.path)):
        free = point.name not in table and point.name not in found
        require(free, f"plug-in {_named(point)}: {kind} '{point.name}' is there already")
        found[point.name] = point
    return found


def plug_in_folders() -> list[Path]:
    """The `conf` folders of all packages with plug-ins, where they have one."""
    points = [point for kind in KINDS for point in plug_ins(kind).values()]
    folders = []
    for package in dict.fromkeys(point.module.partition(".")[0] for point in points):
        spec = find_spec(package)
        places: Sequence[str] = (spec and spec.submodule_search_locations) or ()
        folders += [folder for place in places if (folder := Path(place) / "conf").is_dir()]
    return folders


def option_names(kind: str) -> list[str]:
    """What a task, reward, algorithm or game can be named, in this package and in others."""
    return sorted({*KINDS[kind][0], *plug_ins(kind)})


def option(kind: str, name: str) -> Option:
    """The task, reward or algorithm of this name; ConfigError where there is none."""
    return _entry(kind, name, Option, f"{kind}.name")


def game(name: str) -> Game:
    """The word game of this name; ConfigError where there is none."""
    return _entry("game", name, Game, "task.game")


def is_own(kind: str, name: object) -> bool:
    """Whether this package itself has the task, reward, algorithm or game of this name."""
    return name in KINDS[kind][0]


def load(reference: str) -> Any:
    """The object that `module:name` refers to."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def builder(kind: str, name: str) -> Any:
    """The class or function that builds the task, reward or algorithm of this name."""
    reference = option(kind, name).builder
    if is_own(kind, name):
        return load(reference)
    return _of_package(plug_ins(kind)[name], partial(load, reference), f"builder {reference}")


def _entry(kind: str, name: str, wanted: type[Entry], key: str) -> Entry:
    known = {**plug_ins(kind), **KINDS[kind][0]}
    require(name in known, f"{key}={name}: must be one of {', '.join(sorted(known))}")
    found: Any = known[name]
    if isinstance(found, EntryPoint):
        plugged, found = f"plug-in {_named(found)}", _of_package(found, found.load, "object")
        said = f"must be a cory.config.{wanted.__name__}, got {type(found).__name__}"
        require(isinstance(found, wanted), f"{plugged} {said}")
    assert isinstance(found, wanted)
    return found


def _of_package(point: EntryPoint, load: Callable[[], Any], what: str) -> Any:
    """What another package has; ConfigError for whatever its code raises."""
    try:
        return load()
    except Exception as error:  # whatever another package's module raises
        said = f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"
        plugged = f"plug-in {_named(point)}: its {what} cannot be imported"
        raise ConfigError(f"{plugged}: {said}") from error


@cache
def _points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of the packages on `sys.path`, whose metadata take a while to read."""
    return tuple(entry_points(group=group))


def _named(point: EntryPoint) -> str:
    """`name = value` as in the package's metadata, with the package."""
    package = "" if point.dist is None else f" of package {point.dist.name}"
    return f"'{point.name} = {point.value}'{package}"
