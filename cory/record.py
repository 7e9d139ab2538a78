"""What a run leaves behind: metrics.jsonl, samples.jsonl, record.json; optionally W&B."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import torch

from cory.config import Config, WandbConfig
from cory.episode import Episode, Metrics
from cory.run_dir import METRICS, RECORD, SAMPLES, SETTINGS

PACKAGES = (
    "cory",
    "torch",
    "transformers",
    "deepspeed",
    "peft",
    "bitsandbytes",
    "hydra-core",
    "omegaconf",
    "datasets",
    "wandb",
    "numpy",
)
WHAT_RUNS = (":/cory", ":/conf", ":/pyproject.toml")


class Recorder:
    """Writes a run's records; lines are on disk as soon as they are logged."""

    def __init__(self, run_dir: Path, config: Config) -> None:
        self.run_dir = run_dir
        self.config = config
        self.began = time.time()
        # as the run starts: the checkout may move on while it lasts
        self.code = {
            "commit": git("rev-parse", "HEAD"),
            # results and notes may change while a sweep goes on; what runs may not
            "clean": git("status", "--porcelain", "--", *WHAT_RUNS) == "",
        }
        self.metrics: IO[str] = (run_dir / METRICS).open("w", encoding="utf-8")
        self.samples: IO[str] = (run_dir / SAMPLES).open("w", encoding="utf-8")
        (run_dir / RECORD).unlink(missing_ok=True)
        self.wandb = start_wandb(config, run_dir) if config.wandb.mode != "disabled" else None
        self.last: Metrics = {}

    def log(self, iteration: int, metrics: Metrics) -> None:
        """One line of metrics.jsonl, and the same to W&B."""
        self.last |= metrics
        self._line(self.metrics, {"iteration": iteration, **metrics})
        if self.wandb is not None:
            self.wandb.log({"iteration": iteration, **metrics})

    def log_samples(self, iteration: int, episodes: list[Episode]) -> None:
        """Episodes as text, one line each, with scores and credits."""
        for episode in episodes:
            turns = [
                {
                    "agent": t.agent,
                    "role": t.role,
                    "context": t.context,
                    "response": t.response,
                    "score": t.score,
                    "credit": t.credit,
                }
                for t in episode.turns
            ]
            line = {
                "iteration": iteration,
                "prompt_id": episode.prompt.id,
                "prompt": episode.prompt.text,
                "turns": turns,
            }
            self._line(self.samples, line)
        if self.wandb is not None:
            self.wandb.log({"iteration": iteration, **_wandb_table(iteration, episodes)})

    def finish(self) -> None:
        """Write record.json: from now on the run counts as done."""
        settings = (self.run_dir / SETTINGS).read_bytes()
        record = {
            "experiment": self.config.experiment,
            "sweep": self.config.sweep,
            "scale": self.config.scale,
            "seed": self.config.seed,
            "iterations": self.config.algorithm.iterations,
            "final": self.last,
            **self.code,
            "settings_sha256": hashlib.sha256(settings).hexdigest(),
            "packages": {name: _version(name) for name in PACKAGES},
            "python": platform.python_version(),
            "device": device_name(self.config.hardware.device),
            "threads": torch.get_num_threads(),
            "began": datetime.fromtimestamp(self.began, timezone.utc).isoformat(timespec="seconds"),
            "wall_s": round(time.time() - self.began, 1),
        }
        partial = self.run_dir / f"{RECORD}.part"
        partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.run_dir / RECORD)

    def close(self) -> None:
        """Close the files and the W&B run, whether or not the run finished."""
        self.metrics.close()
        self.samples.close()
        if self.wandb is not None:
            self.wandb.finish()

    @staticmethod
    def _line(file: IO[str], fields: dict[str, Any]) -> None:
        file.write(json.dumps(fields, ensure_ascii=False) + "\n")
        file.flush()


def start_wandb(config: Config, run_dir: Path) -> Any:
    """A W&B run that mirrors the records; offline when the server does not answer."""
    import wandb  # noqa: PLC0415  half a second, and most runs do without

    def start(mode: Any) -> Any:
        settings: WandbConfig = config.wandb
        return wandb.init(
            project=settings.project,
            mode=mode,
            dir=run_dir,
            group=config.sweep if config.sweep != "adhoc" else config.experiment,
            name=f"{config.experiment}/seed{config.seed}",
            tags=[tag for tag in (config.scale, (git("rev-parse", "--short", "HEAD"))) if tag],
            config=json.loads(json.dumps(config, default=vars)),
            settings=wandb.Settings(init_timeout=settings.init_timeout, silent=True),
        )

    try:
        run = start(config.wandb.mode)
    except wandb.errors.Error as error:
        print(f"note: W&B did not answer ({str(error).splitlines()[0]}); recording offline")
        run = start("offline")
    run.define_metric("*", step_metric="iteration")
    return run


def _wandb_table(iteration: int, episodes: list[Episode]) -> dict[str, Any]:
    import wandb  # noqa: PLC0415  only reached with W&B on

    rows = [
        [e.prompt.id, t.role, t.agent, t.context, t.response, t.score, t.credit]
        for e in episodes
        for t in e.turns
    ]
    columns = ["prompt", "role", "agent", "context", "response", "score", "credit"]
    # a name per iteration: tables under one name overwrite each other
    return {f"samples/{iteration:05d}": wandb.Table(columns=columns, data=rows)}


def git(*words: str) -> str | None:
    """What git says about the checkout that this package runs from; None outside of one."""
    here = Path(__file__).resolve()
    try:
        # an installed copy may lie inside a checkout of something else
        subprocess.run(
            ["git", "-C", str(here.parent), "ls-files", "--error-unmatch", here.name],
            capture_output=True,
            check=True,
        )
        answer = subprocess.run(
            ["git", "-C", str(here.parent), *words], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def device_name(device: str) -> str:
    """The processor or accelerator that a run used, in words."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    return f"CPU {platform.machine()}, {os.cpu_count()} cores"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
