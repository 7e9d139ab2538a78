"""Operations that a run needs, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cory.memory.operations import (
    estimated_hours,
    evaluations,
    operations_of,
    operations_of_best_debates,
    operations_of_fine_tuning,
    operations_of_games,
    operations_of_verifier,
)
from cory.memory.workload import longest_context, mean_context
from tests.support.composing import parsed

ONCE = "evaluation.before=false"  # one evaluation, at the end
STAR = ("algorithm.select=correct", "algorithm.agents=1", "algorithm.turns=1")
DEBATE = ("experiment=maporl/gsm8k_maporl_exact", "scale=small")


def test_operations_by_hand() -> None:
    config = parsed("scale=small", "experiment=cory/imdb_ppo", ONCE)
    # 100 iterations of 128 turns: a query of 8 tokens and a response of (4 + 16) / 2; sampling (2),
    # policy and reference (2 x 2), and 4 epochs of forward and backward (4 x 6)
    training = 100 * 128 * (8 + 10) * 1000 * (2 + 4 + 24)
    config.algorithm.iterations, config.evaluation.prompts = 100, 128
    total, left_out = operations_of(config, 1000, {})
    assert total == training + 128 * (8 + 16) * 1000 * 2 and left_out == ""
    config.evaluation.prompts = None
    total, left_out = operations_of(config, 1000, {})
    assert total == training and "unknown size" in left_out
    total, _ = operations_of(config, 1000, {"imdb": 10})
    assert total == pytest.approx(training + 10 * (8 + 16) * 1000 * 2)


def test_the_evaluation_before_the_training_counts() -> None:
    config = parsed("scale=small", "experiment=cory/imdb_ppo", "evaluation.before=false")
    config.algorithm.iterations, config.evaluate_every = 10, 4
    assert evaluations(config) == 3
    config.evaluation.before = True
    assert evaluations(config) == 4
    config.evaluate_every = 0
    assert evaluations(config) == 2
    config.algorithm.iterations = 0
    assert evaluations(config) == 1


@pytest.mark.slow
def test_operations_of_a_debate_by_hand() -> None:
    config = parsed("scale=small", "experiment=cory/gsm8k_ppo", ONCE)
    ppo, sampling = config.algorithm, config.algorithm.sampling
    config.algorithm = parsed(*DEBATE).algorithm
    config.algorithm.sampling, config.algorithm.epochs = sampling, 1
    config.algorithm.evaluation_turns = 2
    config.algorithm.iterations, config.algorithm.prompts_per_iteration = 10, 8
    config.evaluation.prompts, config.evaluation.samples = 20, 2
    config.evaluation.greedy, config.evaluation.team = False, True
    query, longest = config.task.max_prompt_tokens, longest_context(config)
    tokens = (query + 2 * longest) / 3 + 50  # the first of three turns is short; responses have 50
    # 2 agents x 3 turns are sampled (2), those of 2 turns learn (2 x 2 and 6)
    training = 10 * 8 * tokens * 1000 * (6 * 2 + 4 * (4 + 6))
    # two samples of 2 policies alone, and of a debate of 3 agents x 2 turns
    together = (query + longest) / 2 + 50
    tested = 20 * 2 * (2 * (query + 50) + 6 * together) * 1000 * 2
    total, left_out = operations_of(config, 1000, {})
    assert total == pytest.approx(training + tested) and left_out == ""
    assert longest > ppo.sampling.max_response_tokens * 3


def test_operations_of_the_best_debates_by_hand() -> None:
    config = parsed(
        *DEBATE, "algorithm=sft", "algorithm.keep_share=0.5", "algorithm.epochs=3", ONCE
    )
    algorithm, evaluation = config.algorithm, config.evaluation
    algorithm.iterations, algorithm.prompts_per_iteration = 10, 8
    algorithm.sampling.min_response_tokens = algorithm.sampling.max_response_tokens = 20
    evaluation.prompts, evaluation.samples, evaluation.greedy, evaluation.team = 5, 2, False, True
    query = config.task.max_prompt_tokens
    tokens = mean_context(config) + 20
    # 2 agents x 3 turns are sampled (2), half of them learn three times (6)
    training = 10 * 8 * tokens * 1000 * 6 * (2 + 0.5 * 3 * 6)
    policies = algorithm.policy_count()
    tested = 5 * 2 * (policies * (query + 20) + 9 * tokens) * 1000 * 2
    total, left_out = operations_of_best_debates(config, 1000, {})
    assert total == pytest.approx(training + tested) and left_out == ""


@pytest.mark.parametrize(
    ("words", "passes"),
    [
        ([], 3 * 2 + 3 * 5),  # first answers twice, last ones five times
        (["algorithm.critic_loss=all_turns"], 3 * 2 + 4 * 3 * 5),
        (["algorithm.policies=generation"], 3 * 2),
        (["algorithm.select=agreeing"], 3 * 2 + 3 * 3 * 5),
        (["algorithm.select=agreeing", "algorithm.policies=single"], 4 * 3 * 2),
        (["algorithm.policies=single"], 3 * 2 + 3 * 2),
        (["algorithm.policies=single", *STAR], 2),
        (["algorithm.policies=generation", "algorithm.turns=1"], 3 * 2),
    ],
)
def test_operations_of_fine_tuning_by_hand(words: list[str], passes: int) -> None:
    chosen = ["algorithm.agents=3", "algorithm.turns=4", "algorithm.epochs=2"]
    chosen += ["algorithm.critic_epochs=5", "algorithm.summary=false", ONCE, *words]
    config = parsed("experiment=maft/phi3_arithmetic_maft", "scale=small", *chosen)
    algorithm, evaluation = config.algorithm, config.evaluation
    algorithm.iterations, algorithm.prompts_per_iteration = 10, 8
    algorithm.evaluation_agents, algorithm.evaluation_turns = 2, 3
    evaluation.prompts, evaluation.samples = 5, 1
    limit = algorithm.sampling.max_response_tokens
    tokens = mean_context(config) + limit
    # all answers are sampled (2) and `passes` learnt (6)
    training = 10 * 8 * tokens * 1000 * (algorithm.agents * algorithm.turns * 2 + passes * 6)
    tested = 5 * 6 * (mean_context(config, True) + limit) * 1000 * 2
    total, left_out = operations_of_fine_tuning(config, 1000, {})
    assert total == pytest.approx(training + tested)
    assert left_out == "; without measures of diversity"


def test_operations_of_a_verifier_by_hand() -> None:
    config = parsed("experiment=maporl/verifier_gsm8k", "scale=small", "algorithm.epochs=2", ONCE)
    algorithm, evaluation = config.algorithm, config.evaluation
    algorithm.iterations, algorithm.prompts_per_iteration = 10, 8
    algorithm.answers_per_question, algorithm.keep_per_label = 7, 2
    algorithm.sampling.min_response_tokens, algorithm.sampling.max_response_tokens = 10, 20
    evaluation.prompts, evaluation.samples = 5, 3
    query = config.task.max_prompt_tokens
    # seven answers are sampled (2), two of each label learnt twice (6)
    training = 10 * 8 * (query + 15) * 1000 * (7 * 2 + 2 * 2 * 2 * 6)
    tested = 5 * 3 * (query + 20) * 1000 * (2 + 2)
    total, left_out = operations_of_verifier(config, 1000, {})
    assert total == training + tested and left_out == "; without the answers that it asks for"


@pytest.mark.slow
def test_only_where_an_endpoint_speaks_for_every_agent_hours_are_unknown() -> None:
    game = parsed("experiment=spag/llama2_spag_1", "scale=paper")
    assert game.algorithm.endpoint is not None and estimated_hours(game, {})[0] is not None
    debate = parsed("experiment=maft/gpt35_arithmetic_base", "scale=paper")
    assert estimated_hours(debate, {}) == (
        None,
        "no record, and no estimate of what its endpoint takes",
    )


def test_what_is_no_ppo_has_no_estimate() -> None:
    config = parsed("scale=small", "experiment=cory/gsm8k_ppo", ONCE)
    config.algorithm = SimpleNamespace(name="other")
    assert estimated_hours(config, {}) == (None, "no record, and no estimate for algorithm=other")


@pytest.mark.slow
def test_operations_of_games_by_hand() -> None:
    config = parsed("scale=small", "experiment=spag/llama2_spag_1", ONCE)
    algorithm, evaluation = config.algorithm, config.evaluation
    algorithm.iterations, algorithm.prompts_per_iteration, algorithm.epochs = 10, 8, 1
    algorithm.instructions.per_iteration, algorithm.instructions.max_tokens = 3, 50
    sampling = algorithm.sampling
    sampling.min_response_tokens = sampling.max_response_tokens = 20
    config.task.max_turns, config.task.max_prompt_tokens = 5, 80
    evaluation.prompts, evaluation.samples = 7, 2
    algorithm.opponents = {"itself": "itself", "scripted": "scripted", "im": "a/run"}
    # 80 games of 5 turns: both roles speak (2 each), one is learnt (reference 2, and 6), 100 tokens
    training = 80 * 5 * 100 * (2 * 2 + 2 + 6) + 30 * 50 * 6
    # 7 words twice; in both roles of 5 turns; against `im` both are models
    tested = 7 * 2 * 2 * 5 * (1 + 1 + 2) * 100 * 2
    total = 1000 * (training + tested)
    assert operations_of_games(config, 1000, {}) == (total, "")
    algorithm.games = "scripted"
    less = 1000 * 80 * 5 * 100 * 4
    assert operations_of_games(config, 1000, {}) == (total - less, "")
    algorithm.opponents["endpoint"] = "endpoint"
    assert "endpoint" in operations_of_games(config, 1000, {})[1]
    evaluation.prompts = None
    assert operations_of_games(config, 1000, {}) == (
        1000 * training - less,
        "; without its evaluation on a whole split of unknown size",
    )
