"""What Multiagent Finetuning refuses: each in one line that names key, value and rule."""

from __future__ import annotations

import pytest
from omegaconf import DictConfig, OmegaConf

from cory.config import ConfigError, parse_config
from tests.support.composing import CONF, compose_config


@pytest.fixture(scope="module")
def composed() -> DictConfig:
    return compose_config("experiment=maft/phi3_arithmetic_maft")


A = "algorithm."
WITH_ENDPOINT = OmegaConf.create(
    {"algorithm": {"endpoint": OmegaConf.load(CONF / "endpoint" / "openai.yaml")}}
)


def refusal(cfg: DictConfig, *changes: str, endpoint: bool = False) -> str:
    """The one line with which the changed settings are refused."""
    merged = OmegaConf.merge(
        cfg, WITH_ENDPOINT if endpoint else {}, OmegaConf.from_dotlist(list(changes))
    )
    assert isinstance(merged, DictConfig)
    with pytest.raises(ConfigError) as refused:
        parse_config(merged)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (f"{A}agents=0", f"{A}agents must be at least 1, got 0"),
        (f"{A}turns=0", f"{A}turns must be at least 1, got 0"),
        (f"{A}evaluation_agents=0", f"{A}evaluation_agents must be at least 1, got 0"),
        (f"{A}evaluation_turns=0", f"{A}evaluation_turns must be at least 1, got 0"),
        (f"{A}critic_epochs=0", f"{A}critic_epochs must be at least 1, got 0"),
        (f"{A}policies=one", "policies must be one of specialised, generation, single, got one"),
        (f"{A}select=right", f"{A}select must be one of own, agreeing, correct, got right"),
        (f"{A}critic_loss=all", f"{A}critic_loss must be one of last_turn, all_turns, got all"),
        (f"{A}start=end", f"{A}start must be one of previous, base, got end"),
        (f"{A}vote_ties=x", f"{A}vote_ties must be one of random, expected, lexicographic, got x"),
        (f"{A}unreadable_votes=x", f"{A}unreadable_votes must be one of dropped, counted, got x"),
        (f"{A}labels=gold", f"{A}labels must be one of vote, answer, got gold"),
        (f"{A}critic_share=1.5", f"{A}critic_share must lie in [0, 1], got 1.5"),
        (f"{A}critic_learning_rate=0", "critic_learning_rate must be above 0 and finite, got 0"),
        (f"{A}later_learning_rate=0", f"{A}later_learning_rate must be above 0 and finite, got 0"),
        (f"{A}turns=1", f"{A}policies=specialised needs algorithm.turns of at least 2: with 1 no"),
        (f"{A}select=correct", "needs algorithm.agents=1 and algorithm.turns=1, got 3 and 2"),
        (f"{A}summary=maybe", f"{A}summary: Value 'maybe'"),
        # prompts
        (f"{A}prompts.follow_up=x", f"{A}prompts.follow_up must contain {{others}}, got 'x'"),
        (f"{A}prompts.follow_up_summary=x", "prompts.follow_up_summary must contain {summary}"),
        (f"{A}prompts.follow_up_alone='{{x}}'", "prompts.follow_up_alone must not contain {x}"),
        (f"{A}prompts.other=x", f"{A}prompts.other must contain {{response}}, got 'x'"),
        (f"{A}prompts.summarise=x", f"{A}prompts.summarise must contain {{others}}, got 'x'"),
        (f"{A}prompts.hint='{{query}}'", f"{A}prompts.hint must contain {{answer}}"),
        (f"{A}prompts.generation_id=x", f"{A}prompts.generation_id must contain {{number}}"),
        (f"{A}prompts.critic_id=x", f"{A}prompts.critic_id must contain {{number}}, got 'x'"),
        # what does not go together
        ("evaluation.team=false", "it takes evaluation.team=true, evaluation.samples=1"),
        ("evaluation.samples=2", "it takes evaluation.team=true, evaluation.samples=1"),
        ("evaluation.greedy=true", "it takes evaluation.greedy=false and evaluation.probes=[]"),
        ("evaluation.probes=[a]", "it takes evaluation.greedy=false and evaluation.probes=[]"),
        ("evaluation.split=train", "evaluation.split=train with algorithm=maft would measure"),
        (f"{A}sampling.min_response_tokens=1", "min_response_tokens (1) must equal max_response_"),
        ("model.chat=false", f"{A}summary=true needs model.chat=true: model=phi3_mini does not"),
        (f"{A}diversity.kl_to_base=true", f"{A}diversity.kl_to_base=true needs a model whose dist"),
        (f"{A}diversity.batch_size=0", f"{A}diversity.batch_size must be at least 1, got 0"),
        (f"{A}diversity.max_tokens=0", f"{A}diversity.max_tokens must be at least 1, got 0"),
        (f"{A}diversity.precision=fp8", f"{A}diversity.precision must be one of fp32, bf16, fp16"),
    ],
)  # fmt: skip
def test_a_setting_is_refused(changes: str, said: str, composed: DictConfig) -> None:
    assert said in refusal(composed, changes)


def test_star_has_right_labels_by_itself(composed: DictConfig) -> None:
    star = ("algorithm.select=correct", "algorithm.agents=1", "algorithm.turns=1")
    said = refusal(composed, *star, "algorithm.policies=single", f"{A}labels=answer")
    assert f"{A}labels=answer is for algorithm.select=own or agreeing" in said


def test_a_run_that_starts_from_others_does_not_begin_again(composed: DictConfig) -> None:
    said = refusal(composed, f"{A}start=base", "init_from=somewhere")
    assert said.endswith("the model as it came, and would forget init_from=somewhere")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((), "cannot be fine-tuned here; it needs algorithm.iterations=0, got 1"),
        (("algorithm.iterations=0",), "it needs algorithm.policies=single, got specialised"),
        (
            (
                "algorithm.iterations=0",
                "algorithm.policies=single",
                f"{A}diversity.nll_others=true",
            ),
            f"{A}diversity.nll_others=true needs the weights of a model",
        ),
    ],
)
def test_a_model_behind_an_endpoint_is_not_trained(
    changes: tuple[str, ...], said: str, composed: DictConfig
) -> None:
    assert said in refusal(composed, *changes, endpoint=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["task=imdb", "reward=exact_match"],
            "reward=exact_match needs a task with answers; task=imdb has none",
        ),
        (["task=imdb", "reward=sentiment"], "algorithm=maft takes votes on answers; task=imdb has"),
        (["reward=sentiment"], "algorithm=maft measures answers as reward=exact_match does; rewa"),
        (
            ["maft_prompts@algorithm.prompts=cooperative", "scale=small"],
            "=cooperative) needs model.chat=true: model=tiny_steps would be shown none of these",
        ),
        (["partner=tiny"], "partner needs algorithm=maporl or sft; algorithm=maft has one model"),
    ],
)
def test_groups_that_do_not_go_together_are_refused(words: list[str], said: str) -> None:
    named = [word.replace("partner=", "+model@partner=") for word in words]
    cfg = compose_config("experiment=maft/phi3_arithmetic_maft", *named)
    assert said in refusal(cfg)
