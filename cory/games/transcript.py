"""Finished games, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from cory.config import ConfigError, require
from cory.games import GameRules, decided_state
from cory.games.rules import TIE, GameResult, GameState, GameUtterance
from cory.games.words import tokens

TokenId = Annotated[int, Field(ge=0, lt=2**31)]  # as 32 bits hold them


class UtteranceLine(BaseModel):
    """One utterance of a game; `content` in SPAG's released files."""

    role: str
    text: str = Field(validation_alias=AliasChoices("text", "content"))


class GameLine(BaseModel):
    """A game as a line of JSON holds it, of a run or of SPAG's released files."""

    model_config = ConfigDict(strict=True)

    word: str = Field(validation_alias=AliasChoices("word", "target_word"))
    max_turns: int = Field(ge=1)
    turns: list[UtteranceLine] = Field(
        min_length=1, validation_alias=AliasChoices("turns", "history")
    )
    winners: list[str] | None = None  # roles; None: the rules decide how the game ended
    reason: str = ""
    valid: bool = True
    ids: list[list[TokenId] | None] | None = None
    tokenizer: str | None = None
    game: int | None = Field(None, ge=0)


@dataclass(frozen=True)
class FinishedGame:
    """A finished game."""

    word: str
    max_turns: int
    utterances: tuple[GameUtterance, ...]
    outcome: GameResult
    # token ids of each utterance, None where no model spoke; and the digest of their tokenizer
    ids: Sequence[list[int] | None] | None = None
    tokenizer: str | None = None
    number: int | None = None  # among the games of its set

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
        more = {"ids": self.ids, "tokenizer": self.tokenizer, "game": self.number}
        return row | {name: value for name, value in more.items() if value is not None}

    @staticmethod
    def from_json(line: str, game: GameRules) -> FinishedGame:
        """The game of a line; without winners it is judged, and cut where it ended.

        So are those of SPAG's released files, as there: from what was said alone, up to the last
        turn, and a game that nobody won is a tie.

        Raises ConfigError for a line that is no such game.
        """
        try:
            row = GameLine.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "it"
            raise ConfigError(f"{place}: {first['msg']}") from None
        require(bool(tokens(row.word)), f"word: must have letters or digits, got '{row.word}'")
        for number, said in enumerate(row.turns):
            role = game.roles[number % 2]
            require(said.role == role, f"turns.{number}.role: must be {role}: roles take turns")
        if row.winners is None:
            position = GameState(row.word, row.max_turns)
            for said in row.turns:
                position = position.after(said.role, said.text.strip())
            position, result = decided_state(game, position)
            return FinishedGame(
                position.word, position.max_turns, position.utterances, result or TIE
            )
        right = {*row.winners} <= {*game.roles} and (row.valid or not row.winners)
        require(
            right, f"winners: must be roles ({', '.join(game.roles)}), none if 'valid' is false"
        )
        utterances = tuple(GameUtterance(said.role, said.text) for said in row.turns)
        outcome = GameResult(tuple(row.winners), row.reason, row.valid)
        require(
            row.ids is None or len(row.ids) == len(utterances),
            f"ids: must be null or a list for each of the {len(utterances)} utterances",
        )
        known = row.ids, row.tokenizer, row.game
        return FinishedGame(row.word, row.max_turns, utterances, outcome, *known)


def read_games(path: Path, game: GameRules, key: str) -> list[FinishedGame]:
    """The games of a file of lines, or of a .json list; ConfigError with its number for a bad one.

    key: the setting that `path` comes from
    """
    require(path.is_file(), f"{key}={path}: there is no such file")
    games = []
    try:
        text = path.read_text(encoding="utf-8")
        listed = path.suffix == ".json"
        lines = [*map(json.dumps, json.loads(text))] if listed else text.split("\n")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{key}={path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                games.append(FinishedGame.from_json(line, game))
            except ConfigError as error:
                what = "game" if listed else "line"
                raise ConfigError(f"{key}={path}: {what} {number}: {error}") from None
    require(bool(games), f"{key}={path}: there is no game in it")
    return games
