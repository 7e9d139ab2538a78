"""Records on resume: what a checkpoint knows of them must be there, and what follows is checked."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest

from cory.config import ConfigError
from cory.runs.record_files import RecordFiles

NAMES = ("metrics.jsonl", "samples.jsonl")


def line(iteration: int, **more: object) -> dict[str, object]:
    return {"iteration": iteration, "text": "‘x’ \u2028" * 3, **more}


class Written:
    """Two files of five iterations; a checkpoint knows four samples and three metrics."""

    def __init__(self, run_dir: Path) -> None:
        files = RecordFiles(run_dir, "")
        for name in NAMES:
            assert files.open(name, lambda line: True) == []
        for iteration in range(5):
            files.append("samples.jsonl", [line(iteration)])
            if iteration == 3:  # a checkpoint is written before its last iteration is logged
                self.saved = files.digests
            files.append("metrics.jsonl", [line(iteration, reward=0.25)])
            files.vouch()
        files.close()
        self.run_dir = run_dir
        self.whole = {name: (run_dir / name).read_bytes() for name in NAMES}

    def again(self, done: int = 4) -> dict[str, list[int]]:
        """The iterations of the lines that are kept after a checkpoint of four iterations."""
        files = RecordFiles(self.run_dir, "")
        files.check(done, self.saved)
        kept = {name: files.open(name, lambda line: line["iteration"] < done) for name in NAMES}
        digests = files.digests
        files.close()
        for name in NAMES:
            content = (self.run_dir / name).read_bytes()
            assert digests[name] == (len(content), hashlib.sha256(content).hexdigest())
        return {name: [line["iteration"] for line in lines] for name, lines in kept.items()}


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def change(path: Path, iteration: int) -> None:
    """Another digit in the line of an iteration."""
    rows = path.read_bytes().splitlines(keepends=True)
    rows[iteration] = rows[iteration].replace(b'"text"', b'"texu"')
    path.write_bytes(b"".join(rows))


WHOLE = {"metrics.jsonl": [0, 1, 2, 3], "samples.jsonl": [0, 1, 2, 3]}
# up to the checkpoint, which knows the samples of its last iteration but not its metrics
BACK = {"metrics.jsonl": [0, 1, 2], "samples.jsonl": [0, 1, 2, 3]}


def test_what_was_not_changed_is_kept(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert written.again() == WHOLE
    assert capsys.readouterr().err == ""
    # the file that vouches is of five iterations, the files are of four: no more than checked
    assert written.again() == BACK


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["digit", "first digit", "lost", "cut", "inserted", "folder"])
def test_a_change_before_the_checkpoint_is_refused(
    written: Written, name: str, damage: str
) -> None:
    path = written.run_dir / name
    whole = path.read_bytes()
    if damage == "digit":
        change(path, 2)
    elif damage == "first digit":
        change(path, 0)
    elif damage == "cut":
        path.write_bytes(whole[: written.saved[name][0] - 1])
    elif damage == "inserted":
        path.write_bytes(b"garbage\n" + whole)
    else:
        path.unlink()
        if damage == "folder":
            path.mkdir()
    with pytest.raises(ConfigError) as error:
        written.again()
    said = str(error.value)
    assert said.startswith(f"{path} is not what the run has written: its first ")
    assert "after 4 iterations" in said and "\n" not in said


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "damage", ["digit", "cut", "no digest", "torn digest", "list", "text", "infinite"]
)
def test_a_change_behind_the_checkpoint_is_cut_off_and_said(
    written: Written, name: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, digests = written.run_dir / name, written.run_dir / "digests.json"
    if damage == "digit":
        change(path, 4)
    elif damage == "cut":
        path.write_bytes(written.whole[name][:-1])
    elif damage == "no digest":
        digests.unlink()
    else:
        text = {
            "torn digest": '{"metrics',
            "list": "[3]",
            "text": '{"metrics.jsonl": ["a", 3]}',
            "infinite": '{"metrics.jsonl": [Infinity, 3]}',
        }
        digests.write_text(text[damage])
    assert written.again() == BACK
    said = capsys.readouterr().err
    if damage in ("digit", "cut"):
        assert said.startswith(f"note: {path} was changed behind") and said.count("\n") == 1


def test_lines_that_nothing_vouches_for_are_made_again(written: Written) -> None:
    """As after a kill between a line and digests.json."""
    with (written.run_dir / "metrics.jsonl").open("ab") as file:
        file.write(json.dumps(line(3, reward=9)).encode() + b"\n")
    assert written.again() == WHOLE


@pytest.mark.parametrize(
    "row",
    [b"3", b"[]", b'"text"', b"null", b"{}", b'{"iteration": "a"}', b'{"iteration": null}',
     b'{"iteration": [1]}', b"[" * 100_000, b"\xff", b"", b'{"iteration": 1e999, "x": \xc3}'],
)  # fmt: skip
def test_lines_that_are_no_records_end_the_file(tmp_path: Path, row: bytes) -> None:
    good = json.dumps(line(0)).encode()
    (tmp_path / "metrics.jsonl").write_bytes(good + b"\n" + row + b"\n" + good + b"\n")
    files = RecordFiles(tmp_path, "")
    assert files.open("metrics.jsonl", lambda line: line["iteration"] < 9) == [line(0)]
    files.close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == good + b"\n"


def test_hashes_cost_little(tmp_path: Path) -> None:
    """A thousand iterations of 100 kB of samples each: about a tenth of a second in all."""
    files = RecordFiles(tmp_path, "")
    for name in NAMES:
        files.open(name, lambda line: True)
    spent = 0.0
    for iteration in range(200):
        files.append("samples.jsonl", [{"iteration": iteration, "text": "x" * 100_000}])
        files.append("metrics.jsonl", [line(iteration)])
        began = time.perf_counter()
        files.vouch()
        spent += time.perf_counter() - began
    files.close()
    assert spent / 200 < 0.05  # seconds; a fraction of a millisecond on an idle machine
