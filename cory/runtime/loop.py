"""The only loop over iterations, shared by every algorithm."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection
from functools import partial

from tqdm import tqdm

from cory import distributed
from cory.algorithms import Algorithm
from cory.config import Config
from cory.episode import Metrics
from cory.evaluation.evaluate import Request
from cory.runs.checkpoint import Checkpoints
from cory.runs.partial_results import PartialResults
from cory.runs.recorder import Record
from cory.trainers.divergence import TrainingDiverged
from cory.trainers.interruption import Interrupted


class Stopped(Exception):
    """The run was asked to stop, has saved, and can go on later."""


SAVE_AFTER_S = 600.0  # an iteration is saved in its middle after this long; less is done again


class Paused(Exception):
    """The run was asked to stop in the middle of an evaluation."""


def run(
    algorithm: Algorithm,
    config: Config,
    record: Record,
    checkpoints: Checkpoints,
    pieces: PartialResults,
    asked_to_stop: Callable[[], bool],
    export: Callable[[int], None],
) -> None:
    """Iterate from where the run stands: step, keep samples, save, evaluate, log.

    export(done): writes the agents as they are after so many iterations

    A checkpoint holds the metrics of its last iteration. So an evaluation, which may take hours,
    comes after it, and goes on when the run was killed in the middle, with nothing trained again.
    """
    iterations = config.algorithm.iterations
    measure = partial(measured, algorithm, config, record, pieces, asked_to_stop)
    start, metrics = resume(algorithm, record, checkpoints)
    if iterations == 0:
        try:
            record.log(0, measure(0))
        except Paused:
            raise Stopped("saved within the evaluation") from None
        put_away(record, pieces)
    with tqdm(
        total=iterations,
        initial=start,
        file=sys.stdout,
        desc=f"{config.experiment} seed {config.seed}",
        bar_format="{desc} |{bar:12}| {n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix}",
        disable=distributed.rank() != 0 or iterations == 0,
    ) as bar:
        for iteration in range(start, iterations):
            last = iteration + 1 == iterations
            to_measure = last or due(iteration, config.evaluate_every)
            saved = metrics is not None  # what a restart goes on with
            if metrics is None:
                pause = Pauses(iteration, config, algorithm, record, checkpoints, asked_to_stop)
                metrics = stepped(algorithm, record, checkpoints, iteration, pause)
                if last or due(iteration, config.samples_every):
                    record.log_samples(iteration, algorithm.episodes[: config.samples_kept])
            stop = not last and distributed.any_of(asked_to_stop())
            if not saved and (last or stop or due(iteration, config.checkpoint_every)):
                save(iteration + 1, metrics, algorithm, record, checkpoints)
                saved = True
            if to_measure:
                try:
                    metrics |= measure(iteration)
                except Paused:
                    if not saved:
                        save(iteration + 1, metrics, algorithm, record, checkpoints)
                    where = f"the evaluation after iteration {iteration + 1} of {iterations}"
                    raise Stopped(f"saved within {where}") from None
            if not last and due(iteration, config.export_every):
                export(iteration + 1)
            record.log(iteration, metrics)
            if to_measure:
                put_away(record, pieces)
            bar.set_postfix_str(progress(metrics, algorithm.agents), refresh=False)
            bar.update()
            metrics = None
            if stop:
                raise Stopped(f"saved after iteration {iteration + 1} of {iterations}")


def stepped(
    algorithm: Algorithm, record: Record, checkpoints: Checkpoints, iteration: int, pause: Pauses
) -> Metrics:
    """The iteration's roll-out and updates; Stopped where the run is to stop, and has saved."""
    try:
        return algorithm.step(iteration, pause)
    except Interrupted as interrupted:
        raise Stopped(str(interrupted)) from None
    except TrainingDiverged as error:
        record.log(iteration, error.metrics)
        error.args = (f"{error}; of its checkpoints, {checkpoints.newest()}",)
        raise


class Pauses:
    """Where an iteration can be left: there it is saved, if it is to stop or has taken long."""

    def __init__(
        self,
        iteration: int,
        config: Config,
        algorithm: Algorithm,
        record: Record,
        checkpoints: Checkpoints,
        asked_to_stop: Callable[[], bool],
    ) -> None:
        self.iteration = iteration
        self.config = config
        self.save = partial(save, iteration, {}, algorithm, record, checkpoints)
        self.asked_to_stop = asked_to_stop
        self.saved = time.monotonic()

    def __call__(self) -> None:
        """Stopped, once all is saved, where the run is to stop."""
        stop = distributed.any_of(self.asked_to_stop())
        long = time.monotonic() - self.saved >= SAVE_AFTER_S
        if stop or distributed.any_of(long and self.config.checkpoint_every > 0):
            self.save()
            self.saved = time.monotonic()
        if stop:
            where = f"iteration {self.iteration + 1} of {self.config.algorithm.iterations}"
            raise Stopped(f"saved within {where}")


def measured(
    algorithm: Algorithm,
    config: Config,
    record: Record,
    pieces: PartialResults,
    asked_to_stop: Callable[[], bool],
    iteration: int,
) -> Metrics:
    """An evaluation, with every response in samples.jsonl; Paused where the run is to stop."""
    final = iteration + 1 >= config.algorithm.iterations
    request = Request(config.evaluation, config.seed, iteration, final)
    with tqdm(
        file=sys.stdout,
        desc=f"evaluation of {config.experiment} seed {config.seed}",
        bar_format="{desc} |{bar:12}| {n_fmt}/{total_fmt} {elapsed}<{remaining}",
        leave=False,
        delay=10,  # seconds; most are over before
        disable=distributed.rank() != 0,
    ) as bar:

        def before_each(done: int, rows: int) -> None:
            if distributed.any_of(asked_to_stop()):
                raise Paused
            bar.total = rows
            bar.update(done - bar.n)

        metrics = algorithm.evaluate(request, pieces, before_each)
    record.log_lines(pieces.lines)
    return metrics


def put_away(record: Record, pieces: PartialResults) -> None:
    """Once an evaluation is in the records, on the disk itself, its pieces are not needed."""
    record.sync()
    pieces.clear()


def save(
    done: int, metrics: Metrics, algorithm: Algorithm, record: Record, checkpoints: Checkpoints
) -> None:
    """A checkpoint after `done` iterations, the last of which is not logged yet."""
    state = {
        "algorithm": algorithm.state_dict(),
        "record": record.state_dict(),
        "metrics": metrics,
    }
    record.sync()
    checkpoints.save(done, algorithm.agents, state)


def resume(
    algorithm: Algorithm, record: Record, checkpoints: Checkpoints
) -> tuple[int, Metrics | None]:
    """Put everything back to the newest checkpoint.

    returns: the iteration to go on with; and its metrics, where all of it is done but the
        evaluation and the log
    """
    restored = checkpoints.restore(algorithm.agents)
    if restored is None:
        record.start(0, None)
        return 0, None
    done, state = restored
    algorithm.load_state_dict(state["algorithm"])
    logged = distributed.from_first(record.start(done, state["record"]))
    if logged < done:
        return logged, state["metrics"]
    return done, None


def due(iteration: int, every: int) -> bool:
    """Whether something that happens every `every` iterations happens now; 0 means never."""
    return every > 0 and (iteration + 1) % every == 0


def progress(metrics: Metrics, agents: Collection[str]) -> str:
    """Task reward, KL and combined reward of each agent, for the progress bar; of many, rewards."""
    if any(f"objective/score/{agent}" not in metrics for agent in agents):
        return ""  # who learns from examples is not paid
    if len(agents) > 2:
        rewards = " ".join(f"{metrics[f'objective/score/{agent}']:+.2f}" for agent in agents)
        return f"rewards {rewards}"
    return " | ".join(
        f"{agent}: reward {metrics[f'objective/score/{agent}']:+.2f} "
        f"kl {metrics[f'objective/kl/{agent}']:.2f} "
        f"combined {metrics[f'objective/combined/{agent}']:+.2f}"
        for agent in agents
    )
