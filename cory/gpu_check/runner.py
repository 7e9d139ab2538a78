"""Runs the cases, each in a process with a time limit, and keeps the results."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cory.gpu_check.cases import LARGE, LIMITS, SMALL, Case
from cory.gpu_check.compare import checks, left_out, rounding_of
from cory.gpu_check.machine import Machine
from cory.gpu_check.measure import LOG, NUMBERS, ORDER, RESULT, Order
from cory.gpu_check.random_models import make_llama
from cory.runs.run_dir import write_whole

PASSED, MEASURED, FAILED, NOT_RUN = "passed", "measured", "failed", "not run"
FINISHED = (PASSED, MEASURED, FAILED)
RESULTS = "results.json"
TIME_UP = "the time was up; the same command goes on here"
# seconds that a case is taken to last while none of its model has ended
GUESS = {SMALL: 20.0, LARGE: 60.0}
MEASURE = "cory.gpu_check.measure"

Result = dict[str, Any]


@dataclass
class Runner:
    """The check of one machine.

    folder: of results, logs and the report; what is there of the same machine and code is kept
    models: folder for the models, some gigabytes
    deadline: by time.monotonic(), after which no case begins
    """

    folder: Path
    models: Path
    machine: Machine
    deadline: float
    module: str = MEASURE
    limits: Mapping[str, float] = field(default_factory=lambda: LIMITS)
    say: Callable[[str], None] = print
    at_a_time: int = 1

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = defaultdict(threading.Lock)  # a model each
        self._done = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        self.fingerprint = self.machine.fingerprint()
        self.results = self._kept()

    def _kept(self) -> dict[str, Result]:
        """Finished cases of an earlier start, on this machine and by this code."""
        file = self.folder / RESULTS
        if not file.exists():
            return {}
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["fingerprint"] != self.fingerprint:
            self.say("results of another machine or of other code are left out: all cases run")
            return {}
        return {
            name: result
            for name, result in stored["cases"].items()
            if result["status"] in FINISHED and (self._folder_of(name) / ORDER).exists()
        }

    def run(self, cases: list[Case]) -> dict[str, Result]:
        """Run what is not finished; results by name, in the order of the cases."""
        self._done = 0
        if self.at_a_time == 1:
            for case in cases:
                self._one(cases, case)
        else:
            self._side_by_side(cases)
        return {case.name: self.results[case.name] for case in cases}

    def _side_by_side(self, cases: list[Case]) -> None:
        """As many at a time as asked; those of the large model on the device alone, at the end."""
        alone = [case for case in cases if case.model == LARGE and not case.is_reference]
        others = [case for case in cases if case not in alone]
        # the large model's reference takes longest, and each other one comes before its cases
        others.sort(key=lambda case: (not case.is_reference, case.model != LARGE))
        begun: dict[str | None, Future[None]] = {}

        def one(case: Case) -> None:
            if case.reference in begun:
                begun[case.reference].result()
            self._one(cases, case)

        with ThreadPoolExecutor(self.at_a_time) as pool:
            for case in others:
                begun[case.name] = pool.submit(one, case)
            try:
                for future in begun.values():
                    future.result()
            finally:  # interrupted: those that run end, and no other begins
                pool.shutdown(cancel_futures=True)
        for case in alone:
            self._one(cases, case)

    def _one(self, cases: list[Case], case: Case) -> None:
        """Run a case unless it is finished, keep its result and say how it ended."""
        kept = case.name in self.results
        result = self.results[case.name] if kept else self._run(case)
        with self._lock:
            self.results[case.name] = result
            self._done += 1
            self._write()
            self.say(self._line(cases, case, kept))

    def _line(self, cases: list[Case], case: Case, kept: bool) -> str:
        result = self.results[case.name]
        spent = "kept" if kept else f"{result.get('wall_s', 0):.0f} s"
        left = f"; about {self._left(cases) / 60:.0f} min left" if not kept else ""
        reason = f": {result['reason']}" if result["reason"] else ""
        place = f"[{self._done}/{len(cases)}]"
        return f"{place} {case.name}: {result['status']} ({spent}{left}){reason}"

    def _left(self, cases: list[Case]) -> float:
        """Seconds that the cases without a result will take, as far as the deadline."""
        seconds = 0.0
        for case in cases:
            if case.name in self.results or case.obstacle(self.machine):
                continue
            like = [r["wall_s"] for r in self.results.values() if r.get("model") == case.model]
            mean = sum(like) / len(like) if like else GUESS.get(case.model, GUESS[SMALL])
            alone = case.model == LARGE and not case.is_reference
            seconds += mean / (1 if alone else self.at_a_time)
        return min(seconds, max(0.0, self.deadline - time.monotonic()))

    def _run(self, case: Case) -> Result:
        """Run one case, unless something is in its way."""
        reason = case.obstacle(self.machine)
        reference = None if case.reference is None else self.results.get(case.reference)
        compared = reference is not None and reference["status"] == PASSED
        if reason is None and time.monotonic() >= self.deadline:
            reason = TIME_UP
        if reason is not None:
            return {"status": NOT_RUN, "reason": reason, "words": case.words, "checks": []}
        began = time.monotonic()
        place = self._place(case)
        said = self._process(case, place, compared)
        result: Result = {
            "status": FAILED,
            "reason": None,
            "model": case.model,
            "words": case.words,
            "checks": [],
            "tells_speed": case.tells_speed,
            "log": str((place / LOG).relative_to(self.folder)),
            "wall_s": round(time.monotonic() - began, 1),
        }  # fmt: skip
        if isinstance(said, str):
            return result | {"reason": said}
        if "obstacle" in said:
            return result | {"status": NOT_RUN, "reason": said["obstacle"]}
        if "error" in said:
            return result | {"reason": said["error"]}
        result["measured"] = said
        if not compared and case.reference is not None:
            return result | {"status": MEASURED, "reason": f"not compared: no {case.reference}"}
        return result | self._judged(case, place, said)

    def _judged(self, case: Case, place: Path, measured: Result) -> Result:
        """The status of a case whose process ended well, and its comparisons."""
        if case.is_reference:
            return {"status": PASSED}
        if case.reference is None:
            return {"status": MEASURED}
        own, wanted = (
            json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
            for folder in (place, self._folder_of(case.reference))
        )
        kinds = ("precision", "products", "quantisation")
        rounding = rounding_of(*(measured[kind] for kind in kinds))
        found = checks(own, wanted, rounding, measured["layers"])
        wrong = [check for check in found if not check.holds]
        said = [f"{c.what} is off by {c.off:.2g}, bound {c.bound:.2g}" for c in wrong]
        if left_out(own):
            said.append("its first update was left out (overflow in fp16) and is not compared")
        return {
            "status": FAILED if wrong else PASSED,
            "reason": "; ".join(said) or None,
            "checks": [asdict(check) for check in found],
        }

    def _process(self, case: Case, place: Path, compared: bool) -> Result | str:
        """Run the process of a case; its result, or why it has none.

        compared: its reference is there, to be replayed
        """
        for name in (RESULT, NUMBERS):
            (place / name).unlink(missing_ok=True)
        order = Order(
            case.overrides(self.machine, self._model(case.model)),
            str(self._folder_of(case.reference)) if compared and case.reference else None,
            timed=not case.is_reference,
        )
        write_whole(place / ORDER, json.dumps(asdict(order), indent=1))
        processes = self.machine.processes if case.all_devices else 1
        many = ("torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m")
        words = [sys.executable, "-m", *(many if processes > 1 else ()), self.module, str(place)]
        device = "cpu" if case.is_reference else self.machine.device
        threads = {"OMP_NUM_THREADS": str(self._threads(case, processes))}
        environment = threads | os.environ | {"DS_ACCELERATOR": device}
        limit = min(self.limits[case.model], max(1.0, self.deadline - time.monotonic()))
        with (place / LOG).open("w") as log:
            process = subprocess.Popen(
                words, stdout=log, stderr=log, env=environment, start_new_session=True
            )
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                cut = limit < self.limits[case.model]
                return {"obstacle": TIME_UP} if cut else f"it was ended after {limit:.0f} s"
            finally:
                end(process)
        if not (place / RESULT).exists():
            return f"its process ended with {code} and no result"
        result: Result = json.loads((place / RESULT).read_text(encoding="utf-8"))
        return result

    def _threads(self, case: Case, processes: int) -> int:
        """Of a process: with others beside it, the large model's reference takes half the cores."""
        sharing = processes
        if self.at_a_time > 1:
            large = case.model == LARGE
            sharing = 2 * self.at_a_time if not large else 2 if case.is_reference else processes
        return max(1, self.machine.cores // sharing)

    def _model(self, model: str) -> str:
        """The setting model.path of a model, which is made where it is not there."""
        if model not in (SMALL, LARGE):
            return "asset:tiny"
        size = "stand-in" if model == LARGE and self.machine.device == "cpu" else model
        with self._making[size]:
            make_llama(self.models / size, size)
        return str(self.models / size)

    def _place(self, case: Case) -> Path:
        place = self._folder_of(case.name)
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _folder_of(self, name: str) -> Path:
        return self.folder / "cases" / re.sub(r"\W+", "_", name)

    def _write(self) -> None:
        stored = {
            "fingerprint": self.fingerprint,
            "machine": asdict(self.machine),
            "at_a_time": self.at_a_time,
            "cases": self.results,
        }
        write_whole(self.folder / RESULTS, json.dumps(stored, indent=1) + "\n")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a case's process and those that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
