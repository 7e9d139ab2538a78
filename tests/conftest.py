"""What holds for every test, before anything large is imported."""

import gc
import os
from collections import Counter

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is first imported
# tests run side by side; threads that wait for each other would slow all of them down
os.environ.setdefault("OMP_NUM_THREADS", "1")
# what ${products_of_cpu:} chooses, so that no test depends on the CPU under it
os.environ["CORY_CPU_HAS_BF16"] = "0"
os.environ.pop("RANK", None)  # as under a launcher: not how tests are run


def pytest_configure(config: pytest.Config) -> None:
    """The fixtures import for seconds: not where tests are only handed out to other processes."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", 0):
        config.pluginmanager.import_plugin("tests.support.fixtures")


def pytest_collection_finish() -> None:
    """A million objects of modules and tests stay: no collection need look at them again.

    What is left is swept every 20,000 objects, not every 700: a config has thousands.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)  # before those that are left out are taken away
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with most slow tests first, so that no process is left with one of them at the end."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])
