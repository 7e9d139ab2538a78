"""Compose one experiment, check it, launch it. `python -m cory.train --help` lists the options."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # mypy's stubs are not installed

from cory.config import ConfigError, nearest, parse_config
from cory.launch import launch
from cory.run_dir import SETTINGS, is_complete, write_settings

# beside the package in a checkout, inside it in an installed wheel
_HERE = Path(__file__).resolve().parent
CONF = next(path for path in (_HERE / "conf", _HERE.parent / "conf") if path.is_dir())

_failed: list[str] = []  # raising inside a job would end a sweep with a traceback


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")
def _job(cfg: DictConfig) -> None:
    """One run: in a sweep, called once per job."""
    try:
        config = parse_config(cfg)
        run_dir = Path(config.run_dir)
        if is_complete(run_dir, cfg):
            print(f"{run_dir} is complete; delete it to run it again")
            return
        if (run_dir / SETTINGS).exists():
            print(f"{run_dir} holds an unfinished run; it starts again from the beginning")
        write_settings(run_dir, cfg, list(HydraConfig.get().overrides.task))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        _failed.append(cfg.experiment)
        return
    finally:
        remove_empty(Path(HydraConfig.get().runtime.output_dir))
    if not launch(run_dir, config.hardware.device):
        _failed.append(str(run_dir))


def remove_empty(folder: Path) -> None:
    """Hydra makes its output folder before a job can be refused or put elsewhere."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def one_line(error: Exception) -> str:
    """Hydra's errors span several lines; users get the key and the rule."""
    text = str(error)
    option = re.search(r"Could not find '([^/']+)/([^']+)'", text)
    if option and isinstance(error, MissingConfigException):
        folder = CONF / option[1]  # Hydra does not list what lies in subfolders
        nested = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
        known = ", ".join(sorted({*(error.options or ()), *map(str, nested)}))
        return f"{option[1]}={option[2]} is not an option; choose one of {known}"
    override = re.search(r"Could not override '(.+)'", text)
    cause = error.__cause__
    if override and isinstance(cause, OmegaConfBaseException):
        parent, leaf = cause.parent_node, override[1].rpartition(".")
        hint = nearest(leaf[2], [str(key) for key in parent or ()])
        return f"{override[1]} is not a setting{hint}"
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def main() -> None:
    """The console command `cory-train`."""
    if "RANK" in os.environ:
        sys.exit("error: train.py starts its own workers: call `python -m cory.train`, no launcher")
    wants_traceback = "HYDRA_FULL_ERROR" in os.environ
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing
    try:
        _job()
    except KeyboardInterrupt:
        sys.exit(130)
    # ValueError: what Hydra says to `model=null`; OSError: a folder that cannot be made
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError, OSError) as error:
        if wants_traceback:
            raise
        print(f"error: {one_line(error)}", file=sys.stderr)
        sys.exit(1)
    if _failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
