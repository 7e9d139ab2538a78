"""The loop over iterations, shared by all algorithms."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tqdm import tqdm

from cory import distributed
from cory.algorithms import Algorithm
from cory.config import Config
from cory.episode import Metrics
from cory.evaluation.evaluate import BeforeEach, EvalRequest
from cory.rewards import RunReward
from cory.runs.checkpoint import Checkpoints
from cory.runs.partial_results import PartialResults
from cory.runs.recorder import Record
from cory.runs.stop import Stopped, StopPoint, StopRequest
from cory.runtime.best_agents import BestAgents
from cory.runtime.progress import bar_stream, progress
from cory.runtime.untrained import Untrained
from cory.trainers.divergence import TrainingDiverged

SAVE_AFTER_S = 600.0  # an iteration that lasts longer than this is saved at its next stop point


def run(
    algorithm: Algorithm,
    config: Config,
    record: Record,
    checkpoints: Checkpoints,
    pieces: PartialResults,
    stop: StopRequest,
    export: Callable[[int], None],
    reward: RunReward | None = None,
    untrained: Untrained | None = None,
    best: BestAgents | None = None,
) -> None:
    """Iterate from the newest checkpoint on: step, keep samples, save, evaluate, log.

    A checkpoint holds the metrics of its last iteration and is written before the evaluation, which
    may take hours: a run killed within it goes on there, with nothing trained again.

    export(done): writes the agents as they are after `done` iterations
    reward: one that follows the run; its metrics are logged with the iteration's
    untrained: evaluates the agents before the first iteration, whose line has its metrics
    best: keeps the agents of the best iteration
    """
    iterations = config.algorithm.iterations
    measure = partial(evaluated, algorithm, config, record, pieces, stop, reward)
    start, metrics, before = resume(algorithm, record, checkpoints)
    if best is not None:
        best.start(start)
    if before is None:
        before = (
            {} if untrained is None else untrained_metrics(untrained, config, record, stop, reward)
        )
    if iterations == 0:
        record.log(0, measure(0, "the evaluation"))
        put_away(record, pieces)
    latest: Metrics = {}
    with tqdm(
        total=iterations,
        initial=start,
        file=bar_stream(),
        desc=f"{config.experiment} seed {config.seed}",
        bar_format="{desc} |{bar:12}| {n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix}",
        disable=distributed.rank() != 0 or iterations == 0,
    ) as bar:
        for iteration in range(start, iterations):
            last = iteration + 1 == iterations
            to_measure = last or due(iteration, config.evaluate_every)
            saved = metrics is not None  # trained before the restart; evaluation and log are left
            if metrics is None:
                stop_point = SavingPoint(
                    iteration, config, algorithm, record, checkpoints, stop, before
                )
                metrics = stepped(algorithm, record, checkpoints, iteration, stop_point, reward)
                metrics, before = before | metrics, {}
                if last or due(iteration, config.samples_every):
                    record.log_samples(iteration, algorithm.episodes[: config.samples_kept])
            leaving = not last and stop.asked_anywhere()
            if not saved and (last or leaving or due(iteration, config.checkpoint_every)):
                save_checkpoint(iteration + 1, metrics, algorithm, record, checkpoints)
                saved = True
                if untrained is not None:
                    untrained.put_away()
            if to_measure:
                where = f"the evaluation after iteration {iteration + 1} of {iterations}"
                try:
                    metrics |= measure(iteration, where)
                except Stopped:
                    if not saved:
                        save_checkpoint(iteration + 1, metrics, algorithm, record, checkpoints)
                    raise
            if not last and due(iteration, config.export_every):
                export(iteration + 1)
            if best is not None:
                best.offer(iteration, metrics)
            record.log(iteration, metrics)
            if to_measure:
                put_away(record, pieces)
            latest |= metrics
            bar.set_postfix_str(progress(latest, algorithm.agents), refresh=False)
            bar.update()
            metrics = None
            if leaving:
                raise Stopped(f"saved after iteration {iteration + 1} of {iterations}")


def stepped(
    algorithm: Algorithm,
    record: Record,
    checkpoints: Checkpoints,
    iteration: int,
    stop_point: StopPoint,
    reward: RunReward | None,
) -> Metrics:
    """The iteration's roll-out and updates; the numbers of one that diverged are logged."""
    if reward is not None:
        reward.at(iteration)
    try:
        metrics = algorithm.step(iteration, stop_point)
        return metrics | reward.metrics() if reward is not None else metrics
    except TrainingDiverged as error:
        record.log(iteration, error.metrics)
        error.args = (f"{error}; of its checkpoints, {checkpoints.newest()}",)
        raise


class SavingPoint:
    """A `StopPoint` that saves within an iteration, if the run is to stop or it has taken long."""

    def __init__(
        self,
        iteration: int,
        config: Config,
        algorithm: Algorithm,
        record: Record,
        checkpoints: Checkpoints,
        stop: StopRequest,
        before: Metrics,
    ) -> None:
        """before: metrics of the untrained agents, as long as they are not logged"""
        self.iteration = iteration
        self.config = config
        self.save = partial(save_checkpoint, iteration, before, algorithm, record, checkpoints)
        self.stop = stop
        self.saved = time.monotonic()

    def __call__(self) -> None:
        """Save where it is time to; then Stopped where the run is to stop."""
        stop = self.stop.asked_anywhere()
        long = time.monotonic() - self.saved >= SAVE_AFTER_S
        if stop or distributed.any_of(long and self.config.checkpoint_every > 0):
            self.save()
            self.saved = time.monotonic()
        if stop:
            where = f"iteration {self.iteration + 1} of {self.config.algorithm.iterations}"
            raise Stopped(f"saved within {where}")


def evaluated(
    algorithm: Algorithm,
    config: Config,
    record: Record,
    pieces: PartialResults,
    stop: StopRequest,
    reward: RunReward | None,
    iteration: int,
    where: str,
) -> Metrics:
    """Metrics of an evaluation; its responses go to samples.jsonl. Stopped if the run is to stop.

    where: the evaluation, in the message of Stopped
    """
    final = iteration + 1 >= config.algorithm.iterations
    if reward is not None:
        reward.at(min(iteration + 1, config.algorithm.iterations))
    request = EvalRequest(config.evaluation, config.seed, iteration, final)
    with watched(config, stop, where) as before_each:
        metrics = algorithm.evaluate(request, pieces, before_each)
    record.log_lines(pieces.lines)
    record.log_scores(request.scores.as_line(iteration))
    if reward is not None:
        metrics |= seconds_of(reward)
    return metrics


def untrained_metrics(
    untrained: Untrained,
    config: Config,
    record: Record,
    stop: StopRequest,
    reward: RunReward | None,
) -> Metrics:
    """Metrics of the agents before any training; responses and scores go to the records."""
    if reward is not None:
        reward.at(0)
    with watched(config, stop, "the evaluation before the training") as before_each:
        lines = untrained.measure(before_each)
    record.log_lines(lines)
    record.log_scores(untrained.request.scores.as_line(untrained.request.iteration))
    if reward is not None:
        reward.metrics()  # which are of these responses, and of no iteration
    return untrained.request.scores.metrics()


@contextmanager
def watched(config: Config, stop: StopRequest, where: str) -> Iterator[BeforeEach]:
    """A bar over an evaluation's responses, which ends with Stopped where the run is to stop."""
    with tqdm(
        file=bar_stream(),
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


def seconds_of(reward: RunReward) -> Metrics:
    """Seconds of a reward's calls in an evaluation.

    Its other metrics are left out: an evaluation that goes on after a stop does not score again
    what was scored before, so they would not be those of all responses.
    """
    prefix = "time/"
    return {
        f"{prefix}eval_{key.removeprefix(prefix)}": value
        for key, value in reward.metrics().items()
        if key.startswith(prefix)
    }


def put_away(record: Record, pieces: PartialResults) -> None:
    """Remove the partial results of an evaluation once the records of it are on the disk."""
    record.sync()
    pieces.clear()


def save_checkpoint(
    done: int, metrics: Metrics, algorithm: Algorithm, record: Record, checkpoints: Checkpoints
) -> None:
    """Write a checkpoint after `done` iterations.

    metrics: what is not logged yet: of the last of them, or of the untrained agents
    """
    state = {
        "algorithm": algorithm.state_dict(),
        "record": record.state_dict(),
        "metrics": metrics,
    }
    record.sync()
    checkpoints.save(done, algorithm.agents, state)


def resume(
    algorithm: Algorithm, record: Record, checkpoints: Checkpoints
) -> tuple[int, Metrics | None, Metrics | None]:
    """Restore everything from the newest checkpoint.

    returns: the iteration to go on with; its metrics where only its evaluation and log are left;
        those of the untrained agents that are not logged yet, None without a checkpoint
    """
    restored = checkpoints.restore(algorithm.agents)
    if restored is None:
        record.start(0, None)
        return 0, None, None
    done, state = restored
    algorithm.load_state_dict(state["algorithm"])
    logged = distributed.from_first(record.start(done, state["record"]))
    if logged < done:
        return logged, state["metrics"], {}
    return done, None, state["metrics"] if done == 0 else {}


def due(iteration: int, every: int) -> bool:
    """Whether an action is due that happens every `every` iterations; 0: never."""
    return every > 0 and (iteration + 1) % every == 0
