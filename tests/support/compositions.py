"""What Hydra composes, kept on disk from one test run to the next.

The tests compose over a thousand configs, most of them several times, at a fifth of a second each.
Stored is one for every choice of options; values are set in it by the function of Hydra that sets
them in a config that it has just composed. A stored config is used only while everything that it
was composed from is as it was: the files of conf/, Hydra, OmegaConf, Python and the code that takes
part are part of the folder's name.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

# words with which Hydra reads files elsewhere, or that concern Hydra itself
NOT_STORED = ("hydra.", "hydra/", "+hydra", "-")
NAME = "hydra.job.name="  # of a run; it is the setting experiment, and chooses nothing
Compose = Callable[..., DictConfig]


def digest_of(conf: Path, *code: Path) -> str:
    """A name for the state of everything that a composed config depends on.

    code: files of Python that take part
    """
    found = hashlib.sha256()
    versions = (sys.version, version("hydra-core"), version("omegaconf"))
    found.update(repr(versions).encode())
    for path in [*sorted(conf.rglob("*.yaml")), *code]:
        content = path.read_bytes()
        name = path.relative_to(conf) if path.is_relative_to(conf) else path.name
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:20]


class Compositions:
    """Composes configs, those of the same options once, in `root / digest`.

    conf: the folder of options
    """

    def __init__(self, root: Path, digest: str, conf: Path, compose: Compose) -> None:
        self.folder = root / digest
        self.conf = conf
        self.compose = compose
        self.folder.mkdir(parents=True, exist_ok=True)
        for other in root.iterdir():
            if other != self.folder:
                shutil.rmtree(other, ignore_errors=True)  # of files that have changed since

    def __call__(self, *words: str) -> DictConfig:
        """The config of these words, a new object each time; errors are Hydra's own."""
        named = [word for word in words if word.startswith(NAME)]
        words = tuple(word for word in words if word not in named)
        if any(word.startswith(NOT_STORED) for word in words):
            return self.compose(*words, *named)
        chosen = [word for word in words if self._chooses(word)]
        values = OverridesParser.create().parse_overrides([w for w in words if w not in chosen])
        if any(value.is_sweep_override() for value in values):  # refused by what composes
            return self.compose(*words, *named)
        config = self._stored(*chosen)
        if named:
            config.experiment = named[-1].partition("=")[2]
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        return config

    def _chooses(self, word: str) -> bool:
        """Whether it names an option of a group; else it gives a value."""
        group = word.lstrip("+~").partition("=")[0].partition("@")[0]
        return (self.conf / group).is_dir()

    def _stored(self, *words: str) -> DictConfig:
        name = hashlib.sha256("\0".join(words).encode()).hexdigest()[:24]
        path = self.folder / f"{name}.pickle"
        if path.exists():
            config = pickle.loads(path.read_bytes())
            assert isinstance(config, DictConfig)
            return config
        config = self.compose(*words)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(config))
        part.replace(path)  # tests run side by side
        return config
