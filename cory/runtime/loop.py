"""The loop over iterations, shared by all algorithms."""

import copy
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tqdm import tqdm

from cory import distributed
from cory.algorithms import Algorithm
from cory.config import Config, nearest, require
from cory.episode import Metrics
from cory.evaluation.responses import BEFORE, BEFORE_ANY, BeforeEach, EvalRequest
from cory.rewards import RunReward
from cory.runs.checkpoint import BestAgents, Checkpoints
from cory.runs.recorder import Recorder
from cory.runs.stop import Stopped, StopRequest
from cory.runtime.progress import progress
from cory.trainers.divergence import TrainingDiverged

EVALUATION = "eval/"  # begins the metrics that only evaluations have
SAVE_AFTER_S = 600.0  # an iteration that lasts longer than this is saved at its next stop point


@dataclass
class Loop:
    """Iterates from the newest checkpoint on: step, keep samples, save, evaluate, log.

    A checkpoint holds the metrics of its last iteration and is written before the evaluation, which
    may take hours: a run killed within it begins it again, with nothing trained again.
    """

    algorithm: Algorithm
    config: Config
    record: Recorder
    checkpoints: Checkpoints
    stop: StopRequest
    export: Callable[[int], None]  # writes the agents as they are after so many iterations
    reward: RunReward | None = None  # one that follows the run: logged with each iteration
    best: BestAgents | None = None  # keeps the agents of the best iteration
    saved: int | None = field(default=None, init=False)  # iterations before the newest checkpoint

    def run(self) -> None:
        """All iterations that are left; Stopped where the run is to stop before its end."""
        iterations = self.config.algorithm.iterations
        start, trained, before = self._resume()
        if self.best is not None:
            self.best.start(start)
        if before is None:
            before = self._measure_untrained()
        if iterations == 0:
            self.record.log(0, self._measure(0, "the evaluation"))
        latest: Metrics = {}
        with tqdm(
            total=iterations,
            initial=start,
            file=sys.stdout,
            desc=f"{self.config.experiment} seed {self.config.seed}",
            bar_format="{desc} |{bar:12}| {n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix}",
            disable=distributed.rank() != 0 or iterations == 0,
        ) as bar:
            for iteration in range(start, iterations):
                metrics, leaving = self._iterate(iteration, before, trained)
                before, trained = {}, None
                latest |= metrics
                bar.set_postfix_str(progress(latest), refresh=False)
                bar.update()
                if leaving:
                    raise Stopped(f"saved after iteration {iteration + 1} of {iterations}")

    def _iterate(
        self, iteration: int, before: Metrics, trained: Metrics | None
    ) -> tuple[Metrics, bool]:
        """One iteration, until it is logged.

        before: metrics of the untrained agents that are not logged yet
        trained: the iteration's metrics, where it was trained and saved before a restart, so that
            only its evaluation and its log are still to be done; else None
        returns: its metrics, and whether the run is to stop after it
        """
        config, iterations = self.config, self.config.algorithm.iterations
        last = iteration + 1 == iterations
        saved = trained is not None
        metrics = before | self._train(iteration, before) if trained is None else trained
        leaving = not last and self.stop.asked_anywhere()
        if not saved and (last or leaving or due(iteration, config.checkpoint_every)):
            self._save(iteration + 1, metrics)
            saved = True
        if last or due(iteration, config.evaluate_every):
            where = f"the evaluation after iteration {iteration + 1} of {iterations}"
            try:
                metrics |= self._measure(iteration, where)
            except Stopped:
                if not saved:
                    self._save(iteration + 1, metrics)
                raise
        if not last and due(iteration, config.export_every):
            self.export(iteration + 1)
        require_metrics(config, metrics)
        if iteration == 0:
            note_of_unknown(config, metrics)
        if self.best is not None:
            self.best.offer(iteration, metrics)
        self.record.log(iteration, metrics)
        return metrics, leaving

    def _train(self, iteration: int, before: Metrics) -> Metrics:
        """The iteration's roll-out and updates; the numbers of one that diverged are logged."""
        if self.reward is not None:
            self.reward.at(iteration)
        untouched = copy.deepcopy(self.algorithm.state_dict())
        save = partial(self._save, iteration, before)
        stop_point = SavingPoint(iteration, self.config, self.stop, save)
        try:
            metrics = self.algorithm.step(iteration, stop_point)
        except Stopped:
            # while data were collected: the weights are as before the iteration
            if not stop_point.stopped and self.saved != iteration:
                self._save(iteration, before, untouched)
            raise
        except TrainingDiverged as error:
            own = {} if self.reward is None else self.reward.metrics()
            self.record.log(iteration, before | error.metrics | own)
            error.args = (f"{error}; of its checkpoints, {self.checkpoints.newest()}",)
            raise
        if self.reward is not None:
            metrics |= self.reward.metrics()
        last = iteration + 1 == self.config.algorithm.iterations
        if last or due(iteration, self.config.samples_every):
            kept = self.algorithm.episodes[: self.config.samples_kept]
            self.record.log_samples(iteration, kept)
        return metrics

    def _measure(self, iteration: int, where: str) -> Metrics:
        """Metrics of an evaluation; its responses go to samples.jsonl. Stopped if the run is to.

        where: the evaluation, in the message of Stopped
        """
        config, iterations = self.config, self.config.algorithm.iterations
        if self.reward is not None:
            self.reward.at(min(iteration + 1, iterations))
        final = iteration + 1 >= iterations
        request = EvalRequest(config.evaluation, config.seed, iteration, final)
        with watched(config, self.stop, where) as before_each:
            metrics = self.algorithm.evaluate(request, before_each)
        self.record.log_lines(request.lines)
        self.record.log_scores(request.scores.as_line(iteration))
        if self.reward is not None:
            metrics |= seconds_of(self.reward)
        return metrics

    def _measure_untrained(self) -> Metrics:
        """Metrics of the agents before any training; responses and scores go to the records."""
        config = self.config
        if not config.evaluates_before:
            return {}
        if self.reward is not None:
            self.reward.at(0)
        request = EvalRequest(config.evaluation, config.seed, BEFORE_ANY, final=False)
        with watched(config, self.stop, "the evaluation before the training") as before_each:
            self.algorithm.evaluate(request, before_each)
        self.record.log_lines([line | {"kind": BEFORE} for line in request.lines])
        self.record.log_scores(request.scores.as_line(BEFORE_ANY))
        if self.reward is not None:
            self.reward.metrics()  # which are of these responses, and of no iteration
        return request.scores.metrics()

    def _save(self, done: int, metrics: Metrics, algorithm: Any = None) -> None:
        """Write a checkpoint after `done` iterations.

        metrics: what is not logged yet: of the last of them, or of the untrained agents
        algorithm: its state; None: as it is now
        """
        state = {
            "algorithm": self.algorithm.state_dict() if algorithm is None else algorithm,
            "record": self.record.state_dict(),
            "metrics": metrics,
        }
        self.checkpoints.save(done, self.algorithm.agents, state)
        self.saved = done

    def _resume(self) -> tuple[int, Metrics | None, Metrics | None]:
        """Restore everything from the newest checkpoint.

        returns: the iteration to go on with; its metrics where only its evaluation and log are
            left; those of the untrained agents that are not logged yet, None without a checkpoint
        """
        restored = self.checkpoints.restore(self.algorithm.agents)
        if restored is None:
            self.record.start(0, None)
            return 0, None, None
        done, state = restored
        self.saved = done
        self.algorithm.load_state_dict(state["algorithm"])
        logged = distributed.from_first(self.record.start(done, state["record"]))
        if logged < done:
            return logged, state["metrics"], {}
        return done, None, state["metrics"] if done == 0 else {}


class SavingPoint:
    """A `StopPoint` that saves within an iteration, if the run is to stop or it has taken long."""

    def __init__(
        self, iteration: int, config: Config, stop: StopRequest, save: Callable[[], None]
    ) -> None:
        self.iteration = iteration
        self.config = config
        self.stop = stop
        self.save = save
        self.saved = time.monotonic()
        self.stopped = False  # it has saved for a stop

    def __call__(self) -> None:
        """Save where it is time to; then Stopped where the run is to stop."""
        stop = self.stop.asked_anywhere()
        long = time.monotonic() - self.saved >= SAVE_AFTER_S
        if stop or distributed.any_of(long and self.config.checkpoint_every > 0):
            self.save()
            self.saved = time.monotonic()
        if stop:
            self.stopped = True
            where = f"iteration {self.iteration + 1} of {self.config.algorithm.iterations}"
            raise Stopped(f"saved within {where}")


@contextmanager
def watched(config: Config, stop: StopRequest, where: str) -> Iterator[BeforeEach]:
    """A bar over an evaluation's responses, which ends with Stopped where the run is to stop."""
    with tqdm(
        file=sys.stdout,
        desc=f"evaluation of {config.experiment} seed {config.seed}",
        bar_format="{desc} |{bar:12}| {n_fmt}/{total_fmt} {elapsed}<{remaining}",
        leave=False,
        delay=10,  # seconds; most are over before
        disable=distributed.rank() != 0,
    ) as bar:

        def before_each(done: int, rows: int) -> None:
            stop.check(f"within {where}")
            bar.total = rows
            bar.update(done - bar.n)

        yield before_each


def require_metrics(config: Config, metrics: Metrics) -> None:
    """Refuse an objective or keep_best among the metrics of evaluations that this one lacks."""
    known = [name for name in metrics if name.startswith(EVALUATION)]
    for key in ("objective", "keep_best"):
        name = getattr(config, key) or ""
        require(
            not known or not name.startswith(EVALUATION) or name in known,
            f"{key}={name} is no metric of this run{nearest(name, known)}",
        )


def note_of_unknown(config: Config, metrics: Metrics) -> None:
    """Tell of an objective or keep_best that the first iteration has not: it may be misspelt."""
    for key in ("objective", "keep_best"):
        name = getattr(config, key)
        if name is not None and name not in metrics and not name.startswith(EVALUATION):
            distributed.note(
                f"{key}={name} is no metric of the first iteration{nearest(name, sorted(metrics))}"
            )


def seconds_of(reward: RunReward) -> Metrics:
    """Seconds of a reward's calls in an evaluation; its other metrics are about training."""
    prefix = "time/"
    return {
        f"{prefix}eval_{key.removeprefix(prefix)}": value
        for key, value in reward.metrics().items()
        if key.startswith(prefix)
    }


def due(iteration: int, every: int) -> bool:
    """Whether an action is due that happens every `every` iterations; 0: never."""
    return every > 0 and (iteration + 1) % every == 0
