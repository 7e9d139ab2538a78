"""The loop over iterations, shared by all algorithms."""

import sys
import time
from collections.abc import Callable, Collection
from functools import partial

from tqdm import tqdm

from cory import distributed
from cory.algorithms import Algorithm
from cory.config import Config
from cory.episode import Metrics
from cory.evaluation.evaluate import EvalRequest
from cory.rewards import RunReward
from cory.runs.checkpoint import Checkpoints
from cory.runs.partial_results import PartialResults
from cory.runs.recorder import Record
from cory.runs.stop import Stopped, StopPoint, StopRequest
from cory.trainers.divergence import TrainingDiverged

SAVE_AFTER_S = 600.0  # seconds after which an iteration is saved within


def run(
    algorithm: Algorithm,
    config: Config,
    record: Record,
    checkpoints: Checkpoints,
    pieces: PartialResults,
    stop: StopRequest,
    export: Callable[[int], None],
    reward: RunReward | None = None,
) -> None:
    """Iterate from the newest checkpoint on: step, keep samples, save, evaluate, log.

    A checkpoint holds the metrics of its last iteration and is written before the evaluation, which
    may take hours: a run killed within it goes on there, with nothing trained again.

    export(done): writes the agents as they are after `done` iterations
    reward: one that follows the run; its metrics are logged with the iteration's
    """
    iterations = config.algorithm.iterations
    measure = partial(evaluated, algorithm, config, record, pieces, stop, reward)
    start, metrics = resume(algorithm, record, checkpoints)
    if iterations == 0:
        record.log(0, measure(0, "the evaluation"))
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
            saved = metrics is not None  # trained before the restart; evaluation and log are left
            if metrics is None:
                stop_point = SavingPoint(iteration, config, algorithm, record, checkpoints, stop)
                metrics = stepped(algorithm, record, checkpoints, iteration, stop_point, reward)
                if last or due(iteration, config.samples_every):
                    record.log_samples(iteration, algorithm.episodes[: config.samples_kept])
            leaving = not last and stop.asked_anywhere()
            if not saved and (last or leaving or due(iteration, config.checkpoint_every)):
                save_checkpoint(iteration + 1, metrics, algorithm, record, checkpoints)
                saved = True
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
            record.log(iteration, metrics)
            if to_measure:
                put_away(record, pieces)
            bar.set_postfix_str(progress(metrics, algorithm.agents), refresh=False)
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
    ) -> None:
        self.iteration = iteration
        self.config = config
        self.save = partial(save_checkpoint, iteration, {}, algorithm, record, checkpoints)
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

        metrics = algorithm.evaluate(request, pieces, before_each)
    record.log_lines(pieces.lines)
    if reward is not None:
        metrics |= seconds_of(reward)
    return metrics


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
    """Write a checkpoint after `done` iterations, the last of which is not logged yet."""
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
    """Restore everything from the newest checkpoint.

    returns: the iteration to go on with; and its metrics where only its evaluation and log are left
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
    """Whether an action is due that happens every `every` iterations; 0: never."""
    return every > 0 and (iteration + 1) % every == 0


def progress(metrics: Metrics, agents: Collection[str]) -> str:
    """The progress bar's text: each agent's reward, KL and combined reward; of many, rewards."""
    if any(f"objective/score/{agent}" not in metrics for agent in agents):
        return ""  # supervised and offline training have no reward
    if len(agents) > 2:
        rewards = " ".join(f"{metrics[f'objective/score/{agent}']:+.2f}" for agent in agents)
        return f"rewards {rewards}"
    return " | ".join(
        f"{agent}: reward {metrics[f'objective/score/{agent}']:+.2f} "
        f"kl {metrics[f'objective/kl/{agent}']:.2f} "
        f"combined {metrics[f'objective/combined/{agent}']:+.2f}"
        for agent in agents
    )
