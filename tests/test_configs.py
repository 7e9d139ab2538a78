from __future__ import annotations

import re
from dataclasses import MISSING, fields, is_dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

import cory.config
from cory.algorithms import ALGORITHMS
from cory.config import ALGORITHM_CONFIGS, REWARD_CONFIGS, TASK_CONFIGS, ConfigError, batch_plan
from cory.rewards import REWARDS
from cory.tasks import TASKS
from tests.composing import CONF, compose_config, parsed

# the groups that turn a run into its small form, and the options that each depends on
STAND_IN_GROUPS = {
    "stand_in": ("model",),
    "stand_in_task": ("task",),
    "stand_in_reward": ("reward",),
    "stand_in_algorithm": ("task", "algorithm"),
    "stand_in_experiment": ("experiment",),
}
# the model that stands in for one that does not fit two CPU cores
STAND_INS = {
    "gpt2_large": "tiny",
    "gpt2_xl": "tiny_2x",
    "llama2_7b_chat": "tiny_math",
    "llama2_13b_chat": "tiny_math",
    "phi3_mini": "tiny_sums",
    "qwen2_5_3b": "tiny_math",
    "llama3_8b": "tiny_math",
}
# ... and the task whose data stand in for the hub's
STAND_IN_TASKS = {
    "imdb": ("imdb", "package"),
    "gsm8k": ("arithmetic", "generated"),
    "tinygsm": ("arithmetic", "generated"),
    "anli": ("arithmetic", "generated"),
}
# what an experiment is about is at the small scale what it is in the paper
SAME_AT_BOTH_SCALES = {
    "cory": ("learning_rate", "kl_coef", "agents", "swap_every", "epochs"),
    "maporl": (
        *("kl_coef", "agents", "turns", "train_turns", "param_sharing", "evaluation_agents"),
        *("evaluation_turns", "alpha", "beta", "horizon", "share", "turn_discount", "balance"),
        *("keep_share",),
    ),
}

# an option that leaves a value to the command line, or that the quickstart's own deltas do not fit
NEEDED = {
    "hardware=multinode": ["hardware.rendezvous=node0:29500"],
    "algorithm=verifier": ["experiment=maporl/verifier_gsm8k"],
    "algorithm=sft": ["experiment=maporl/gsm8k_sft"],
    "reward=verifier": ["reward.path=here"],
}


def options(group: str) -> list[str]:
    folder = CONF / group
    names = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return sorted(name.as_posix() for name in names)


def jobs(sweep: str) -> list[list[str]]:
    """The overrides of each job of a sweep."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = compose("train", overrides=[f"sweep={sweep}"], return_hydra_config=True)
    params = cfg.hydra.sweeper.params or {}
    return [
        [f"sweep={sweep}", *(f"{key}={value}" for key, value in zip(params, values, strict=True))]
        for values in product(*(str(choices).split(",") for choices in params.values()))
    ]


def leaves(cfg: DictConfig) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in cfg.items():
        inner = leaves(value) if isinstance(value, DictConfig) else {"": value}
        flat |= {f"{key}.{name}".strip("."): leaf for name, leaf in inner.items()}
    return flat


@pytest.mark.parametrize("experiment", options("experiment"))
def test_every_experiment_parses_at_both_scales(experiment: str) -> None:
    paper = parsed(f"experiment={experiment}")
    small = parsed(f"experiment={experiment}", "scale=small")
    assert (paper.experiment, paper.scale) == (experiment, "paper")
    assert (small.experiment, small.scale) == (experiment, "small")
    assert small.model.name == STAND_INS.get(paper.model.name, paper.model.name)
    # nothing of a small run is fetched from a hub
    assert small.model.path == f"asset:{small.model.name}"
    if paper.partner is not None:
        assert small.partner.path == f"asset:{STAND_INS[paper.partner.name]}"
    if paper.reward.name != "verifier":
        assert small.reward.name == paper.reward.name
    # judged by the answer, by a model that is shipped, or by one that another run has made
    path = getattr(small.reward, "path", "asset:")
    assert path.startswith(("asset:", "outputs/runs/small/paper/maporl/verifier_"))
    assert (small.task.name, small.task.source) == STAND_IN_TASKS[paper.task.name]
    assert small.hardware.device == "cpu"
    # what the experiment is about is what the paper's is
    for key in SAME_AT_BOTH_SCALES.get(experiment.partition("/")[0], ()):
        assert getattr(small.algorithm, key, None) == getattr(paper.algorithm, key, None), key
    assert type(small.algorithm) is type(paper.algorithm)


@pytest.mark.parametrize("sweep", options("sweep"))
def test_every_sweep_runs_experiments_with_three_seeds(sweep: str) -> None:
    """The experiments themselves are parsed above; a sweep adds nothing but its name."""
    own = jobs(sweep)
    assert parsed(*own[0]).sweep == sweep
    if sweep == "adhoc":
        return
    chosen = [dict(word.split("=") for word in job) for job in own]
    assert all(job.keys() == {"sweep", "experiment", "seed"} for job in chosen)
    found = sorted((job["experiment"], int(job["seed"])) for job in chosen)
    names = {name for name, _ in found}
    assert found == sorted(product(names, (0, 1, 2)))
    assert names <= set(options("experiment"))


def test_every_option_of_every_group_parses() -> None:
    groups = {path.name for path in CONF.iterdir() if path.is_dir()}
    elsewhere = {
        "experiment",
        "sweep",
        "stand_in",
        "stand_in_task",
        "stand_in_reward",
        "stand_in_algorithm",
        "stand_in_experiment",
        "debate",
        "paper",
    }  # above, by scale, part of others, or only read
    for group in sorted(groups - elsewhere):
        assert options(group), group
        for option in options(group):
            cfg = compose_config(f"{group}={option}", *NEEDED.get(f"{group}={option}", []))
            if f"{group}={option}" == "reward=exact_match":
                with pytest.raises(ConfigError, match="needs a task with answers"):
                    cory.config.parse_config(cfg)
            else:
                cory.config.parse_config(cfg)
            if f"{group}.name" in leaves(cfg) and not option.startswith(f"{cfg[group].name}_"):
                assert cfg[group].name == option


@pytest.mark.parametrize(("folder", "groups"), STAND_IN_GROUPS.items())
def test_every_stand_in_is_for_a_scale_and_options(folder: str, groups: tuple[str, ...]) -> None:
    known = {"_".join(names) for names in product(*map(options, ("scale", *groups)))}
    # names without a scale are parts of the others
    scales = tuple(f"{scale}_" for scale in options("scale"))
    assert {name for name in options(folder) if name.startswith(scales)} <= known


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """An override that makes `experiment=mine` known."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\n"
        "seed: 42\n"
        "samples_every: 7\n"
        "task: {source: hub}\n"
        "model: {value_dropout: 0.5}\n"
        "algorithm: {kl_coef: 0.9, gamma: 0.5}\n"
    )
    return f"hydra.searchpath=[file://{tmp_path}]"


def test_who_wins_over_whom(mine: str) -> None:
    ask = [mine, "experiment=mine"]
    base, own = parsed(), parsed(*ask)
    # an experiment over conf/train.yaml and over the groups
    assert (base.seed, base.samples_every, base.algorithm.gamma) == (0, 10, 1.0)
    assert (own.seed, own.samples_every, own.algorithm.gamma) == (42, 7, 0.5)
    # fidelity and scale over the experiment, each only where it says something
    assert (own.algorithm.kl_coef, own.task.source) == (0.9, "hub")
    changed = parsed(*ask, "fidelity=official", "scale=small")
    assert (changed.algorithm.kl_coef, changed.task.source) == (0.4, "package")
    assert (changed.model.value_dropout, changed.algorithm.gamma) == (0.1, 0.5)
    # the command line over all of them, whatever the order
    typed = ["seed=7", "algorithm.kl_coef=0.05", "task.source=path", "model.path=here"]
    last = parsed(*typed, *ask, "fidelity=official", "scale=small", "model=gpt2_xl")
    assert (last.seed, last.algorithm.kl_coef, last.task.source) == (7, 0.05, "path")
    assert (last.model.name, last.model.path) == ("tiny_2x", "here")


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
    algorithm, hardware = config.algorithm, config.hardware
    plan = batch_plan(
        algorithm.prompts_per_iteration,
        algorithm.turns_per_policy(),
        algorithm.minibatch_size,
        hardware.microbatch_size,
        hardware.world,
    )
    assert plan.minibatches == 1  # "Gradient Accumulation Steps" 1: a step sees one mini batch
    assert plan.microbatch * plan.accumulation == 256
    assert set(vars(algorithm.stop).values()) == {None}  # "Early Stopping" False


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
    algorithm, hardware = config.algorithm, config.hardware
    plan = batch_plan(
        algorithm.prompts_per_iteration,
        algorithm.turns_per_policy(),
        algorithm.minibatch_size,
        hardware.microbatch_size,
        hardware.world,
    )
    assert (plan.minibatches, plan.microbatch) == (1, 2)
    assert plan.microbatch * plan.accumulation * hardware.world == 32


SHORT = {"prompts": 128, "samples": 1, "k": [1], "greedy": False, "team": False, "probes": []}
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


def test_the_grid_search_has_the_papers_fifteen_cells() -> None:
    found = {}
    for job in jobs("cory/grid_ppo"):
        algorithm = parsed(*job).algorithm
        assert algorithm.name == "ppo"
        found[algorithm.learning_rate, algorithm.kl_coef] = job
    rates, etas = (1e-6, 1e-5, 1e-4), (1e-3, 1e-2, 1e-1, 0.2, 0.3)  # App. A.1
    assert set(found) == set(product(rates, etas))


def test_figure_2_has_the_papers_four_etas_for_both_methods() -> None:
    found = [(c.algorithm.name, c.algorithm.kl_coef) for c in map(parsed_job, jobs("cory/fig2"))]
    etas = (1e-5, 1e-4, 1e-3, 1e-2)  # fig. 2(c)
    assert sorted(found) == sorted([*product(("ppo", "cory"), etas)] * 3)


def parsed_job(job: list[str]) -> cory.config.Config:
    return parsed(*job)


OFFICIAL = {  # CORY.md, section 10: facts of the released code
    "task.min_characters": 101,
    "task.min_prompt_tokens": 2,
    "task.max_prompt_tokens": 7,
    "task.observer_template": 'I can make this sentence "{answers}" more positive: {query}',
    "model.dropout": True,
    "model.value_dropout": 0.1,
    "algorithm.iterations": 102,
    "algorithm.epochs": 4,
    "algorithm.kl_estimator": "full",
    "algorithm.kl_coef": 0.4,
    "algorithm.kl_controller": "adaptive",
    "algorithm.kl_target": 6,
    "algorithm.kl_horizon": 10_000,
    "algorithm.gamma": 1,
    "algorithm.gae_lambda": 0.95,
    "algorithm.clip_range": 0.2,
    "algorithm.value_clip_range": 0.2,
    "algorithm.value_coef": 0.05,
    "algorithm.whiten_advantages": True,
    "algorithm.max_grad_norm": None,
    "algorithm.max_mean_ratio": 10,
    "algorithm.score_scaling": "normalise",
    "algorithm.sampling.temperature": 1,
    "algorithm.sampling.top_k": 0,
    "algorithm.sampling.top_p": 1,
    "algorithm.sampling.repetition_penalty": 1.1,
    "algorithm.sampling.min_response_tokens": 4,
    "algorithm.sampling.max_response_tokens": 15,
    "reward.output": "logit",
}


@pytest.mark.parametrize(
    ("experiment", "fidelity", "extra"),
    [
        ("cory/imdb_ppo", "official", {}),
        ("cory/imdb_cory", "official", {"algorithm.official_swap": False}),
        (
            "cory/imdb_cory",
            "official_cory",
            {"algorithm.official_swap": True, "algorithm.swap_every": 5},
        ),
    ],
)
def test_fidelity_official(experiment: str, fidelity: str, extra: dict[str, Any]) -> None:
    cfg = compose_config(f"experiment={experiment}", f"fidelity={fidelity}")
    cory.config.parse_config(cfg)
    expected = OFFICIAL | extra
    assert {key: OmegaConf.select(cfg, key) for key in expected} == expected


def test_fidelity_paper_and_scale_paper_change_nothing() -> None:
    for group in ("fidelity", "scale"):
        assert OmegaConf.load(CONF / group / "paper.yaml") == {}


@pytest.mark.parametrize(
    ("configs", "builders", "group"),
    [
        (ALGORITHM_CONFIGS, ALGORITHMS, "algorithm"),
        (TASK_CONFIGS, TASKS, "task"),
        (REWARD_CONFIGS, REWARDS, "reward"),
    ],
)
def test_settings_builders_and_files_have_the_same_names(
    configs: dict[str, Any], builders: dict[str, Any], group: str
) -> None:
    assert set(configs) == set(builders)
    assert {compose_config(f"{group}={o}")[group].name for o in options(group)} == set(configs)


def test_dataclasses_hold_no_values() -> None:
    classes = [c for c in vars(cory.config).values() if isinstance(c, type) and is_dataclass(c)]
    assert len(classes) > 8
    for config in classes:
        for field in fields(config):
            given = (field.default, field.default_factory)
            assert given == (MISSING, MISSING), f"{config.__name__}.{field.name}"


def commented_keys(path: Path) -> dict[str, bool]:
    """Each key of a YAML file, and whether a comment stands on its line or on the one above.

    A key that the files it extends explain needs no comment.
    """
    keys, above = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        key = re.match(r"\s*(\w+):", line)
        if key and key[1] not in ("defaults", "name"):
            keys[key[1]] = " # " in line or above.lstrip().startswith("# ")
        above = line
    for parent in OmegaConf.load(path).get("defaults", []):
        if parent != "_self_":
            # /debate/chat@prompts: an option of another group
            folder = CONF if parent.startswith("/") else path.parent
            file = folder / f"{parent.strip('/').partition('@')[0]}.yaml"
            for key, comment in commented_keys(file).items():
                keys[key] = comment or keys.get(key, False)
    return keys


@pytest.mark.parametrize("group", ["model", "task", "algorithm", "reward", "hardware"])
def test_every_key_is_explained_where_it_is_first_given(group: str) -> None:
    for option in options(group):
        path = CONF / group / f"{option}.yaml"
        explained = commented_keys(path)
        assert [key for key, comment in explained.items() if not comment] == [], path.name
