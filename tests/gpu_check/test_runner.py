"""The runner: what failed fails, what was not run is named, what is finished is kept."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from cory.gpu_check.cases import GPT2, LARGE, Case
from cory.gpu_check.machine import Machine, this_machine
from cory.gpu_check.runner import FAILED, MEASURED, NOT_RUN, PASSED, RESULTS, Runner
from scripts import check_gpu

MADE_UP = "tests.support.made_up_case"
REFERENCE = Case("on the CPU", GPT2, "", None, is_reference=True)
GOOD = Case("good", GPT2, "", REFERENCE.name)
WRONG = Case("wrong", GPT2, "wrong", REFERENCE.name)
LIMITS = {GPT2: 30.0}


def runner(folder: Path, minutes: float = 5.0, **options: object) -> Runner:
    given = {"module": MADE_UP, "limits": LIMITS, "say": lambda line: None} | options
    machine = this_machine("cpu")
    return Runner(folder, folder / "models", machine, time.monotonic() + 60 * minutes, **given)  # type: ignore[arg-type]


def starts(folder: Path, name: str) -> int:
    place = folder / "cases" / name.replace(" ", "_") / "starts"
    return len(place.read_text().splitlines()) if place.exists() else 0


@pytest.mark.slow
def test_each_end_of_a_case_is_told_apart(tmp_path: Path) -> None:
    cases = [
        REFERENCE,
        WRONG,
        GOOD,
        Case("broken", GPT2, "break", REFERENCE.name),
        Case("dead", GPT2, "die", REFERENCE.name),
        Case("too large", GPT2, "too-large", REFERENCE.name),
        Case("half", GPT2, "model.precision=fp16", REFERENCE.name),
        Case("alone", GPT2, "", None),
        Case("overflow", GPT2, "overflow", REFERENCE.name),
    ]
    lines: list[str] = []
    found = runner(tmp_path, say=lines.append).run(cases)
    assert {name: result["status"] for name, result in found.items()} == {
        "on the CPU": PASSED,
        "wrong": FAILED,
        "good": PASSED,
        "broken": FAILED,
        "dead": FAILED,
        "too large": NOT_RUN,
        "half": NOT_RUN,
        "alone": MEASURED,
        "overflow": PASSED,
    }
    assert found["overflow"]["reason"] == (
        "its first update was left out (overflow in fp16) and is not compared"
    )
    assert len(found["overflow"]["checks"]) == len(found["good"]["checks"]) - 4
    assert found["wrong"]["reason"].startswith("logprobs, mean is off by 0.25, bound ")
    assert found["broken"]["reason"] == "RuntimeError: broken"
    assert found["dead"]["reason"] == "its process ended with 3 and no result"
    assert (tmp_path / found["dead"]["log"]).is_file()
    assert found["too large"]["reason"] == "it needs more memory"
    assert found["half"]["reason"] == "needs a GPU" and starts(tmp_path, "half") == 0
    assert found["good"]["reason"] is None and len(found["good"]["checks"]) == 12
    assert len(lines) == len(cases) and lines[1].startswith("[2/9] wrong: failed (")
    assert "min left): logprobs" in lines[1]
    assert json.loads((tmp_path / RESULTS).read_text())["cases"] == found


@pytest.mark.slow
def test_a_case_past_its_time_is_ended_and_the_others_go_on(tmp_path: Path) -> None:
    began = time.monotonic()
    cases = [Case("slow", GPT2, "hang", None), Case("alone", GPT2, "", None)]
    found = runner(tmp_path, limits={GPT2: 3.0}).run(cases)
    assert found["slow"]["status"] == FAILED
    assert found["slow"]["reason"] == "it was ended after 3 s"
    assert found["alone"]["status"] == MEASURED
    assert time.monotonic() - began < 30


def test_without_its_reference_a_case_is_only_measured(tmp_path: Path) -> None:
    found = runner(tmp_path).run([replace(REFERENCE, words="break"), GOOD])
    assert found[REFERENCE.name]["status"] == FAILED
    assert found["good"]["status"] == MEASURED
    assert found["good"]["reason"] == "not compared: no on the CPU"


@pytest.mark.slow
def test_finished_cases_are_kept_and_others_run_again(tmp_path: Path) -> None:
    half = Case("half", GPT2, "model.precision=fp16", REFERENCE.name)
    cases = [REFERENCE, GOOD, WRONG, half]
    first = runner(tmp_path).run(cases)
    second = runner(tmp_path).run(cases)
    assert second == first
    assert [starts(tmp_path, c.name) for c in cases] == [1, 1, 1, 0]
    stored = json.loads((tmp_path / RESULTS).read_text())
    (tmp_path / RESULTS).write_text(json.dumps(stored | {"fingerprint": "of another machine"}))
    runner(tmp_path).run(cases)
    assert [starts(tmp_path, c.name) for c in cases] == [2, 2, 2, 0]


@pytest.mark.parametrize("at_a_time", [1, 2])
def test_what_was_interrupted_goes_on(tmp_path: Path, at_a_time: int) -> None:
    def interrupt(line: str) -> None:
        if "good" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner(tmp_path, say=interrupt, at_a_time=at_a_time).run([REFERENCE, GOOD, WRONG])
    found = runner(tmp_path).run([REFERENCE, GOOD, WRONG])
    assert [starts(tmp_path, name) for name in found] == [1, 1, 1]
    assert found["wrong"]["status"] == FAILED


def test_when_the_time_is_up_nothing_begins_and_it_is_said(tmp_path: Path) -> None:
    found = runner(tmp_path, minutes=0).run([REFERENCE, GOOD])
    assert [result["status"] for result in found.values()] == [NOT_RUN, NOT_RUN]
    assert found["good"]["reason"] == "the time was up; the same command goes on here"
    assert starts(tmp_path, "good") == 0
    assert runner(tmp_path).run([REFERENCE, GOOD])["good"]["status"] == PASSED


@pytest.mark.slow
def test_a_case_that_the_end_of_the_time_cuts_off_has_not_failed(tmp_path: Path) -> None:
    slow = Case("slow", GPT2, "hang", None)
    found = runner(tmp_path, minutes=2 / 60).run([slow])["slow"]
    assert (found["status"], found["reason"]) == (
        NOT_RUN, "the time was up; the same command goes on here"
    )  # fmt: skip
    assert starts(tmp_path, "slow") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "code"), [([REFERENCE, GOOD], 0), ([REFERENCE, WRONG], 1)])
def test_the_command_writes_a_page_and_says_by_its_exit_code_whether_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    cases: list[Case], code: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(check_gpu, "in_order", lambda: cases)
    monkeypatch.setattr(check_gpu, "Runner", partial(Runner, module=MADE_UP, limits=LIMITS))
    monkeypatch.setattr(check_gpu, "paper_hours", lambda *_: [])
    monkeypatch.setattr(sys, "argv", ["", "--device", "cpu", "--outputs", str(tmp_path)])
    assert check_gpu.main() == code
    assert (tmp_path / "cpu" / "report.md").read_text().startswith("# Trial of the check on a CPU")
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith(f"{2 - code} passed, 0 measured, {code} failed, 0 not run; ")
    assert check_gpu.main() == code and starts(tmp_path / "cpu", cases[1].name) == 1
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--again"])
    assert check_gpu.main() == code and starts(tmp_path / "cpu", cases[1].name) == 2


@pytest.mark.slow
@pytest.mark.parametrize("at_a_time", [1, 3])
def test_side_by_side_each_case_follows_its_reference_and_large_ones_have_the_device_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    """And what each finds is what it finds alone."""
    monkeypatch.setattr("cory.gpu_check.runner.make_llama", lambda folder, size: None)
    whole = Case("large on the CPU", LARGE, "", None, is_reference=True)
    large = [Case(f"large {n}", LARGE, "", whole.name) for n in range(2)]
    cases = [REFERENCE, GOOD, WRONG, whole, *large, Case("alone", GPT2, "", None)]
    spans: dict[str, tuple[float, float]] = {}
    threads: dict[str, int] = {}

    class Timed(Runner):
        def _process(self, case: Case, place: Path, compared: bool) -> dict[str, object] | str:
            began = time.monotonic()
            assert case.reference is None or compared, case.name
            threads[case.name] = self._threads(case, 1)
            found = super()._process(case, place, compared)
            spans[case.name] = (began, time.monotonic())
            return found

    lines: list[str] = []
    machine = replace(this_machine("cpu"), cores=16)
    limits = {GPT2: 30.0, LARGE: 30.0}
    found = Timed(tmp_path, tmp_path, machine, time.monotonic() + 300, MADE_UP, limits,
                  lines.append, at_a_time).run(cases)  # fmt: skip
    assert [result["status"] for result in found.values()] == [
        PASSED, PASSED, FAILED, PASSED, PASSED, PASSED, MEASURED
    ]  # fmt: skip
    assert [line.split("]")[0] for line in lines] == [f"[{n}/7" for n in range(1, 8)]
    others = {name for name in spans if name not in ("large 0", "large 1")}
    times = sorted(spans[name] for name in others)
    overlap = any(later[0] < earlier[1] for earlier, later in pairwise(times))
    assert overlap == (at_a_time > 1)
    if at_a_time > 1:  # else in their order
        assert max(spans[name][1] for name in others) <= spans["large 0"][0]
    assert spans["large 0"][1] <= spans["large 1"][0]
    # with others beside it a small case takes its share, and the large reference half of the cores
    assert [threads[name] for name in ("good", whole.name, "large 0")] == (
        [16, 16, 16] if at_a_time == 1 else [2, 8, 16]
    )
    assert json.loads((tmp_path / RESULTS).read_text())["at_a_time"] == at_a_time


def test_without_a_gpu_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_gpu.this_machine.__globals__["torch"].cuda, "is_available", bool)
    monkeypatch.setattr(sys, "argv", [""])
    assert check_gpu.main() == 1
    assert capsys.readouterr().err == (
        "error: this machine has no CUDA device that torch can use; "
        "--device cpu tries the check itself\n"
    )


def test_cases_are_chosen_by_words_in_their_names() -> None:
    assert [case.name for case in check_gpu.chosen(["routed"])] == [
        "small with adapters on the CPU",
        "adapters, routed",
    ]
    assert not check_gpu.chosen(["no such case"])


def test_a_made_up_machine_runs_as_many_processes_as_it_has(gpu: Machine, tmp_path: Path) -> None:
    overrides = Case("all", GPT2, "", None, all_devices=True).overrides(gpu, "asset:tiny")
    assert {"hardware.processes=8", "hardware.microbatch_size=1", "hardware=gpu1"} <= {*overrides}


def test_cases_of_another_choice_stay_in_the_results(tmp_path: Path) -> None:
    runner(tmp_path).run([REFERENCE, GOOD])
    runner(tmp_path).run([REFERENCE, WRONG])
    assert json.loads((tmp_path / RESULTS).read_text())["cases"].keys() == {
        REFERENCE.name, GOOD.name, WRONG.name
    }  # fmt: skip
