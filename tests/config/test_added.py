"""Run directories of before a setting came: they are read as what they were."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from omegaconf import DictConfig, OmegaConf, open_dict

from cory.config import ConfigError, as_before, parse_config, with_values_of_before
from cory.config.added import ADDED
from cory.config.options import REWARDS, Option
from cory.runs.precision import as_begun
from cory.runs.run_dir import is_complete, settings_digest, unfinished_run
from tests.support.composing import compose_config

CLASSIFIERS = (
    *("chat", "max_tokens", "precision", "quantisation", "double_quantisation"),
    "compute_precision",
)
WORDS = (
    "experiment=maporl/gsm8k_hetero_llama",
    "scale=small",
    "reward=verifier",
    "reward.path=here",
    *("model.value_init=uniform", "partner.value_init=uniform"),
)

ESTIMATOR = (
    "value_learning_rate",
    *("samples_per_prompt", "advantages", "divide_by_std", "group_baseline", "ratio"),
    *("loss_average", "loss_average_turns", "clip_range_high", "kl_in", "kl_loss"),
    "policy_temperature",
)


def of_before(cfg: DictConfig) -> DictConfig:
    """The same settings without those that came later."""
    old = OmegaConf.create(OmegaConf.to_yaml(cfg, resolve=True))
    assert isinstance(old, DictConfig)
    with open_dict(old):
        for group in ("model", "partner", "reward"):
            del old[group]["attention"]
        for group in ("model", "partner"):
            del old[group]["rollout_dropout"], old[group]["special_tokens_in_text"]
            del old[group]["value_init"], old[group]["value_detached"]
        for key in ("generation_batch_size", "cuda_graphs"):
            del old.hardware[key]
        for key in ("entity", "name", "group", "tags", "notes"):
            del old.wandb[key]
        del old["parallel_runs"], old.algorithm["unreadable_votes"], old.task["next_question"]
        del old["tensorboard"], old["untrained_store"], old.evaluation["before"], old["fidelity"]
        for key in (*ESTIMATOR, "schedule", "warmup", "final_share", "optimizer"):
            del old.algorithm[key]
    return old


@pytest.mark.slow
def test_what_is_not_there_is_as_before() -> None:
    cfg = compose_config(*WORDS)
    old = of_before(cfg)
    assert parse_config(old).parallel_runs == 1
    cfg.parallel_runs = 1  # which is not compared
    cfg.untrained_store = None  # likewise
    assert settings_digest(old) != settings_digest(cfg)  # it would begin with an evaluation
    cfg = as_begun(cfg, old)
    assert not cfg.evaluation.before
    assert parse_config(old) == parse_config(cfg)
    assert "attention" not in old.model and parse_config(old).partner.attention == "auto"
    assert settings_digest(old) == settings_digest(cfg)
    for key, value in {"samples_per_prompt": 2, "kl_in": "loss", "advantages": "batch"}.items():
        other = cfg.copy()
        other.algorithm[key] = value
        assert settings_digest(other) != settings_digest(old), key
    cfg.partner.attention = "eager"
    assert settings_digest(old) != settings_digest(cfg)


@dataclass
class Mine:
    """Settings of another package's reward: neighbours of settings that came later."""

    name: str
    label: str
    learning_rate: float
    probes: list[str]
    inner: dict[str, Any]
    other: Any


def test_an_option_of_another_package_gets_no_settings_that_it_does_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(cast("dict[str, Option]", REWARDS), "mine", Option(Mine, "mine:Mine"))
    cfg = compose_config()
    own = Mine("mine", "good", 0.1, ["a"], {"label": "x"}, {"label": "y"})
    with open_dict(cfg):
        cfg.reward = asdict(own)
        del cfg.model["attention"]  # of which its own groups are still given
    parsed = parse_config(cfg)
    assert (parsed.reward, parsed.model.attention) == (own, "auto")


def test_only_settings_that_belong_there_are_left_out() -> None:
    flat = {"model.compute_precision": "fp32", "model.attention": "auto", "task.attention": "auto"}
    assert as_before(flat).keys() == flat.keys() - {"model.attention"}
    assert as_before({**flat, "model.attention": "sdpa"})["model.attention"] == "sdpa"


def test_what_is_not_there_has_the_value_of_before() -> None:
    flat = {"model.compute_precision": "bf16", "model.value_dropout": 0.1, "seed": 0}
    found = with_values_of_before({**flat, "model.value_init": "zero"})
    assert found["model.attention"] == "auto" and found["model.value_init"] == "zero"
    assert as_before(found) == {**flat, "model.value_init": "zero"}
    offline = {"algorithm.learning_rate": 1.0, "algorithm.iterations_per_epoch": None}
    assert "algorithm.schedule" not in with_values_of_before(offline)  # it had one from the start


@pytest.mark.slow
def test_a_group_that_had_a_setting_keeps_it() -> None:
    """Offline training had its schedule before others: checkpoints of it are known by it."""
    cfg = compose_config("experiment=spag/llama2_im", "scale=small")
    old = OmegaConf.create(OmegaConf.to_yaml(cfg, resolve=True))
    assert isinstance(old, DictConfig)
    with open_dict(old):
        del old.algorithm["final_share"], old.algorithm["optimizer"]
    assert settings_digest(old) == settings_digest(cfg)
    flat = {f"algorithm.{key}": old.algorithm[key] for key in ("schedule", "warmup")}
    beside = {"algorithm.learning_rate": 1.0, "algorithm.iterations_per_epoch": None}
    assert (
        as_before(flat | beside).keys()
        >= flat.keys()
        == {
            "algorithm.schedule",
            "algorithm.warmup",
        }
    )
    assert not as_before(flat | {"algorithm.learning_rate": 1.0}).keys() & flat.keys()


@pytest.mark.slow
def test_conf_gives_the_value_of_before() -> None:
    """Else an unfinished run would go on as another one."""
    cfg = compose_config(*WORDS)
    places = {
        "attention": ("model", "partner", "reward"),
        "value_init": ("model", "partner"),
        "value_detached": ("model", "partner"),
        "rollout_dropout": ("model", "partner"),
        "special_tokens_in_text": ("model", "partner"),
        "generation_batch_size": ("hardware",),
        "cuda_graphs": ("hardware",),
        "gpu": ("hardware",),
        "memory": ("hardware",),
        "parallel_runs": ("",),
        "fidelity": ("",),
        "objective": ("",),
        **dict.fromkeys(("keep_state", "keep_best", "keep_best_mode", "stretch_schedule"), ("",)),
        "tensorboard": ("",),
        **dict.fromkeys(("entity", "name", "group", "tags", "notes"), ("wandb",)),
        "unreadable_votes": ("algorithm",),
        **dict.fromkeys(("schedule", "warmup", "final_share", "optimizer"), ("algorithm",)),
        **dict.fromkeys(ESTIMATOR, ("algorithm",)),
        "next_question": ("task",),
        "plain_http": (),  # below
        "credit": (),  # below
        "contradictions": (),  # below
        "labels": (),  # below
        **dict.fromkeys(("average", "chats_only"), ()),  # below
        "untrained_store": ("",),
        "before": ("evaluation",),
        **dict.fromkeys(CLASSIFIERS, ()),  # below
    }
    assert places.keys() == ADDED.keys()
    verifier = compose_config("experiment=maporl/verifier_gsm8k").algorithm
    assert verifier.average == ADDED["average"][1]
    finetuning = compose_config("experiment=maft/phi3_arithmetic_maft").algorithm
    assert finetuning.labels == ADDED["labels"][1]
    assert finetuning.prompts.chats_only is ADDED["chats_only"][1]
    assert ADDED["chats_only"][0] in finetuning.prompts
    endpoint = compose_config("experiment=spag/llama2_im").algorithm.endpoint
    assert endpoint.plain_http is ADDED["plain_http"][1]
    assert ADDED["plain_http"][0] in endpoint
    for words in (("task=prompts", "task.path=here"), ("task=math",), ("task=gsm8k",)):
        task = compose_config(*words).task
        assert task.contradictions == ADDED["contradictions"][1]
        assert ADDED["contradictions"][0] in task
    algorithm = compose_config("algorithm=cory").algorithm
    assert algorithm.credit == ADDED["credit"][1] and ADDED["credit"][0] in algorithm
    cfg.parallel_runs = compose_config().parallel_runs  # not of the small scale
    assert cfg.untrained_store == "outputs/untrained"
    cfg.untrained_store = None  # which may differ between two starts
    assert cfg.evaluation.before is True
    cfg = as_begun(cfg, OmegaConf.create({"evaluation": {"probes": []}}))
    for key, (beside, value) in ADDED.items():
        for group in places[key]:
            node = cfg[group] if group else cfg
            assert (node[key], beside in node) == (value, True)


@pytest.mark.slow
@pytest.mark.parametrize("reward", ["sentiment", "sentiment_tiny"])
def test_a_classifier_of_before_is_what_it_was(reward: str) -> None:
    cfg = compose_config(f"reward={reward}")
    old = OmegaConf.create(OmegaConf.to_yaml(cfg, resolve=True))
    assert isinstance(old, DictConfig)
    for key in (*CLASSIFIERS, "attention"):
        del old.reward[key]
    assert set(old.reward) == {"name", "path", "label", "output", "batch_size"}
    assert parse_config(old) == parse_config(cfg)
    assert settings_digest(old) == settings_digest(cfg)
    for key, other in (("precision", "bf16"), ("chat", True), ("max_tokens", 9)):
        changed = OmegaConf.merge(cfg, {"reward": {key: other}})
        assert isinstance(changed, DictConfig)
        assert settings_digest(changed) != settings_digest(old)


@pytest.mark.slow
def test_an_unfinished_run_of_before_goes_on(tmp_path: Path) -> None:
    cfg = compose_config()
    run_dir = tmp_path / "2026-11-01_10-00-00_seed0"
    run_dir.mkdir()
    old = OmegaConf.create(OmegaConf.to_yaml(cfg, resolve=True))
    del old.model["attention"], old["parallel_runs"], old.evaluation["before"]
    cfg.parallel_runs = 2
    OmegaConf.save(old, run_dir / "config.yaml")
    (run_dir / "metrics.jsonl").touch()
    assert unfinished_run(tmp_path / "2026-11-02_10-00-00_seed0", cfg) == run_dir
    assert is_complete(run_dir, cfg) is False
    cfg.model.attention = "eager"
    with pytest.raises(ConfigError, match=r"model\.attention=None, not eager"):
        is_complete(run_dir, cfg)
