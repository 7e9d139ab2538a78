"""Hydra as the command uses it: folders of options beside conf/, and refusals in one line."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TextIO

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.errors import MissingConfigException, OverrideParseException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf.errors import OmegaConfBaseException

from cory.config import experiment_names, flat, meant, nearest, plug_in_folders, require

MOST_LISTED = 24  # options of a group that a refusal lists


OWN_FOLDER = ("--config-dir", "-cd")


class OtherPlaces(SearchPathPlugin):
    """Appends the folders of packages with plug-ins to the places where Hydra looks."""

    conf: Path

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in plug_in_folders():
            refuse_same_names(folder, self.conf)
            search_path.append("plug-in", f"file://{folder}")


def look_beside(conf: Path) -> None:
    """Let Hydra look into the folders of plug-ins; does nothing where it does so already.

    The jobs of a parallel sweep know of it from the process that starts them.
    """
    OtherPlaces.conf = conf
    Plugins.instance().register(OtherPlaces)


def own_folder(words: Sequence[str]) -> Path | None:
    """The folder that --config-dir names on the command line."""
    for word, following in pairwise([*words, ""]):
        option, equals, value = word.partition("=")
        if option in OWN_FOLDER:
            return Path(value if equals else following)
    return None


def in_one_word(words: Sequence[str]) -> list[str]:
    """The words of the command line, `--config-dir FOLDER` as `--config-dir=FOLDER`."""
    pairs = pairwise(["", *words, ""])
    joined = [
        f"{word}={after}" if word in OWN_FOLDER else word
        for (before, word), (_, after) in pairwise(pairs)
        if before not in OWN_FOLDER
    ]
    return joined


def refuse_same_names(folder: Path, conf: Path) -> None:
    """ConfigError where an option of `folder` has the name of one of `conf`, which Hydra takes."""
    for group in (path for path in conf.iterdir() if path.is_dir()):
        for file in sorted((folder / group.name).rglob("*.yaml")):
            name = file.relative_to(folder)
            option = name.relative_to(group.name).with_suffix("")
            require(
                not (conf / name).exists(),
                f"{file}: {group.name}={option} is an option of cory already; give the file "
                f"another name",
            )


def one_line(error: Exception, conf: Path, words: Sequence[str] = ()) -> str:
    """The key and the rule of an error of Hydra's, with the nearest name; conf: of all options."""
    text, cause = str(error), error.__cause__
    if isinstance(error, MissingConfigException) and (
        option := re.search(r"Could not find '([^/]+)/([^']+)'", text)
    ):
        return _no_option(option[1], option[2], error, conf)
    override = re.search(r"Could not override '(.+)'", text)
    if override and isinstance(cause, OmegaConfBaseException):
        parent = cause.parent_node
        hint = "" if parent is None else meant(override[1], flat(parent._get_root()))
        return f"{override[1]} is not a setting{hint}"
    typed = words or sys.argv[1:]
    empty = [w for w in typed if w.endswith("=null") and (conf / w.removesuffix("=null")).is_dir()]
    if empty and text.startswith("Config group override must be"):
        return f"{empty[0]}: one of the options in conf/{empty[0].removesuffix('=null')} is needed"
    said = " ".join(line.strip() for line in text.splitlines() if line.strip())
    if isinstance(error, OverrideParseException):  # which does not name the word
        return f"{error.override} cannot be read ({said}); special characters need quotes"
    return said


def _no_option(group: str, name: str, error: MissingConfigException, conf: Path) -> str:
    """The refusal of `group=name`, which no file of conf/ is."""
    options = sorted(error.options or ())
    if (conf / "scale" / f"{group}.yaml").is_file():
        kind, _, name = name.partition("/")
        return f"scale={group} has no form of {kind}={name}; it has one of {', '.join(options)}"
    if group == "experiment":  # Hydra does not list what lies in subfolders
        options = sorted({*options, *experiment_names(conf)})
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
