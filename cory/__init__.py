"""Fine-tune small teams of language models with multi-agent reinforcement learning.

    from cory import run, load_team

For notebooks and programs (docs/agents.md); each name is imported when it is first used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cory.config import ConfigError
    from cory.inference import load_team
    from cory.notebook import FinishedRun, RunFailed, run
    from cory.rollout.scheduler import TooLong

__all__ = ["ConfigError", "FinishedRun", "RunFailed", "TooLong", "load_team", "run"]
_PLACES = {
    "ConfigError": "cory.config",
    "FinishedRun": "cory.notebook",
    "RunFailed": "cory.notebook",
    "TooLong": "cory.rollout.scheduler",
    "load_team": "cory.inference",
    "run": "cory.notebook",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'cory' has no attribute '{name}'")
    if name == "load_team":
        # threads that wait sleep, where torch is not imported yet: others may need the cores
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return getattr(import_module(_PLACES[name]), name)
