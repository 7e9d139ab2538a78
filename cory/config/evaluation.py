"""How agents are measured: `evaluation`, the diversity of answers, and suites of benchmarks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field, ValidationError
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config.base import Conflict, Count, Number, Settings, Text, Words
from cory.config.errors import ConfigError, lines_of, require
from cory.config.model import Weights

GEOMETRIC_MEAN = "geometric_mean"  # stands beside the benchmarks that it is made of
Dtype = Literal["float16", "bfloat16", "float32"]


class EvaluationConfig(Settings):
    """What every evaluation measures, during training and after it."""

    prompts: Count | None  # the first so many of the split; None: all
    split: Literal["train", "test"]
    samples: Count  # responses per prompt
    k: Annotated[list[Count], Field(min_length=1)]  # pass@k for each; tasks with answers only
    greedy: bool
    team: bool  # also the agents in their roles, each seeing the answers before its own
    probes: list[Words]  # texts that every agent answers at the end, kept in samples.jsonl
    before: bool  # also before the training, with the same prompts and random numbers as after it

    def conflicts(self) -> Iterator[Conflict]:
        if max(self.k) > self.samples:
            yield "k", f"must not exceed evaluation.samples={self.samples}"
        for key in ("k", "probes"):
            values = getattr(self, key)
            if len({*values}) < len(values):
                yield key, "must not name anything twice"


class DiversityConfig(Settings):
    """Measures of diversity beyond agreement with the vote, and the models that compute them."""

    encoder: Text | None  # whose embeddings of responses are compared; None: none are
    scorer: Text | None  # whose next-token distributions are compared; None: none are
    kl_to_base: bool  # ... also with those of what the model said before any training
    nll_others: bool  # how likely each agent's model finds what the others said last
    precision: Weights  # of encoder and scorer
    batch_size: Count  # texts per pass of encoder and scorer
    max_tokens: Count  # what they read at most of a text; the scorer reads the question with it

    needs = {"kl_to_base": "scorer"}  # whose distributions are compared


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

    def conflicts(self) -> Iterator[Conflict]:
        if GEOMETRIC_MEAN in self.benchmarks:
            yield "benchmarks", f"{GEOMETRIC_MEAN} is the name of the mean"
        plain = self.names(cot=False)
        for name in self.geometric_mean:
            if name not in plain:
                yield "geometric_mean", f"{name} is no benchmark of the suite that is asked plainly"

    def names(self, cot: bool) -> list[str]:
        """The benchmarks that are asked plainly, or those with a chain of thought."""
        return [name for name, benchmark in self.benchmarks.items() if benchmark.cot == cot]


def load_suite(path: Path) -> SuiteConfig:
    """The suite of a file, checked."""
    require(path.is_file(), f"--suite={path.stem}: there is no {path}")
    try:
        values = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
        return SuiteConfig.model_validate(values)
    except (OmegaConfBaseException, YAMLError, OSError) as error:
        raise ConfigError(f"{path}: {str(error).splitlines()[0]}") from None
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in lines_of(error))) from None
