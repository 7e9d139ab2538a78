"""Experiments by name: a file of conf/experiment, or an entry of conf/names.yaml.

An entry says which words on the command line its name stands for. Hydra then knows the name as an
option of `experiment`, like a file; conf/names.yaml explains the form of its entries.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # mypy's stubs are not installed
from omegaconf import DictConfig, OmegaConf

from cory.config.checks import require

NAMES = "names.yaml"  # below conf/
# a finished run of the same scale, fidelity and seed (sweep.dir of conf/train.yaml)
RUN = "outputs/runs/{scale}/{fidelity}/{name}/seed{seed}"


@dataclass(frozen=True)
class NamedExperiment:
    """What the name of an experiment stands for."""

    words: tuple[str, ...]  # as typed: experiment=<another>, <group>=<option>, <key>=<value>
    small: tuple[str, ...]  # what scale=small changes besides, likewise

    @property
    def base(self) -> str:
        """The experiment that it changes."""
        return next(word for word in self.words if word.startswith("experiment=")).partition("=")[2]


def named_experiments(conf: Path) -> Mapping[str, NamedExperiment]:
    """The entries of conf/names.yaml, each template written out; none where there is no file."""
    path = conf / NAMES
    return _read(conf, path.stat().st_mtime_ns) if path.exists() else {}


@cache
def _read(conf: Path, changed: int) -> Mapping[str, NamedExperiment]:
    """The file as it was when last changed. All its scalars are texts: 1e-5 stays 1e-5."""
    text = (conf / NAMES).read_text(encoding="utf-8")
    found: dict[str, NamedExperiment] = {}
    for template, entry in yaml.load(text, Loader=_Texts).items():
        entry = {"is": entry} if isinstance(entry, str) else entry
        for chosen in _combinations(entry.get("each", [])):
            name, words, small = (
                _fill(text, chosen) for text in (template, entry["is"], entry.get("small", ""))
            )
            where = f"conf/{NAMES}: {name}"
            require(name not in found, f"{where} is there twice")
            for folder in ("experiment", "small/experiment"):
                file = conf / folder / f"{name}.yaml"
                require(not file.exists(), f"{where} is also a file of conf/{folder}")
            found[name] = NamedExperiment(tuple(words.split()), tuple(small.split()))
    for name, one in found.items():
        base = [word for word in one.words if word.startswith("experiment=")]
        require(len(base) == 1, f"conf/{NAMES}: {name} must be one experiment, got {base}")
        known = one.base in found or (conf / "experiment" / f"{one.base}.yaml").exists()
        require(known, f"conf/{NAMES}: {name} is experiment={one.base}, which there is not")
    return found


class _Texts(yaml.BaseLoader):  # type: ignore[misc]  # as the import
    """All scalars as texts, and no key twice: YAML itself would take the last one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for number, key in enumerate(keys):
            require(key not in keys[:number], f"conf/{NAMES}: {key} is there twice")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _combinations(each: list[Any]) -> Iterator[dict[str, str]]:
    """Every combination of the choices; `{word: [a, b]}` is short for `[{word: a}, {word: b}]`."""
    choices = [
        [{word: value} for word, values in axis.items() for value in values]
        if isinstance(axis, dict)
        else axis
        for axis in each
    ]
    for combination in product(*choices):
        yield {word: value for words in combination for word, value in words.items()}


def _fill(text: str, words: Mapping[str, str]) -> str:
    """The text with every {word} replaced; `${...}` is Hydra's."""
    filled = re.sub(r"(?<!\$)\{(\w+)\}", lambda match: words.get(match[1], match[0]), text)
    left = re.search(r"(?<!\$)\{\w+\}", filled)
    require(left is None, f"conf/{NAMES}: nothing is said of {left and left[0]} in '{text}'")
    return filled


def experiment_names(conf: Path) -> list[str]:
    """The names of all experiments: files and entries."""
    folder = conf / "experiment"
    files = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return sorted({*(file.as_posix() for file in files), *named_experiments(conf)})


@dataclass(frozen=True)
class NamedOption:
    """An entry, or its small form, as an option of Hydra; its contents are made when asked for."""

    conf: Path
    group: str  # experiment | small/experiment
    base: str | None  # the option of the same group that it starts from
    words: tuple[str, ...]

    def contents(self) -> dict[str, Any]:
        """The words as the file of an option would have them: defaults, then values."""
        return _contents(self.conf, self.group, self.base, self.words)


def named_options(conf: Path) -> Mapping[str, NamedOption]:
    """Every entry as Hydra finds an option: its path below conf/ -> what it stands for."""
    path = conf / NAMES
    return _options(conf, path.stat().st_mtime_ns) if path.exists() else {}


@cache
def _options(conf: Path, changed: int) -> Mapping[str, NamedOption]:
    options = {}
    for name, one in named_experiments(conf).items():
        options[f"experiment/{name}"] = NamedOption(conf, "experiment", one.base, one.words)
        base = _small_base(conf, one)
        if one.small or base is not None:
            small = NamedOption(conf, "small/experiment", base, one.small)
            options[f"small/experiment/{name}"] = small
    return options


def small_file(conf: Path, name: str) -> Path:
    """The file of conf/small/experiment that an experiment's small form is or starts from.

    There need not be one: most small forms depend on model, task and algorithm alone.
    """
    one = named_experiments(conf).get(name)
    if one is None:
        return conf / "small" / "experiment" / f"{name}.yaml"
    return small_file(conf, _named_in(one.small) or one.base)


def _small_base(conf: Path, one: NamedExperiment) -> str | None:
    """What an entry's small form starts from: the experiment's that it changes, or one it names."""
    below = named_experiments(conf).get(one.base)
    has_own = below is not None and (below.small or _small_base(conf, below) is not None)
    file = conf / "small" / "experiment" / f"{one.base}.yaml"
    return _named_in(one.small) or (one.base if has_own or file.exists() else None)


def _named_in(words: tuple[str, ...]) -> str | None:
    """The <experiment> of experiment=<experiment>."""
    named = [word.partition("=")[2] for word in words if word.startswith("experiment=")]
    return named[0] if named else None


def _contents(conf: Path, group: str, base: str | None, words: tuple[str, ...]) -> dict[str, Any]:
    defaults: list[str | dict[str, str]] = [] if base is None else [f"/{group}/{base}"]
    overrides: list[str | dict[str, str]] = []
    values = []
    for word in words:
        key, _, value = word.partition("=")
        if key == "experiment":
            continue
        if not (conf / key.lstrip("+").partition("@")[0]).is_dir():
            values.append(word.lstrip("+"))  # a file adds a key by naming it
        elif key.startswith("+"):
            defaults.append({f"/{key[1:]}": value})
        else:
            overrides.append({f"override /{key}": value})
    own = OmegaConf.to_container(OmegaConf.from_dotlist(values))
    assert isinstance(own, dict)
    return {"defaults": [*defaults, *overrides, "_self_"], **{str(k): v for k, v in own.items()}}


def listed(*patterns: str) -> str:
    """Every combination of the patterns' alternatives, as a sweep takes them.

    `a_{x,y}` is a_x,a_y. Hydra knows it as `${listed:'a_{x,y}'}`.
    """
    found = []
    for pattern in patterns:
        parts = re.split(r"\{([^{}]*)\}", pattern)  # text, alternatives, text, ...
        choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
        found += ["".join(words) for words in product(*choices)]
    return ",".join(found)


def run_of(name: str, *, _root_: DictConfig) -> str:
    """The run directory of another experiment: `${run:<name>}`, of one scale, fidelity and seed."""
    one = {key: _root_[key] for key in ("scale", "fidelity", "seed")}
    return RUN.format(name=name, **one)


OmegaConf.register_new_resolver("listed", listed, replace=True)
OmegaConf.register_new_resolver("run", run_of, replace=True)
