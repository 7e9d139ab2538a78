"""Export of agents to folders that other programs load, and starting runs from such folders."""

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from transformers import PreTrainedTokenizerBase

from cory import distributed
from cory.config import Config, require
from cory.models.actor_critic import VALUE_HEAD, ActorCriticModel
from cory.models.paths import resolve
from cory.models.policy import Policy
from cory.runs.files import sync, sync_tree
from cory.runs.run_dir import AGENTS, SETTINGS, require_agents

CARD = """\
---
library_name: {library}
tags: [cory, reinforcement-learning]
---

# {agent} of {config.experiment}, seed {config.seed}

Trained by cory from `{own.path}` (precision={own.precision}, \
quantisation={own.quantisation}): algorithm={config.algorithm.name}, task={config.task.name}, \
reward={config.reward.name}, {done} iterations of {prompts} prompts.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

here = "."  # the folder of this card, or its name on a hub
tokenizer = AutoTokenizer.from_pretrained(here)
model = AutoModelForCausalLM.from_pretrained(here)
```
"""


def export_agents(
    agents: Mapping[str, Policy], config: Config, place: Path, done: int | None = None
) -> None:
    """Export every agent to `agents/` in a folder, on the disk itself; every process calls it.

    done: iterations so far, where the run is not over: then the settings lie beside `agents/`, as
        in a run's own folder, so that `init_from` takes it
    """
    if not agents:  # a model behind an endpoint spoke for all
        return
    part = place / f"{AGENTS}.part"

    def begin() -> None:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        if done is not None:
            shutil.copy(Path(config.run_dir) / SETTINGS, place)

    def publish() -> None:
        """Put the agents in their place, all at once, when they are on the disk."""
        sync_tree(part)
        shutil.rmtree(place / AGENTS, ignore_errors=True)
        part.rename(place / AGENTS)
        sync(place)

    # the others wait for the first process, however long a large model takes
    distributed.first_works(begin)
    for agent in agents.values():
        bundle, own = agent.bundle, agent.bundle.config
        card = CARD.format(
            library="transformers" if agent.model.base is None else "peft",
            agent=agent.name,
            config=config,
            own=own,
            done=config.algorithm.iterations if done is None else done,
            prompts=config.algorithm.prompts_drawn(),
        )
        write = partial(export, agent.model, bundle.tokenizer, part / agent.name, own.path, card)
        with agent.engine.whole():
            distributed.first_works(write)
    distributed.first_works(publish)


def export(
    model: ActorCriticModel, tokenizer: PreTrainedTokenizerBase, folder: Path, path: str, card: str
) -> None:
    """Write one agent: a full model or a PEFT adapter, with tokenizer, model card and value head.

    path: of the base model, for an adapter
    The weights must be whole (`Engine.whole`); one process calls this.
    """
    folder.mkdir(parents=True)
    if model.base is None:
        model.lm.save_pretrained(folder)
    else:
        base = Path(resolve(path, "model.path"))
        model.base.save(model.name, folder, str(base.resolve() if base.is_dir() else base))
    if model.value_head is not None:
        model.value_head.save(folder / VALUE_HEAD, model.likelihood_coef)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(card, encoding="utf-8")
    # safetensors lets nobody else read what it writes, whatever the umask says
    mode = (folder / "README.md").stat().st_mode
    for file in folder.glob("*.safetensors"):
        file.chmod(mode)


def start_from(
    run_dir: Path, models: Sequence[ActorCriticModel], config: Config, setting: str
) -> None:
    """Load the weights of a finished run's agents into models; arguments as `agent_folders`."""
    folders = agent_folders(run_dir, [model.name for model in models], config, setting)
    for model in models:
        model.load(folders[model.name], setting, config.model_of(model.name).remote_code)


def agent_folders(
    run_dir: Path, agents: Sequence[str], config: Config, setting: str
) -> dict[str, Path]:
    """The folders of a finished run that agents start from: agent_0 from its agent_0, and so on.

    A run with one agent serves any number of them. ConfigError where the run does not fit.

    config: of the run whose agents they become
    setting: the setting that named the run, for refusals
    """
    key = f"{setting}={run_dir}"
    settings = require_agents(run_dir, key)
    there = sorted(path for path in (run_dir / AGENTS).iterdir() if path.is_dir())
    found = {name: there[0] if len(there) == 1 else run_dir / AGENTS / name for name in agents}
    require(
        all(folder.is_dir() for folder in found.values()),
        f"{key} has {len(there)} agents, this run {len(agents)}; one agent serves all, several "
        f"serve as many",
    )
    for name, folder in found.items():
        agent, members = folder.name, settings.get("members", {})
        block = members.get(agent) or members.get(agent.partition("_turn_")[0]) or {}
        ours = config.model_of(name)
        theirs: Any = OmegaConf.merge(settings.model, block.get("model", {}))
        keys = ["path", "sharing"]
        if ours.sharing != "copies":
            keys += ["adapter.rank", "adapter.alpha", "adapter.targets"]
        for one in keys:
            own, other = attrgetter(one)(ours), OmegaConf.select(theirs, one)
            said = f"{config.key_of(name)}.{one}"
            require(other == own, f"{key} was trained with {said}={other}, not {own}")
    return found
