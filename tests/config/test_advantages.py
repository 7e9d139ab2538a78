"""`advantages=` as it is typed, in sweeps, and from experiments; and who refuses it."""

import pytest

from cory.config import ConfigError
from cory.runs.run_dir import settings_digest
from tests.support.composing import compose_config, options, parsed

SAMPLES = {"gae": 1, "group": 8, "leave_one_out": 4, "batch": 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_an_estimator_is_chosen_by_a_word(name: str) -> None:
    assert set(options("advantages")) == {*SAMPLES, *OF_PAPERS}
    for algorithm in ("ppo", "cory", "maporl", "grpo", "rloo"):
        config = parsed(f"algorithm={algorithm}", f"advantages={name}").algorithm
        assert (config.advantages, config.samples_per_prompt) == (name, SAMPLES[name])
        assert config.prompts_drawn() * SAMPLES[name] == config.prompts_per_iteration
        # responses count, so an estimator changes neither the batches nor their cost
        assert config.turns_per_policy() % 64 == 0
    typed = parsed(f"advantages={name}", "algorithm.samples_per_prompt=2").algorithm
    assert typed.samples_per_prompt == 2 and typed.has_value_head() == (name == "gae")


OF_PAPERS = {
    "rae": ("rae", "turn", 1, True, "reward"),
    "group": ("group", "turn", 8, True, "loss"),
    "at_grpo": ("group", "turn", 8, True, "loss"),
    "dr_mas": ("group", "agent", 8, True, "loss"),
    "global": ("group", "prompt", 8, True, "loss"),
    "magrpo": ("group", "episode", 8, False, "loss"),
}


@pytest.mark.parametrize("name", OF_PAPERS)
def test_a_papers_estimator_is_chosen_by_its_name(name: str) -> None:
    found = parsed("algorithm=cory", f"advantages={name}").algorithm
    keys = ("advantages", "groups", "samples_per_prompt", "divide_by_std", "kl_in")
    assert tuple(getattr(found, key) for key in keys) == OF_PAPERS[name]
    # the KL of a sampled token in the loss has no bound
    assert found.max_grad_norm == (1.0 if found.kl_in == "loss" else None)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("algorithm.groups=agent", "groups=agent: needs algorithm.advantages=group or leave_one"),
        ("advantages=global algorithm.kl_in=reward", "needs algorithm.kl_in=loss, got reward"),
        ("advantages=global algorithm.score_clip=1", "needs algorithm.score_clip=null, got 1.0"),
        ("advantages=magrpo algorithm.credit=later", "needs algorithm.credit=all or sum or mean"),
        ("advantages=magrpo algorithm.collective_reward=false", "needs algorithm.collective_rew"),
        ("advantages=magrpo algorithm=maporl", "groups=episode: needs algorithm=cory or team, got"),
        ("advantages=magrpo algorithm.overlong=penalty algorithm.overlong_buffer=1", "none or m"),
        ("advantages=dr_mas algorithm=ppo", "groups=agent: needs algorithm=cory, team or maporl"),
        ("advantages=at_grpo algorithm.samples_per_prompt=1", "must be at least 2 with algorithm."),
        ("algorithm.overlong=penalty", "needs algorithm.overlong_buffer, got null"),
        ("algorithm.overlong_buffer=2", "needs algorithm.overlong=penalty, got none"),
        ("algorithm.overlong=penalty algorithm.overlong_buffer=4", "must be below every limit"),
        ("algorithm.resample_equal_groups=1", "needs algorithm.advantages=group or leave_one_out"),
        ("algorithm=grpo algorithm.ratio=gspo algorithm.loss_average=tokens", "loss_average=resp"),
        ("algorithm.kl_loss=k3_corrected", "needs algorithm.kl_in=loss, got reward"),
        ("experiment=spag/llama2_spag_1 advantages=group", "rloo, cory, maporl or team; spag has"),
    ],
)
def test_what_a_papers_estimator_needs(words: str, rule: str) -> None:
    with pytest.raises(ConfigError) as error:
        parsed(*words.split())
    (line,) = str(error.value).splitlines()
    assert rule in line


def test_none_is_the_algorithms_own() -> None:
    for algorithm, own in (("ppo", "gae"), ("grpo", "group"), ("rloo", "leave_one_out")):
        assert parsed(f"algorithm={algorithm}").algorithm.advantages == own
    # gae, typed or not, is the same run
    assert settings_digest(compose_config()) == settings_digest(compose_config("advantages=gae"))
