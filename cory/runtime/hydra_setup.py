"""Hydra as the command uses it: folders of options beside conf/, and refusals in one line."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path

import hydra
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import Config, ConfigError, experiment_names, flat, nearest, no_setting, require
from cory.config.sweep_files import key_of
from cory.models.paths import (
    fitting,
    has_template,
    name_of_model,
    precision_of_weights,
    products_of_cpu,
)

# beside the package in a checkout, inside it in an installed wheel
_PACKAGE = Path(__file__).resolve().parents[1]
CONF = next(path for path in (_PACKAGE / "conf", _PACKAGE.parent / "conf") if path.is_dir())
# ValueError: what Hydra says to `model=null`; OSError: a folder that cannot be made;
# BrokenExecutor: a process of joblib's is gone
HYDRAS = (HydraException, OmegaConfBaseException, YAMLError, ValueError, OSError, BrokenExecutor)


# blocks of agents get any keys, which pydantic looks at: elsewhere Hydra wants + before new ones
OPEN = OmegaConf.create({"members": {}})
OmegaConf.set_struct(OPEN.members, False)
ConfigStore.instance().store(name="open_members", node=OPEN)


# settings that one source of prompts or words reads -> the sources
OF_SOURCES = {"task.path": ("path", "hub"), "task.kinds": ("generated",), "task.words": ("list",)}


def run_name(choices: Mapping[str, str]) -> str:
    """The experiment, or without one task and algorithm: `imdb_cory`; choices: of each group."""
    alone = f"{choices['task']}_{choices['algorithm']}"
    return alone if choices["experiment"] == "none" else choices["experiment"]


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


def refuse_unread(words: Sequence[str], config: Config) -> None:
    """ConfigError for a word about adapters, a server or a source of the task that are not used."""
    adapters = any(model.sharing == "adapters" for model in config.models.values())
    server, source = config.hardware.sampler == "vllm", getattr(config.task, "source", None)
    for word in words:
        key = key_of(word)
        read = source in OF_SOURCES.get(key, (source,)) or word.endswith("=null")
        require(
            read, f"{word}: needs task.source={' or '.join(OF_SOURCES.get(key, ()))}, got {source}"
        )
        require(
            adapters or not key.startswith("model.adapter."),
            f"{word}: needs adapters: adapter=lora, lora_4bit or model.sharing=adapters",
        )
        require(
            server or not key.startswith("hardware.server."), f"{word}: needs hardware.sampler=vllm"
        )


def compose(*overrides: str) -> DictConfig:
    """The settings that these words on the command line make, without a run.

    `run_dir` is `unused` unless it is one of them.
    """
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return composed(*overrides)


def composed(*overrides: str) -> DictConfig:
    """As `compose`, where Hydra is initialised."""
    cfg = hydra.compose("train", overrides=list(overrides), return_hydra_config=True)
    hydras = cfg.hydra
    # these read `${hydra:...}`, which only a run of Hydra resolves
    with open_dict(cfg):
        cfg.experiment = hydras.job.name
        for group in ("adapter", "scale", "fidelity"):
            cfg[group] = hydras.runtime.choices[group]
        if OmegaConf.is_interpolation(cfg, "run_dir"):
            cfg.run_dir = "unused"
        del cfg["hydra"]
    return cfg


@contextmanager
def one_line_refusals() -> Iterator[None]:
    """Inside, what Hydra refuses is a ConfigError in one line."""
    try:
        yield
    except ConfigError:  # has a line for each mistake
        raise
    except HYDRAS as error:
        raise ConfigError(one_line(error)) from error


def one_line(error: Exception) -> str:
    """An error of Hydra's with the nearest name, or the word that it is about."""
    said, cause = " ".join(str(error).partition("Config search path")[0].split()), error.__cause__
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.partition("/")
        known = error.options or ()  # without what lies in subfolders
        there = f" ({', '.join(known)})"
        if group == "experiment":
            known, there = experiment_names(CONF), f" ({CONF / group} has them)"
        if group in ("medium", "small"):  # scale=small does without
            return f"scale=medium has no form of {name.replace('/', '=')}{there}"
        if not any(word.startswith(f"{group}=") for word in sys.argv):
            return f"{said}{nearest(name, known)}"  # an option of another group asks for it
        if group == "model" and ("/" in name or Path(name).exists()):
            return f"{group}={name} is not an option: type model.path={name}"
        return f"{group}={name} is not an option{nearest(name, known)}{there}"
    if said.startswith("Could not override") and isinstance(cause, OmegaConfBaseException):
        key = said.split("'")[1]
        if "template" in key.split("."):  # its arguments are not known
            return f"{key}: an argument of a chat template's own needs a +: +model.template.<name>="
        root = None if cause.parent_node is None else cause.parent_node._get_root()
        return no_setting(key, {} if root is None else flat(root))
    if isinstance(error, OverrideParseException) and "missing EQUAL" in said:
        return f"{error.override} has no value: a setting is typed as <name>=<value>"
    if isinstance(error, OverrideParseException):  # which does not name the word
        return f"{error.override} cannot be read ({said}); special characters need quotes"
    if said.startswith("Config group override"):  # nor does this one
        nulls = [word.removesuffix("=null") for word in sys.argv if word.endswith("=null")]
        groups = [f"{name}=null" for name in nulls if (CONF / name).is_dir()]
        return f"{', '.join(groups)}: choose an option of the group"
    return said


def words_from(*, _parent_: DictConfig) -> str:
    """The source of a game's words: the file or list that is given, else the package."""
    given = {"path": _parent_.path, "list": _parent_.words, "package": True}
    return next(source for source, value in given.items() if value)


OmegaConf.register_new_resolver("words_from", words_from, replace=True)
OmegaConf.register_new_resolver(  # so many words of the package's; of others all
    "of_package",
    lambda number, *, _parent_: number if _parent_.source == "package" else None,
    replace=True,
)
OmegaConf.register_new_resolver("run_name", run_name, replace=True)
OmegaConf.register_new_resolver("is_maft", lambda algorithm: algorithm == "maft", replace=True)
# a value where another setting has none
OmegaConf.register_new_resolver("without", lambda a, b: b if a is None else None, replace=True)
for resolver in (fitting, has_template, name_of_model, precision_of_weights, products_of_cpu):
    OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)
