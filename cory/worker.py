"""One process of a run: build everything from config.yaml and run the loop."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path

import torch
import transformers
from omegaconf import DictConfig, OmegaConf

from cory import loop, summary
from cory.algorithms import ALGORITHMS
from cory.algorithms.parts import Parts
from cory.config import Config, ConfigError, batch_plan, parse_config, require
from cory.engine import start_process_group, stop_process_group
from cory.launch import REFUSED
from cory.record import Recorder
from cory.rewards import REWARDS
from cory.run_dir import SETTINGS
from cory.streams import Streams
from cory.tasks import TASKS
from cory.team import Team
from cory.trainers.first_update import FirstUpdateError
from cory.trainers.ppo import TrainingDiverged


def build_parts(config: Config) -> Parts:
    """Load models and data."""
    require(
        config.hardware.device == "cpu" or torch.cuda.is_available(),
        "hardware.device=cuda: this machine has no CUDA device; use hardware=cpu",
    )
    device = torch.device(config.hardware.device)
    streams = Streams(config.seed)
    team = Team(config.model, device)
    algorithm = config.algorithm
    longest = config.task.max_prompt_tokens + algorithm.sampling.max_response_tokens
    require(
        longest <= team.context_length,
        f"task.max_prompt_tokens ({config.task.max_prompt_tokens}) and "
        f"algorithm.sampling.max_response_tokens ({algorithm.sampling.max_response_tokens}) "
        f"exceed the context of model={config.model.name} ({team.context_length} tokens)",
    )
    task = TASKS[config.task.name](config.task, team.tokenizer, streams.data)
    reward = REWARDS[config.reward.name](config.reward, task, device)
    task.held_out(config.evaluation_prompts)  # refused now rather than after the last iteration
    plan = batch_plan(
        algorithm.prompts_per_iteration, algorithm.minibatch_size, config.hardware.microbatch_size
    )
    return Parts(config, plan, team, task, reward, streams)


def work(run_dir: Path) -> None:
    """Run what `run_dir` asks for."""
    settings = OmegaConf.load(run_dir / SETTINGS)
    assert isinstance(settings, DictConfig)
    config = parse_config(settings)
    torch.manual_seed(config.seed)  # dropout, where it is on
    parts = build_parts(config)
    start_process_group(config.hardware.device)
    algorithm = ALGORITHMS[config.algorithm.name](config.algorithm, parts)
    record = Recorder(run_dir, config)
    try:
        loop.run(algorithm, config, record)
    finally:
        record.close()
        stop_process_group()
    summary.show(run_dir)


def main() -> None:
    """`python -m cory.worker <run_dir>`; train.py starts it."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its retries, line by line
    warnings.filterwarnings("ignore", category=UserWarning, module="torch|deepspeed|transformers")
    try:
        work(Path(sys.argv[1]))
    except (ConfigError, FirstUpdateError, TrainingDiverged) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.stdout.flush()
    os._exit(0)  # threads of the process group may abort a normal exit


if __name__ == "__main__":
    main()
