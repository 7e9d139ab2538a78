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
from cory.runs.checkpoint import inspect
from cory.runs.jsonl import JsonlStore, decoded, seal
from cory.runs.partial_results import PartialResults
from cory.runs.record_files import RecordFiles
from cory.runs.run_dir import (
    read_lines,
    record_fault,
)
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
SAMPLES = rows_of(*({"iteration": n, "kind": "training", "turns": [{}]} for n in range(4)))


@pytest.mark.slow
@fuzzed
@given(damaged_lines(METRICS), damaged_lines(SAMPLES))
def test_records(metrics: bytes, samples: bytes) -> None:
    with one_line(ConfigError) as folder:
        (folder / "metrics.jsonl").write_bytes(metrics)
        (folder / "samples.jsonl").write_bytes(samples)
        files = RecordFiles(folder, "")
        kept = files.open("metrics.jsonl", lambda line: line["iteration"] < 3)
        files.open("samples.jsonl", lambda line: line["iteration"] < (3 if line["kind"] else 2))
        files.vouch()
        digests = files.digests
        files.close()
        again = RecordFiles(folder, "")
        again.check(3, digests)  # what was opened is what it vouches for
        assert again.open("metrics.jsonl", lambda line: True) == kept
        again.close()


@pytest.mark.slow
@fuzzed
@given(damaged_lines(METRICS))
def test_lines(content: bytes) -> None:
    with one_line(ValueError) as folder:
        path = folder / "metrics.jsonl"
        path.write_bytes(content)
        assert all(isinstance(line, dict) for line in read_lines(path))


RECORD = json.dumps(
    {"final": {"a": 1.0}, "files": {"metrics.jsonl": [0, hashlib.sha256(b"").hexdigest()]}}
).encode()


@fuzzed
@given(st.one_of(damaged_json(RECORD), damaged_bytes(RECORD)))
def test_a_record(content: bytes) -> None:
    with one_line() as folder:
        (folder / "metrics.jsonl").touch()
        (folder / "record.json").write_bytes(content)
        fault = record_fault(folder)
        assert fault is None or "\n" not in fault


MANIFEST = json.dumps(
    {
        "iterations": 1,
        "settings": "s",
        "layout": {"processes": 1, "zero_stage": 0},
        "files": {"state_0.pt": [0, hashlib.sha256(b"").hexdigest()]},
    }
).encode()


@fuzzed
@given(st.one_of(damaged_json(MANIFEST), damaged_bytes(MANIFEST)))
def test_a_manifest(content: bytes) -> None:
    with one_line() as folder:
        (folder / "state_0.pt").touch()
        (folder / "manifest.json").write_bytes(content)
        fault, manifest = inspect(folder, "s")
        assert fault is not None or all(len(own) == 2 for own in manifest["files"].values())


HEAD = {"settings": "s", "weights": "w", "sealed": True}
ANSWERS = [{"row": n, "text": f"answer {n}"} for n in range(4)]


def sealed_rows() -> list[bytes]:
    """A head and two batches of two lines, each with its hash."""
    rows = rows_of(HEAD)
    for batch in (ANSWERS[:2], ANSWERS[2:]):
        rows += rows_of(*batch)
        so_far = hashlib.sha256(b"".join(row + b"\n" for row in rows)).hexdigest()
        rows += rows_of(seal(so_far))
    return rows


@fuzzed
@given(damaged_lines(sealed_rows()))
def test_partial_results(content: bytes) -> None:
    """Whatever is in the file, its lines are those that were written, or none."""
    with one_line() as folder:
        (folder / "000000.jsonl").write_bytes(content)
        results = PartialResults(folder, "s")
        found = results.open(0, "w", [2, 2])
        if results.sealed:
            assert found in ([], ANSWERS[:2], ANSWERS)
        results.add([{"row": "new"}])
        results.close()


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
