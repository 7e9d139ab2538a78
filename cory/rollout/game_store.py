"""Sets of games on disk, written game by game, so that a killed run loses no finished game.

`games/epoch_000.jsonl` has a game a line, in the form of cory/games/transcript.py, in the order in
which the games ended; `games/epoch_000.json`, written when none is missing, counts them and names
the tokenizer that their token ids belong to.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from cory import distributed
from cory.config import ConfigError
from cory.games import GameRules
from cory.games.transcript import FinishedGame, game_statistics
from cory.runs.jsonl import JsonlStore, decoded, unwritten
from cory.runs.run_dir import write_whole

ADVICE = "; the same command goes on with the games that are in it"
NUMBER = "game"  # which game of the set a line is
IDS = "ids"  # token ids of each utterance; null where no model spoke
TOKENIZER = "tokenizer"


class GameSet:
    """The games of one set while they are played; every process calls each method."""

    def __init__(self, path: Path, game: GameRules, tokenizer: str) -> None:
        """tokenizer: `vocabulary_digest` of the tokenizer of the token ids"""
        self.path = path
        self.tokenizer = tokenizer
        self.store: JsonlStore | None = None  # in the first process, while games are added
        self.found: dict[int, FinishedGame] = {}  # games that are over, by number
        if distributed.rank() == 0:
            self._open(game)
        self.found = distributed.from_first(self.found)

    def _open(self, game: GameRules) -> None:
        self.store = JsonlStore(self.path, ADVICE)
        rows, _ = self.store.read()
        rows = rows[: len(decoded(rows))]
        self.store.open(rows)
        for number, row in enumerate(rows, 1):
            try:
                played = FinishedGame.from_json(row.decode(), game)
                self.found[int(played.extra[NUMBER])] = played
            except (ConfigError, KeyError) as error:
                raise ConfigError(f"{self.path}, line {number}: {error!s}") from None

    def add(self, number: int, played: FinishedGame) -> None:
        """Keep a finished game; its line is on the disk itself when this returns."""
        played.extra[NUMBER] = number
        self.found[number] = played
        if self.store is not None:
            self.store.append([played.as_line()])

    def close(self) -> list[FinishedGame]:
        """End the set; all games in the order of their numbers."""
        games = [self.found[number] for number in sorted(self.found)]
        if self.store is not None:
            self.store.close()
            self.store = None
            about = {**game_statistics(games), TOKENIZER: self.tokenizer}
            try:
                write_whole(about_of(self.path), json.dumps(about, indent=1) + "\n")
            except OSError as error:
                raise unwritten(self.path, error, ADVICE) from error
        return games


def sampled_ids(played: FinishedGame) -> list[list[int] | None] | None:
    """Token ids of each utterance; None where no model sampled any."""
    ids = played.extra.get(IDS)
    if ids is None:
        return None
    if not (
        isinstance(ids, list)
        and len(ids) == len(played.utterances)
        and all(one is None or all(isinstance(i, int) for i in one) for one in ids)
    ):
        raise ConfigError(
            f"a game about '{played.word}': '{IDS}' must be null or a list of whole numbers for "
            f"each of its {len(played.utterances)} utterances"
        )
    return ids


def about_of(path: Path) -> Path:
    """The file that describes a set of games."""
    return path.with_suffix(".json")


def tokenizer_of(path: Path) -> str | None:
    """The `vocabulary_digest` of a set's tokenizer; None where it is unknown."""
    try:
        about: dict[str, Any] = json.loads(about_of(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ConfigError(f"{about_of(path)} cannot be read: {error}") from None
    name = about.get(TOKENIZER)
    return None if name is None else str(name)


def vocabulary_digest(tokenizer: Any) -> str:
    """A hash of a tokenizer's vocabulary; with equal hashes token ids mean the same."""
    entries = json.dumps(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(entries.encode()).hexdigest()[:16]
