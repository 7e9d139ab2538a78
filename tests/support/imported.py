"""What forks of tests/support/warm.py find imported: everything that some run needs."""

from __future__ import annotations

import gc

import deepspeed.runtime.zero.stage3
import matplotlib.backends.backend_agg

import cory.models.lora  # bitsandbytes and torch's compiler with it
import tests.support.warm
from cory.train import compose

__all__ = ["cory", "deepspeed", "matplotlib", "tests"]

compose()  # Hydra has looked for its plugins, and files that most runs need have been read

# a collection in a fork looks at what the run itself has made, not at a million objects of modules
gc.freeze()
