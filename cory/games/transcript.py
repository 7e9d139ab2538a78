"""Finished games, as lines of JSON."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from cory.config import ConfigError, require
from cory.games.rules import TIE, GameResult, GameRules, GameState, GameUtterance, decided_state
from cory.games.words import tokens

TokenId = Annotated[int, Field(ge=0, lt=2**31)]  # as 32 bits hold them


class FinishedGame(BaseModel):
    """A game as a line of JSON holds it, of a run or of SPAG's released files."""

    model_config = ConfigDict(strict=True, frozen=True, populate_by_name=True)

    word: str = Field(validation_alias=AliasChoices("word", "target_word"))
    max_turns: int = Field(ge=1)
    utterances: tuple[GameUtterance, ...] = Field(
        min_length=1, validation_alias=AliasChoices("turns", "history"), serialization_alias="turns"
    )
    winners: tuple[str, ...] | None = None  # roles; None: the rules decide how the game ended
    reason: str = ""
    valid: bool = True
    # token ids of each utterance, None where no model spoke; and the digest of their tokenizer
    ids: list[list[TokenId] | None] | None = None
    tokenizer: str | None = None

    @property
    def outcome(self) -> GameResult:
        return GameResult(self.winners or (), self.reason, self.valid)

    def as_line(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_none=True)

    @staticmethod
    def from_json(line: str, game: GameRules) -> "FinishedGame":
        """The game of a line; without winners it is judged, and cut where it ended.

        So are those of SPAG's released files, as there: from what was said alone, up to the last
        turn, and a game that nobody won is a tie.

        Raises ConfigError for a line that is no such game.
        """
        try:
            read = FinishedGame.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "it"
            made = "; these are examples: take the games that they were made of"
            hint = made if '"query"' in line and '"target"' in line else ""
            raise ConfigError(f"{place}: {first['msg']}{hint}") from None
        require(bool(tokens(read.word)), f"word: must have letters or digits, got '{read.word}'")
        for number, one in enumerate(read.utterances):
            role = game.roles[number % 2]
            require(one.role == role, f"turns.{number}.role: must be {role}: roles take turns")
        if read.winners is not None:
            right = {*read.winners} <= {*game.roles} and (read.valid or not read.winners)
            require(
                right, f"winners: must be roles ({', '.join(game.roles)}), none if 'valid' is false"
            )
            count = len(read.utterances)
            require(
                read.ids is None or len(read.ids) == count,
                f"ids: must be null or a list for each of the {count} utterances",
            )
            return read
        said = tuple(replace(one, text=one.text.strip()) for one in read.utterances)
        position, result = decided_state(game, GameState(read.word, read.max_turns, said))
        return FinishedGame(**vars(position), **vars(result or TIE))


def read_games(path: Path, game: GameRules, key: str) -> list[FinishedGame]:
    """Games of a file of lines, or of a .json list; ConfigError with its number for a bad one."""
    games = []
    try:
        text = path.read_text(encoding="utf-8")
        listed = path.suffix == ".json"
        lines = [*map(json.dumps, json.loads(text))] if listed else text.split("\n")
    except (OSError, ValueError, TypeError) as error:  # a number in place of a list
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
