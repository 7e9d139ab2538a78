"""Measures reasoning benchmarks on the agents of finished runs, once per agent."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from cory.benchmarks.harness import (
    Benchmark,
    BenchmarkScore,
    benchmark_runner,
    harness_version,
    load_benchmark,
)
from cory.benchmarks.store import (
    ALIKE,
    LIMITED,
    WHOLE,
    Entry,
    add_geometric_mean,
    keep_score,
    read_scores,
    record_scores,
)
from cory.config import GEOMETRIC_MEAN, ConfigError, SuiteConfig, require
from cory.models.loading import load_language_model, load_tokenizer, nf4
from cory.models.places import ASSETS
from cory.runs.lock import lock
from cory.runs.provenance import changed_files, device_name, git
from cory.runs.run_dir import AGENTS, RECORD
from cory.runs.stored_settings import read_settings

BASE = "base"  # key of the untrained model's scores, beside those of the agents
ADAPTER = "adapter_config.json"  # as PEFT calls it


@dataclass(frozen=True)
class BenchmarkRequest:
    """The benchmarks to measure on one model of one run."""

    run_dir: Path
    agent: str
    base: bool  # measure the model that the agent was trained from instead
    suite: SuiteConfig
    names: list[str]  # of the suite's benchmarks
    include: Path | None  # folder with further task files
    limit: int | None  # questions per task; None: all
    batch_size: int | str
    device: str
    again: bool  # replace scores that exist

    @property
    def model(self) -> str:
        """Key of the model's scores in benchmarks.json and the record."""
        return BASE if self.base else self.agent

    @property
    def section(self) -> str:
        """The section of benchmarks.json for these scores."""
        return WHOLE if self.limit is None else LIMITED


def chosen_benchmarks(suite: SuiteConfig, tasks: str | None, cot: bool) -> list[str]:
    """The benchmarks listed in `tasks`; else all of the suite without or with chain of thought."""
    if tasks is None:
        return suite.names(cot)
    names = [name.strip() for name in tasks.split(",")]
    for name in names:
        require(
            name in suite.benchmarks,
            f"--tasks: {name} is no benchmark of suite {suite.name}; choose from "
            f"{', '.join(suite.benchmarks)}",
        )
    return names


def measure_benchmarks(request: BenchmarkRequest) -> dict[str, Entry]:
    """Measures the missing benchmarks; returns all scores of the model by benchmark.

    Raises ConfigError for a run that is not finished, or scores that would not be comparable.
    """
    version = harness_version()
    require(
        torch.cuda.is_available() or not request.device.startswith("cuda"),
        f"--device={request.device}: this machine has no CUDA device",
    )
    settings = _settings(request.run_dir)
    source = _source(request, settings)
    run_dir, suite = request.run_dir, request.suite
    with lock(run_dir):
        measured = read_scores(run_dir).get(request.section, {}).get(request.model, {})
        conditions = _conditions(request, version, source)
        benchmarks = [
            load_benchmark(name, suite.benchmarks[name], request.include)
            for name in _missing(request, measured, conditions)
        ]
        if benchmarks:
            model, tokenizer = _load(source, conditions["dtype"], request.device)
            measure = benchmark_runner(model, tokenizer, suite, request.batch_size, request.limit)
            for benchmark in benchmarks:
                began = time.time()
                entry = _entry(benchmark, measure(benchmark), conditions, began)
                keep_score(run_dir, request.section, request.model, benchmark.name, entry)
        # even if nothing was missing: the last command may have been killed before this
        add_geometric_mean(
            run_dir, request.section, request.model, suite.name, suite.geometric_mean
        )
        if request.section == WHOLE:
            record_scores(run_dir)
        return read_scores(run_dir)[request.section][request.model]


def _settings(run_dir: Path) -> DictConfig:
    """The settings of a finished run; ConfigError for any other."""
    settings = read_settings(run_dir)
    require(
        (run_dir / RECORD).is_file(),
        f"{run_dir}: the run is not finished: it has no {RECORD}",
    )
    return settings


@dataclass(frozen=True)
class Source:
    """Where a model's weights are."""

    model: str  # folder or name of the whole model or an adapter's base, with the tokenizer
    adapter: Path | None
    packing: DictConfig | None  # settings of the model if its base is quantised

    @property
    def quantisation(self) -> str:
        return "none" if self.packing is None else str(self.packing.quantisation)


def _source(request: BenchmarkRequest, settings: DictConfig) -> Source:
    """The weights of an agent, a whole model or an adapter; ConfigError where there are none."""
    agents = request.run_dir / AGENTS
    folder = agents / request.agent
    known = sorted(path.name for path in agents.iterdir()) if agents.is_dir() else []
    require(
        folder.is_dir(),
        f"--agent={request.agent}: {request.run_dir} has no such agent; it has "
        f"{', '.join(known) or 'none'}",
    )
    model = settings.model
    adapted = (folder / ADAPTER).is_file()
    if not (adapted or request.base):
        return Source(str(folder), None, None)
    if adapted:
        base = _base_of(folder, model.path)
    else:
        require(
            settings.get("partner") is None,
            f"--base: {request.run_dir} started from two models; measure each in a run of its own",
        )
        base = model.path
    packing = model if adapted and model.quantisation != "none" else None
    return Source(base, None if request.base else folder, packing)


def _base_of(folder: Path, path: str) -> str:
    """The base model of an adapter.

    path: `model.path` of the run's settings. A model that comes with cory is stored in the adapter
        with its folder at that time, which may have changed.
    """
    try:
        adapter = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
        named = str(adapter["base_model_name_or_path"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"{folder / ADAPTER} names no base model") from error
    shipped = path.startswith("asset:") and Path(named).name == path.removeprefix("asset:")
    return path if shipped and (ASSETS / Path(named).name).is_dir() else named


def _load(source: Source, dtype: str, device: str) -> tuple[Any, Any]:
    """The model, on its device, and its tokenizer."""
    target = torch.device(device)
    precision: torch.dtype = getattr(torch, dtype)
    quantisation = None
    if source.packing is not None:
        quantisation = nf4(source.packing.double_quantisation, precision, precision)
    model = load_language_model(source.model, "model", False, precision, quantisation, target)
    if quantisation is None:
        model.to(target)
    if source.adapter is not None:
        from cory.models.lora import load_adapter  # noqa: PLC0415  takes five seconds

        load_adapter(model, source.adapter)
    return model.eval(), load_tokenizer(source.model, "model")


def _conditions(request: BenchmarkRequest, version: str, source: Source) -> Entry:
    """The part of an entry that is the same for all benchmarks measured now."""
    suite = request.suite
    return {
        "suite": suite.name,
        "harness": version,
        "dtype": suite.cpu_dtype if request.device == "cpu" else suite.dtype,
        "quantisation": source.quantisation,
        "bos": suite.bos,
        "max_new_tokens": suite.max_new_tokens,
        "seed": suite.seed,
        "limit": request.limit,
        "batch_size": request.batch_size,
        "device": device_name(request.device.partition(":")[0]),
        "commit": git("rev-parse", "HEAD"),
        "clean": changed_files() == "",
    }


def _missing(
    request: BenchmarkRequest, measured: Mapping[str, Entry], conditions: Entry
) -> list[str]:
    """The benchmarks to measure; ConfigError for scores measured under other conditions."""
    for name, entry in measured.items():
        expected = {key: conditions[key] for key in ALIKE}
        if name in request.names:
            if request.again:
                continue  # it is replaced
            expected |= asdict(request.suite.benchmarks[name])
        for key, value in expected.items():
            require(
                entry[key] == value or name == GEOMETRIC_MEAN,
                f"{request.run_dir} has {name} of {request.model} with {key}={entry.get(key)}, not "
                f"{value}; numbers of one agent are measured alike: name it in --tasks and say "
                f"--again",
            )
    return [name for name in request.names if request.again or name not in measured]


def _entry(benchmark: Benchmark, score: BenchmarkScore, conditions: Entry, began: float) -> Entry:
    """A score with its details and the conditions of its measurement."""
    numbers = {
        "value": score.value,
        "stderr": score.stderr,
        "questions": score.questions,
        "empty_share": score.empty_share,
        "others": score.others,
        "parts": {name: asdict(part) for name, part in score.parts.items()},
    }
    when = datetime.fromtimestamp(began, timezone.utc).isoformat(timespec="seconds")
    took = {"began": when, "seconds": round(time.time() - began, 1)}
    return {
        **numbers,
        **asdict(benchmark.config),
        "included": benchmark.included,
        **conditions,
        **took,
    }
