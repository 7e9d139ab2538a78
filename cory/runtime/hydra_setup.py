"""Hydra as the command uses it: folders of options beside conf/, and refusals in one line."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import hydra
import yaml  # type: ignore[import-untyped]  # mypy's stubs are not installed
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cory.config import (
    ConfigError,
    experiment_names,
    flat,
    meant,
    nearest,
    plug_in_folders,
    require,
)
from cory.models.cpu_products import register_resolver

# beside the package in a checkout, inside it in an installed wheel
_PACKAGE = Path(__file__).resolve().parents[1]
CONF = next(path for path in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if path.is_dir())
# ValueError: what Hydra says to `model=null`; OSError: a folder that cannot be made
HYDRAS = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, OSError)
MOST_LISTED = 24  # options of a group that a refusal lists


class OtherPlaces(SearchPathPlugin):
    """Appends the folders of packages with plug-ins to the places where Hydra looks."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in plug_in_folders():
            refuse_same_names(folder)
            search_path.append("plug-in", f"file://{folder}")


def look_beside() -> None:
    """Let Hydra look into the folders of plug-ins; does nothing where it does so already.

    The jobs of a parallel sweep know of it from the process that starts them.
    """
    Plugins.instance().register(OtherPlaces)


def refuse_same_names(folder: Path) -> None:
    """ConfigError where an option of `folder` has the name of one of conf/, which Hydra takes."""
    for group in (path for path in CONF.iterdir() if path.is_dir()):
        for file in sorted((folder / group.name).rglob("*.yaml")):
            name = file.relative_to(folder)
            option = name.relative_to(group.name).with_suffix("")
            require(
                not (CONF / name).exists(),
                f"{file}: {group.name}={option} is an option of cory already; give the file "
                f"another name",
            )


def compose(*overrides: str) -> DictConfig:
    """The settings that these words on the command line make, without a run.

    `run_dir` is `unused` unless it is one of them.
    """
    look_beside()  # forgotten wherever Hydra's own state has been put back
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return composed(*overrides)


def composed(*overrides: str) -> DictConfig:
    """As `compose`, where Hydra is initialised."""
    cfg = hydra.compose("train", overrides=list(overrides), return_hydra_config=True)
    hydras = cfg.hydra
    # these read `${hydra:...}`, which only a run of Hydra resolves
    OmegaConf.set_struct(cfg, False)
    cfg.experiment = hydras.job.name
    for group in ("scale", "fidelity"):
        cfg[group] = hydras.runtime.choices[group]
    if OmegaConf.is_interpolation(cfg, "run_dir"):
        cfg.run_dir = "unused"
    del cfg["hydra"]
    OmegaConf.set_struct(cfg, True)
    return cfg


@contextmanager
def one_line_refusals(words: Sequence[str]) -> Iterator[None]:
    """Inside, what Hydra refuses of these words is a ConfigError in one line."""
    try:
        yield
    except HYDRAS as error:
        raise ConfigError(one_line(error, words)) from error


def expand_home(cfg: DictConfig) -> None:
    """Folders of runs that begin with ~, which a shell leaves as it is after `run_dir=`."""
    for key in ("run_dir", "init_from"):
        if isinstance(cfg[key], str) and cfg[key].startswith("~"):
            cfg[key] = str(Path(cfg[key]).expanduser())


def one_line(error: Exception, words: Sequence[str] = ()) -> str:
    """The key and the rule of an error of Hydra's, with the nearest name."""
    text, cause = str(error), error.__cause__
    if isinstance(error, MissingConfigException) and (
        option := re.search(r"Could not find '([^/]+)/([^']+)'", text)
    ):
        return _no_option(option[1], option[2], error)
    override = re.search(r"Could not override '(.+)'", text)
    if override and isinstance(cause, OmegaConfBaseException):
        parent = cause.parent_node
        hint = "" if parent is None else meant(override[1], flat(parent._get_root()))
        return f"{override[1]} is not a setting{hint}"
    typed = words or sys.argv[1:]
    empty = [w for w in typed if w.endswith("=null") and (CONF / w.removesuffix("=null")).is_dir()]
    if empty and text.startswith("Config group override must be"):
        return f"{empty[0]}: one of the options in conf/{empty[0].removesuffix('=null')} is needed"
    said = " ".join(line.strip() for line in text.splitlines() if line.strip())
    if isinstance(error, OverrideParseException):  # which does not name the word
        return f"{error.override} cannot be read ({said}); special characters need quotes"
    return said


def _no_option(group: str, name: str, error: MissingConfigException) -> str:
    """The refusal of `group=name`, which no file of conf/ is."""
    options = sorted(error.options or ())
    if (CONF / "scale" / f"{group}.yaml").is_file():
        kind, _, name = name.partition("/")
        return f"scale={group} has no form of {kind}={name}; it has one of {', '.join(options)}"
    if group == "experiment":  # Hydra does not list what lies in subfolders
        options = sorted({*options, *experiment_names(CONF)})
    hint = nearest(name, options)
    return f"{group}={name} is not an option" + (
        hint or f"; choose one of {', '.join(options[:MOST_LISTED])}"
    )


class WithoutHydrasLine:
    """stderr, less the line that Hydra adds to a failed job: the job has said what failed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if text.startswith("Error executing job with overrides"):
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def hydra_raises() -> Iterator[None]:
    """Inside, Hydra raises what it would print, by a variable that is as before afterwards."""
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        del os.environ["HYDRA_FULL_ERROR"]
        if before is not None:
            os.environ["HYDRA_FULL_ERROR"] = before


look_beside()
register_resolver()
