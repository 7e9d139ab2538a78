"""A value that its setting cannot have is refused in one line that names key, value and rule."""

from __future__ import annotations

import pytest
from omegaconf import DictConfig, OmegaConf

from cory.config import ConfigError, parse_config
from tests.support.composing import compose_config


@pytest.fixture(scope="module")
def composed() -> DictConfig:
    return compose_config()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("algorithm.clip_range=abc", "algorithm.clip_range: Value 'abc'"),
        ("algorithm.epochs=1.5", "algorithm.epochs: Value '1.5'"),
        ("algorithm.whiten_advantages=maybe", "algorithm.whiten_advantages: Value 'maybe'"),
        ("algorithm.sampling=3", "algorithm.sampling must hold settings by name"),
        ("model.path=null", "model.path: Incompatible value 'None'"),
        ("seed=1.5", "seed: Value '1.5'"),
        ("algorithm.name=x", "algorithm.name 'x' is unknown; choose one of cory, "),
        ("task.name=x", "task.name 'x' is unknown; choose one of anli, arithmetic"),
        ("reward.name=x", "reward.name 'x' is unknown; choose one of classifier, exact_match, "),
        ("algorithm.clip_range=0", "algorithm.clip_range must lie in (0, 1), got 0"),
        ("algorithm.clip_range=1", "algorithm.clip_range must lie in (0, 1), got 1"),
        ("algorithm.clip_range=nan", "algorithm.clip_range must lie in (0, 1), got nan"),
        ("algorithm.value_clip_range=0", "value_clip_range must be above 0 and finite, got 0"),
        ("algorithm.learning_rate=-1e-5", "learning_rate must be above 0 and finite, got -1e-05"),
        ("algorithm.kl_target=0", "kl_target must be above 0 and finite, got 0"),
        ("algorithm.weight_decay=-0.1", "algorithm.weight_decay must be at least 0, got -0.1"),
        ("algorithm.value_coef=-0.1", "algorithm.value_coef must be at least 0, got -0.1"),
        ("algorithm.kl_coef=-0.1", "algorithm.kl_coef must be at least 0, got -0.1"),
        ("algorithm.gamma=1.1", "algorithm.gamma must lie in [0, 1], got 1.1"),
        ("algorithm.gae_lambda=-0.1", "algorithm.gae_lambda must lie in [0, 1], got -0.1"),
        ("algorithm.policy_temperature=0", "algorithm.policy_temperature must be above 0 and "),
        ("algorithm.iterations=-1", "algorithm.iterations must be at least 0, got -1"),
        ("algorithm.epochs=0", "algorithm.epochs must be at least 1, got 0"),
        ("algorithm.minibatch_size=0", "algorithm.minibatch_size must be at least 1, got 0"),
        ("algorithm.kl_horizon=0", "algorithm.kl_horizon must be at least 1, got 0"),
        ("algorithm.max_grad_norm=0", "max_grad_norm must be above 0 and finite, got 0"),
        ("algorithm.score_clip=-1", "score_clip must be above 0 and finite, got -1"),
        ("algorithm.max_mean_ratio=0", "max_mean_ratio must be above 0 and finite, got 0"),
        ("algorithm.kl_estimator=k4", "algorithm.kl_estimator must be one of full, k1, k2, k3"),
        ("algorithm.kl_controller=on", "algorithm.kl_controller must be one of fixed, adaptive"),
        ("algorithm.score_scaling=std", "algorithm.score_scaling must be one of none, scale, norm"),
        ("algorithm.advantages=mean", "advantages must be one of gae, group, leave_one_out, batch"),
        ("algorithm.advantages=group", "algorithm.samples_per_prompt must be at least 2, got 1"),
        ("algorithm.advantages=leave_one_out", "samples_per_prompt must be at least 2, got 1"),
        ("algorithm.samples_per_prompt=0", "samples_per_prompt must be at least 1, got 0"),
        ("algorithm.samples_per_prompt=5", "(64) must be a multiple of algorithm.sam"),
        ("algorithm.group_baseline=true", "is a part of advantages=batch, not of gae"),
        ("algorithm.kl_in=both", "algorithm.kl_in must be one of reward, loss, got both"),
        ("algorithm.ratio=word", "algorithm.ratio must be one of token, response, got word"),
        ("algorithm.ratio=response", "it needs algorithm.loss_average=responses, got tokens"),
        ("algorithm.loss_average=mean", "must be one of tokens, responses, constant, got mean"),
        ("algorithm.clip_range_high=0", "clip_range_high must be above 0 and finite, got 0"),
        ("algorithm.clip_range_high=nan", "clip_range_high must be above 0 and finite, got nan"),
        ("algorithm.value_learning_rate=0", "learning_rate must be above 0 and finite, got 0"),
        ("algorithm.agents=1", "algorithm.agents must be at least 2, got 1"),
        ("algorithm.credit=own", "algorithm.credit must be one of all, mean, later, got own"),
        ("algorithm.swap_every=0", "algorithm.swap_every must be at least 1, got 0"),
        ("algorithm.sampling.temperature=0", "temperature must be above 0 and finite, got 0"),
        ("algorithm.sampling.top_k=-1", "algorithm.sampling.top_k must be at least 0, got -1"),
        ("algorithm.sampling.top_p=1.5", "algorithm.sampling.top_p must lie in (0, 1], got 1.5"),
        ("algorithm.sampling.repetition_penalty=0", "penalty must be above 0 and finite, got 0"),
        ("algorithm.sampling.min_response_tokens=0", "response_tokens must be at least 1, got 0"),
        ("algorithm.sampling.max_response_tokens=3", "max_response_tokens (3) must not be below"),
        ("model.precision=fp8", "model.precision must be one of fp32, bf16, fp16, got fp8"),
        ("model.value_dropout=1", "model.value_dropout must lie in [0, 1), got 1"),
        ("model.value_init=ones", "model.value_init must be one of uniform, zero, got ones"),
        ("task.source=web", "task.source must be one of package, hub, path, got web"),
        ("task.min_characters=-1", "task.min_characters must be at least 0, got -1"),
        ("task.min_prompt_tokens=0", "task.min_prompt_tokens must be at least 1, got 0"),
        ("task.max_prompt_tokens=1", "task.max_prompt_tokens (1) must not be below task.min_"),
        ("task.observer_template='{answers}'", "task.observer_template must contain {query}"),
        ("task.observer_template='{query}'", "task.observer_template must contain {answers}"),
        ("task.observer_template='{answers}{query}{x}'", "must not contain {x}, got '{answers}{qu"),
        ("task.observer_template='{answers}{query}{'", "template='{answers}{query}{'"),
        ("task.observer_template='{query} {answers:d}'", "{answers:d}': Unknown format code 'd'"),
        ("task.observer_template='{query:9999999999999} {answers}'", "too wide"),
        ("task.observer_template='{query!x} {answers}'", "task.observer_template='{query!x} {answ"),
        ("task.observer_template='{query:{w}} {answers}'", "template must not contain {w}, got '{"),
        ("task.answer_template='{query}'", "task.answer_template must contain {response}"),
        ("reward.output=odds", "reward.output must be one of logit, probability, got odds"),
        ("reward.batch_size=0", "reward.batch_size must be at least 1, got 0"),
        ("hardware.device=tpu", "hardware.device must be one of cpu, cuda, got tpu"),
        ("hardware.zero_stage=4", "hardware.zero_stage must be one of 0, 1, 2"),
        ("hardware.microbatch_size=0", "hardware.microbatch_size must be at least 1, got 0"),
        ("hardware.rollout_batch_size=0", "hardware.rollout_batch_size must be at least 1, got 0"),
        ("wandb.mode=on", "wandb.mode must be one of disabled, offline, online, got"),
        ("wandb.init_timeout=0", "wandb.init_timeout must be at least 1, got 0"),
        ("seed=-1", "seed must be at least 0, got -1"),
        (f"seed={2**64}", f"seed must be below 2**63, got {2**64}"),
        ("evaluate_every=-1", "evaluate_every must be at least 0, got -1"),
        ("evaluation.prompts=0", "evaluation.prompts must be at least 1, got 0"),
        ("evaluation.split=dev", "evaluation.split must be one of train, test, got dev"),
        ("evaluation.samples=0", "evaluation.samples must be at least 1, got 0"),
        ("evaluation.k=[1,2]", "evaluation.k: 2 exceeds evaluation.samples (1)"),
        ("evaluation.k=[0]", "evaluation.k must be at least 1, got 0"),
        ("evaluation.k=[1,1]", "evaluation.k names 1 twice: [1, 1]"),
        ("evaluation.k=[]", "evaluation.k must name at least one number of tries, got []"),
        ("evaluation.k=[one]", "could not be converted to Integer"),
        ("evaluation.greedy=often", "is not a valid bool"),
        ("evaluation.probes=[a,' ']", "evaluation.probes: number 2 is empty"),
        ("evaluation.probes=[a,b,a]", "evaluation.probes names 'a' twice"),
        ("samples_every=-1", "samples_every must be at least 0, got -1"),
        ("samples_kept=-1", "samples_kept must be at least 0, got -1"),
    ],
)  # fmt: skip
def test_a_value_outside_its_range_is_refused(
    override: str, said: str, composed: DictConfig
) -> None:
    cfg = OmegaConf.merge(composed, OmegaConf.from_dotlist([override]))
    assert isinstance(cfg, DictConfig)
    with pytest.raises(ConfigError) as refusal:
        parse_config(cfg)
    message = str(refusal.value)
    assert said in message and "\n" not in message


@pytest.mark.parametrize(("method", "turns"), [("ppo", 64), ("cory", 64), ("maporl", 2 * 64)])
def test_a_kl_controller_that_could_pay_for_kl_is_refused(method: str, turns: int) -> None:
    """A step takes 0.2 * turns / horizon of the coefficient away at most: all of it at a fifth."""
    words = [f"algorithm={method}", "algorithm.guards.min_tokens=null"][: 1 + (method == "maporl")]
    size = ["algorithm.prompts_per_iteration=64", "algorithm.minibatch_size=64"]

    def parse(horizon: int, controller: str) -> None:
        parse_config(
            compose_config(
                *(*words, *size, f"algorithm.kl_controller={controller}"),
                f"algorithm.kl_horizon={horizon}",
            )
        )

    parse(turns // 5 + 1, "adaptive")
    with pytest.raises(
        ConfigError, match=rf"above a fifth of the {turns} turns .*, got {turns // 5}"
    ):
        parse(turns // 5, "adaptive")
    parse(turns // 5, "fixed")


@pytest.mark.parametrize(
    ("prompts", "minibatch", "microbatch", "said"),
    [
        (256, 100, 64, "algorithm.prompts_per_iteration (256) must be a multiple of "
         "algorithm.minibatch_size (100)"),
        (64, 128, 64, "algorithm.prompts_per_iteration (64) must be a multiple of"),
        (96, 96, 64, "algorithm.minibatch_size (96) must be a multiple of "
         "hardware.microbatch_size (64)"),
        (96, 48, 64, None),  # a microbatch is never larger than its minibatch
    ],
)  # fmt: skip
def test_batches_that_leave_a_rest_are_refused(
    prompts: int, minibatch: int, microbatch: int, said: str | None
) -> None:
    cfg = compose_config(
        f"algorithm.prompts_per_iteration={prompts}",
        f"algorithm.minibatch_size={minibatch}",
        f"hardware.microbatch_size={microbatch}",
    )
    if said is None:
        parse_config(cfg)
        return
    with pytest.raises(ConfigError) as refusal:
        parse_config(cfg)
    assert said in str(refusal.value)
