"""One process of a run: builds everything from config.yaml and runs the loop."""

import signal

if __name__ == "__main__":  # until it listens, a signal ends this process without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import json
import logging
import os
import sys
import time
import traceback
import warnings
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path

import torch
import transformers

from cory import distributed, memory
from cory.algorithms import Algorithm
from cory.algorithms.parts import Parts
from cory.config import (
    Config,
    ConfigError,
    HardwareConfig,
    builder,
    parse_config,
    plan_of,
    products_of,
    require,
)
from cory.models.context import longest_context
from cory.models.engine import start_process_group, stop_process_group
from cory.models.precision import set_float32_products
from cory.models.team import Team
from cory.rewards import Reward, RunFacts, RunReward
from cory.runs.best import BestAgents
from cory.runs.checkpoint import Checkpoints
from cory.runs.durable import sha256_of
from cory.runs.extension import command_to_go_on, why_it_cannot_grow
from cory.runs.lock import WORKER_LOCK, WORKER_WAIT_S, lock
from cory.runs.mirrors.trackio_mirror import show_hint
from cory.runs.mirrors.wandb_mirror import sync_hint
from cory.runs.provenance import git, memory_used
from cory.runs.recorder import Record, Recorder
from cory.runs.run_dir import ITERATIONS, WriteError, settings_digest
from cory.runs.stop import Stopped, StopRequest
from cory.runs.stored_settings import read_settings
from cory.runtime.allocator import keep_freed_memory
from cory.runtime.exporting import export_agents, export_iteration
from cory.runtime.launch import (
    FINISHED,
    REFUSED,
    SIGNALS,
    STOPPED,
    end_with_parent,
    leave,
    when_asked_to_stop,
)
from cory.runtime.loop import Loop
from cory.runtime.progress import above_bars
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.divergence import TrainingDiverged
from cory.trainers.sanity_checks import FirstUpdateError

# what gloo and NCCL say where another process has ended
LOST = ("/gloo/", "remote process exiting")
KEPT_STATE = 2**30  # bytes of a training state that is kept unless a setting says otherwise


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


def check_context(config: Config, team: Team) -> None:
    """Refuse prompts that a model cannot read; tell of observers' prompts that it may not."""
    task, algorithm = config.task, config.algorithm
    response, context = algorithm.sampling.max_response_tokens, team.context_length
    own = 0 if task.counts_whole_contexts else team.texts.own_tokens
    around = f", {own} of them around every prompt" if own else ""
    require(
        task.max_prompt_tokens + response + own <= context,
        f"task.max_prompt_tokens ({task.max_prompt_tokens}) and "
        f"algorithm.sampling.max_response_tokens ({response}) exceed the context of "
        f"{team.group}={team.config.name} ({context} tokens{around})",
    )
    if algorithm.holds_debates:
        return  # they leave out what does not fit; an observer is shown all that is quoted
    longest, room = longest_context(config, team.words), context - response - own
    if longest > room and distributed.rank() == 0:
        print(
            f"note: an observer's prompt may have {longest} tokens, with "
            f"{algorithm.policy_count()} agents, task.max_prompt_tokens={task.max_prompt_tokens} "
            f"and algorithm.sampling.max_response_tokens={response}; one of more than {room} ends "
            f"the run: the context of {team.group}={team.config.name} is {context} tokens{around}",
            file=sys.stderr,
        )


def tell_of_template(team: Team) -> None:
    """A note where a chat template lets prompts end before the answer's heading."""
    header = team.texts.missing_header
    if header is not None and distributed.rank() == 0:
        print(
            f"note: {team.group}.path={team.config.path}: the chat template takes no notice of "
            f"add_generation_prompt: prompts end before {header!r}, which it puts before an "
            f"answer, so that the model has to write that itself",
            file=sys.stderr,
        )


def build_parts(config: Config, stop: StopRequest | None = None) -> Parts:
    """Load models and data, and refuse settings that do not fit them.

    stop: what asks this process to stop; None: nothing does
    """
    build_reward = builder("reward", config.reward.name)
    if hasattr(build_reward, "prepare"):  # refuses what can be refused before models are loaded
        build_reward.prepare(config.reward)
    device = torch.device(config.hardware.device)
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())  # this process's own
    set_float32_products(products_of(config), device)
    streams = Streams(config.seed)
    team = Team(config.model, device)
    partner = None if config.partner is None else Team(config.partner, device, "partner")
    algorithm = config.algorithm
    teams = [team] if partner is None else [team, partner]
    # where another model speaks, this one only counts the tokens of prompts
    for one in [] if algorithm.speaks_remotely() else teams:
        tell_of_template(one)
        check_context(config, one)
    task: Task = builder("task", config.task.name)(config.task, team.tokenizer, streams.data)
    reward: Reward = build_reward(config.reward, task, device)
    if isinstance(reward, RunReward):
        reward.begin(RunFacts(Path(config.run_dir), algorithm.iterations, team.tokenizer))
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
    for one, prompt in product(teams, held_out[:1]):
        if one.config.chat and not algorithm.speaks_remotely():
            one.render(prompt.opening)
    for text, one in product(config.evaluation.probes, teams):
        tokens = one.tokens(task.prompt_of(text).opening)
        require(
            tokens + algorithm.sampling.max_response_tokens <= one.context_length,
            f"evaluation.probes: the {tokens} tokens of '{text[:40]}' and "
            f"algorithm.sampling.max_response_tokens ({algorithm.sampling.max_response_tokens}) "
            f"exceed the context of {one.group}={one.config.name} ({one.context_length} tokens)",
        )
    plan = plan_of(config)
    stop = stop or StopRequest()
    commit = git("rev-parse", "HEAD")
    return Parts(config, plan, team, partner, task, reward, streams, stop, commit)


def work(run_dir: Path, stop: StopRequest) -> None:
    """Run the settings of `run_dir`, from the newest checkpoint on, and show a summary."""
    settings = read_settings(run_dir)
    config = parse_config(settings)
    join_processes(run_dir, config.hardware)
    first = distributed.rank() == 0
    needed = memory.check(config)
    if first:
        print(needed, flush=True)
    keep_freed_memory()
    with lock(run_dir, WORKER_LOCK, WORKER_WAIT_S) if first else nullcontext():
        train(run_dir, config, settings_digest(settings), stop)
    if first:
        # pandas, scipy and matplotlib: only at the end
        from cory.report.summary import show_summary  # noqa: PLC0415

        show_summary(run_dir)
        print_mirror_hints(run_dir)
    stop_process_group()


def join_processes(run_dir: Path, hardware: HardwareConfig) -> None:
    """Meet the other processes of the run; ConfigError unless there are as many as it wants."""
    check_devices(hardware)
    start_process_group(hardware.device)
    require(
        distributed.count() == hardware.world,
        f"{run_dir}: {distributed.count()} processes were started, its settings want "
        f"{hardware.world}; runs are started by python -m cory.train",
    )


def train(run_dir: Path, config: Config, digest: str, stop: StopRequest) -> None:
    """Build everything, iterate, and write what a finished run leaves.

    digest: of the settings; checkpoints of others are not used
    """
    used_before = memory_used(config.hardware.device)
    parts = build_parts(config, stop)
    torch.manual_seed(config.seed + distributed.rank())  # dropout, where it is on
    algorithm: Algorithm = builder("algorithm", config.algorithm.name)(config.algorithm, parts)
    reward = parts.reward if isinstance(parts.reward, RunReward) else None
    first = distributed.rank() == 0
    record = Recorder(run_dir, config, used_before, hashes_of(reward)) if first else Record()
    checkpoints = Checkpoints(run_dir, digest, config.hardware, config.keep_last)
    best = best_agents(config, algorithm, parts)

    def export(done: int) -> None:
        export_iteration(algorithm.agents, parts, run_dir / ITERATIONS / str(done), done)

    loop = Loop(algorithm, config, record, checkpoints, stop, export, reward, best)
    try:
        stop.begun = True
        if stop.asked_anywhere():  # by a signal that came while all was built
            raise Stopped("left before the first iteration")
        with above_bars():
            loop.run()
        finish(algorithm, parts, record, best, checkpoints)
    finally:
        record.close()


def hashes_of(reward: RunReward | None) -> dict[str, str]:
    """SHA-256 of the files of the user's own that a reward executes, by the function in them."""
    files = {} if reward is None else reward.sources()
    return {name: sha256_of(file) for name, file in files.items()}


def finish(
    algorithm: Algorithm,
    parts: Parts,
    record: Record,
    best: BestAgents | None,
    checkpoints: Checkpoints,
) -> None:
    """Write agents and record, then put the training state away.

    Until both are on the disk itself, only the state is: in another order a crash would lose all.
    """
    run_dir = Path(parts.config.run_dir)
    export_agents(algorithm.agents, parts, run_dir)
    record.finish()
    if best is not None:
        best.finish()
    put_state_away(parts.config, checkpoints, run_dir)


def print_mirror_hints(run_dir: Path) -> None:
    """The last lines of a run whose records W&B has offline, or trackio has."""
    for hint in (sync_hint(run_dir), show_hint(run_dir)):
        if hint:
            print(hint)


def put_state_away(config: Config, checkpoints: Checkpoints, run_dir: Path) -> None:
    """Keep the training state of a finished run, or remove it, as `keep_state` says."""
    iterations = config.algorithm.iterations
    useful = config.sweep == "adhoc" and why_it_cannot_grow(config, iterations) is None
    at_most = {True: None, False: 0, None: KEPT_STATE if useful else 0}[config.keep_state]
    size = checkpoints.keep_newest(at_most)
    if size > 0 and useful:
        print(
            f"its training state is kept ({size / 2**20:.0f} MiB); to train longer:\n"
            f"  {command_to_go_on(run_dir, iterations)}"
        )


def best_agents(config: Config, algorithm: Algorithm, parts: Parts) -> BestAgents | None:
    """What keeps the best agents; None where none are to be kept, or there are none."""
    if config.keep_best is None or not algorithm.agents:
        return None
    write = partial(export_iteration, algorithm.agents, parts)
    return BestAgents(Path(config.run_dir), config.keep_best, config.keep_best_mode, write)


def run_alone(run_dir: Path) -> int:
    """A run with one process, in this one; its exit code, once its reason has been printed."""
    stop = StopRequest()

    def ask() -> None:
        stop.ask()
        print(
            f"\nstopping: the run in {run_dir} saves and leaves (a second Ctrl-C ends it at once)",
            file=sys.stderr,
        )

    try:
        with when_asked_to_stop(ask):
            code, reason = attempt(run_dir, stop)
    finally:
        stop_process_group()
    if reason is not None:
        print(reason, file=sys.stderr)
    return code


def run_one_of_several() -> None:
    """`python -m cory.runtime.worker <run_dir>`, which torch's elastic agent starts."""
    end_with_parent()
    stop = StopRequest()
    for number in SIGNALS:
        signal.signal(number, lambda *_: stop.ask())
    try:
        code, reason = attempt(Path(sys.argv[1]), stop)
    except KeyboardInterrupt:
        code, reason = STOPPED, None
    if reason is not None:
        tell_agent(reason)
    leave(code)


def tell_agent(reason: str) -> None:
    """Leave a reason where the agent finds it, which prints that of the first process to fail."""
    now = time.time_ns()
    told = {"message": reason, "extraInfo": {"timestamp": now // 10**9, "nanoseconds": now}}
    file = Path(os.environ["TORCHELASTIC_ERROR_FILE"])
    file.write_text(json.dumps({"message": told}), encoding="utf-8")


def attempt(run_dir: Path, stop: StopRequest) -> tuple[int, str | None]:
    """Run the settings of `run_dir`; the exit code, and why the run failed where it did."""
    silence_libraries()
    try:
        work(run_dir, stop)
    except Stopped as stopped:
        if distributed.rank() == 0:
            print(stopped)
            print_mirror_hints(run_dir)
        stop_process_group()  # waits for the one that closes the records
        return STOPPED, None
    except (ConfigError, FirstUpdateError, TrainingDiverged, WriteError) as error:
        return REFUSED, f"error: {error}"
    except Exception as error:  # unforeseen: its traceback is printed, by one process
        said = str(error)
        if distributed.count() > 1 and any(words in said for words in LOST):
            line = " ".join(said.split())[:200]
            return REFUSED, f"error: the connection to another process was lost ({line})"
        return REFUSED, traceback.format_exc().rstrip()
    return FINISHED, None


def silence_libraries() -> None:
    """Leave out what libraries say to their developers, and their bars."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its retries, line by line
    # read by `datasets`, which only tasks with data in files import
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
    for kind in (UserWarning, FutureWarning):
        warnings.filterwarnings("ignore", category=kind, module="torch|deepspeed|transformers|peft")


if __name__ == "__main__":
    run_one_of_several()
