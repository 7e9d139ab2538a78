"""Where Hydra looks for options, beside conf/: conf/names.yaml, and the files of other packages.

An entry of conf/names.yaml is an option like a file of conf/experiment. Not through Hydra's
ConfigStore, all of which it copies for every run that it composes.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from cory.config import named_options, plug_in_folders, require

SCHEME = "names"


class NamedOptions(ConfigSource):
    """The entries of a conf/names.yaml, `names://<conf>`."""

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        option = named_options(Path(self.path))[config_path.removesuffix(".yaml")]
        return ConfigResult(
            config=OmegaConf.create(option.contents()),
            path=self.full_path(),
            provider=self.provider,
            header={"package": "_global_"},
        )

    def available(self) -> bool:
        return True

    def is_config(self, config_path: str) -> bool:
        return config_path.removesuffix(".yaml") in named_options(Path(self.path))

    def is_group(self, config_path: str) -> bool:
        folder = f"{config_path.rstrip('/')}/"
        return any(option.startswith(folder) for option in named_options(Path(self.path)))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        folder = f"{config_path.rstrip('/')}/"
        names = {
            option.removeprefix(folder).partition("/")[0]
            for option in named_options(Path(self.path))
            if option.startswith(folder)
        }
        found: list[str] = []
        for name in sorted(names):
            self._list_add_result(found, f"{folder}{name}", name, results_filter)
        return found


class OtherPlaces(SearchPathPlugin):
    """Appends `names://<conf>` and the folders of plug-ins to the places where Hydra looks."""

    conf: Path

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("cory", f"{SCHEME}://{self.conf}")
        for folder in plug_in_folders():
            refuse_same_names(folder, self.conf)
            search_path.append("plug-in", f"file://{folder}")


def look_beside(conf: Path) -> None:
    """Let Hydra look into conf/names.yaml and plug-ins; does nothing where it does so already.

    The jobs of a parallel sweep know of it from the process that starts them.
    """
    OtherPlaces.conf = conf
    for plugin in (NamedOptions, OtherPlaces):
        Plugins.instance().register(plugin)


def own_folder(words: Sequence[str]) -> Path | None:
    """The folder that --config-dir names on the command line."""
    for word, following in pairwise([*words, ""]):
        option, equals, value = word.partition("=")
        if option in ("--config-dir", "-cd"):
            return Path(value if equals else following)
    return None


def refuse_same_names(folder: Path, conf: Path) -> None:
    """ConfigError where an option of `folder` has the name of one of `conf`, which Hydra takes."""
    for group in (path for path in conf.iterdir() if path.is_dir()):
        for file in sorted((folder / group.name).rglob("*.yaml")):
            name = file.relative_to(folder)
            option = str(name.relative_to(group.name).with_suffix(""))
            taken = (conf / name).exists() or str(name.with_suffix("")) in named_options(conf)
            require(
                not taken,
                f"{file}: {group.name}={option} is an option of cory already; give the file "
                f"another name",
            )
