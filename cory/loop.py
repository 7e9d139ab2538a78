"""The only loop over iterations, shared by every algorithm."""

from __future__ import annotations

import sys

from tqdm import tqdm

from cory.algorithms import Algorithm
from cory.config import Config
from cory.episode import Metrics
from cory.record import Recorder
from cory.trainers.ppo import TrainingDiverged


def run(algorithm: Algorithm, config: Config, record: Recorder) -> None:
    """Iterate: step, evaluate, log, keep samples."""
    iterations = config.algorithm.iterations
    with tqdm(
        total=iterations,
        file=sys.stdout,
        desc=f"{config.experiment} seed {config.seed}",
        bar_format="{desc} |{bar:12}| {n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix}",
    ) as bar:
        for iteration in range(iterations):
            last = iteration + 1 == iterations
            try:
                metrics = algorithm.step(iteration)
            except TrainingDiverged as error:
                record.log(iteration, error.metrics)
                raise
            if last or due(iteration, config.evaluate_every):
                metrics |= algorithm.evaluate(config.evaluation_prompts, config.seed)
            record.log(iteration, metrics)
            if last or due(iteration, config.samples_every):
                record.log_samples(iteration, algorithm.episodes[: config.samples_kept])
            bar.set_postfix_str(progress(metrics), refresh=False)
            bar.update()
    record.finish()


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
