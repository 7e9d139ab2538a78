"""What forks of tests/support/warm.py find imported: everything that some run needs.

What a run imports when it needs it is imported here too, and what libraries look up at first use
(Hydra its plugins, matplotlib its fonts) has been looked up.
"""

import gc
import io
import pkgutil
from contextlib import suppress
from importlib import import_module

import datasets.packaged_modules
import deepspeed.runtime.zero.stage3
import matplotlib.backends.backend_agg
import pandas
import transformers.models.distilbert.modeling_distilbert
import transformers.models.gpt2.modeling_gpt2
import transformers.models.llama.modeling_llama
from matplotlib.figure import Figure

import cory
import tests.support.warm
from cory.runtime.hydra_setup import compose

__all__ = ["cory", "datasets", "deepspeed", "matplotlib", "pandas", "tests", "transformers"]

for module in pkgutil.walk_packages(cory.__path__, "cory."):
    with suppress(ModuleNotFoundError):  # of an extra that is not installed
        import_module(module.name)

compose()  # Hydra has looked for its plugins, and files that most runs need have been read

figure = Figure()
figure.subplots().set_title("$\\eta$")
figure.savefig(io.BytesIO())  # matplotlib has read its fonts

# a collection in a fork looks at what the run itself has made, not at a million objects of modules
gc.freeze()
