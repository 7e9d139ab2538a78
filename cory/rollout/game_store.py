"""Sets of games on disk, written game by game, so that a killed run loses no finished game.

`games/epoch_000.jsonl` has a game a line, in the form of cory/games/transcript.py, in the order in
which the games ended. `games/epoch_000.json` names the weights that play in self-play; when no
game is missing it also counts them, names the tokenizer that their token ids belong to, and has
the length and SHA-256 of the file.
"""

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cory import distributed
from cory.config import ConfigError, require
from cory.games import GameRules
from cory.games.transcript import IDS, FinishedGame, read_games
from cory.runs.files import (
    append_lines,
    keep_lines,
    sha256_of,
    sound_lines,
    unwritten,
    whole_lines,
    write_whole,
)

NUMBER = "game"  # which game of the set a line is
TOKENIZER = "tokenizer"
WEIGHTS = "weights"
FILE = "file"  # of the games: length in bytes and SHA-256


class GameSet:
    """The games of one set while they are played; every process calls each method."""

    def __init__(
        self, path: Path, game: GameRules, tokenizer: str, weights: str | None = None
    ) -> None:
        """Begin a set, or go on with it.

        tokenizer: `vocabulary_digest` of the tokenizer of the token ids
        weights: fingerprint of the weights that play both roles; after a restart they may differ
            in the last digits, and what others played is not theirs. None: others play too, or
            the set is known to be right
        """
        self.path = path
        self.tokenizer = tokenizer
        self.weights = weights
        self.writes = distributed.rank() == 0
        self.found: dict[int, FinishedGame] = {}  # games that are over, by number
        if self.writes:
            self._open(game)
        self.found = distributed.from_first(self.found)

    def _open(self, game: GameRules) -> None:
        rows = whole_lines(self.path).splitlines()
        if rows and not self._played_by_these_weights():
            print(
                f"note: {self.path} is of other weights; its games are played again",
                file=sys.stderr,
            )
            rows = []
        sound = rows[: len(sound_lines(rows))]
        if len(sound) < len(rows):
            print(
                f"note: {self.path}, line {len(sound) + 1} is damaged; from there on "
                f"{len(rows) - len(sound)} games are played again",
                file=sys.stderr,
            )
        keep_lines(self.path, b"".join(row + b"\n" for row in sound))
        if self.weights is not None:
            self._describe({WEIGHTS: self.weights})
        for number, row in enumerate(sound, 1):
            try:
                played = FinishedGame.from_json(row.decode("utf-8"), game)
                sampled_ids(played)
                self.found[game_number(played)] = played
            except ConfigError as error:
                raise ConfigError(f"{self.path}, line {number}: {error!s}") from None

    def _played_by_these_weights(self) -> bool:
        """Whether that is so, as far as it is known: what says so may be gone."""
        if self.weights is None:
            return True
        return bool(_about(self.path).get(WEIGHTS, self.weights) == self.weights)

    def _describe(self, about: dict[str, Any]) -> None:
        try:
            write_whole(about_of(self.path), json.dumps(about, indent=1) + "\n")
        except OSError as error:
            raise unwritten(self.path, error) from error

    def add(self, number: int, played: FinishedGame) -> None:
        """Keep a finished game; its line is on the disk itself when this returns."""
        played.extra[NUMBER] = number
        self.found[number] = played
        if self.writes:
            append_lines(self.path, [played.as_line()])

    def close(self) -> list[FinishedGame]:
        """End the set; all games in the order of their numbers."""
        games = [self.found[number] for number in sorted(self.found)]
        if self.writes:
            # of a set that is known to be right, as it was
            weights = self.weights or _about(self.path).get(WEIGHTS)
            self._describe(
                {
                    **({} if weights is None else {WEIGHTS: weights}),
                    TOKENIZER: self.tokenizer,
                    FILE: {"bytes": self.path.stat().st_size, "sha256": sha256_of(self.path)},
                }
            )
        return games


def read_set(
    path: Path, game: GameRules, key: str, tokenizer: Any
) -> tuple[list[FinishedGame], bool]:
    """The games of a file, in the order of their numbers if all have one.

    ConfigError where it is damaged, or not what a run has written.

    key: the setting that `path` comes from
    returns: the games, and whether their token ids are this tokenizer's
    """
    games = read_games(path, game, key)
    said = f"{key}={path}"
    require_unchanged(path, key)
    same_tokens = tokenizer_of(path) == vocabulary_digest(tokenizer)
    try:
        require_ids(games, len(tokenizer) if same_tokens else None)
        if all(NUMBER in played.extra for played in games):
            # a run writes games as they end: the first lines of its file are the shortest games
            games.sort(key=game_number)
    except ConfigError as error:
        raise ConfigError(f"{said}: {error}") from None
    return games, same_tokens


def require_ids(games: Iterable[FinishedGame], known: int | None) -> None:
    """ConfigError for token ids that are none, or that the tokenizer does not have.

    known: tokens of the tokenizer; None: the ids are another one's
    """
    for played in games:
        most = max((i for one in sampled_ids(played) or [] for i in one or []), default=0)
        require(
            known is None or most < known,
            f"a game about '{played.word}' holds token id {most}; the tokenizer has {known}",
        )


def sampled_ids(played: FinishedGame) -> list[list[int] | None] | None:
    """Token ids of each utterance; None where no model sampled any."""
    ids = played.extra.get(IDS)
    if ids is None:
        return None
    if not (
        isinstance(ids, list)
        and len(ids) == len(played.utterances)
        and all(one is None or (isinstance(one, list) and all(map(_is_id, one))) for one in ids)
    ):
        raise ConfigError(
            f"a game about '{played.word}': '{IDS}' must be null or a list of whole numbers for "
            f"each of its {len(played.utterances)} utterances"
        )
    return ids


def about_of(path: Path) -> Path:
    """The file that describes a set of games."""
    return path.with_suffix(".json")


def _is_id(value: object) -> bool:
    """Whether a value can be a token id, which 32 bits hold."""
    return type(value) is int and 0 <= value < 2**31


def game_number(played: FinishedGame) -> int:
    """Which game of its set it is; ConfigError where its line does not say."""
    number = played.extra.get(NUMBER)
    if type(number) is not int or number < 0:
        raise ConfigError(f"'{NUMBER}' must be the number of the game, a whole number from 0")
    return number


def tokenizer_of(path: Path) -> str | None:
    """The `vocabulary_digest` of a set's tokenizer; None where it is unknown."""
    name = _about(path).get(TOKENIZER)
    return None if name is None else str(name)


def require_unchanged(path: Path, key: str) -> None:
    """ConfigError for a set of games that is not what a run has written, as far as that is known.

    Sets that others have written come without a hash.
    """
    known = _about(path).get(FILE)
    if known is None:
        return
    try:
        size, sha256 = int(known["bytes"]), str(known["sha256"])
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{about_of(path)} cannot be read: its '{FILE}'") from error
    require(
        path.stat().st_size == size and sha256_of(path) == sha256,
        f"{key}={path}: it is not what was written, which {about_of(path)} tells; put it back, or "
        f"take '{FILE}' out of there",
    )


def _about(path: Path) -> dict[str, Any]:
    """What is said about a set of games; nothing where there is no such file.

    ConfigError where it cannot be read.
    """
    if about_of(path) == path:  # others' games, in a .json list
        return {}
    try:
        about = json.loads(about_of(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{about_of(path)} cannot be read: {error}") from None
    if not isinstance(about, dict):
        raise ConfigError(f"{about_of(path)} cannot be read: it is no JSON object")
    return about


def vocabulary_digest(tokenizer: Any) -> str:
    """A hash of a tokenizer's vocabulary; with equal hashes token ids mean the same."""
    entries = json.dumps(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(entries.encode()).hexdigest()[:16]
