"""The only loop over iterations, shared by every algorithm."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tqdm import tqdm

from cory import processes
from cory.algorithms import Algorithm
from cory.checkpoint import Checkpoints
from cory.config import Config
from cory.episode import Metrics
from cory.record import Record
from cory.trainers.ppo import TrainingDiverged


class Stopped(Exception):
    """The run was asked to stop, has saved, and can go on later."""


def run(
    algorithm: Algorithm,
    config: Config,
    record: Record,
    checkpoints: Checkpoints,
    asked_to_stop: Callable[[], bool],
) -> None:
    """Iterate from where the run stands: step, evaluate, log, keep samples, save."""
    iterations = config.algorithm.iterations
    start = resume(algorithm, record, checkpoints)
    if iterations == 0:
        record.log(0, algorithm.evaluate(config.evaluation_prompts, config.seed))
    with tqdm(
        total=iterations,
        initial=start,
        file=sys.stdout,
        desc=f"{config.experiment} seed {config.seed}",
        bar_format="{desc} |{bar:12}| {n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix}",
        disable=processes.rank() != 0 or iterations == 0,
    ) as bar:
        for iteration in range(start, iterations):
            last = iteration + 1 == iterations
            try:
                metrics = algorithm.step(iteration)
            except TrainingDiverged as error:
                record.log(iteration, error.metrics)
                error.args = (f"{error}; of its checkpoints, {checkpoints.newest()}",)
                raise
            if last or due(iteration, config.evaluate_every):
                metrics |= algorithm.evaluate(config.evaluation_prompts, config.seed)
            record.log(iteration, metrics)
            if last or due(iteration, config.samples_every):
                record.log_samples(iteration, algorithm.episodes[: config.samples_kept])
            bar.set_postfix_str(progress(metrics), refresh=False)
            bar.update()
            stop = not last and processes.any_of(asked_to_stop())
            if last or stop or due(iteration, config.checkpoint_every):
                state = {"algorithm": algorithm.state_dict(), "record": record.state_dict()}
                record.sync()
                checkpoints.save(iteration + 1, algorithm.agents, state)
            if stop:
                raise Stopped(f"saved after iteration {iteration + 1} of {iterations}")


def resume(algorithm: Algorithm, record: Record, checkpoints: Checkpoints) -> int:
    """Put everything back to the newest checkpoint; the iteration to go on with."""
    restored = checkpoints.restore(algorithm.agents)
    if restored is None:
        record.start(0, None)
        return 0
    done, state = restored
    algorithm.load_state_dict(state["algorithm"])
    record.start(done, state["record"])
    return done


def due(iteration: int, every: int) -> bool:
    """Whether something that happens every `every` iterations happens now; 0 means never."""
    return every > 0 and (iteration + 1) % every == 0


def progress(metrics: Metrics) -> str:
    """Task reward, KL and combined reward of each agent, for the progress bar."""
    agents = [
        key.rpartition("/")[2] for key in metrics if key.startswith("objective/combined/agent")
    ]
    return " | ".join(
        f"{agent}: reward {metrics[f'objective/score/{agent}']:+.2f} "
        f"kl {metrics[f'objective/kl/{agent}']:.2f} "
        f"combined {metrics[f'objective/combined/{agent}']:+.2f}"
        for agent in agents
    )
