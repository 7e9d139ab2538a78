"""lm-evaluation-harness (EleutherAI): its tasks, and its numbers for one model."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cory.config import BenchmarkConfig, ConfigError, SuiteConfig, require

PACKAGE = "lm_eval"
WRAPPER = "cory"  # the group that every benchmark is put into, so that its filter can be set
GENERATE = "generate_until"  # kind of request that asks for a text


@dataclass(frozen=True)
class Benchmark:
    """A benchmark with its questions."""

    name: str
    config: BenchmarkConfig
    loaded: Any  # as the harness loads it: the task in a group
    included: bool  # its task is the user's own, not the harness's

    @property
    def tasks(self) -> list[Any]:
        """The tasks with questions: one, or those of a group."""
        return list(self.loaded["tasks"].values())

    @property
    def generates(self) -> bool:
        """Whether answers are generated, rather than chosen by their likelihood."""
        return any(task.OUTPUT_TYPE == GENERATE for task in self.tasks)


@dataclass(frozen=True)
class TaskScore:
    """What one task of a benchmark found."""

    value: float
    stderr: float | None
    questions: int
    version: str


@dataclass(frozen=True)
class BenchmarkScore:
    """A benchmark's number, from 0 to 1, and where it comes from."""

    value: float
    stderr: float | None  # None where there is one question
    questions: int
    empty_share: float | None  # of generated answers; None where none are generated
    parts: dict[str, TaskScore]
    others: dict[str, float]  # the harness's other numbers for the same answers


def harness_version() -> str:
    """The version that is installed, or a refusal."""
    require(
        importlib.util.find_spec(PACKAGE) is not None,
        f"benchmarks need the package {PACKAGE}: pip install '.[eval]'",
    )
    return version(PACKAGE)


@functools.cache
def manager(include: Path | None) -> Any:
    """The tasks that the harness knows; it takes seconds to read their files."""
    from lm_eval.tasks import TaskManager  # noqa: PLC0415  an extra, and slow to import

    return TaskManager(include_path=None if include is None else str(include))


def load_benchmark(name: str, config: BenchmarkConfig, include: Path | None) -> Benchmark:
    """A benchmark with its data at hand, or a refusal.

    include: folder with further task files; a task there goes before one of the same name
    """
    harness_version()
    require(include is None or include.is_dir(), f"--include={include}: there is no such folder")
    known = manager(include)
    require(
        config.task in {*known.all_subtasks, *known.all_groups},
        f"benchmarks.{name}.task={config.task}: lm-evaluation-harness "
        f"{harness_version()} has no such task" + (f", and {include} neither" if include else ""),
    )
    source = known.task_index[config.task].yaml_path
    # what stands in a group beside its members holds for each of them
    spec: dict[str, Any] = {"group": WRAPPER, "task": [config.task]}
    if config.steps is not None:
        steps = [{"function": step} for step in config.steps]
        spec["filter_list"] = [{"name": config.filter, "filter": steps}]
    try:
        loaded = _loaded(known, spec)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"benchmarks.{name}.task={config.task}: its data cannot be loaded: {reason}"
        ) from error
    benchmark = Benchmark(
        name,
        config,
        loaded,
        include is not None and source is not None and source.is_relative_to(include),
    )
    for task in benchmark.tasks:
        # the harness leaves such a task as it is, and would say so only in its log
        require(
            config.shots == 0 or task.get_config("num_fewshot") != 0,
            f"benchmarks.{name}.shots={config.shots}: {task.config.task} is always asked without "
            f"examples",
        )
    return benchmark


def _loaded(known: Any, spec: dict[str, Any]) -> Any:
    """The tasks of a group that is described as in a task file of the harness."""
    from lm_eval.tasks._index import Entry, Kind  # noqa: PLC0415

    # known by a name, as a file would be: given directly, a group gives its own settings to none
    known.task_index[WRAPPER] = Entry(WRAPPER, Kind.GROUP, None, spec)
    return known.load([WRAPPER])


Measure = Callable[[Benchmark], BenchmarkScore]


def benchmark_runner(
    model: Any, tokenizer: Any, suite: SuiteConfig, batch_size: int | str, limit: int | None
) -> Measure:
    """A function that puts a benchmark's questions to a model.

    model: a language model on its device
    batch_size: or `auto`: as many as fit
    limit: questions per task; None: all of them
    """
    from lm_eval import evaluate  # noqa: PLC0415  an extra, and slow to import
    from lm_eval.models.huggingface import HFLM  # noqa: PLC0415

    lm = HFLM(model, tokenizer=tokenizer, batch_size=batch_size, add_bos_token=suite.bos)

    def measure(benchmark: Benchmark) -> BenchmarkScore:
        require(
            not benchmark.generates or suite.max_new_tokens < lm.max_length,
            f"max_new_tokens={suite.max_new_tokens} leaves no room for the questions of "
            f"{benchmark.name}: the model sees {lm.max_length} tokens",
        )
        for task in benchmark.tasks:
            task.set_config("num_fewshot", benchmark.config.shots)
            task.set_fewshot_seed(suite.seed)
            if task.OUTPUT_TYPE == GENERATE:
                longest = {"max_gen_toks": suite.max_new_tokens}
                task.set_config("generation_kwargs", longest, update=True)
        return _found(benchmark, evaluate(lm, benchmark.loaded, limit=limit, log_samples=False))

    return measure


def _found(benchmark: Benchmark, answer: Any) -> BenchmarkScore:
    """The numbers that count, out of all that the harness says."""
    config = benchmark.config
    results = answer["results"]
    whole = results.get(config.task, {})  # nothing, of a group that is not averaged
    key = f"{config.metric},{config.filter}"
    known = sorted(name for name in whole if "," in name and "_stderr" not in name)
    require(
        key in whole,
        f"benchmarks.{benchmark.name}: {config.task} has no metric={config.metric} with "
        f"filter={config.filter}; it has {'; '.join(known)} (metric,filter)",
    )
    names = [task.config.task for task in benchmark.tasks]
    parts = {
        name: TaskScore(
            float(results[name][key]),
            _stderr(results[name], config),
            int(answer["n-samples"][name]["effective"]),
            str(answer["versions"][name]),
        )
        for name in names
    }
    return BenchmarkScore(
        float(whole[key]),
        _stderr(whole, config),
        sum(part.questions for part in parts.values()),
        _empty_share(benchmark) if benchmark.generates else None,
        parts,
        {name: float(whole[name]) for name in known if name != key},
    )


def _stderr(numbers: dict[str, Any], config: BenchmarkConfig) -> float | None:
    value = numbers[f"{config.metric}_stderr,{config.filter}"]
    return None if value == "N/A" else float(value)


def _empty_share(benchmark: Benchmark) -> float:
    """How many of the generated answers say nothing: a format problem rather than a wrong one."""
    answers = [
        text
        for task in benchmark.tasks
        for request in task.instances
        if request.request_type == GENERATE
        for text in request.resps
    ]
    return sum(not text.strip() for text in answers) / len(answers)
