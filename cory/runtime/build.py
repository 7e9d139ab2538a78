"""Builds a run's components from its settings, and refuses what does not fit together."""

from itertools import product
from pathlib import Path

import torch

from cory.algorithms.parts import Parts
from cory.config import Config, HardwareConfig, builder, plan_of, products_of, require
from cory.models.actor_critic import set_float32_products
from cory.models.bundle import ModelBundle
from cory.rewards import Reward, RunFacts, RunReward
from cory.seeding import Streams
from cory.tasks import Task


def check_devices(hardware: HardwareConfig) -> None:
    """Refuse where this machine lacks a GPU for each of its processes."""
    if hardware.device == "cpu":
        return
    found = torch.cuda.device_count()
    require(found > 0, "hardware.device=cuda: this machine has no CUDA device; use hardware=cpu")
    require(
        hardware.processes <= found,
        f"hardware.processes={hardware.processes}: this machine has {found} CUDA devices; "
        f"one process needs one",
    )


def check_context(config: Config, bundle: ModelBundle) -> None:
    """Refuse prompts that a model cannot read; an observer's may turn out longer."""
    task, algorithm = config.task, config.algorithm
    response, context = algorithm.sampling.max_response_tokens, bundle.context_length
    own = 0 if task.counts_whole_contexts else bundle.texts.own_tokens
    around = f", {own} of them around every prompt" if own else ""
    require(
        task.max_prompt_tokens + response + own <= context,
        f"task.max_prompt_tokens ({task.max_prompt_tokens}) and "
        f"algorithm.sampling.max_response_tokens ({response}) exceed the context of "
        f"{bundle.group}={bundle.config.name} ({context} tokens{around})",
    )


def build_parts(config: Config) -> Parts:
    """Load models and data, and refuse settings that do not fit them."""
    build_reward = builder("reward", config.reward.name)
    if hasattr(build_reward, "prepare"):  # refuses what can be refused before models are loaded
        build_reward.prepare(config.reward)
    device = torch.device(config.hardware.device)
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())  # this process's own
    set_float32_products(products_of(config), device)
    streams = Streams(config.seed)
    bundle = ModelBundle(config.model, device)
    partner = None if config.partner is None else ModelBundle(config.partner, device, "partner")
    algorithm = config.algorithm
    bundles = [bundle] if partner is None else [bundle, partner]
    # where another model speaks, this one only counts the tokens of prompts
    for one in [] if algorithm.speaks_remotely() else bundles:
        check_context(config, one)
    task: Task = builder("task", config.task.name)(config.task, bundle.tokenizer, streams.data)
    reward: Reward = build_reward(config.reward, task, device)
    if isinstance(reward, RunReward):
        reward.begin(RunFacts(Path(config.run_dir), algorithm.iterations, bundle.tokenizer))
    require(
        algorithm.iterations == 0
        or algorithm.repeats_prompts
        or algorithm.prompts_drawn() <= task.sampler.rows,
        f"algorithm.prompts_per_iteration ({algorithm.prompts_per_iteration}) draws "
        f"{algorithm.prompts_drawn()} different prompts, which exceeds the {task.sampler.rows} "
        f"training prompts of task={config.task.name}",
    )
    # refused now rather than after the last iteration
    held_out = task.held_out(config.evaluation.prompts, config.evaluation.split)
    for one, prompt in product(bundles, held_out[:1]):
        if one.config.chat and not algorithm.speaks_remotely():
            one.render(prompt.opening)
    for text, one in product(config.evaluation.probes, bundles):
        tokens = one.tokens(task.prompt_of(text).opening)
        require(
            tokens + algorithm.sampling.max_response_tokens <= one.context_length,
            f"evaluation.probes: the {tokens} tokens of '{text[:40]}' and "
            f"algorithm.sampling.max_response_tokens ({algorithm.sampling.max_response_tokens}) "
            f"exceed the context of {one.group}={one.config.name} ({one.context_length} tokens)",
        )
    return Parts(config, plan_of(config), bundle, partner, task, reward, streams)
