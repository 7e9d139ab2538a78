"""What Hydra composes, kept on disk from one test run to the next.

The tests compose some 1,100 choices of options at 0.2 to 0.4 s each: four to seven minutes of every
run of the tests if they were kept in memory alone. One is stored for every choice of options;
values are set in it by the function of Hydra that sets them in a config that it has just composed.
The folder's name holds the state of all that a config is composed from.
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


class Compositions:
    """Composes configs, those of the same options once per state of `conf` and `code`.

    conf: the folder of options; code: files of Python that take part
    """

    def __init__(
        self, root: Path, conf: Path, code: list[Path], compose: Callable[..., DictConfig]
    ) -> None:
        state = hashlib.sha256()
        state.update(f"{sys.version} {version('hydra-core')} {version('omegaconf')}".encode())
        for path in [*sorted(conf.rglob("*.yaml")), *code]:
            content = path.read_bytes()
            state.update(f"{path}\0{len(content)}\0".encode() + content)
        self.folder, self.conf, self.compose = root / state.hexdigest()[:20], conf, compose
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
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(pickle.dumps(self.compose(*words)))
            part.replace(path)  # tests run side by side
        config = pickle.loads(path.read_bytes())
        assert isinstance(config, DictConfig)
        return config
