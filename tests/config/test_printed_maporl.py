"""What MAPoRL's paper prints of its settings and its released code has, as experiments have it."""

from typing import Any

import pytest
from omegaconf import DictConfig

from cory.config import MaporlConfig, parse_config
from tests.support.composing import changed, composed, selected, variants

TASKS = ("gsm8k", "anli")
SECTION_4 = {  # Park et al., sections 3 and 4, as printed: GSM8K, ANLI
    "model": ("model.path", ("microsoft/Phi-3-mini-128k-instruct",) * 2),
    "QLoRA": ("model.quantisation", ("nf4", "nf4")),
    "... of a shared base": ("model.sharing", ("adapters", "adapters")),
    "debaters in training": ("algorithm.agents", (2, 2)),
    "turns": ("algorithm.turns", (3, 3)),
    "debaters, evaluated": ("algorithm.evaluation_agents", (3, 3)),
    "turns, evaluated": ("algorithm.evaluation_turns", (3, 3)),
    "only turns after the first learn": ("algorithm.train_turns", ([2, 3], [2, 3])),
    "tokens": ("algorithm.sampling.max_response_tokens", (300, 250)),
    "... for all": ("algorithm.sampling.min_response_tokens", (300, 250)),
    "ties of the vote": ("algorithm.vote_ties", ("expected", "expected")),
    "Definition 1": ("algorithm.horizon", ("discounted_sum", "discounted_sum")),
    "... averaged over debaters": ("algorithm.share", ("all", "all")),
    "no incentives alpha": ("algorithm.alpha", ([0.0, 0.0], [0.0, 0.0])),
    "no incentives beta": ("algorithm.beta", ([0.0, 0.0], [0.0, 0.0])),
    "Tables 1 and 2 as printed": ("algorithm.official_shaping", (False, False)),
    "judge": ("reward.name", ("verifier", "verifier")),
    "debaters' questions": ("task.name", ("tinygsm", "anli")),
    "... the first, or next, 12,800": (
        "task.train_split",
        ("train[:12800]", "train_r3[10000:22800]"),
    ),
    "test questions": ("task.test_split", ("test", "test_r3")),
    "... all of them": ("evaluation.prompts", (None, None)),
    "the vote is measured": ("evaluation.team", (True, True)),
    "... and that of debates without sampling": ("evaluation.greedy", (True, True)),
    "a sample is the policy's own": ("algorithm.sampling.temperature", (1.0, 1.0)),
    "... as it is updated": ("algorithm.policy_temperature", (1.0, 1.0)),
}
# GitHub chanwoo-park-official/MAPoRL, commit 765ad1f: setting -> value, and where it comes from.
# "reloadF.py" is config/ppo_config/config_ppo2_multi_agent2_turn3_gsm8k_reloadF.py, "unified.py" is
# trl/trl/trainer/utils_multi_unified.py, "trainer.py" the file with the class PPOv2Trainer beside
# it, and "library" the class PPOv2Config of TRL 0.9, which it extends.
# App. G of the paper is missing.
RELEASED: dict[str, tuple[Any, str]] = {
    "algorithm.turn_discount": (0.3, "reloadF.py:153"),
    "algorithm.kl_coef": (0.002, "reloadF.py:105"),
    "algorithm.kl_controller": ("fixed", "trainer.py: -args.kl_coef * kl"),
    "algorithm.kl_estimator": ("k1", "trainer.py: kl = logprobs - ref_logprobs"),
    "algorithm.value_coef": (0.1, "reloadF.py:104; its factor 1/2 is official_maporl's"),
    "algorithm.epochs": (4, "reloadF.py:106"),
    "algorithm.prompts_per_iteration": (1 * 4 * 8 * 8, "reloadF.py:113, 112 and 109; 8 GPUs"),
    "algorithm.minibatch_size": (1 * 4 * 8 * 2, "reloadF.py:113 and 112; 8 GPUs, two debaters"),
    "algorithm.learning_rate": (1e-5, "reloadF.py:117; unified.py:88"),
    "algorithm.gamma": (1.0, "library: gamma"),
    "algorithm.gae_lambda": (0.95, "library: lam"),
    "algorithm.clip_range": (0.2, "library: cliprange"),
    "algorithm.value_clip_range": (0.2, "library: cliprange_value"),
    "algorithm.whiten_advantages": (True, "trainer.py: masked_whiten(advantages, ...)"),
    "algorithm.score_scaling": ("none", "trainer.py: there is none"),
    "algorithm.guards.penalty": (-10.0, "reloadF.py:140"),
    "algorithm.guards.min_tokens": (50, "reloadF.py:35"),
    "algorithm.guards.max_repeats": (3, "utils/utils_cooperateLLM.py: check_repeated_sequences"),
    "algorithm.guards.repeat_length": (20, "utils/utils_cooperateLLM.py, the same"),
    "algorithm.guards.boxed": (True, "reloadF.py:139"),
    "algorithm.consensus": (None, "reloadF.py:174 and 175, thresholds of 1.1"),
    "algorithm.warmup": (0.0, "unified.py:92-99; reloadF.py:121 is read by nobody"),
    "algorithm.max_grad_norm": (None, "trainer.py: none"),
    "algorithm.sampling.top_k": (0, "trainer.py: top_k=0.0"),
    "algorithm.sampling.top_p": (1.0, "trainer.py: top_p=1.0"),
    "model.precision": ("bf16", "reloadF.py:125"),
    "model.dropout": (False, "trainer.py: disable_dropout_in_model(policy)"),
    "model.adapter.rank": (8, "reloadF.py:63"),
    "model.adapter.alpha": (16, "reloadF.py:65"),
}


def of(name: str, *words: str) -> DictConfig:
    return composed(f"experiment=maporl/{name}", *words)


@pytest.mark.parametrize("row", SECTION_4)
def test_settings_of_section_4(row: str) -> None:
    key, printed = SECTION_4[row]
    for task, value in zip(TASKS, printed, strict=True):
        assert selected(of(f"{task}_maporl"), key) == value, task


@pytest.mark.parametrize("key", RELEASED)
def test_settings_of_the_released_code(key: str) -> None:
    for task in TASKS:
        assert selected(of(f"{task}_maporl"), key) == RELEASED[key][0], task


def test_the_verifier_of_the_released_code() -> None:
    """utils/reward_model.py: the loss is a mean over answers of means over tokens."""
    cfg = of("verifier_gsm8k", "fidelity=official_maporl")
    parse_config(cfg)
    assert cfg.algorithm.average == "responses"
    debates = of("gsm8k_maporl", "fidelity=official_maporl")
    verifier = "outputs/runs/paper/official_maporl/maporl/verifier_gsm8k/seed0/agents/verifier"
    assert debates.reward.path == verifier


@pytest.mark.parametrize("task", TASKS)
def test_each_question_is_debated_once(task: str) -> None:
    config = parse_config(of(f"{task}_maporl"))
    algorithm = config.algorithm
    assert isinstance(algorithm, MaporlConfig)
    assert algorithm.iterations * algorithm.prompts_per_iteration == 12_800
    assert algorithm.turns_per_policy() == 8 * algorithm.minibatch_size
    # all seven projections have adapters; Phi-3 joins three and two of them
    assert set(config.model.adapter.targets or []) == {
        *("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
    }


VERIFIERS = {  # section 4.1 and the released code's reward_config: GSM8K, ANLI
    "task.name": ("gsm8k", "anli"),  # other questions than those of the debaters
    "task.train_split": ("train[:7463]", "train_r3[:10000]"),
    "algorithm.answers_per_question": (100, 5),
    "algorithm.keep_per_label": (10, 5),
    "algorithm.learning_rate": (2e-4, 2e-4),
    "algorithm.minibatch_size": (8, 8),
    "algorithm.epochs": (1, 1),
    "algorithm.temperatures": ([1.3, 1.5], [1.3, 1.5]),
    "algorithm.top_p": (0.9, 0.9),
    "algorithm.max_tokens": (550, 1024),
    "algorithm.balance": (True, True),
    "algorithm.likelihood_coef": (0.0, 0.0),
    "model.adapter.rank": (16, 16),
    "model.adapter.alpha": (32, 32),
    "model.adapter.dropout": (0.05, 0.05),
    "evaluation.prompts": (1319, 1200),
}


@pytest.mark.parametrize("key", VERIFIERS)
def test_the_verifiers(key: str) -> None:
    for task, value in zip(TASKS, VERIFIERS[key], strict=True):
        assert selected(of(f"verifier_{task}"), key) == value, task


# a row of each kind: what conf/sweeps says of the others are the words by which they differ
SINGLE = "agents=1 turns=1 train_turns=null param_sharing=shared"
ROWS = [
    ("{task}_maporl_shaping{n}", "{task}_maporl", "alpha=[{n}.0,{n}.0] beta=[{n}.0,{n}.0]"),
    ("gsm8k_reward_{horizon}_individual", "gsm8k_maporl", "horizon={horizon} share=individual"),
    (
        "{task}_untrained_600",
        "{task}_untrained",
        "sampling.min_response_tokens=600 sampling.max_response_tokens=600 "
        "task.min_response_tokens=600",  # which nothing else of these runs reads
    ),
    ("{task}_single", "{task}_maporl", SINGLE),
    ("{mean}_leave_one_out", "{mean}", "advantages=leave_one_out samples_per_prompt=4"),
    ("{zero}_zero", "{zero}", "model.value_init=zero"),
    ("gsm8k_single_random_rate1e-2", "gsm8k_single", "value_learning_rate=0.01"),
    ("verifier_{task}_unbalanced", "verifier_{task}", "balance=false requests=false"),
    ("gsm8k_from_anli", "gsm8k_untrained", "init_from={runs}/anli_maporl/seed0"),
    ("anli_from_gsm8k", "anli_untrained", "init_from={runs}/gsm8k_maporl/seed0"),
]
LEARNING = ("gsm8k_single", "gsm8k_maporl", "gsm8k_maporl_shaping1")
VARIANTS = variants(
    [
        (run, base, words.replace("{runs}", "outputs/runs/paper/paper/maporl"))
        for run, base, words in ROWS
    ],
    task=TASKS,
    n=(1, 2),
    horizon=("current", "last"),
    mean=LEARNING,
    zero=(*LEARNING, "anli_maporl"),
)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_differs_from_its_base_in_what_its_name_says(name: str) -> None:
    base, change = VARIANTS[name]
    assert changed(f"maporl/{base}", f"maporl/{name}") == change


@pytest.mark.parametrize("name", ["gsm8k_untrained", "anli_untrained"])
def test_untrained_debaters_are_those_that_training_starts_from(name: str) -> None:
    task = name.partition("_")[0]
    algorithm = parse_config(of(name)).algorithm
    assert algorithm.iterations == 0
    found = changed(f"maporl/{task}_maporl", f"maporl/{name}")
    assert {key for key in found if not key.startswith("reward.")} == {"algorithm.iterations"}


@pytest.mark.parametrize(
    ("name", "partner"),
    [
        ("gsm8k_hetero_qwen", "Qwen/Qwen2.5-3B-Instruct"),
        ("gsm8k_hetero_llama", "meta-llama/Meta-Llama-3-8B-Instruct"),
    ],
)
def test_pairs_of_different_models(name: str, partner: str) -> None:
    cfg = of(name)
    other = cfg.members.agent_1.model
    assert other.path == partner and cfg.model.path.startswith("microsoft/Phi-3")
    for key in ("precision", "chat", "sharing", "quantisation"):
        assert other[key] == cfg.model[key], key
    for key in ("rank", "alpha", "dropout"):
        assert other.adapter[key] == cfg.model.adapter[key], key
    assert cfg.algorithm.param_sharing == "per_turn_agent" and cfg.algorithm.agents == 2


DESIGNS = ("reward_last_individual", "reward_gamma1", "maporl_alpha0_1", "maporl_beta1_2")


@pytest.mark.parametrize("design", DESIGNS)
def test_small_rewards_with_value_heads_from_0_differ_as_printed_ones_do(design: str) -> None:
    """They are compared with a run whose value heads begin at 0, too."""
    assert of("gsm8k_maporl_zero", "scale=small").model.value_init == "zero"
    small = changed("maporl/gsm8k_maporl_zero", f"maporl/gsm8k_{design}", "scale=small")
    assert small == changed("maporl/gsm8k_maporl", f"maporl/gsm8k_{design}") != {}
