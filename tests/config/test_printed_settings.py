"""What CORY's paper prints and its released code does, as experiments have it."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Any

import pytest
from omegaconf import OmegaConf

import cory.config
from cory.config import plan_of
from tests.support.composing import compose_config, jobs, leaves, parsed

TABLE_1 = {  # Ma et al., Table 1, as printed: PPO-GPT-2-l, PPO-GPT-2-xl, CORY
    "Learning Rate": ("algorithm.learning_rate", (1.41e-5, 1.41e-5, 1.41e-5)),
    "PPO Epoch": ("algorithm.epochs", (4, 4, 4)),
    "Batch Size": ("algorithm.prompts_per_iteration", (256, 256, 256)),
    "Mini Batch Size": ("algorithm.minibatch_size", (256, 256, 256)),
    "Iterations": ("algorithm.iterations", (100, 100, 100)),
    "Initial KL Coefficient": ("algorithm.kl_coef", (0.3, 0.3, 0.3)),
    "Discount": ("algorithm.gamma", (1, 1, 1)),
    "GAE": ("algorithm.gae_lambda", (0.95, 0.95, 0.95)),
    "Gradient Clip Range": ("algorithm.clip_range", (0.2, 0.2, 0.2)),
    "Value Clip Range": ("algorithm.value_clip_range", (0.2, 0.2, 0.2)),
    "Value Loss Coefficient": ("algorithm.value_coef", (0.1, 0.1, 0.1)),
    "Period of role exchange": ("algorithm.swap_every", (None, None, 5)),
    # and from section 4.1 and the column heads
    "model": ("model.path", tuple(f"openai-community/gpt2-{size}" for size in ("large", "xl"))),
    "judge": ("reward.path", ("lvwerra/distilbert-imdb",) * 3),
    "data": ("task.path", ("stanfordnlp/imdb",) * 3),
    "from the hub": ("task.source", ("hub",) * 3),
    "shortest prompt": ("task.min_prompt_tokens", (2, 2, 2)),
    "longest prompt": ("task.max_prompt_tokens", (8, 8, 8)),
    "agents": ("algorithm.agents", (None, None, 2)),
}


@pytest.mark.parametrize("row", TABLE_1)
def test_table_1_of_the_paper(row: str) -> None:
    key, printed = TABLE_1[row]
    if row == "model":
        printed = (*printed, "openai-community/gpt2-large")
    for name, value in zip(("imdb_ppo", "imdb_ppo_xl", "imdb_cory"), printed, strict=True):
        assert OmegaConf.select(compose_config(f"experiment=cory/{name}"), key) == value, name


@pytest.mark.parametrize("name", ["imdb_ppo", "imdb_ppo_xl", "imdb_cory"])
def test_table_1_one_optimiser_step_per_epoch_and_no_early_stopping(name: str) -> None:
    config = parsed(f"experiment=cory/{name}")
    plan = plan_of(config)
    assert plan.minibatches == 1  # "Gradient Accumulation Steps" 1: a step sees one mini batch
    assert plan.microbatch * plan.accumulation == 256
    assert set(vars(config.algorithm.stop).values()) == {None}  # "Early Stopping" False


TABLE_2 = {  # Ma et al., Table 2, as printed: PPO, PPO-13b, CORY
    "Learning Rate": ("algorithm.learning_rate", (1e-5, 1e-5, 1e-4)),
    "PPO Epoch": ("algorithm.epochs", (4, 4, 4)),  # Table 1's: Table 2 has no such row
    "Batch Size": ("algorithm.prompts_per_iteration", (32, 32, 32)),
    "Mini Batch Size": ("hardware.microbatch_size", (2, 2, 2)),
    "Mini Batch Size x Gradient Accumulation Steps": ("algorithm.minibatch_size", (2 * 16,) * 3),
    "Iterations": ("algorithm.iterations", (100, 100, 100)),
    "Initial KL Coefficient": ("algorithm.kl_coef", (0.01, 0.01, 0.01)),
    "Discount": ("algorithm.gamma", (1, 1, 1)),
    "GAE": ("algorithm.gae_lambda", (0.95, 0.95, 0.95)),
    "Gradient Clip Range": ("algorithm.clip_range", (0.2, 0.2, 0.2)),
    "Value Clip Range": ("algorithm.value_clip_range", (0.2, 0.2, 0.2)),
    "Value Loss Coefficient": ("algorithm.value_coef", (0.1, 0.1, 0.1)),
    "Period of role exchange": ("algorithm.swap_every", (None, None, 5)),
    # and from section 4.2, appendices D and E
    "model": ("model.path", tuple(f"meta-llama/Llama-2-{n}b-chat-hf" for n in (7, 13, 7))),
    "4 bits": ("model.quantisation", ("nf4",) * 3),
    "judge": ("reward.name", ("exact_match",) * 3),
    "data": ("task.path", ("openai/gsm8k",) * 3),
    "from the hub": ("task.source", ("hub",) * 3),
    "agents": ("algorithm.agents", (None, None, 2)),
    "GPUs": ("hardware.processes", (4, 4, 4)),
}


TABLE_2_COLUMNS = ("gsm8k_ppo", "gsm8k_13b_ppo", "gsm8k_cory")


@pytest.mark.parametrize("row", TABLE_2)
def test_table_2_of_the_paper(row: str) -> None:
    key, printed = TABLE_2[row]
    for name, value in zip(TABLE_2_COLUMNS, printed, strict=True):
        config = compose_config(f"experiment=cory/{name}")
        assert OmegaConf.select(config, key) == value, name


@pytest.mark.parametrize("name", ["gsm8k_ppo", "gsm8k_cory"])
def test_table_2_one_optimiser_step_per_epoch(name: str) -> None:
    config = parsed(f"experiment=cory/{name}")
    plan = plan_of(config)
    assert (plan.minibatches, plan.microbatch) == (1, 2)
    assert plan.microbatch * plan.accumulation * config.hardware.world == 32


SHORT = {
    "prompts": 128,
    "samples": 1,
    "k": [1],
    "greedy": False,
    "team": False,
    "probes": [],
    "before": True,
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "imdb_cory_no_transfer": ("imdb_cory", {"algorithm.knowledge_transfer": False}),
    "imdb_cory_no_exchange": ("imdb_cory", {"algorithm.swap_every": None}),
    "imdb_pretrained": ("imdb_ppo", {"algorithm.iterations": 0}),
    "gsm8k_pretrained": ("gsm8k_ppo", {"algorithm.iterations": 0}),
    "gsm8k_ppo_lr1e-4": ("gsm8k_ppo", {"algorithm.learning_rate": 1e-4}),
    "gsm8k_cory_lr1e-5": ("gsm8k_cory", {"algorithm.learning_rate": 1e-5}),
    "gsm8k_13b_ppo_lr1e-4": ("gsm8k_13b_ppo", {"algorithm.learning_rate": 1e-4}),
    "gsm8k_13b_cory_lr1e-5": ("gsm8k_13b_cory", {"algorithm.learning_rate": 1e-5}),
    "gsm8k_ppo_double": (
        "gsm8k_ppo",
        {"algorithm.prompts_per_iteration": 64, "algorithm.minibatch_size": 64},
    ),
    "gsm8k_cory_3": ("gsm8k_cory", {"algorithm.agents": 3}),
    "gsm8k_cory_4": ("gsm8k_cory", {"algorithm.agents": 4}),
    **{
        f"gsm8k_{method}_eta{eta}": (f"gsm8k_{method}", {"algorithm.kl_coef": float(eta)})
        for method in ("ppo", "cory")
        for eta in ("1e-5", "1e-4", "1e-3")
    },
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_differs_from_its_base_in_what_its_name_says(name: str) -> None:
    base, change = VARIANTS[name]
    full = leaves(compose_config(f"experiment=cory/{base}"))
    other = leaves(compose_config(f"experiment=cory/{name}"))
    differing = {key: other[key] for key in full if other[key] != full[key]}
    # how it is measured at its end may differ
    training = {key: differing[key] for key in differing if not key.startswith("evaluation.")}
    assert training == change | {"experiment": f"cory/{name}"}
    if "eta" in name or name in ("gsm8k_ppo_double", "gsm8k_cory_3", "gsm8k_cory_4"):
        assert {key: other[f"evaluation.{key}"] for key in SHORT} == SHORT


@pytest.mark.slow
def test_the_grid_search_has_the_papers_fifteen_cells() -> None:
    found = {}
    for job in jobs("cory/grid_ppo"):
        algorithm = parsed(*job).algorithm
        assert algorithm.name == "ppo"
        found[algorithm.learning_rate, algorithm.kl_coef] = job
    rates, etas = (1e-6, 1e-5, 1e-4), (1e-3, 1e-2, 1e-1, 0.2, 0.3)  # App. A.1
    assert set(found) == set(product(rates, etas))


@pytest.mark.slow
def test_figure_2_has_the_papers_four_etas_for_both_methods() -> None:
    found = [(c.algorithm.name, c.algorithm.kl_coef) for c in map(parsed_job, jobs("cory/fig2"))]
    etas = (1e-5, 1e-4, 1e-3, 1e-2)  # fig. 2(c)
    assert sorted(found) == sorted([*product(("ppo", "cory"), etas)] * 3)


def parsed_job(job: list[str]) -> cory.config.Config:
    return parsed(*job)


# GitHub Harry67Hu/CORY: setting -> value, and the place that it comes from. cory.py and ppo.py are
# imdb_train/cory.py and imdb_train/ppo.py; the others are files of TRL 0.7.10, which it copies.
OFFICIAL: dict[str, tuple[Any, str]] = {
    "task.text_column": ("text", "cory.py:147"),
    "task.train_split": ("train", "cory.py:146"),
    "task.min_characters": (100 + 1, "cory.py:148, longer than 100"),
    "task.min_prompt_tokens": (2, "cory.py:130"),
    "task.max_prompt_tokens": (8 - 1, "cory.py:130; core.py:233, without its upper end"),
    "task.observer_template": (
        'I can make this sentence "{answers}" more positive: {query}',
        "cory.py:245",
    ),
    "task.answer_template": ("{query}{response}", "cory.py:260"),
    "model.precision": ("fp32", "utils/model_generation.py:18, no torch_dtype"),
    "model.sharing": ("copies", "cory.py:92, use_peft=False"),
    "model.quantisation": ("none", "cory.py:198, nf4_config is None"),
    "model.dropout": (False, "ppo_trainer.py:788 and 976, each pass calls model.eval()"),
    "model.value_dropout": (0.0, "modeling_value_head.py:50, not in evaluation mode"),
    "model.value_init": ("uniform", "modeling_value_head.py:45, nn.Linear's own"),
    "model.value_detached": (False, "modeling_value_head.py:182, v_head(last_hidden_state)"),
    "algorithm.value_learning_rate": (None, "ppo_trainer.py, one optimiser over the whole model"),
    "model.rollout_dropout": (True, "ppo_trainer.py:1063, model.train() is left on"),
    "model.special_tokens_in_text": (True, "cory.py:256 and 265, batch_decode"),
    # as many whole batches as there are reviews of more than 100 (and of more than 200) characters
    "algorithm.iterations": (24_991 // 256, "ppo_trainer.py:397, drop_last; before cory.py:373"),
    "algorithm.prompts_per_iteration": (256, "cory.py:77"),
    "algorithm.samples_per_prompt": (1, "cory.py:253"),
    "algorithm.minibatch_size": (256 * 1, "cory.py:76 and 78"),
    "algorithm.epochs": (4, "ppo_config.py:103"),
    "algorithm.learning_rate": (1.41e-5, "cory.py:74"),
    "algorithm.schedule": ("constant", "ppo_trainer.py:857, no lr_scheduler"),
    "algorithm.optimizer": ("adamw", "ppo_trainer.py:280, Adam, the same without decay"),
    "algorithm.weight_decay": (0.0, "ppo_trainer.py:280, Adam's default"),
    "algorithm.max_grad_norm": (None, "ppo_config.py:105"),
    "algorithm.kl_estimator": ("full", "cory.py:81"),
    "algorithm.kl_in": ("reward", "ppo_trainer.py:1106"),
    "algorithm.kl_coef": (0.4, "cory.py:86"),
    "algorithm.kl_controller": ("adaptive", "ppo_config.py:73"),
    "algorithm.kl_target": (6, "ppo_config.py:79"),
    "algorithm.kl_horizon": (10_000, "ppo_config.py:81"),
    "algorithm.advantages": ("gae", "ppo_trainer.py:1148"),
    "algorithm.gamma": (1, "ppo_config.py:83"),
    "algorithm.gae_lambda": (0.95, "ppo_config.py:85"),
    "algorithm.whiten_advantages": (True, "ppo_trainer.py:1156"),
    "algorithm.clip_range": (0.2, "ppo_config.py:87"),
    "algorithm.clip_range_high": (None, "ppo_trainer.py:1203, one range on both sides"),
    "algorithm.value_clip_range": (0.2, "ppo_config.py:89"),
    "algorithm.value_coef": (0.1 * 0.5, "ppo_config.py:91, times ppo_trainer.py:1197"),
    "algorithm.ratio": ("token", "ppo_trainer.py:1200"),
    "algorithm.loss_average": ("tokens", "ppo_trainer.py:1205; core.py:121"),
    "algorithm.loss_average_turns": (None, "ppo_trainer.py:1205, a minibatch of 256 is one batch"),
    "algorithm.policy_temperature": (1.0, "ppo_trainer.py:993"),
    "algorithm.max_mean_ratio": (10, "ppo_config.py:117"),
    "algorithm.score_scaling": ("normalise", "cory.py:83 and 84"),
    "algorithm.score_clip": (None, "cory.py:85"),
    "algorithm.sampling.temperature": (1, "cory.py:211, GenerationConfig's default"),
    "algorithm.sampling.top_k": (0, "cory.py:213"),
    "algorithm.sampling.top_p": (1, "cory.py:214"),
    "algorithm.sampling.repetition_penalty": (1.1, "cory.py:217"),
    "algorithm.sampling.min_response_tokens": (4, "cory.py:241"),
    "algorithm.sampling.max_response_tokens": (16 - 1, "cory.py:242; core.py:233"),
    "reward.path": ("lvwerra/distilbert-imdb", "cory.py:73"),
    "reward.label": ("POSITIVE", "cory.py:270, the second of its two classes"),
    "reward.output": ("logit", "cory.py:125"),
    "hardware.microbatch_size": (256, "ppo_trainer.py:1210, the mean of a whole minibatch"),
}
CORY_SCRIPT: dict[str, tuple[Any, str]] = {
    "algorithm.agents": (2, "cory.py:195 and 203"),
    "algorithm.knowledge_transfer": (True, "cory.py:260"),
    "algorithm.collective_reward": (True, "cory.py:282 and 283"),
    "algorithm.credit": ("all", "cory.py:282 and 283"),
    "algorithm.swap_every": (5, "cory.py:106"),
    "algorithm.official_swap": (False, "only in official_cory"),
}
PPO_SCRIPT: dict[str, tuple[Any, str]] = {
    "task.min_characters": (200 + 1, "ppo.py: len(x['review']) > 200"),
    "algorithm.iterations": (24_895 // 256, "ppo_trainer.py:397, drop_last"),
    "algorithm.kl_coef": (0.3, "ppo.py: init_kl_coef=0.3"),
    "algorithm.score_scaling": ("none", "ppo.py: use_score_scaling=False"),
}
TABLES = {
    ("imdb_ppo", "official"): OFFICIAL,
    ("imdb_ppo", "official_ppo"): OFFICIAL | PPO_SCRIPT,
    ("imdb_cory", "official"): OFFICIAL | CORY_SCRIPT,
    ("imdb_cory", "official_cory"): OFFICIAL
    | CORY_SCRIPT
    | {"algorithm.official_swap": (True, "cory.py:347 to 371, trainers are built anew")},
}
# of how a run is measured, kept and placed
ELSEWHERE = (
    "evaluation.",
    "hardware.",
    "wandb.",
    "model.adapter.",
    "algorithm.stop.",
    "model.architecture.",
)


@pytest.mark.parametrize(("experiment", "fidelity"), TABLES)
def test_fidelity_official(experiment: str, fidelity: str) -> None:
    cfg = compose_config(f"experiment=cory/{experiment}", f"fidelity={fidelity}")
    cory.config.parse_config(cfg)
    expected = {key: value for key, (value, _) in TABLES[experiment, fidelity].items()}
    assert {key: OmegaConf.select(cfg, key) for key in expected} == expected


@pytest.mark.parametrize(("experiment", "fidelity"), TABLES)
def test_no_setting_of_the_method_is_left_out(experiment: str, fidelity: str) -> None:
    """Neither one that a preset changes, nor one that it leaves as it is."""
    plain = leaves(compose_config(f"experiment=cory/{experiment}"))
    preset = leaves(compose_config(f"experiment=cory/{experiment}", f"fidelity={fidelity}"))
    table = TABLES[experiment, fidelity]
    assert {key for key in plain if preset[key] != plain[key]} - {"fidelity"} <= table.keys()
    method = {
        key
        for key in plain
        if key.startswith(("task.", "algorithm.", "model.")) and not key.startswith(ELSEWHERE)
    }
    assert method - table.keys() == NOT_ITS_OWN


# names, places, and settings of what is off
NOT_ITS_OWN = {
    *("task.name", "task.source", "task.path", "task.test_split", "task.answer_separator"),
    *("model.name", "model.path", "model.remote_code", "model.chat", "model.attention"),
    *("model.double_quantisation", "model.compute_precision"),
    *("algorithm.name", "algorithm.warmup", "algorithm.final_share"),
    *("algorithm.divide_by_std", "algorithm.group_baseline", "algorithm.kl_loss"),
}


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["paper", "small"])
@pytest.mark.parametrize("method", ["ppo", "cory"])
def test_our_studies_on_imdb_change_what_they_name(method: str, scale: str) -> None:
    """k1 in place of the exact KL; four answers to a prompt and no value head."""
    own = [
        parsed(f"experiment=cory/imdb_{method}{end}", f"scale={scale}").algorithm
        for end in ("", "_k1", "_leave_one_out")
    ]
    usual, k1, leave_one_out = (asdict(algorithm) for algorithm in own)
    assert {key for key in usual if usual[key] != k1[key]} == {"kl_estimator"}
    assert (usual["kl_estimator"], k1["kl_estimator"]) == ("full", "k1")
    different = {key: leave_one_out[key] for key in usual if usual[key] != leave_one_out[key]}
    assert different == {"advantages": "leave_one_out", "samples_per_prompt": 4}


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["paper", "small"])
def test_our_studies_of_value_heads_change_what_they_name(scale: str) -> None:
    zero = {"model.value_init": "zero"}
    apart = {**zero, "model.value_detached": True, "algorithm.gae_lambda": 1}
    changed = {f"imdb_{method}_zero": (f"imdb_{method}", zero) for method in ("ppo", "cory")}
    for run in ("ppo", "sum", "own", "later"):
        changed[f"credit_{run}_zero_detached_lambda1"] = (f"credit_{run}", apart)
    for run in ("sum", "own", "later"):
        fixed, exchanged = (
            f"credit_{run}{roles}_zero_detached_lambda1" for roles in ("_fixed", "")
        )
        changed[fixed] = (exchanged, {"algorithm.swap_every": None})
    for run in ("ppo", "sum"):
        for text in ("1e-2", "1e-1", "3e-1", "1"):
            own_eta = {"algorithm.kl_coef": float(text)} if text != "1e-2" else {}
            changed[f"frontier_{run}_eta{text}"] = (
                f"credit_{run}_zero_detached_lambda1", {"algorithm.kl_estimator": "k1", **own_eta}
            )  # fmt: skip
    for name, (base, expected) in changed.items():
        own, usual = (
            leaves(compose_config(f"experiment=cory/{one}", f"scale={scale}"))
            for one in (name, base)
        )
        assert own.keys() == usual.keys()
        different = {key: own[key] for key in own if own[key] != usual[key]}
        for key in ("evaluation.probes", "experiment"):  # names, and texts to look at
            different.pop(key, None)
        assert different == expected, name
