"""The runs behind tables and figures by name: conf/sweeps/<paper>.yaml (docs/sweeps.md)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # mypy's stubs are not installed
from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import Required, TypedDict

from cory.config.base import ConfigError, lines_of, require

# a finished run of a sweep, of the same scale, fidelity and seed
RUN = "outputs/runs/{scale}/{fidelity}/{name}/seed{seed}"
SCALES = ("paper", "small")  # of a sweep that names no others
WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")  # with what is in quotes
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a tenth of the time, where it is built


Seeds = list[int] | dict[str, list[int]]  # or those of each scale


class _Run(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # pydantic's own
    words: Required[str]
    paper: str  # in the place of words of the same key
    small: str
    medium: str


class _Form(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    runs: list[str]
    seeds: Seeds


class _Sweep(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    runs: Required[list[str]]
    seeds: Seeds
    scales: list[str]
    paper: _Form
    small: _Form
    medium: _Form


class _File(TypedDict):
    """What a file of conf/sweeps holds."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    seeds: Seeds
    runs: dict[str, str | _Run]
    sweeps: dict[str, _Sweep]


@dataclass(frozen=True)
class Sweep:
    name: str  # <file>/<entry>, as sweep= takes it
    runs: Mapping[str, list[str]]  # <file>/<run> -> words, as typed after python -m cory.train
    seeds: Sequence[int]


def sweep_names(folders: Sequence[Path]) -> list[str]:
    """<file>/<entry> of every sweep in the folders of options."""
    files = [file for folder in folders for file in sorted((folder / "sweeps").glob("*.yaml"))]
    return [f"{file.stem}/{entry}" for file in files for entry in _read(file)["sweeps"]]


def read_sweep(name: str, scale: str, folders: Sequence[Path], only: Sequence[str] = ()) -> Sweep:
    """A sweep's runs and seeds at a scale; only: the runs to pick, all where empty.

    folders: of options, as conf/; the first that has the file counts
    ConfigError for a name, a scale or a run that there is not, with those that there are.
    """
    stem, _, entry = name.partition("/")
    found = [f / "sweeps" / f"{stem}.yaml" for f in folders]
    file = next((path for path in found if path.is_file()), None)
    about = {} if file is None else _read(file)
    if file is None or entry not in about["sweeps"]:
        known = sweep_names(folders)
        near = get_close_matches(name, known, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(known)}"
        raise ConfigError(f"sweep={name} is not in conf/sweeps; {hint}")
    sweep = about["sweeps"][entry]
    scales = sweep.get("scales", [*SCALES, *(key for key in sweep if key == "medium")])
    require(
        scale in scales, f"sweep={name} has no form at scale={scale}, only at {', '.join(scales)}"
    )
    form = {**sweep, **sweep.get(scale, {})}
    names = form["runs"]
    lost = [run for run in names if run not in about["runs"]]
    require(not lost, f"{file}: sweeps.{entry} names {', '.join(lost)}, not among runs")
    missing = [run for run in only if run not in names]
    require(not missing, f"only={','.join(missing)}: sweep={name} has {', '.join(names)}")
    seeds = form.get("seeds", about["seeds"])
    if isinstance(seeds, dict):
        require(scale in seeds, f"{file}: seeds has none of scale={scale}")
        seeds = seeds[scale]
    runs = {f"{stem}/{run}": words_of(about["runs"], run, scale) for run in (only or names)}
    return Sweep(name, runs, seeds)


def words_of(runs: Mapping[str, Any], name: str, scale: str) -> list[str]:
    """The words of a run, those of its form at a scale in the place of others of the same key."""
    run = runs[name]
    forms = [run] if isinstance(run, str) else [run["words"], run.get(scale, "")]
    return merged(*(WORD.findall(form) for form in forms))


def merged(*lists: Sequence[str]) -> list[str]:
    """Words of the command line, of each key the last one."""
    return list({key_of(word): word for words in lists for word in words}.values())


def key_of(word: str) -> str:
    """The setting or group that a word on the command line is about."""
    return word.lstrip("+~").partition("=")[0]


def _read(file: Path) -> dict[str, Any]:
    """A file of sweeps; ConfigError where it has not their form."""
    about: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"), LOADER)
    try:
        TypeAdapter(_File).validate_python(about)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{file}: {line}" for line in lines_of(error, {}))) from None
    return about


def experiment_names(conf: Path) -> list[str]:
    """The names of all files of conf/experiment."""
    folder = conf / "experiment"
    files = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return sorted(file.as_posix() for file in files)


def run_of(name: str, *, _root_: DictConfig) -> str:
    """The run directory of another run: `${run:<name>}`, of one scale, fidelity and seed."""
    one = {key: _root_[key] for key in ("scale", "fidelity", "seed")}
    return RUN.format(name=name, **one)


OmegaConf.register_new_resolver("run", run_of, replace=True)
# what stands for an option: `${form:<option>,{<option>: <form>, ...},<of all others>}`
OmegaConf.register_new_resolver(
    "form", lambda name, forms, other: str(forms.get(name, other)), replace=True
)
