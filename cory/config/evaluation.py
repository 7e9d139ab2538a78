"""How agents are measured: `evaluation`, the diversity of answers, and suites of benchmarks."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config.checks import ConfigError, require, require_at_least, require_choice
from cory.config.model import PRECISIONS

GEOMETRIC_MEAN = "geometric_mean"  # stands beside the benchmarks that it is made of
DTYPES = ("float16", "bfloat16", "float32")


@dataclass
class EvaluationConfig:
    """What every evaluation measures, during training and after it."""

    prompts: int | None  # the first so many of the split; None: all
    split: str  # train | test
    samples: int  # responses per prompt
    k: list[int]  # pass@k is estimated for each; tasks with answers only
    greedy: bool  # also one greedy response per prompt
    team: bool  # also the agents in their roles, each seeing the answers before its own
    probes: list[str]  # texts that every agent answers at the end, kept in samples.jsonl
    before: bool  # also before the training, with the same prompts and random numbers as after it

    def __post_init__(self) -> None:
        if self.prompts is not None:
            require_at_least("evaluation.prompts", self.prompts, 1)
        require_choice("evaluation.split", self.split, ("train", "test"))
        require_at_least("evaluation.samples", self.samples, 1)
        require(bool(self.k), "evaluation.k must name at least one number of tries, got []")
        for number, k in enumerate(self.k):
            require_at_least("evaluation.k", k, 1)
            require(
                k <= self.samples,
                f"evaluation.k: {k} exceeds evaluation.samples ({self.samples})",
            )
            require(k not in self.k[:number], f"evaluation.k names {k} twice: {self.k}")
        for number, probe in enumerate(self.probes):
            require(bool(probe.strip()), f"evaluation.probes: number {number + 1} is empty")
            require(probe not in self.probes[:number], f"evaluation.probes names '{probe}' twice")


@dataclass
class DiversityConfig:
    """Measures of diversity beyond agreement with the vote, and the models that compute them."""

    encoder: str | None  # whose embeddings of responses are compared; None: none are
    scorer: str | None  # whose next-token distributions are compared; None: none are
    kl_to_base: bool  # ... also with those of what the model said before any training
    nll_others: bool  # how likely each agent's model finds what the others said last
    precision: str  # fp32 | bf16 | fp16: weights of encoder and scorer
    batch_size: int  # texts per pass of encoder and scorer
    max_tokens: int  # what they read at most of a text; the scorer reads the question with it

    def __post_init__(self) -> None:
        key = "algorithm.diversity"
        require_choice(f"{key}.precision", self.precision, PRECISIONS)
        for name in ("batch_size", "max_tokens"):
            require_at_least(f"{key}.{name}", getattr(self, name), 1)
        require(
            not self.kl_to_base or self.scorer is not None,
            f"{key}.kl_to_base=true needs a model whose distributions are compared; set "
            f"{key}.scorer",
        )


@dataclass
class BenchmarkConfig:
    """A task or group of the harness, and which of its numbers counts."""

    task: str
    shots: int
    metric: str
    filter: str
    cot: bool


@dataclass
class SuiteConfig:
    """What is measured, and how."""

    name: str
    dtype: str
    cpu_dtype: str
    max_new_tokens: int
    bos: bool | None
    seed: int
    benchmarks: dict[str, BenchmarkConfig]
    geometric_mean: list[str]

    def __post_init__(self) -> None:
        require_choice("dtype", self.dtype, DTYPES)
        require_choice("cpu_dtype", self.cpu_dtype, DTYPES)
        require_at_least("max_new_tokens", self.max_new_tokens, 1)
        for name, benchmark in self.benchmarks.items():
            require(name != GEOMETRIC_MEAN, f"benchmarks.{name}: the name is taken by the mean")
            require_at_least(f"benchmarks.{name}.shots", benchmark.shots, 0)
        for name in self.geometric_mean:
            require(
                name in self.benchmarks and not self.benchmarks[name].cot,
                f"geometric_mean: {name} is no benchmark of the suite that is asked plainly",
            )

    def names(self, cot: bool) -> list[str]:
        """The benchmarks that are asked plainly, or those with a chain of thought."""
        return [name for name, benchmark in self.benchmarks.items() if benchmark.cot == cot]


def load_suite(path: Path) -> SuiteConfig:
    """The suite of a file, checked."""
    require(path.is_file(), f"--suite={path.stem}: there is no {path}")
    try:
        merged = OmegaConf.merge(OmegaConf.structured(SuiteConfig), OmegaConf.load(path))
        missing = sorted(OmegaConf.missing_keys(merged))
        require(not missing, f"no value given for {', '.join(missing)}")
        suite = OmegaConf.to_object(merged)
    except (OmegaConfBaseException, YAMLError, OSError) as error:
        raise ConfigError(f"{path}: {str(error).splitlines()[0]}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    assert isinstance(suite, SuiteConfig)
    return suite
