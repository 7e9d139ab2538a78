"""How W&B and trackio are told about a run: its name, group and settings, and rows of samples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cory.config import Config
from cory.episode import Episode
from cory.runs.stored_settings import SETTINGS, as_written, read_settings
from cory.runs.sweeps.differences import SEED, read_varied, short_words

LONGEST = 128  # characters of a name or a group that W&B takes
COLUMNS = ("iteration", "prompt", "role", "agent", "context", "response", "score", "credit")


def settings_of(config: Config, run_dir: Path) -> Any:
    """The settings as the directory stores them: what environment variables hold goes nowhere."""
    stored = (run_dir / SETTINGS).exists()
    return as_written(read_settings(run_dir)) if stored else config.model_dump()


def name_of(config: Config, run_dir: Path) -> str:
    """Experiment, what varies in its sweep, seed: `quickstart/kl_coef=0.3/seed0`."""
    varied = _varied(run_dir)
    parts = [config.experiment, *([varied] if varied else []), f"seed{config.seed}"]
    return "/".join(parts)[:LONGEST]


def group_of(config: Config, run_dir: Path) -> str:
    """Runs that differ in their seed alone: the sweep, or experiment, and what varies in it."""
    of_sweep = config.sweep != "adhoc"
    parts = [config.sweep, config.experiment] if of_sweep else [config.experiment]
    varied = _varied(run_dir)
    return ", ".join([*parts, *([varied] if varied else [])])[:LONGEST]


def _varied(run_dir: Path) -> str:
    """What varies between the jobs of a sweep beside experiment and seed, in short."""
    found = {k: v for k, v in read_varied(run_dir).items() if k not in ("experiment", SEED)}
    return ", ".join(short_words(found, list(found)))


def sample_rows(iteration: int, episodes: list[Episode]) -> Iterator[tuple[Any, ...]]:
    """A row of `COLUMNS` for each turn."""
    for episode in episodes:
        for t in episode.turns:
            yield (
                iteration, episode.prompt.id, t.role, t.agent, t.context, t.response, t.score,
                t.credit,
            )  # fmt: skip
