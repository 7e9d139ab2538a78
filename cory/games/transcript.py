"""Finished games: as lines of JSON, and statistics of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cory.config import ConfigError, require
from cory.games import GameRules, decided_state
from cory.games.inflection import tokens
from cory.games.state import TIE, GameResult, GameState, GameUtterance

# result of a game read from a file that stops before its last turn: not valid, without winners
UNFINISHED = GameResult((), "unfinished", valid=False)
IDS = "ids"  # a further key: token ids of each utterance; null where no model spoke
KEYS = ("word", "max_turns", "turns", "winners", "reason", "valid")
OWN, RELEASED = ("word", "turns", "text"), ("target_word", "history", "content")


@dataclass(frozen=True)
class FinishedGame:
    """A finished game."""

    word: str
    max_turns: int
    utterances: tuple[GameUtterance, ...]
    outcome: GameResult
    extra: dict[str, Any] = field(default_factory=dict)  # further keys of its line of JSON

    @property
    def position(self) -> GameState:
        """The last state of the game."""
        return GameState(self.word, self.max_turns, self.utterances)

    @property
    def turns(self) -> int:
        """Number of turns played, the last one perhaps by one role only."""
        return (len(self.utterances) + 1) // 2

    def as_line(self) -> dict[str, Any]:
        """The game as a line of JSON holds it."""
        row = {
            "word": self.word,
            "max_turns": self.max_turns,
            "turns": [
                {"role": utterance.role, "text": utterance.text} for utterance in self.utterances
            ],
            "winners": list(self.outcome.winners),
            "reason": self.outcome.reason,
            "valid": self.outcome.valid,
        }
        return {**row, **self.extra}

    @staticmethod
    def from_json(line: str, game: GameRules) -> FinishedGame:
        """The game of a line; without a result it is judged, and cut where it ended.

        Lines in the form of SPAG's released code are judged as there: from what was said alone,
        whatever their `winner` is, and a game that nobody won is a tie.

        Raises ConfigError for a line that is no such game.
        """
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"it is not JSON: {error}") from None
        require(isinstance(row, dict), "it must be an object with keys")
        if RELEASED[0] in row:
            position, result = decided_state(game, _position(row, game, RELEASED))
            return FinishedGame(
                position.word, position.max_turns, position.utterances, result or TIE
            )
        position = _position(row, game, OWN)
        extra = {key: value for key, value in row.items() if key not in KEYS}
        if any(key in row for key in ("winners", "reason", "valid")):
            outcome = _outcome(row, game)
        else:
            whole = len(position.utterances)
            position, result = decided_state(game, position)
            if isinstance(extra.get(IDS), list) and len(extra[IDS]) == whole:
                extra[IDS] = extra[IDS][: len(position.utterances)]
            outcome = UNFINISHED if result is None else result
        return FinishedGame(position.word, position.max_turns, position.utterances, outcome, extra)


def read_games(path: Path, game: GameRules, key: str) -> list[FinishedGame]:
    """The games of a file of lines, or of a .json list; ConfigError with its number for a bad one.

    key: the setting that `path` comes from
    """
    require(path.is_file(), f"{key}={path}: there is no such file")
    games = []
    try:
        text = path.read_text(encoding="utf-8")
        rows = json.loads(text) if path.suffix == ".json" else None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{key}={path}: cannot be read: {error}") from None
    if path.suffix == ".json":
        require(isinstance(rows, list), f"{key}={path}: it must hold a list of games")
    lines = text.split("\n") if rows is None else map(json.dumps, rows)
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                games.append(FinishedGame.from_json(line, game))
            except ConfigError as error:
                what = "line" if rows is None else "game"
                raise ConfigError(f"{key}={path}: {what} {number}: {error}") from None
    require(bool(games), f"{key}={path}: there is no game in it")
    return games


def game_statistics(games: Iterable[FinishedGame]) -> dict[str, Any]:
    """The numbers of games, wins, ties and so on, and the mean number of turns."""
    games = list(games)
    utterances = (utterance for game in games for utterance in game.utterances)
    roles = dict.fromkeys(utterance.role for utterance in utterances)
    wins = Counter(role for game in games for role in game.outcome.winners)
    reasons = Counter(game.outcome.reason for game in games)
    return {
        "games": len(games),
        **{f"{role}_wins": wins[role] for role in roles},
        "ties": sum(game.outcome.valid and not game.outcome.winners for game in games),
        "invalid": sum(not game.outcome.valid for game in games),
        "reasons": dict(sorted(reasons.items())),
        "mean_turns": sum(game.turns for game in games) / len(games) if games else 0.0,
    }


def _position(row: dict[str, Any], game: GameRules, names: tuple[str, str, str]) -> GameState:
    """All that was said, up to the last turn in the released form.

    names: of the keys of the word, the utterances and an utterance's text
    """
    word, max_turns, turns = (row.get(key) for key in (names[0], "max_turns", names[1]))
    require(
        _is_text(word) and bool(tokens(str(word))),
        f"'{names[0]}' must be a text with letters or digits, got {word!r}",
    )
    require(type(max_turns) is int and max_turns >= 1, "'max_turns' must be a whole number above 0")
    require(isinstance(turns, list) and bool(turns), f"'{names[1]}' must be a list of utterances")
    assert isinstance(word, str) and isinstance(max_turns, int) and isinstance(turns, list)
    if names == RELEASED:
        turns = turns[: 2 * max_turns]
    require(
        len(turns) <= 2 * max_turns,
        f"'turns' has {len(turns)} utterances, more than 2 in each of 'max_turns'={max_turns}",
    )
    position = GameState(word, max_turns)
    for number, turn in enumerate(turns):
        role = game.roles[number % 2]
        require(
            isinstance(turn, dict) and turn.get("role") == role,
            f"utterance {number + 1} must have 'role' {role}: roles take turns",
        )
        text = turn.get(names[2])
        require(_is_text(text), f"utterance {number + 1} must have a '{names[2]}'")
        position = position.after(role, text.strip() if names == RELEASED else text)
    return position


def _is_text(value: object) -> bool:
    """Whether a value is a text that can be written: JSON can name halves of characters."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def _outcome(row: dict[str, Any], game: GameRules) -> GameResult:
    winners, reason, valid = (row.get(key) for key in KEYS[3:])
    require(
        isinstance(winners, list) and all(winner in game.roles for winner in winners),
        f"'winners' must be a list of roles ({', '.join(game.roles)})",
    )
    require(_is_text(reason), "'reason' must be a text where 'winners' or 'valid' is given")
    require(isinstance(valid, bool), "'valid' must be true or false where 'winners' is given")
    assert isinstance(winners, list) and isinstance(reason, str) and isinstance(valid, bool)
    require(valid or not winners, "'winners' must be empty where 'valid' is false")
    return GameResult(tuple(winners), reason, valid)
