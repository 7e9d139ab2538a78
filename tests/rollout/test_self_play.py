"""Games side by side: who speaks when, what is shown, and when a game drops out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cory.config import Config, ConfigError
from cory.games import rules_of
from cory.games.state import GameState
from cory.games.transcript import FinishedGame
from cory.rollout.self_play import Key, Said, fitting, play
from cory.runtime.build import build_parts
from cory.tasks.game import GameTask
from tests.support.llama import save_llama
from tests.support.playing import SPAG, build_games, game_config

TABOO = rules_of("taboo", "words")


class Scripted:
    """Says what a table says, and keeps what it was asked."""

    def __init__(self, texts: dict[tuple[str, int], str]) -> None:
        """texts: word, utterance -> what is said; anything else is `hm`"""
        self.texts = texts
        self.asked: list[tuple[str, list[str | None], Sequence[Key]]] = []

    def say(
        self, role: str, positions: Sequence[GameState | None], keys: Sequence[Key]
    ) -> list[Said]:
        self.asked.append((role, [p and p.word for p in positions], keys))
        return [
            Said(
                "" if p is None else self.texts.get((p.word, len(p.utterances)), "hm"), [len(keys)]
            )
            for p in positions
        ]


def run(
    player: Scripted, words: Sequence[str], found: dict[int, FinishedGame] | None = None
) -> tuple[list[FinishedGame], list[int]]:
    ended: list[int] = []
    games = play(
        TABOO,
        [GameState(word, 2) for word in words],
        dict.fromkeys(TABOO.roles, player),
        (7, 8),
        5,
        found or {},
        lambda number, played: ended.append(number),
        lambda: None,
    )
    return games, ended


def test_games_that_ended_drop_out() -> None:
    player = Scripted({("film", 1): "a film?", ("star", 0): "star", ("sea", 3): "the sea"})
    games, ended = run(player, ["film", "star", "sea", "sun"])
    assert [game.outcome.reason for game in games] == ["uttered", "broke_rules", "uttered", "tie"]
    assert [len(game.utterances) for game in games] == [2, 1, 4, 4]
    assert ended == [1, 0, 2, 3]
    assert [(role, asked) for role, asked, _ in player.asked] == [
        ("attacker", ["film", "star", "sea", "sun"]),
        ("defender", ["film", None, "sea", "sun"]),
        ("attacker", [None, None, "sea", "sun"]),
        ("defender", [None, None, "sea", "sun"]),
    ]
    for utterance, (_, _, keys) in enumerate(player.asked):
        assert keys == [(7, 8, 5 + game, utterance) for game in range(4)]
    assert games[0].extra == {"ids": [[4], [4]]}


def test_games_that_were_over_are_not_played_again() -> None:
    player = Scripted({("film", 1): "a film?"})
    games, _ = run(player, ["film", "sun"])
    again = Scripted({("film", 1): "another answer"})
    assert run(again, ["film", "sun"], {0: games[0]}) == (games, [1])
    assert all(asked[0] is None for _, asked, _ in again.asked)


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
    parts = build_parts(game_config(base, "task.max_prompt_tokens=400"))
    assert isinstance(parts.task, GameTask)
    counted: list[int] = []

    def tokens_of(text: str) -> int:
        counted.append(parts.bundle.tokens(text))
        bare = parts.bundle.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert counted[-1] == len(bare) + 1
        return counted[-1]

    parts.task.require_room(tokens_of)
    build_games(game_config(base, f"task.max_prompt_tokens={max(counted)}"))
    with pytest.raises(ConfigError, match=f"is below the {max(counted)} tokens that the"):
        build_games(game_config(base, f"task.max_prompt_tokens={max(counted) - 1}"))
