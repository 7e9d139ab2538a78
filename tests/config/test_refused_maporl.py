"""Settings of MAPoRL: which values are refused, and with what words."""

from __future__ import annotations

import pytest

from cory.config import ConfigError
from tests.support.composing import maporl_settings, parsed


def test_a_number_in_a_template_may_be_written_as_one() -> None:
    assert maporl_settings("algorithm.prompts.other='{number:02d} {response:.9}'").prompts.other


def test_debates_of_one_turn_have_none_to_leave_out() -> None:
    few = ("algorithm.agents=3", "algorithm.evaluation_agents=1", "algorithm.consensus=0.6")
    assert maporl_settings(*few, "algorithm.evaluation_turns=1").consensus == 0.6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algorithm.agents=0"], "algorithm.agents must be at least 1, got 0"),
        (["algorithm.turns=0"], "algorithm.turns must be at least 1, got 0"),
        (["algorithm.evaluation_turns=0"], "algorithm.evaluation_turns must be at least 1"),
        (["algorithm.alpha=[1.0]"], "algorithm.alpha must hold two incentives"),
        (["algorithm.beta=[1.0,2.0,3.0]"], "algorithm.beta must hold two incentives"),
        (["algorithm.train_turns=[]"], "algorithm.train_turns must name turns from 1"),
        (["algorithm.train_turns=[4]"], r"from 1 to algorithm.turns \(3\)"),
        (["algorithm.train_turns=[3,2]"], "each once and in order"),
        (["algorithm.train_turns=[0,1]"], "must name turns from 1"),
        (["algorithm.param_sharing=per_team"], "must be one of shared, per_agent, per_turn"),
        (["algorithm.horizon=next"], "must be one of discounted_sum, last, current"),
        (["algorithm.share=some"], "must be one of all, individual"),
        (["algorithm.turn_discount=1.5"], r"must lie in \[0, 1\], got 1.5"),
        (["algorithm.consensus=1.5"], "algorithm.consensus must be at most 1 and above 1/agents"),
        (["algorithm.consensus=0.5"], "a single answer of 2 reaches, got 0.5"),
        (
            ["algorithm.agents=3", "algorithm.evaluation_agents=2", "algorithm.consensus=0.5"],
            "above 1/evaluation_agents, a share that a single answer of 2 reaches, got 0.5",
        ),
        (["algorithm.alpha=[nan,1.0]"], "algorithm.alpha must be finite"),
        (["algorithm.guards.min_tokens=301"], "every answer would be penalised"),
        (["algorithm.train_turns=2"], "algorithm.train_turns must be a list, typed as"),
        (["algorithm.vote_ties=first"], "must be one of expected, random, lexicographic"),
        (["algorithm.unreadable_votes=x"], "unreadable_votes must be one of dropped, counted"),
        (["algorithm.guards.scope=all"], "must be one of own, propagate"),
        (["algorithm.guards.max_repeats=0"], "algorithm.guards.max_repeats must be at least 1"),
        (["algorithm.prompts.grade_bounds=[0.5]"], "one fewer than algorithm.prompts.grades"),
        (["algorithm.prompts.feedback='{score:.2f}'"], "code 'f' for object of type 'str'"),
        (["algorithm.prompts.other='{response} {number!x}'"], "Unknown conversion specifier"),
        (["algorithm.prompts.other='{number}'"], "algorithm.prompts.other must contain {response}"),
        (
            [
                "algorithm.param_sharing=shared",
                "+algorithm.alternation={first: 2, every: 3}",
            ],
            "algorithm.alternation needs turns with policies of their own",
        ),
        (
            ["algorithm.verifier_feedback=true", "model.chat=true"],
            "reward=exact_match would tell debaters the answer",
        ),
        (["algorithm.verifier_feedback=true"], "algorithm.verifier_feedback=true needs model.chat"),
        (["model@partner=tiny_2x"], "algorithm.param_sharing=per_turn shares a policy"),
        (
            ["+model@partner=tiny_2x", "algorithm.param_sharing=per_agent", "algorithm.agents=1"],
            "needs algorithm.agents of at least 2",
        ),
        (
            ["algorithm.minibatch_size=48"],
            "the turns that each policy takes in an iteration .128. must be a multiple of",
        ),
    ],
)
def test_what_is_refused(words: list[str], message: str) -> None:
    words = [f"+{word}" if word.startswith("model@") else word for word in words]
    with pytest.raises(ConfigError, match=message) as caught:
        maporl_settings(*words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["partner.value_init=foo"], "partner.value_init must be one of uniform, zero, got foo"),
        (["partner.adapter.rank=0"], "partner.adapter.rank must be at least 1, got 0"),
        (
            ["partner.quantisation=nf4"],
            "partner.quantisation=nf4 needs partner.sharing=adapters: weights in 4 bits",
        ),
        (["model.value_init=foo", "partner.value_init=foo"], "model.value_init must be one of"),
        (
            ["partner.rollout_dropout=true", "hardware.gradient_checkpointing=true"],
            "partner.rollout_dropout=true needs hardware.gradient_checkpointing=false",
        ),
        (
            ["algorithm.verifier_feedback=true", "model.chat=true"],
            "algorithm.verifier_feedback=true needs partner.chat=true",
        ),
        (
            [
                *("algorithm.kl_loss=full", "algorithm.kl_in=loss", "hardware=gpu4_zero2"),
                *("hardware.zero_stage=3", "partner.sharing=adapters"),
            ],
            "algorithm.kl_loss=full needs hardware.zero_stage of at most 2, or partner.sharing=cop",
        ),
    ],
)
def test_refusals_about_the_partner_name_it(words: list[str], said: str) -> None:
    pair = ["+model@partner=tiny_2x", "algorithm.param_sharing=per_agent"]
    with pytest.raises(ConfigError) as caught:
        maporl_settings(*pair, *words)
    assert str(caught.value).startswith(said)


@pytest.mark.slow
def test_incentives_need_known_answers() -> None:
    with pytest.raises(ConfigError, match=r"algorithm.bonus_from=ground_truth needs a task"):
        parsed("algorithm=maporl", "algorithm.alpha=[1.0,1.0]")
    with pytest.raises(ConfigError, match=r"algorithm.consensus needs answers"):
        parsed("algorithm=maporl", "algorithm.consensus=1.0")
    with pytest.raises(ConfigError, match=r"partner needs algorithm=maporl"):
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
    with pytest.raises(ConfigError, match=f"^algorithm.bonus_from=verifier counts .* got .*{said}"):
        maporl_settings(*words)
