"""What a sweep will cost, said before it starts: from records where there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cory.config import (
    ENDPOINT,
    ITSELF,
    NONE,
    RANDOM,
    SCRIPTED,
    SELF_PLAY,
    Config,
    ConfigError,
    MaftConfig,
    MaporlConfig,
    OfflineConfig,
    PPOConfig,
    parse_config,
)
from cory.memory.workload import agents_of, longest_context
from cory.models.loading import skeleton
from cory.report.pages.presets import Compose
from cory.report.paper import Table
from cory.report.records.archive import Archived
from cory.report.records.gather import FIDELITY, load
from cory.runs.provenance import device_name
from cory.runs.run_dir import RECORD

# Floating-point operations per second that one process is taken to sustain, where no record says
# better: an order of magnitude. Small models on two cores reached about 60e9 (docs/log.md); with
# 1e13 the 4-bit Llama-2 of the paper takes the four hours on four GPUs that its App. A names.
SUSTAINED = {"cpu": 5e10, "cuda": 1e13}
FORWARD, BACKWARD = 2, 4  # operations per weight and token; the way back to the inputs alone: 2
UNKNOWN_SPLIT = "; without its evaluation on a whole split of unknown size"


@dataclass(frozen=True)
class Known:
    """How long finished runs of an experiment took."""

    seconds: float  # the mean
    runs: int
    devices: list[str]


def cost(table: Table, outputs: Path, archived: Sequence[Archived], compose: Compose) -> list[str]:
    """Runs still to do, their iterations, and hours, line by line."""
    lines: list[str] = []
    total, unknown, hardware = 0.0, 0, set()
    folder = outputs / "runs" / table.scale / FIDELITY
    todo_in_all = 0
    for experiment in table.to_run:
        config = parse_config(compose(experiment, table.scale))
        hardware.add(config.hardware.name)
        todo = [s for s in table.seeds if not (folder / experiment / f"seed{s}" / RECORD).exists()]
        if not todo:
            continue
        todo_in_all += len(todo)
        known = durations(experiment, table.scale, config, outputs, archived)
        hours, source = (
            estimated(config, table.about.get("test_problems", {}))
            if known is None
            else (known.seconds / 3600, said(known, config))
        )
        each = "time unknown" if hours is None else f"{duration(hours)} each"
        lines.append(
            f"  {experiment}: {len(todo)} to do x {config.algorithm.iterations} iterations, "
            f"{each} ({source})"
        )
        total += 0.0 if hours is None else hours * len(todo)
        unknown += len(todo) if hours is None else 0
    runs = len(table.to_run) * len(table.seeds)
    head = (
        f"{table.paper} {table.name} at scale {table.scale}: {runs} runs "
        f"({len(table.to_run)} experiments x {len(table.seeds)} seeds), {todo_in_all} to do"
    )
    if todo_in_all == 0:
        return [head]
    groups = ", ".join(sorted(hardware))
    last = f"in all about {duration(total)} on hardware={groups}, one run after another"
    if unknown:
        last += f", and {unknown} runs of unknown length"
    return [head, *lines, last if total else f"in all: unknown, on hardware={groups}"]


def durations(
    experiment: str, scale: str, config: Config, outputs: Path, archived: Sequence[Archived]
) -> Known | None:
    """Finished runs of the same experiment, scale and length: of outputs/, else of the archive."""
    here = outputs / "runs" / scale / FIDELITY / experiment
    found = [load(path.parent, experiment, scale) for path in sorted(here.glob(f"*/{RECORD}"))]
    found = found or [run for run in archived if run.experiment == experiment]
    same = [run.record for run in found if run.record["iterations"] == config.algorithm.iterations]
    if not same:
        return None
    seconds = float(np.mean([record["wall_s"] for record in same]))
    return Known(seconds, len(same), sorted({record["device"] for record in same}))


def said(known: Known, config: Config) -> str:
    """Where a duration was measured, and whether that is the device of this machine."""
    devices = ", ".join(known.devices)
    number = f"{known.runs} run{'s' if known.runs > 1 else ''}"
    gpu = config.hardware.device == "cuda"
    own = None if gpu and not torch.cuda.is_available() else device_name(config.hardware.device)
    here = "" if known.devices == [own] else ", which is not the device of this machine"
    return f"measured: {number} on {devices}{here}"


def estimated(config: Config, test_problems: Mapping[str, Any]) -> tuple[float | None, str]:
    """Hours by arithmetic, and how they were reckoned; None where even that is impossible."""
    counted = next((count for kind, count in COUNTED.items() if isinstance(config.algorithm, kind)),
                   None)  # fmt: skip
    if counted is None:
        return None, f"no record, and no estimate for algorithm={config.algorithm.name}"
    if getattr(config.algorithm, "endpoint", None) is not None:
        return None, "no record, and no estimate of what its endpoint takes"
    try:
        weights = weights_of(config)
    except ConfigError as error:
        return None, f"no record, and no estimate: {error}"
    operations, left_out = counted(config, weights, test_problems)
    speed, processes = SUSTAINED[config.hardware.device], config.hardware.world
    each = f"for each of {processes} processes" if processes > 1 else "for its process"
    source = (
        f"ESTIMATE, no record yet: {operations:.1e} operations at an assumed {speed:.0e} a second "
        f"{each}{left_out}"
    )
    return operations / speed / processes / 3600, source


def weights_of(config: Config) -> int:
    """Of the model of an agent; of two different models, their mean."""
    models = {"model": config.model} | ({"partner": config.partner} if config.partner else {})
    sizes: list[int] = [
        sum(
            p.numel()
            for p in skeleton(m.path, f"{key}.path", m.architecture, m.remote_code).parameters()
        )
        for key, m in models.items()
    ]
    return sum(sizes) // len(sizes)


@dataclass(frozen=True)
class Spoken:
    """Responses to one question."""

    sampled: int  # in training
    learned: int  # of these, by policies that learn
    held_out: int  # in an evaluation


def spoken(config: Config) -> Spoken:
    """How often agents speak: alone, in their roles, or as debaters over turns."""
    algorithm, evaluation = config.algorithm, config.evaluation
    policies = agents_of(config)
    sampled, learned, team = policies, policies, policies
    if isinstance(algorithm, MaporlConfig):
        sampled, learned = (algorithm.agents * n for n in (algorithm.turns, len(algorithm.trained)))
        team = algorithm.evaluation_agents * algorithm.evaluation_turns
    ways = evaluation.samples + (1 if evaluation.greedy else 0)
    return Spoken(sampled, learned, ways * (policies + (team if evaluation.team else 0)))


def operations_of(
    config: Config, weights: int, test_problems: Mapping[str, Any]
) -> tuple[float, str]:
    """Floating-point operations of a run, and what they leave out.

    Contexts count at their longest, responses at their mean length.
    """
    algorithm = config.algorithm
    tokens = longest_context(config) + mean_response(config)
    learning = 2 * FORWARD + algorithm.epochs * step_of(config)
    responses = spoken(config)
    each = responses.sampled * FORWARD + responses.learned * learning
    asked = algorithm.iterations * algorithm.prompts_per_iteration
    training = float(asked * tokens * weights * each)
    prompts = held_out_prompts(config, test_problems)
    if prompts is None:
        return training, UNKNOWN_SPLIT
    longest = longest_context(config) + algorithm.sampling.max_response_tokens
    held_out = prompts * responses.held_out * longest * weights * FORWARD
    return training + evaluations(config) * held_out, ""


def operations_of_games(
    config: Config, weights: int, test_problems: Mapping[str, Any]
) -> tuple[float, str]:
    """The same for games: every one lasts all its turns, and one role's utterances are learnt.

    Scripted players and endpoints cost nothing here.
    """
    algorithm, turns = config.algorithm, config.task.max_turns
    assert isinstance(algorithm, OfflineConfig)
    tokens = int(config.task.max_prompt_tokens) + mean_response(config)
    learning = FORWARD + algorithm.epochs * step_of(config)
    games = algorithm.iterations * algorithm.prompts_per_iteration
    games *= 0 if algorithm.games == NONE else 1
    playing = 2 * FORWARD if algorithm.games == SELF_PLAY else 0
    total = float(games * turns * tokens * (playing + learning))
    told = algorithm.iterations * algorithm.instructions.per_iteration
    total += told * algorithm.instructions.max_tokens * algorithm.epochs * step_of(config)
    prompts = held_out_prompts(config, test_problems)
    if prompts is None:
        return total * weights, UNKNOWN_SPLIT
    # against each opponent the policy speaks in as many games as either role has, and so does a
    # model that is another one
    idle = (ITSELF, SCRIPTED, RANDOM, ENDPOINT)
    others = algorithm.played_against.values()
    speakers = sum(1 if other in idle else 2 for other in others)
    held_out = prompts * config.evaluation.samples * 2 * turns * speakers * tokens * FORWARD
    asks = ENDPOINT in (algorithm.games, *others)
    left_out = "; without what its endpoint takes" if asks else ""
    return (total + evaluations(config) * held_out) * weights, left_out


def operations_of_fine_tuning(
    config: Config, weights: int, test_problems: Mapping[str, Any]
) -> tuple[float, str]:
    """The same for multiagent fine-tuning: every answer is learnt, which is too many.

    Other agents' answers are summed up once for each who speaks after the first turn.
    """
    algorithm = config.algorithm
    assert isinstance(algorithm, MaftConfig)
    tokens = longest_context(config) + mean_response(config)

    def spoken_in(agents: int, turns: int) -> int:
        return agents * turns + (agents * (turns - 1) if algorithm.summary else 0)

    passes = algorithm.epochs + (algorithm.critic_epochs if algorithm.turns > 1 else 0)
    each = FORWARD * spoken_in(algorithm.agents, algorithm.turns)
    each += algorithm.agents * passes * step_of(config)
    asked = algorithm.iterations * algorithm.prompts_per_iteration
    training = float(asked * tokens * weights * each)
    prompts = held_out_prompts(config, test_problems)
    if prompts is None:
        return training, UNKNOWN_SPLIT
    answers = spoken_in(algorithm.evaluation_agents, algorithm.evaluation_turns)
    held_out = prompts * config.evaluation.samples * answers * tokens * weights * FORWARD
    return training + evaluations(config) * held_out, "; without measures of diversity"


COUNTED = {
    PPOConfig: operations_of,
    OfflineConfig: operations_of_games,
    MaftConfig: operations_of_fine_tuning,
}


def mean_response(config: Config) -> float:
    """Tokens of a response, by the limits that are drawn."""
    sampling = config.algorithm.sampling
    return float(sampling.min_response_tokens + sampling.max_response_tokens) / 2


def step_of(config: Config) -> int:
    """Operations per weight and token of learning once."""
    back = BACKWARD if config.model.sharing == "copies" else BACKWARD // 2
    again = FORWARD if config.hardware.gradient_checkpointing else 0
    return FORWARD + back + again


def held_out_prompts(config: Config, test_problems: Mapping[str, Any]) -> int | None:
    """Prompts of one evaluation; None where a whole split of unknown size is meant."""
    task = config.task
    own = getattr(task, "pick_test", None) or getattr(task, "test_problems", None)
    prompts = config.evaluation.prompts or own or test_problems.get(task.name)
    return None if prompts is None else int(prompts)


def evaluations(config: Config) -> int:
    """How often a run is evaluated."""
    every = config.evaluate_every
    return max(1, -(-config.algorithm.iterations // every)) if every else 1


def duration(hours: float) -> str:
    """Minutes below two hours."""
    if hours < 1 / 60:
        return "under a minute"
    return f"{60 * hours:.0f} min" if hours < 2 else f"{hours:.1f} h"
