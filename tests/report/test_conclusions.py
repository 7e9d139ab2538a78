"""What is said of the rows of before and after: the table, sentences, what to try next."""

from __future__ import annotations

from typing import Any

import pytest

from cory.report.agent_names import agent_name, roles_in
from cory.report.before_after import Change
from cory.report.conclusions import cost, sentence, sentences, table
from cory.report.interval_text import digits_for, interval_text
from cory.report.next_steps import next_steps, prompts_needed, trend

ROLES = {"agent_0": "pioneer", "agent_1": "observer"}
REWARD = "Held-out reward of agent 0 (pioneer)"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.10, 0.32, "rose by 0.21 (95 % interval 0.10 to 0.32, 64 prompts)."),
        (-0.32, -0.10, "fell by 0.21 (95 % interval 0.10 to 0.32, 64 prompts)."),
        (-0.05, 0.47,
         "changed by +0.21 (95 % interval -0.05 to 0.47, 64 prompts): no difference can be told."),
        (0.0, 0.42,
         "changed by +0.21 (95 % interval 0.00 to 0.42, 64 prompts): no difference can be told."),
    ],
)  # fmt: skip
def test_the_sentence_says_which_of_three(low: float, high: float, said: str) -> None:
    after = 1.21 if high > 0 else 0.79
    change = Change("eval/score/agent_0", 1.0, after, low, high, 64)
    assert sentence(change, ROLES) == f"{REWARD} {said}"


def test_one_prompt_says_nothing() -> None:
    change = Change("eval/score/agent_0", 1.0, 2.0, None, None, 1)
    assert sentence(change, {}) == (
        "Held-out reward of agent 0 changed by +1.00, of one prompt: no difference can be told."
    )


def row(metric: str, low: float = 0.1) -> Change:
    return Change(metric, 0.0, 0.5, low, 0.9, 20)


def test_the_sentence_is_about_what_matters_most() -> None:
    """Accuracy before reward, for every agent; the last turn's vote; every opponent in games."""
    team = [row(f"eval/{kind}/agent_{n}") for n in (0, 1) for kind in ("score", "pass_at_1")]
    assert [said.split(" rose")[0] for said in sentences(team, ROLES)] == [
        "Held-out accuracy of agent 0 (pioneer)", "Held-out accuracy of agent 1 (observer)"
    ]  # fmt: skip
    debate = [row("eval/vote/turn_1", -1), row("eval/vote/turn_2"), row("eval/right/turn_2")]
    assert sentences([*team, *debate], {})[0].startswith("Majority right at turn 2 rose by 0.50")
    assert len(sentences([*team, *debate], {})) == 1
    games = [row("eval/win_rate/scripted"), row("eval/win_rate/random", -1),
             row("eval/win_rate_attacker/scripted")]  # fmt: skip
    first, second = sentences(games, {})
    assert first.startswith("Win rate against scripted rose") and "20 prompts" in first
    assert second.startswith("Win rate against random changed by +0.50")
    assert sentences([row("eval/right/turn_1")], {}) == []


def test_the_table() -> None:
    rows = [
        Change("eval/score/agent_0", -0.1, 0.087, -0.08, 0.4523, 32),
        Change("objective/kl/agent_1", 0.0, 0.263, None, None, None),
        Change("objective/combined/agent_1", 0.5, 0.25, None, None, None),
    ]
    assert table(rows, ROLES).splitlines() == [
        "before and after training                             before    after  difference"
        "  95 % interval          n",
        "held-out reward of agent 0 (pioneer)                  -0.100    0.087      +0.187"
        "  -0.080 to +0.452      32",
        "KL in training (nats) of agent 1 (observer)            0.000    0.263      +0.263",
        "combined reward in training of agent 1 (observer)      0.500    0.250      -0.250",
    ]
    assert table([], ROLES) == ""


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("agent_0", "agent 0 (pioneer)"),
        ("agent_2", "agent 2"),
        ("agent_0_turn_2", "agent 0, turn 2"),
        ("turn_3", "turn 3"),
        ("generation_1", "generation agent 1"),
        ("critic_0", "critic agent 0"),
        ("single", "single"),
        ("team", "team"),
        ("pioneer", "pioneer"),
        ("partner_reference", "partner reference"),
    ],
)
def test_one_name_for_an_agent(agent: str, name: str) -> None:
    assert agent_name(agent, ROLES) == name


def test_roles_are_those_of_the_last_iteration() -> None:
    two = [{"role/agent_0": 0.0, "role/agent_1": 1.0}, {"role/agent_0": 1.0, "role/agent_1": 0.0}]
    assert roles_in(two) == {"agent_0": "observer", "agent_1": "pioneer"}
    three = [{"role/agent_0": 2.0, "role/agent_1": 0.0, "role/agent_2": 1.0}]
    assert roles_in(three) == {
        "agent_0": "observer 2", "agent_1": "pioneer", "agent_2": "observer 1"
    }  # fmt: skip
    assert roles_in([{"objective/score/agent_0": 1.0}]) == {}


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.0004, 0.35, "0.0004 to 0.3500"),  # excludes 0, and reads so
        (-0.0004, 0.35, "-0.0004 to 0.3500"),  # holds 0
        (-0.25, -0.002, "-0.250 to -0.002"),
        (0.0, 0.35, "0.00 to 0.35"),  # touches 0
        (-0.0, 0.35, "0.00 to 0.35"),
        (-0.1, 0.352, "-0.10 to 0.35"),
        (1e-12, 1.0, "0.000000000 to 1.000000000"),
    ],
)
def test_an_interval_shows_on_which_side_of_zero_it_lies(
    low: float, high: float, text: str
) -> None:
    assert interval_text(low, high, 2) == text
    assert digits_for([0.5], 3) == 3


def test_a_verdict_can_be_read_from_its_interval() -> None:
    said = sentence(Change("eval/score/agent_0", 0.0, 0.175, 0.0004, 0.35, 32), {})
    assert "rose by 0.1750 (95 % interval 0.0004 to 0.3500, 32 prompts)" in said
    (_, last) = table([Change("eval/score/agent_0", 0.0, 0.1, 0.00004, 0.2, 8)], {}).splitlines()
    assert last.endswith("+0.100  +0.00004 to +0.20000    8")


def trained(kl: float, combined: float, agents: int = 1) -> list[Change]:
    """Numbers of the training: from 0 to `kl` nats, the combined reward from 0.5 on."""
    return [
        Change(f"objective/{family}/agent_{agent}", start, end, None, None, None)
        for family, start, end in (("kl", 0.0, kl), ("combined", 0.5, combined))
        for agent in range(agents)
    ]


def test_what_the_training_cost_is_said() -> None:
    assert cost(trained(6.2, -0.2), ROLES) == [
        "It cost 6.20 nats of KL to the reference; the combined reward in training "
        "(reward - kl_coef x KL) fell from 0.50 to -0.20."
    ]
    mixed = trained(6.2, 0.7, agents=2)
    same = [
        *trained(1.0, 0.5)[:1],
        Change("objective/combined/agent_0", 46.498, 46.5, None, None, None),
    ]
    assert cost(same, {})[0].endswith("(reward - kl_coef x KL) stayed at 46.50.")
    same[1] = Change("objective/combined/agent_0", -0.001, -0.004, None, None, None)
    assert cost(same, {})[0].endswith("(reward - kl_coef x KL) stayed at 0.00.")
    mixed[3] = Change("objective/combined/agent_1", 0.5, 0.25, None, None, None)
    assert cost(mixed, ROLES) == [
        "It cost 6.20 (agent 0 (pioneer)) and 6.20 (agent 1 (observer)) nats of KL to the "
        "reference; the combined reward in training (reward - kl_coef x KL) rose from 0.50 to 0.70 "
        "and fell from 0.50 to 0.25."
    ]
    assert cost(trained(6.2, 0.4, agents=5), {}) == [
        "It cost 6.20 to 6.20 nats of KL to the reference; the combined reward in training "
        "(reward - kl_coef x KL) fell for 5 of 5 policies."
    ]
    assert cost([row("eval/score/agent_0")], {}) == []
    (_, last) = sentences([row("eval/score/agent_0"), *trained(1.0, 0.1)], {})
    assert last.startswith("It cost 1.00 nats")


def lines_of(count: int, slope: float = 0.0, kl_coef: float | None = 0.3) -> list[dict[str, Any]]:
    """Metrics of a run whose reward has a slope, and alternates by 0.2."""
    return [
        {"objective/score/agent_0": slope * n + 0.1 * (-1) ** n}
        | ({} if kl_coef is None else {"objective/kl_coef/agent_0": kl_coef})
        for n in range(count)
    ]


SEEDS = "seeds: this is one run"


@pytest.mark.parametrize(
    ("found", "lines", "starts"),
    [
        # certain, and nothing else to be done
        ([row("eval/score/agent_0"), *trained(1.0, 0.7)], lines_of(30), [SEEDS]),
        # undecided: 0.5 within -1 to 0.9; 0.95 / 0.5 squared is 3.6 times the prompts
        ([row("eval/score/agent_0", -1.0), *trained(1.0, 0.7)], lines_of(30),
         ["evaluation.prompts=150: ", SEEDS]),
        # a difference that is far too small for its interval
        ([Change("eval/score/agent_0", 0.0, 0.01, -0.5, 0.52, 32)], lines_of(30),
         ["evaluation.prompts: the difference is small beside its interval", SEEDS]),
        # prompts too few for any claim
        ([Change("eval/score/agent_0", 0.0, 0.01, -0.5, 0.52, 12)], lines_of(30),
         ["evaluation.prompts=20 at least: of 12 no difference can be told", SEEDS]),
        # short, and undecided
        ([row("eval/score/agent_0", -1.0), *trained(1.0, 0.7)], lines_of(6),
         ["evaluation.prompts", "algorithm.iterations: 6 are few", SEEDS]),
        # rewards still rose
        ([row("eval/score/agent_0"), *trained(1.0, 0.7)], lines_of(30, 0.05),
         ["algorithm.iterations=60: what it learns from still improved over the last 20", SEEDS]),
        # the penalty cost more than the reward brought
        ([row("eval/score/agent_0"), *trained(6.0, -0.2)], lines_of(30),
         ["algorithm.kl_coef above 0.3", SEEDS]),
        # agents hardly moved
        ([row("eval/score/agent_0", -1.0), *trained(0.01, 0.49)], lines_of(30),
         ["evaluation.prompts", "algorithm.kl_coef below 0.3", SEEDS]),
        # methods without a penalty
        ([row("eval/win_rate/scripted")], lines_of(30, kl_coef=None), [SEEDS]),
        ([row("eval/right/turn_1")], lines_of(30), []),
    ],
)  # fmt: skip
def test_what_next_names_what_is_missing(
    found: list[Change], lines: list[dict[str, Any]], starts: list[str]
) -> None:
    steps = next_steps(found, lines, seeds_vary=False)
    assert len(steps) == len(starts), steps
    for step, start in zip(steps, starts, strict=True):
        assert step.startswith(start)
    assert next_steps(found, lines, seeds_vary=True) == [
        s for s in steps if not s.startswith(SEEDS)
    ]


@pytest.mark.parametrize(
    ("early", "late", "worst"), [(-5.0, -1.25, "-1.2"), (-5.0, -0.1, None), (0.5, None, None)]
)
def test_a_value_head_that_is_worse_than_the_mean_is_named(
    early: float, late: float | None, worst: str | None
) -> None:
    lines = [
        line
        | {f"ppo/value/explained_variance/agent_{n}": (0.2 if n else early) for n in range(2)}
        | ({"ppo/value/explained_variance/agent_0": late} if number >= 20 else {})
        for number, line in enumerate(lines_of(30))
    ]
    found = [row("eval/score/agent_0"), *trained(1.0, 0.7)]
    said = [s for s in next_steps(found, lines, seeds_vary=True) if s.startswith("model.value_")]
    assert len(said) == (worst is not None)
    if worst is not None:
        assert f"(explained variance {worst};" in said[0]
        assert next_steps(found, lines, seeds_vary=False)[0] == said[0]
        (other,) = next_steps(found, lines, seeds_vary=True, head_from_0=True)
        assert other.startswith("advantages=batch: the value head predicts returns worse")


def test_losses_that_still_fall_ask_for_iterations() -> None:
    lines = [{"offline/loss/agent_0": 1.0 - 0.01 * n} for n in range(12)]
    (first, _) = next_steps([row("eval/win_rate/scripted")], lines, seeds_vary=False)
    assert first.startswith("algorithm.iterations=24")
    assert not trend([1.0, 2.0, 3.0, 4.0])  # too few to tell
    assert not trend([0.0, 1.0] * 10)


def test_prompts_that_would_decide() -> None:
    """0.2 ± 0.4 excludes 0 with four times the prompts, and with 0.8 for (1 + 0.842 / 1.96)² as
    many: 8.17 times.
    """
    assert prompts_needed(Change("m", 0.0, 0.2, -0.2, 0.6, 50)) == 410
    assert prompts_needed(Change("m", 0.0, 0.0, -0.2, 0.2, 50)) is None
    assert prompts_needed(Change("m", 0.0, 0.01, -0.2, 0.22, 50)) is None
