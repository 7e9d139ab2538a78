"""Games side by side: who speaks when, what is shown, and when a game drops out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.config import Config, ConfigError
from cory.episode import Prompt
from cory.games.rules import GameState, rules_of
from cory.games.transcript import FinishedGame
from cory.rollout.games import Seat, WordGame, fitting
from cory.rollout.scheduler import RollOut
from cory.runtime.worker import build_components
from cory.tasks.game import GameTask
from tests.support.llama import save_llama
from tests.support.playing import SPAG, build_games, game_config
from tests.support.speaking import Script

TABOO = rules_of("taboo", "words")


class Fixed:
    """Wording that shows the word and how far the game is."""

    def context(self, position: GameState, role: str, style: int | None) -> str:
        return f"{position.word} {len(position.utterances)}"

    def messages(self, position: GameState, role: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": self.context(position, role, None)}]


def run(
    texts: dict[str, str],
    words: Sequence[str],
    seats: dict[str, Seat] | None = None,
) -> tuple[list[FinishedGame | None], list[int], Script]:
    """Games about these words, in which is said what stands beside what is shown, else `hm`."""
    ended: list[int] = []
    wording: Any = Fixed()
    script = Script(lambda agent, asked: texts.get(str(asked.context), "hm"))
    game = WordGame(
        TABOO,
        wording,
        lambda context: True,
        seats or dict.fromkeys(TABOO.roles, Seat("one")),
        lambda key: 2,
        {},
        lambda number, played: ended.append(number),
    )
    actors: Any = script
    prompts = [Prompt(word, word) for word in words]
    found = game(RollOut(actors, 4, None, (7, 8), first=5), prompts)
    return [found.get(number) for number in range(5, 5 + len(words))], ended, script


def test_games_that_ended_drop_out() -> None:
    texts = {"film 1": "a film?", "star 0": "star", "sea 3": "the sea"}
    games, ended, script = run(texts, ["film", "star", "sea", "sun"])
    over = [game for game in games if game is not None]
    assert [game.outcome.reason for game in over] == ["uttered", "broke_rules", "uttered", "tie"]
    assert [len(game.utterances) for game in over] == [2, 1, 4, 4]
    assert ended == [6, 5, 7, 8]
    assert [(role, shown) for _, role, _, shown in script.shown] == [
        ("attacker", ["film 0", "star 0", "sea 0", "sun 0"]),
        ("defender", ["film 1", "sea 1", "sun 1"]),
        ("attacker", ["sea 2", "sun 2"]),
        ("defender", ["sea 3", "sun 3"]),
    ]
    assert over[0].ids == [[2], [2]]


def test_scripts_and_remote_models_play_beside_agents() -> None:
    """A script draws its own numbers for each game and utterance; nobody samples their tokens."""
    drawn: list[float] = []

    def script(position: GameState, draws: np.random.Generator) -> str:
        drawn.append(float(draws.random()))
        return "hm"

    seats = {"attacker": Seat(script), "defender": Seat("far", remote=True)}
    (game, _), _, shown = run({}, ["film", "sun"], seats=seats)
    assert game is not None and game.ids is None
    assert len({*drawn}) == len(drawn) == 4
    assert shown.shown[0] == (
        "far",
        "defender",
        0,
        [[{"role": "user", "content": "film 1"}], [{"role": "user", "content": "sun 1"}]],
    )


def test_the_oldest_utterances_are_left_out_of_what_does_not_fit() -> None:
    class Lines:
        def context(self, position: GameState, role: str, style: int | None) -> str:
            return f"{role}{style}:" + "".join(said.text for said in position.utterances)

    position = GameState("film", 3)
    for n, role in enumerate(("attacker", "defender", "attacker")):
        position = position.after(role, str(n))
    shown = [fitting(Lines(), lambda c, m=m: len(c) <= m, position, "defender", 5)  # type: ignore[arg-type, misc]
             for m in (99, 13, 12, 11, 10, 3)]  # fmt: skip
    head = "defender5:"
    assert shown == [f"{head}012", f"{head}012", f"{head}12", f"{head}2", head, head]


def test_the_first_prompt_counts_as_the_model_is_shown_it(
    config_of: Callable[..., Config], tmp_path: Path
) -> None:
    """With the token that begins every text, where the tokenizer adds one."""
    base = [*SPAG, f"model.path={save_llama(tmp_path / 'llama')}", f"run_dir={tmp_path}/run"]
    components = build_components(game_config(base, "task.max_prompt_tokens=400"))
    assert isinstance(components.task, GameTask)
    counted: list[int] = []

    def tokens_of(text: str) -> int:
        counted.append(components.bundle.texts.tokens(text))
        bare = components.bundle.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert counted[-1] == len(bare) + 1
        return counted[-1]

    components.task.require_room(tokens_of)
    build_games(game_config(base, f"task.max_prompt_tokens={max(counted)}"))
    with pytest.raises(ConfigError, match=f"is below the {max(counted)} tokens that the"):
        build_games(game_config(base, f"task.max_prompt_tokens={max(counted) - 1}"))
