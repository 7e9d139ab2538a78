"""Public reasoning benchmarks by lm-evaluation-harness, on the agents of a finished run."""

import importlib.util
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch

from cory.config import Settings, parse_config, require
from cory.config.base import Count, Number, Text
from cory.inference import group_of
from cory.models.loading import load_language_model, load_tokenizer, nf4
from cory.models.lora import DESCRIPTION, load_adapter
from cory.runs.files import write_whole
from cory.runs.recorder import device_name
from cory.runs.run_dir import AGENTS, RECORD, read_record, read_settings

BASE = "base"  # key of the untrained model's scores, beside those of the agents
IN_RECORD = "benchmarks"  # key of all scores in record.json
GEOMETRIC_MEAN = "geometric_mean"  # stands beside the benchmarks that it is made of
Entry = dict[str, Any]  # a score and how it was measured
Dtype = Literal["float16", "bfloat16", "float32"]


class BenchmarkConfig(Settings):
    """A task or group of the harness, and which of its numbers counts."""

    task: Text
    shots: Number
    metric: Text
    filter: Text
    cot: bool


class SuiteConfig(Settings):
    """What is measured, and how."""

    name: Text
    dtype: Dtype
    cpu_dtype: Dtype
    max_new_tokens: Count
    bos: bool | None
    seed: int
    benchmarks: dict[str, BenchmarkConfig]
    geometric_mean: list[Text]


@dataclass(frozen=True)
class Measurement:
    """How benchmarks are put to one agent of one run."""

    run_dir: Path
    agent: str
    base: bool  # measure the model that the agent was trained from instead
    suite: SuiteConfig
    include: tuple[Path, ...]  # folders with further task files of the harness
    limit: int | None  # questions per task, to try: such scores are not kept; None: all
    batch_size: int | str  # texts at once, or `auto`: as many as fit
    device: str

    @property
    def key(self) -> str:
        """Of the scores in the record."""
        return BASE if self.base else self.agent


def measure(wanted: Measurement, names: Sequence[str]) -> dict[str, Entry]:
    """Measure benchmarks that have no score yet; all scores of the agent by name, from 0 to 1.

    Each is in the run's record as soon as it is there, with the geometric mean once all of its
    benchmarks are. ConfigError for a run that is not finished, and without the harness.
    """
    require(
        importlib.util.find_spec("lm_eval") is not None,
        "benchmarks need the package lm_eval: pip install '.[eval]'",
    )
    record = read_record(wanted.run_dir)
    require(record is not None, f"{wanted.run_dir}: the run is not finished: it has no {RECORD}")
    assert record is not None
    kept = record.get(IN_RECORD, {}).get(wanted.key, {})
    scores: dict[str, Entry] = kept if wanted.limit is None else {}
    ask = None  # loads the model, where anything is left to ask
    for name in [name for name in names if name not in scores]:
        ask = ask or harness(wanted)
        scores[name] = ask(wanted.suite.benchmarks[name])
        parts = [scores.get(part) for part in wanted.suite.geometric_mean]
        if all(parts):
            value, stderr = geometric_mean([(p["value"], p["stderr"]) for p in parts if p])
            scores[GEOMETRIC_MEAN] = {"value": value, "stderr": stderr, "metric": "geometric mean"}
        if wanted.limit is None:
            record.setdefault(IN_RECORD, {})[wanted.key] = scores
            write_whole(wanted.run_dir / RECORD, json.dumps(record, indent=1) + "\n")
    return scores


def harness(wanted: Measurement) -> Callable[[BenchmarkConfig], Entry]:
    """A function that puts a benchmark of the suite to the agent's model."""
    from lm_eval import simple_evaluate  # noqa: PLC0415  an extra, and slow to import
    from lm_eval.models.huggingface import HFLM  # noqa: PLC0415
    from lm_eval.tasks import TaskManager  # noqa: PLC0415

    suite = wanted.suite
    tasks = TaskManager(include_path=[str(folder) for folder in wanted.include])
    model, tokenizer, conditions = model_of(wanted)
    lm = HFLM(
        model,
        tokenizer=tokenizer,
        batch_size=wanted.batch_size,
        add_bos_token=suite.bos,
        trust_remote_code=False,
    )

    def ask(benchmark: BenchmarkConfig) -> Entry:
        output: Any = simple_evaluate(
            lm,
            tasks=[benchmark.task],
            task_manager=tasks,
            num_fewshot=benchmark.shots,
            fewshot_random_seed=suite.seed,
            gen_kwargs={"max_gen_toks": suite.max_new_tokens},
            limit=wanted.limit,
            log_samples=False,
        )
        whole = output["results"][benchmark.task]
        stderr = whole[f"{benchmark.metric}_stderr,{benchmark.filter}"]
        return {
            "value": float(whole[f"{benchmark.metric},{benchmark.filter}"]),
            "stderr": None if stderr == "N/A" else float(stderr),
            "questions": sum(n["effective"] for n in output["n-samples"].values()),
            "suite": suite.name,
            **benchmark.model_dump(),
            **conditions,
        }

    return ask


def model_of(wanted: Measurement) -> tuple[Any, Any, Entry]:
    """The agent's model on its device, its tokenizer, and the conditions of the measurement."""
    folder = wanted.run_dir / AGENTS / wanted.agent
    require(folder.is_dir(), f"--agent={wanted.agent}: there is no {folder}")
    settings = parse_config(read_settings(wanted.run_dir))
    config = settings.models[group_of(settings, wanted.agent)]
    adapted = (folder / DESCRIPTION).is_file()
    path = config.path if adapted or wanted.base else str(folder)
    name = wanted.suite.cpu_dtype if wanted.device == "cpu" else wanted.suite.dtype
    dtype: torch.dtype = getattr(torch, name)
    packed = adapted and config.quantisation == "nf4"
    place = torch.device(wanted.device)
    packing = nf4(config.double_quantisation, dtype, dtype, place) if packed else {}
    model = load_language_model(path, "model.path", False, **{"dtype": dtype} | packing)
    if not packed:
        model.to(place)
    if adapted and not wanted.base:
        load_adapter(model, folder)
    conditions = {
        "harness": version("lm_eval"),
        "dtype": name,
        "quantisation": config.quantisation if packed else "none",
        "device": device_name(wanted.device.partition(":")[0]),
    }
    return model.eval(), load_tokenizer(path, "model.path"), conditions


def geometric_mean(numbers: Sequence[tuple[float, float | None]]) -> tuple[float, float | None]:
    """The geometric mean of independent numbers, and its standard error by the delta method.

    numbers: (value, standard error); None for an unknown error
    returns: (mean, standard error); None where an error is unknown or a value is 0
    """
    values, errors = zip(*numbers, strict=True)
    if 0 in values:
        return 0.0, None
    mean = statistics.geometric_mean(values)
    if None in errors:
        return mean, None
    # the mean changes by mean / (n * value) when a value changes by 1
    terms = ((mean * error / (len(values) * value)) ** 2 for value, error in numbers if error)
    return mean, math.sqrt(math.fsum(terms))
