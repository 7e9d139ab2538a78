"""Readers of JSON files under any damage: a refusal in one line, or the sound part; no traceback.

`CORY_FUZZ=10000` tries as many cases of each reader; by default it is some dozens.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cory.config import ConfigError
from cory.endpoint import Reply, ReplyCache
from cory.games import rules_of
from cory.games.transcript import read_games
from cory.rollout.game_store import GameSet, read_set
from cory.runs.checkpoint import FORMAT, inspect
from cory.runs.jsonl import JsonlStore, decoded
from cory.runs.partial_results import begin
from cory.runs.run_dir import read_lines
from cory.runs.stored_settings import read_settings
from cory.tasks.data.tables import local_table
from tests.support.damage import damaged_bytes, damaged_json, damaged_lines
from tests.support.fixtures import make_tokenizer

CASES = int(os.environ.get("CORY_FUZZ", "40"))
LONGEST_S = 20  # seconds of one case, on a busy machine; they take milliseconds
fuzzed = settings(
    max_examples=CASES,
    deadline=None,
    derandomize="CORY_FUZZ" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def rows_of(*lines: object) -> list[bytes]:
    return [json.dumps(line).encode() for line in lines]


@contextlib.contextmanager
def one_line(*allowed: type[Exception]) -> Iterator[Path]:
    """A folder; inside, nothing but refusals in one line, and none of them after long."""
    folder = Path(tempfile.mkdtemp(prefix="cory_damaged_"))
    began = time.monotonic()
    try:
        yield folder
    except allowed as error:
        assert str(error) and "\n" not in str(error)
    finally:
        shutil.rmtree(folder)
    assert time.monotonic() - began < LONGEST_S


METRICS = rows_of(*({"iteration": n, "objective/score/agent_0": n / 7} for n in range(4)))


@pytest.mark.slow
@fuzzed
@given(damaged_lines(METRICS))
def test_lines(content: bytes) -> None:
    with one_line(ValueError) as folder:
        path = folder / "metrics.jsonl"
        path.write_bytes(content)
        assert all(isinstance(line, dict) for line in read_lines(path))


MANIFEST = json.dumps(
    {
        "format": FORMAT,
        "iterations": 1,
        "settings": "s",
        "layout": {"processes": 1, "zero_stage": 0},
        "files": {"state_0.pt": hashlib.sha256(b"").hexdigest()},
    }
).encode()


@fuzzed
@given(st.one_of(damaged_json(MANIFEST), damaged_bytes(MANIFEST)))
def test_a_manifest(content: bytes) -> None:
    with one_line() as folder:
        (folder / "state_0.pt").touch()
        (folder / "manifest.json").write_bytes(content)
        fault, manifest = inspect(folder, "s")
        if manifest.get("format", FORMAT) != FORMAT:
            return  # refused
        assert fault is not None or isinstance(manifest["files"], dict)


HEAD = {"weights": "w"}
ANSWERS = [{"row": n, "text": f"answer {n}"} for n in range(4)]


@fuzzed
@given(damaged_lines(rows_of(HEAD, *ANSWERS)))
def test_partial_results(content: bytes) -> None:
    """Whatever is in the file, whole batches of lines are taken from it, or none."""
    with one_line() as folder:
        store = JsonlStore(folder / "000000.jsonl")
        store.path.write_bytes(content)
        found = begin(store, HEAD, [range(2), range(2, 4)])
        assert len(found) in (0, 2, 4) and all(isinstance(line, dict) for line in found)
        store.close()


GAME = {
    "word": "movie",
    "max_turns": 2,
    "turns": [{"role": "attacker", "text": "a"}, {"role": "defender", "text": "b"}],
    "winners": ["attacker"],
    "reason": "said",
    "valid": True,
    "ids": [[1, 2], None],
    "game": 0,
}
GAMES = rows_of(*({**GAME, "game": number} for number in range(3)))
TABOO = rules_of("taboo", "words")
TOKENIZER = make_tokenizer()


@fuzzed
@given(damaged_lines(GAMES))
def test_sets_of_games(content: bytes) -> None:
    with one_line(ConfigError) as folder:
        path = folder / "epoch_000.jsonl"
        path.write_bytes(content)
        for read in (
            lambda: read_games(path, TABOO, "algorithm.games"),
            lambda: read_set(path, TABOO, "algorithm.games", TOKENIZER),
            lambda: GameSet(path, TABOO, "t").close(),
        ):
            with contextlib.suppress(ConfigError):
                read()
        read_set(path, TABOO, "algorithm.games", TOKENIZER)


ABOUT = json.dumps({"games": 3, "tokenizer": "t", "file": {"bytes": 3, "sha256": "x"}}).encode()


@fuzzed
@given(st.one_of(damaged_json(ABOUT), damaged_bytes(ABOUT)))
def test_what_is_said_of_a_set_of_games(content: bytes) -> None:
    with one_line(ConfigError) as folder:
        path = folder / "epoch_000.jsonl"
        path.write_bytes(b"".join(row + b"\n" for row in GAMES))
        path.with_suffix(".json").write_bytes(content)
        read_set(path, TABOO, "algorithm.games", TOKENIZER)


REPLIES = rows_of(
    *({"key": f"k{n}", "digest": "d", **asdict(Reply("yes", 3, 1, "stop", "m"))} for n in range(3))
)


@fuzzed
@given(damaged_lines(REPLIES))
def test_replies_of_an_endpoint(content: bytes) -> None:
    with one_line(ConfigError) as folder:
        path = folder / "endpoint.jsonl"
        path.write_bytes(content)
        cache = ReplyCache(path)
        cache.add(("new", "d"), Reply("", 0, 0, "stop", "m"))
        cache.store.close()


@fuzzed
@given(damaged_lines(METRICS))
def test_the_sound_beginning(content: bytes) -> None:
    """What is read is what stands there, up to the first line that is no object."""
    with one_line() as folder:
        path = folder / "lines.jsonl"
        path.write_bytes(content)
        rows, _ = JsonlStore(path).read()
        for row, value in zip(rows, decoded(rows), strict=False):
            assert json.loads(row) == value or "NaN" in row.decode()


SETTINGS = b"model: {name: tiny, path: asset:tiny}\nseed: 0\nalgorithm: {name: ppo}\n"


@fuzzed
@given(damaged_bytes(SETTINGS))
def test_settings_of_a_run(content: bytes) -> None:
    with one_line(ConfigError) as folder:
        (folder / "config.yaml").write_bytes(content)
        read_settings(folder, "init_from=x")


@fuzzed
@given(damaged_lines(rows_of(*({"text": f"a text {n}"} for n in range(3)))))
def test_data(content: bytes) -> None:
    with one_line(ConfigError) as folder:
        path = folder / "data.jsonl"
        path.write_bytes(content)
        local_table(str(path), "train", ["text"], "task.path", sliced=False)
