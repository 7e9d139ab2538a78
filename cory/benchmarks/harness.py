"""lm-evaluation-harness (EleutherAI): loads its tasks, and measures a model on them."""

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cory.config import BenchmarkConfig, ConfigError, SuiteConfig, require

PACKAGE = "lm_eval"
WRAPPER = "cory"  # name of the group that wraps every benchmark, so that its filter can be set
GENERATE = "generate_until"  # the harness's type of tasks whose answers are generated


@dataclass(frozen=True)
class Benchmark:
    """A benchmark with its questions."""

    name: str
    config: BenchmarkConfig
    loaded: Any  # the harness's group with the task
    included: bool  # whether its task is from --include, not the harness's own

    @property
    def tasks(self) -> list[Any]:
        """The tasks with questions: one, or those of a group."""
        return list(self.loaded["tasks"].values())

    @property
    def generates(self) -> bool:
        """Whether answers are generated, not chosen by their likelihood."""
        return any(task.OUTPUT_TYPE == GENERATE for task in self.tasks)


@dataclass(frozen=True)
class TaskScore:
    """The score of one task of a benchmark."""

    value: float
    stderr: float | None
    questions: int
    version: str


@dataclass(frozen=True)
class BenchmarkScore:
    """The score of a benchmark, and its details."""

    value: float  # 0 to 1
    stderr: float | None  # None with a single question
    questions: int
    empty_share: float | None  # share of empty generated answers; None without generation
    parts: dict[str, TaskScore]  # by name of the task
    others: dict[str, float]  # the harness's other metrics of the same answers


def harness_version() -> str:
    """The installed version; ConfigError where there is none."""
    require(
        importlib.util.find_spec(PACKAGE) is not None,
        f"benchmarks need the package {PACKAGE}: pip install '.[eval]'",
    )
    return version(PACKAGE)


@functools.cache
def manager(include: Path | None) -> Any:
    """The harness's index of tasks; cached, since reading all task files takes seconds."""
    from lm_eval.tasks import TaskManager  # noqa: PLC0415  an extra, and slow to import

    return TaskManager(include_path=None if include is None else str(include))


def load_benchmark(name: str, config: BenchmarkConfig, include: Path | None) -> Benchmark:
    """A benchmark with its data; ConfigError where it cannot be had.

    include: folder with further task files, which take precedence over tasks of the same name
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
    # the settings of a group beside its members apply to each of them
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
        # the harness would ignore the setting, with a line in its log only
        require(
            config.shots == 0 or task.get_config("num_fewshot") != 0,
            f"benchmarks.{name}.shots={config.shots}: {task.config.task} is always asked without "
            f"examples",
        )
    return benchmark


def _loaded(known: Any, spec: dict[str, Any]) -> Any:
    """The tasks of a group with this specification, as in a task file of the harness."""
    from lm_eval.tasks._index import Entry, Kind  # noqa: PLC0415

    # in the index under a name: a group that is passed directly loses its own settings
    known.task_index[WRAPPER] = Entry(WRAPPER, Kind.GROUP, None, spec)
    return known.load([WRAPPER])


Measure = Callable[[Benchmark], BenchmarkScore]


def benchmark_runner(
    model: Any, tokenizer: Any, suite: SuiteConfig, batch_size: int | str, limit: int | None
) -> Measure:
    """A function that measures the model on a benchmark.

    model: a language model on its device
    batch_size: texts at once, or `auto`: as many as fit
    limit: questions per task; None: all
    """
    from lm_eval import evaluate  # noqa: PLC0415  an extra, and slow to import
    from lm_eval.models.huggingface import HFLM  # noqa: PLC0415

    lm = HFLM(
        model,
        tokenizer=tokenizer,
        batch_size=batch_size,
        add_bos_token=suite.bos,
        trust_remote_code=False,
    )

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
        return _score(benchmark, evaluate(lm, benchmark.loaded, limit=limit, log_samples=False))

    return measure


def _score(benchmark: Benchmark, output: Any) -> BenchmarkScore:
    """The benchmark's score from the output of the harness."""
    config = benchmark.config
    results = output["results"]
    whole = results.get(config.task, {})  # empty for a group without an average
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
            int(output["n-samples"][name]["effective"]),
            str(output["versions"][name]),
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
    """Share of empty answers: a problem of the format rather than of the model."""
    answers = [
        text
        for task in benchmark.tasks
        for request in task.instances
        if request.request_type == GENERATE
        for text in request.resps
    ]
    return sum(not text.strip() for text in answers) / len(answers)
