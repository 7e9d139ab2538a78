"""Settings of a suite of reasoning benchmarks: conf/benchmarks/<suite>.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config.checks import ConfigError, require, require_at_least, require_choice

GEOMETRIC_MEAN = "geometric_mean"  # stands beside the benchmarks that it is made of
DTYPES = ("float16", "bfloat16", "float32")


@dataclass
class BenchmarkConfig:
    """A task or group of the harness, and which of its numbers counts."""

    task: str
    shots: int
    metric: str
    filter: str
    steps: list[str] | None
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
