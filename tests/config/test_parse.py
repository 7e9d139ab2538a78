"""How settings are checked: as a whole, and group by group where something is refused."""

from __future__ import annotations

import pytest

from cory.config import ConfigError, parse
from tests.support.composing import parsed


def test_groups_are_looked_at_one_by_one_only_where_something_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To look at each takes three times as long as the whole, twice at every start."""
    alone: list[str] = []
    monkeypatch.setattr(parse, "_check_alone", lambda schema, key, *_: alone.append(key))
    parsed()
    assert not alone
    with pytest.raises(ConfigError, match=r"^algorithm\.learning_rate must be above 0"):
        parsed("algorithm.learning_rate=-1")
    assert {"algorithm", "model", "seed"} <= set(alone)
