"""What Hydra refuses, in one line: it spans several, and names no key or every option."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from cory.config import experiment_names, meant, nearest, paths, plug_in_folders
from cory.runtime.hydra_options import own_folder
from cory.runtime.sweeps.jobs import of_experiments, typed

MANY = 4  # options that begin with what was typed: all are listed, not one of them
MOST_LISTED = 24  # options of a group that a refusal lists


def one_line(error: Exception, conf: Path, words: Sequence[str] | None = None) -> str:
    """The key and the rule of an error of Hydra's, with the nearest name that there is.

    conf: the folder of all options
    words: the overrides that Hydra refused; None: those that were typed
    """
    words = typed() if words is None else words
    text = str(error)
    option = re.search(r"Could not find '([^/]+)/([^']+)'", text)
    if option and isinstance(error, MissingConfigException):
        return _no_option(option[1], option[2], error, conf)
    if text.startswith("Config group override must be"):
        return _no_name(text, conf, words)
    unresolved = re.search(r"interpolation '(.+)', possible interpolation keys: (.+)", text)
    groups = re.findall(r"\$\{(\w+)\}", unresolved[1]) if unresolved else []
    for group in groups:
        if unresolved and group not in unresolved[2].split(", "):
            return f"{group} is missing: every run needs one; {group}=<option> chooses it"
    override = re.search(r"Could not override '(.+)'", text)
    cause = error.__cause__
    if override and isinstance(cause, OmegaConfBaseException):
        parent = cause.parent_node
        hint = "" if parent is None else meant(override[1], paths(parent._get_root()))
        whose = " of every run of this sweep" if of_experiments(words) else ""
        return f"{override[1]} is not a setting{whose}{hint}"
    said = " ".join(line.strip() for line in text.splitlines() if line.strip())
    word = unreadable_word(words) if isinstance(error, HydraException) else None
    if word is None or word in said:
        return said
    key, equals, value = word.partition("=")
    hint = f"; what has special characters needs quotes: \"{key}='{value}'\"" if equals else ""
    return f"{word} cannot be read ({said}){hint}"


def _no_option(group: str, name: str, error: MissingConfigException, conf: Path) -> str:
    """The refusal of `group=name`, which no file of conf/ and no name of conf/names.yaml is."""
    if group == "hydra":
        inner, _, name = f"hydra/{name}".rpartition("/")
        known = ", ".join(sorted(error.options or ()))
        return (
            f"{inner}={name} is not installed; choose one of {known}, "
            f'or install others: pip install ".[sweep]"'
        )
    if (conf / "scale" / f"{group}.yaml").is_file():
        kind, _, name = name.partition("/")
        known = ", ".join(sorted(error.options or ()))
        return f"scale={group} has no form of {kind}={name}; it has one of {known}"
    own = own_folder(sys.argv[1:])
    nested = (  # Hydra does not list what lies in subfolders
        path.relative_to(folder / group).with_suffix("").as_posix()
        for folder in (conf, *plug_in_folders(), *([] if own is None else [own]))
        for path in (folder / group).rglob("*.yaml")
    )
    named = experiment_names(conf) if group == "experiment" else ()
    options = sorted({*(error.options or ()), *nested, *named})
    said = f"{group}={name} is not an option"
    begun = [option for option in options if option.startswith(name)]
    hint = _same_name(name, options) or (nearest(name, options) if len(begun) < MANY else "")
    if hint:
        return said + hint
    return f"{said}; choose one of {', '.join(_some(name, options))}"


def _same_name(name: str, options: list[str]) -> str:
    """A hint where the name was typed without the folder that it is in."""
    same = [option for option in options if option.endswith(f"/{name}")]
    return f"; did you mean {' or '.join(same[:3])}?" if same else ""


def _some(name: str, options: list[str]) -> list[str]:
    """All options where they are few; else those that hold the name, else their folders."""
    if len(options) <= MOST_LISTED:
        return options
    alike = [option for option in options if name in option]
    if 0 < len(alike) <= MOST_LISTED:
        return alike
    folder = name.partition("/")[0]
    within = [option for option in alike or options if option.startswith(f"{folder}/")]
    if within:
        more = len(within) - MOST_LISTED
        return within[:MOST_LISTED] + ([f"{more} more of {folder}/"] if more > 0 else [])
    counts: dict[str, int] = {}
    for option in options:
        top, slash, _ = option.partition("/")
        counts[top + slash + ("..." if slash else "")] = counts.get(top + slash, 0) + 1
    return list(counts)


def _no_name(text: str, conf: Path, words: Sequence[str]) -> str:
    """The refusal of a group that is given a number or null in place of an option's name."""
    parser = OverridesParser.create()
    for word in words:
        if word.startswith("-"):
            continue
        override = parser.parse_override(word)
        key, value = override.key_or_group, override.value()
        if override.is_sweep_override() or isinstance(value, str | list):
            continue
        if (conf / key).is_dir():
            known = sorted(path.stem for path in (conf / key).glob("*.yaml"))
            listed = f": {', '.join(known[:MOST_LISTED])}" if known else ""
            return f"{word}: {key} takes the name of an option{listed}"
    return text


def unreadable_word(words: Sequence[str]) -> str | None:
    """The first word that breaks Hydra's grammar; Hydra does not name it."""
    parser = OverridesParser.create()
    for word in words:
        if not word.startswith("-"):
            try:
                parser.parse_override(word)
            except HydraException:
                return word
    return None


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
