"""What a user's mistake is answered with."""

from collections.abc import Callable

import pytest

from cory.config import ConfigError


def refusal(work: Callable[[], object]) -> str:
    """The one line with which `work` is refused."""
    with pytest.raises(ConfigError) as error:
        work()
    assert "\n" not in str(error.value)
    return str(error.value)
