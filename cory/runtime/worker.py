"""One process of a run: builds everything from config.yaml and runs the loop."""

import gc
import signal

if __name__ == "__main__":  # as in cory/train.py
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()

import ctypes
import errno
import json
import logging
import os
import shutil
import sys
import time
import traceback
import warnings
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from zlib import crc32

import torch
import transformers

from cory import distributed, memory
from cory.algorithms import Algorithm
from cory.config import (
    Config,
    ConfigError,
    GameConfig,
    HardwareConfig,
    OfflineConfig,
    PPOConfig,
    builder,
    judges,
    parse_config,
    plan_of,
    products_of,
    require,
)
from cory.models.actor_critic import set_float32_products
from cory.models.bundle import ModelBundle
from cory.models.engine import start_process_group, stop_process_group
from cory.models.served import Served
from cory.models.server import Server
from cory.rewards import Reward, RunFacts
from cory.runs.checkpoint import Checkpoints
from cory.runs.export import export_agents
from cory.runs.recorder import Recorder, print_hints
from cory.runs.run_dir import WORKER_LOCK, WORKER_WAIT_S, lock, read_settings, settings_digest
from cory.runs.signals import SAVES, Stopped, enter, listen, saves, stopping, stopping_anywhere
from cory.runtime.launch import FINISHED, REFUSED, STOPPED, end_with_parent, leave
from cory.runtime.loop import Loop
from cory.seeding import Streams
from cory.tasks import Task
from cory.trainers.components import Components
from cory.trainers.sanity_checks import FirstUpdateError
from cory.trainers.steps import TrainingDiverged

# of a disk, which may have room again; other errors of the system are somebody's fault
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES)
# what gloo and NCCL say where another process has ended
LOST = ("/gloo/", "remote process exiting")
# where adapters lie that a server on this machine reads, if it has so many bytes left
SHARED_MEMORY, SHARED_ROOM = Path("/dev/shm"), 2**30
# of malloc.h. Older versions of glibc take no larger threshold; with 2 GiB, passes over an output
# head of 49,152 tokens took 0.9 of the time and three times the memory
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MMAP_THRESHOLD = 32 * 2**20


def work(run_dir: Path) -> None:
    """Run the settings of `run_dir`, from the newest checkpoint on, and show a summary."""
    settings = read_settings(run_dir)
    config = parse_config(settings)
    check_devices(config.hardware)
    start_process_group(config.hardware.device)
    first = distributed.rank() == 0
    needed = memory.check(config)
    if first:
        print(needed, flush=True)
    keep_freed_memory()
    with lock(run_dir, WORKER_LOCK, WORKER_WAIT_S) if first else nullcontext():
        train(run_dir, config, settings_digest(settings))
    if first:
        # pandas, scipy and matplotlib: only at the end
        from cory.report.summary import show_summary  # noqa: PLC0415

        show_summary(run_dir)
        print_hints(run_dir)
    stop_process_group()


def train(run_dir: Path, config: Config, digest: str) -> None:
    """Build everything, iterate, and write what a finished run leaves.

    digest: of the settings; checkpoints of others are not used
    """
    components = build_components(config)
    torch.manual_seed(config.seed + distributed.rank())  # dropout, where it is on
    algorithm: Algorithm = builder("algorithm", config.algorithm.name)(config.algorithm, components)
    agents = algorithm.agents
    record = Recorder(run_dir, config)
    checkpoints = Checkpoints(run_dir, digest, config.hardware, config.keep_last)
    export = partial(export_agents, agents, config)
    read = components.task.read if getattr(config.task, "reads_answers", False) else None
    loop = Loop(algorithm, config, record, checkpoints, export, components.reward, read)
    try:
        enter(SAVES)
        if stopping_anywhere():  # by a signal that came while all was built
            raise Stopped("left before the first iteration")
        loop.run()
        # Until agents and record are on the disk itself, only the training state is: in another
        # order a crash would lose all.
        export(run_dir)
        record.finish()
        if config.keep_best is not None and distributed.rank() == 0:
            print(loop.best_agents())
        checkpoints.end()
    finally:
        record.close()
        for bundle in components.bundles.values():
            if bundle.served is not None and distributed.rank() == 0:
                bundle.served.close()


def check_devices(hardware: HardwareConfig) -> None:
    """Refuse where this machine lacks a GPU for each of its processes."""
    found = torch.cuda.device_count()
    require(
        hardware.device == "cpu" or hardware.processes <= found,
        f"hardware.device=cuda hardware.processes={hardware.processes}: each process needs a GPU, "
        f"and this machine has {found}; hardware=cpu needs none",
    )


def check_context(config: Config, bundle: ModelBundle) -> None:
    """Refuse prompts that a model cannot read; an observer's may turn out longer."""
    task = config.task
    response, context = config.longest_response(bundle.group), bundle.context_length
    texts = [bundle.texts]  # and those of members that are shown prompts in their own way
    for name, member in config.members.items():
        if config.group_of(name) == bundle.group:
            texts.append(bundle.texts_of(member.model, config.key_of(name)))
    own = 0 if isinstance(task, GameConfig) else max(one.own_tokens for one in texts)
    around = f", {own} of them around every prompt" if own else ""
    require(
        task.max_prompt_tokens + response + own <= context,
        f"task.max_prompt_tokens ({task.max_prompt_tokens}) and "
        f"algorithm.sampling.max_response_tokens ({response}) exceed the context of "
        f"{bundle.group}={bundle.config.name} ({context} tokens{around})",
    )


def check_prompts(config: Config, there: int) -> None:
    """Refuse, or in PPO note, iterations that draw more prompts than there are.

    PPO has as many episodes about each, with other random numbers; others tell them by the prompt.
    """
    algorithm = config.algorithm
    drawn = algorithm.prompts_drawn()
    # several games may be about the same word
    if algorithm.iterations == 0 or isinstance(algorithm, OfflineConfig) or drawn <= there:
        return
    said = f"algorithm.prompts_per_iteration={algorithm.prompts_per_iteration} draws {drawn:,}"
    said = f"{said} prompts, and task={config.task.name} has {there:,} to train on"
    require(isinstance(algorithm, PPOConfig), said)
    distributed.note(f"{said}: each comes up several times in an iteration")


def build_components(config: Config) -> Components:
    """Load models and data, and refuse settings that do not fit them."""
    for scorer in judges(config.reward).values():
        build_scorer = builder("reward", scorer.name)
        if hasattr(build_scorer, "prepare"):  # refuses what it can before models are loaded
            build_scorer.prepare(scorer)
    device = torch.device(config.hardware.device)
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())  # this process's own
    set_float32_products(products_of(config), device)
    streams = Streams(config.seed)
    algorithm = config.algorithm
    bundles = {group: ModelBundle(one, device, group) for group, one in config.models.items()}
    bundle = bundles["model"]
    # where another model speaks, this one only counts the tokens of prompts
    speaking = [] if algorithm.speaks_remotely() else list(bundles.values())
    for one in speaking:
        check_context(config, one)
        shown, key = one.texts.template.date, f"{one.group}.template.date"
        if shown is not None and one.config.template.date is None:
            distributed.note(f"{one.said} is told on every day that it is {shown} ({key})")
    task: Task = builder("task", config.task.name)(config.task, bundle.tokenizer, streams.data)
    run = RunFacts(Path(config.run_dir), algorithm.iterations)
    reward: Reward = builder("reward", config.reward.name)(config.reward, task, device, run)
    check_prompts(config, len(task.sampler.rows))
    # refused now rather than after the last iteration
    held_out = task.held_out(asked := config.evaluation.prompts, config.evaluation.split)
    if asked is not None and len(held_out) < asked:
        there = f"task={config.task.name} holds out {len(held_out)}, and all of them are asked"
        distributed.note(f"evaluation.prompts={asked}: {there}")
    for one, prompt in product(speaking, held_out[:1]):
        if one.texts.chat:
            one.texts.render(prompt.opening)
    for text, one in product(config.evaluation.probes, bundles.values()):
        longest = config.longest_response(one.group)
        tokens = one.texts.tokens(task.prompt_of(text).opening)
        require(
            tokens + longest <= one.context_length,
            f"evaluation.probes: the {tokens} tokens of '{text[:40]}' and "
            f"algorithm.sampling.max_response_tokens ({longest}) exceed the context of "
            f"{one.group}={one.config.name} ({one.context_length} tokens)",
        )
    if config.hardware.sampler == "vllm":
        for one in speaking:
            one.served = serve(config, one)
    for one in speaking:
        _ = one.pretrained  # loaded when all else is known to fit
    return Components(config, plan_of(config), bundles, task, reward, streams)


def serve(config: Config, bundle: ModelBundle) -> Served:
    """The server that samples for the agents of a model; the first process starts it."""
    hardware, run_dir, model = config.hardware, Path(config.run_dir), bundle.group
    require(
        bundle.config.sharing == "adapters" or not bundle.tied,
        f"{model}.sharing=copies: vLLM replaces tied embeddings wrongly, as {bundle.said} has "
        f"them; with hardware.sampler=vllm take adapter=lora",
    )
    names, members = config.algorithm.names(), config.algorithm.members()
    agents = max(len(names), len(members))
    # members may have wider adapters on the same base
    own = (config.model_of(name).adapter for name in (*names, *members))
    widest = max(own, key=lambda adapter: adapter.rank)
    log = run_dir / f"server-{model}.log"
    context, device = bundle.context_length, hardware.device
    served = bundle.config.replace(adapter=widest)
    server = Server(hardware.server, served, context, agents, log, device, stopping)
    folder = run_dir.absolute() / f"server-{model}"  # a server works in another folder
    # the same folder in shared memory for the same run: one that was killed leaves nothing behind
    here = hardware.server.address is None and SHARED_MEMORY.is_dir()
    if here and shutil.disk_usage(SHARED_MEMORY).free > SHARED_ROOM:
        place = crc32(str(run_dir.resolve()).encode())
        folder = SHARED_MEMORY / f"cory-{place:08x}-{model}"
    if distributed.rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
        server.start()
    return Served(server, folder)


def keep_freed_memory() -> None:
    """Let freed memory stay with the process, for the next tensor.

    By default glibc gives large pieces back, and the kernel clears every page of them again at the
    next pass: a tenth of an update's time on two cores. Other C libraries do not have the setting,
    and keep their own ways.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def main() -> None:
    """`python -m cory.runtime.worker <run_dir>`: one of a run's processes, or its only one."""
    end_with_parent(building=True)
    listen()
    leave(attempt(Path(sys.argv[1])))


def tell(reason: str) -> None:
    """Say why the run failed: on the screen, or to torch's agent, which gives the first reason."""
    place = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if place is None:
        print(reason, file=sys.stderr)
    else:
        told = {"message": reason, "timestamp": int(time.time())}
        Path(place).write_text(json.dumps(told), encoding="utf-8")


def attempt(run_dir: Path) -> int:
    """Run the settings of `run_dir`; the exit code. Why it failed is said."""
    gc.freeze()  # what was imported stays
    gc.enable()
    silence_libraries()
    try:
        work(run_dir)
        return FINISHED
    except Stopped as stopped:
        if distributed.rank() == 0:
            print(stopped)
            print_hints(run_dir)
        stop_process_group()  # waits for the one that closes the records
        return STOPPED
    except (ConfigError, FirstUpdateError, TrainingDiverged) as error:
        tell(f"error: {error}")
    except Exception as error:  # unforeseen: its traceback is printed, by one process
        if stopping() and not saves():  # another process has left while all was built
            return STOPPED
        if isinstance(error, OSError) and error.errno in DISK:
            tell(f"error: {error}; the same command goes on with the run")
        elif distributed.count() == 1 or not any(words in str(error) for words in LOST):
            tell(traceback.format_exc().rstrip())  # else the other process says why
    finally:
        if distributed.count() == 1:  # of several, others may be gone
            stop_process_group()
    return REFUSED


def silence_libraries() -> None:
    """Leave out what libraries say to their developers, and their bars."""
    transformers.logging.set_verbosity_error()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its retries, line by line
    # read by `datasets`, which only tasks with data in files import
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
    for kind in (UserWarning, FutureWarning):
        warnings.filterwarnings("ignore", category=kind, module="torch|deepspeed|transformers|peft")


if __name__ == "__main__":
    main()
