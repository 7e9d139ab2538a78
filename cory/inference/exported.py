"""Policies of a finished run, loaded on any machine to speak and never to train."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from cory.config import HardwareConfig, ModelConfig, nearest, require
from cory.models.policy import Policy
from cory.models.team import Team
from cory.runs.export import start_from


def require_device(device: str, key: str) -> None:
    """ConfigError where this machine has no such device; key: the option that names it."""
    named = re.fullmatch(r"cuda(?::(\d+))?", device)
    there = named is not None and int(named[1] or 0) < torch.cuda.device_count()
    require(
        device == "cpu" or there,
        f"{key}={device}: this machine has none; cpu, or where there is a GPU cuda or cuda:1"
        f"{nearest(device, ['cpu', 'cuda'])}",
    )


def model_here(
    model: ModelConfig, device: str, remote_code: bool, run_dir: Path, group: str, allow: str
) -> ModelConfig:
    """The settings of a run's model on this device: half precision in 16 bits needs a GPU.

    ConfigError where the model needs the checkpoint's own Python and it may not run.

    remote_code: it may; the run's settings cannot allow it
    group: of settings, that the model's are: `model` or `partner`
    allow: how a user does
    """
    require(
        remote_code or not model.remote_code,
        f"{run_dir} was trained with {group}.remote_code=true: the checkpoint's own Python runs "
        f"only with {allow}",
    )
    model = replace(model, remote_code=remote_code)
    if device == "cpu" and "fp16" in (model.precision, model.compute_precision):
        return replace(model, precision="fp32", compute_precision="fp32")
    return model


def exported_policies(
    team: Team,
    names: Sequence[str],
    hardware: HardwareConfig,
    run_dir: Path,
    group: str,
    setting: str,
) -> dict[str, Policy]:
    """The policies of these names, without value heads; group and setting as of `start_from`."""
    models = list(team.new_models(list(names), torch.Generator(), value_head=False))
    start_from(run_dir, models, team.config, group, setting)
    return {model.name: Policy(team, model, None, hardware) for model in models}
