"""Agents as folders on the disk, written by all processes of a run together."""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from safetensors import SafetensorError

from cory import distributed
from cory.algorithms.parts import Parts
from cory.models.policy import Policy
from cory.runs.durable import sync, sync_tree
from cory.runs.export import export, model_card, publish
from cory.runs.run_dir import AGENTS, WriteError
from cory.runs.stored_settings import SETTINGS


def export_agents(
    agents: Mapping[str, Policy], parts: Parts, run_dir: Path, done: int | None = None
) -> None:
    """Export every agent to a folder that others can load, on the disk itself.

    done: iterations so far, where the run is not over
    """
    if not agents:  # a model behind an endpoint spoke for all
        return
    part = run_dir / f"{AGENTS}.part"
    if distributed.rank() == 0:
        shutil.rmtree(part, ignore_errors=True)
    for agent in agents.values():
        with agent.engine.whole():
            # a large model on slow storage takes longer than the others would wait
            fault = distributed.first_works(partial(_written, agent, parts, part, done))
        if fault is not None:
            raise WriteError(f"{part} cannot be written ({fault})")
    distributed.wait_for_all()
    fault = distributed.first_works(partial(_published, part, run_dir))
    if fault is not None:
        raise WriteError(f"{part} cannot be written ({fault})")


def _published(part: Path, run_dir: Path) -> str | None:
    """Put the agents in their place once they are on the disk; why that was not possible."""
    try:
        sync_tree(part)
        publish(part, run_dir)
        sync(run_dir)
    except OSError as error:
        return str(error)
    return None


def _written(agent: Policy, parts: Parts, part: Path, done: int | None) -> str | None:
    """Export one agent, whose weights are gathered; why it could not be written."""
    card = model_card(agent.model, agent.team.config, parts.config, parts.commit, done)
    folder, tokenizer = part / agent.name, agent.team.tokenizer
    try:
        export(agent.model, tokenizer, folder, agent.team.config.path, card)
    except (OSError, SafetensorError) as error:
        return str(error)
    return None


def export_iteration(agents: Mapping[str, Policy], parts: Parts, place: Path, done: int) -> None:
    """Export the agents as they are after `done` iterations to a folder, for `init_from`."""
    if distributed.rank() == 0:
        try:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(parts.config.run_dir) / SETTINGS, place)
        except OSError as error:
            raise WriteError(f"{place} cannot be written ({error})") from error
    export_agents(agents, parts, place, done)
