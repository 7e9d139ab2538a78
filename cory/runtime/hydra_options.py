"""Where Hydra looks for options beside conf/: the folders of packages with plug-ins."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from cory.config import plug_in_folders, require


class OtherPlaces(SearchPathPlugin):
    """Appends the folders of plug-ins to the places where Hydra looks."""

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
        if option in ("--config-dir", "-cd"):
            return Path(value if equals else following)
    return None


def refuse_same_names(folder: Path, conf: Path) -> None:
    """ConfigError where an option of `folder` has the name of one of `conf`, which Hydra takes."""
    for group in (path for path in conf.iterdir() if path.is_dir()):
        for file in sorted((folder / group.name).rglob("*.yaml")):
            name = file.relative_to(folder)
            option = str(name.relative_to(group.name).with_suffix(""))
            require(
                not (conf / name).exists(),
                f"{file}: {group.name}={option} is an option of cory already; give the file "
                f"another name",
            )
