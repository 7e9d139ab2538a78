"""Hydra plugins: an entry of conf/names.yaml is an option like a file of conf/experiment.

Not through Hydra's ConfigStore, all of which it copies for every run that it composes.
"""

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from cory.config import named_options

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


class NamesPath(SearchPathPlugin):
    """Appends `names://<conf>` to the places where Hydra looks for options."""

    conf: Path

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append("cory", f"{SCHEME}://{self.conf}")


def know_names(conf: Path) -> None:
    """Let Hydra look into conf/names.yaml; does nothing where it does so already.

    The jobs of a parallel sweep know of it from the process that starts them.
    """
    NamesPath.conf = conf
    for plugin in (NamedOptions, NamesPath):
        Plugins.instance().register(plugin)
