"""Rules of debates between groups of settings: incentives, and the scores that they need."""

from __future__ import annotations

import pytest

from cory.config import ConfigError
from tests.support.composing import maporl_settings, parsed


@pytest.mark.slow
def test_incentives_need_known_answers() -> None:
    with pytest.raises(ConfigError, match=r"algorithm.bonus_from=ground_truth: needs a task"):
        parsed("algorithm=maporl", "algorithm.alpha=[1.0,1.0]")
    with pytest.raises(ConfigError, match=r"algorithm.consensus=1.0: needs a task with answers"):
        parsed("algorithm=maporl", "algorithm.consensus=1.0")
    with pytest.raises(ConfigError, match=r"partner=tiny_2x: needs algorithm=maporl"):
        parsed("+model@partner=tiny_2x")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reward=sentiment"], "reward.output=logit"),
        (["reward=judge", "reward.endpoint.model=wise", "reward.output=grade"], "output=grade"),
        (["reward=sentiment", "reward.output=probability"], None),
        (["reward=sum", "+reward@reward.parts.right=exact_match"], None),
        (["reward=judge", "reward.endpoint.model=wise"], None),
        (["reward=exact_match"], None),
        (["reward=python", "reward.function=mine.py:score"], None),
    ],
)
def test_incentives_by_scores_need_scores_from_0_to_1(words: list[str], said: str | None) -> None:
    words = ["algorithm.bonus_from=verifier", *words]
    assert maporl_settings(*words).bonus_from == "verifier"  # without incentives scores may be any
    words.append("algorithm.beta=[0.0,1.0]")
    if said is None:
        assert maporl_settings(*words).shapes
        return
    with pytest.raises(
        ConfigError, match=f"^algorithm.bonus_from=verifier: counts .* got .*{said}"
    ):
        maporl_settings(*words)
