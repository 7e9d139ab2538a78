from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name

import pytest
from hydra.errors import MissingConfigException
from omegaconf import OmegaConf

import cory.config
from cory.config import ConfigError, Settings, experiment_names, plan_of, read_sweep
from cory.config.experiment import ALGORITHMS, REWARDS, TASKS
from cory.runtime.hydra_setup import compose
from tests.support.composing import CONF, compose_config, composed, leaves, options, parsed, run_for

TABLES = {"algorithm": ALGORITHMS, "task": TASKS, "reward": REWARDS}
# what an experiment is about is at the small scale what it is in the paper
SAME_AT_BOTH_SCALES = {
    "cory": ("learning_rate", "kl_coef", "agents", "swap_every", "epochs"),
    "maporl": (
        *("kl_coef", "agents", "turns", "train_turns", "param_sharing", "evaluation_agents"),
        *("evaluation_turns", "alpha", "beta", "horizon", "share", "turn_discount", "balance"),
        *("keep_share", "unreadable_votes"),
    ),
    "spag": (
        *("kl_coef", "kl_estimator", "average", "role_weights", "decay"),
        *("threshold", "clip_range", "kl_in_advantage", "instructions_coef"),
    ),
    "maft": (
        *("agents", "turns", "policies", "select", "labels", "critic_share", "critic_loss"),
        *("evaluation_agents", "evaluation_turns", "vote_ties", "unreadable_votes"),
        *("start", "identities", "prompts"),
    ),
}

# an option that leaves a value to the command line, or does not go with the quickstart's others
NEEDED = {
    "hardware=multinode": ["hardware.rendezvous=node0:29500"],
    "model=own": ["model.path=asset:tiny", "model.name=own"],
    "algorithm=verifier": ["task=gsm8k_chat"],
    "algorithm=debate_sft": ["task=gsm8k_chat"],
    "algorithm=sft": ["task=gsm8k_chat"],
    "algorithm=team": ["algorithm.play=mine.py:play", "algorithm.agents=[one]"],
    "reward=verifier": ["reward.path=here"],
    "reward=python": ["reward.function=mine.py:score"],
    "reward=classifier": ["reward.path=here"],
    "reward=judge": ["reward.endpoint.model=wise"],
    "reward=sum": ["+reward@reward.parts.tone=sentiment"],
    "reward=returned": ["algorithm=team", "algorithm.play=mine.py:play", "algorithm.agents=[one]"],
    "algorithm=imitation": ["task=taboo", "algorithm.games=scripted"],
    "algorithm=spag": ["task=taboo"],
    "reward=game_outcome": ["algorithm=spag", "task=taboo"],
    "fidelity=official_maft": ["experiment=maft/phi3_math_maft"],
    "fidelity=official_maporl": ["experiment=maporl/gsm8k_maporl"],
    "fidelity=official_spag": ["experiment=spag/llama2_spag_1"],
    "task=taboo": ["algorithm=spag"],
    "task=twenty_questions": ["algorithm=spag"],
    "task=guess_my_city": ["algorithm=spag"],
    "task=prompts": ["task.path=here", "task.held_out_share=0.1", "reward=sentiment"],
    "task=reasoning_gym": ["task.generators={gcd:{}}"],
    "reward=python_gym": ["task=reasoning_gym", "task.generators={gcd:{}}"],
    "scale=medium": ["experiment=cory/imdb_ppo"],
    "algorithm=maft": ["task=gsm8k_maft", "model=phi3_mini"],
}


def covering(scale: str) -> set[str]:
    """Runs that together have every word of a run of the sweeps with a form at a scale.

    All 304 runs have 187 words between them; sweeps, tables and printed settings name each run.
    """
    words: dict[str, set[str]] = {}
    for sweep in options("sweep"):
        with suppress(ConfigError):  # it has no form at this scale
            runs = read_sweep(sweep, scale, [CONF]).runs
            words |= {name: set(own) for name, own in runs.items()}
    chosen: set[str] = set()
    left = set().union(*words.values())
    while left:
        chosen.add(max(sorted(words), key=lambda name: len(words[name] & left)))
        left -= set().union(*(words[name] for name in chosen))
    return chosen


FILES, SMALL_RUNS = set(experiment_names(CONF)), covering("small")


@pytest.mark.slow
@pytest.mark.parametrize("experiment", sorted((FILES | covering("paper") | SMALL_RUNS) - {"none"}))
def test_experiments_parse_at_both_scales(experiment: str) -> None:
    paper = parsed(f"experiment={experiment}")
    plan_of(paper)
    if experiment not in FILES | SMALL_RUNS:
        return
    if "_cooperative" in experiment:  # whose prompts are for models that chat
        with pytest.raises(ConfigError, match=r"needs model\.chat=true"):
            parsed(f"experiment={experiment}", "scale=small")
        return
    small = parsed(f"experiment={experiment}", "scale=small")
    assert (paper.experiment, paper.scale) == (experiment, "paper")
    assert (small.experiment, small.scale) == (experiment, "small")
    folder = experiment.partition("/")[0]
    # nothing of a small run is fetched from a hub
    assert small.model.path == f"asset:{small.model.name}"
    for member in small.members.values():
        assert member.model.path == f"asset:{member.model.name}"
    if paper.reward.name != "verifier":
        assert small.reward.name == paper.reward.name
    # judged by the answer, by a model that is shipped, or by one that another run has made
    path = getattr(small.reward, "path", "asset:")
    assert path.startswith(("asset:", "outputs/runs/small/paper/maporl/verifier_"))
    written_here = str(getattr(small.task, "path", "")).startswith("outputs/puzzles/")
    assert small.task.source in ("package", "generated", "list") or written_here
    assert small.hardware.device == "cpu"
    # what the experiment is about is what the paper's is
    same = set(SAME_AT_BOTH_SCALES.get(folder, ()))
    # ... but for what pilots chose (docs/results/index.md)
    if experiment.startswith("cory/imdb_"):
        same -= {"learning_rate", "kl_coef"}
        assert (small.algorithm.learning_rate, small.algorithm.kl_coef) == (4.2e-5, 0.03)
    elif folder == "cory":
        same.remove("learning_rate")
        assert small.algorithm.learning_rate == pytest.approx(3 * paper.algorithm.learning_rate)
    if paper.algorithm.iterations == 0:
        assert small.algorithm.iterations == 0  # untrained at every scale
    for key in same:
        assert getattr(small.algorithm, key, None) == getattr(paper.algorithm, key, None), key
    assert type(small.algorithm) is type(paper.algorithm)


# read above, by scale or fidelity, as part of others, or by something else than a run
ELSEWHERE = {
    *("experiment", "sweeps", "small", "medium", "released", "evaluation", "maft_rates", "debate"),
    *("diversity", "game", "endpoint", "instructions", "maft_prompts", "benchmarks", "paper"),
}
GROUPS = sorted({path.name for path in CONF.iterdir() if path.is_dir()} - ELSEWHERE)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_every_option_parses_and_has_its_name(group: str) -> None:
    names = set()
    for option in options(group):
        cfg = compose_config(f"{group}={option}", *NEEDED.get(f"{group}={option}", []))
        if f"{group}={option}" == "reward=exact_match":
            with pytest.raises(ConfigError, match="needs a task with answers"):
                cory.config.parse_config(cfg)
        else:
            cory.config.parse_config(cfg)
        if f"{group}.name" in leaves(cfg):
            names.add(cfg[group].name)
            assert option == cfg[group].name or option.startswith(f"{cfg[group].name}_")
    if table := TABLES.get(group):
        builders = [resolve_name(one.builder) for one in table.values()]
        assert names == set(table) and all(map(callable, builders))


OWN = "experiment=mine"


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """An override that makes `experiment=mine` known."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\n"
        "seed: 42\n"
        "samples_every: 7\n"
        "task: {source: hub}\n"
        "model: {special_tokens_in_text: false}\n"
        "algorithm: {kl_coef: 0.9, gamma: 0.5, value_coef: 0.7}\n"
    )
    return f"hydra.searchpath=[file://{tmp_path}]"


@pytest.mark.slow
def test_who_wins_over_whom(mine: str) -> None:
    ask = [mine, OWN]
    base, own = parsed(), parsed(*ask)
    # an experiment over conf/train.yaml and over the groups
    assert (base.seed, base.samples_every, base.algorithm.gamma) == (0, 10, 1.0)
    assert (own.seed, own.samples_every, own.algorithm.gamma) == (42, 7, 0.5)
    # fidelity and scale over the experiment, each only where it says something
    assert (own.algorithm.value_coef, own.task.source) == (0.7, "hub")
    changed = parsed(*ask, "fidelity=official", "scale=small")
    assert (changed.algorithm.value_coef, changed.task.source) == (0.05, "package")
    # scale over fidelity, which has 0.4
    assert (own.algorithm.kl_coef, changed.algorithm.kl_coef) == (0.9, 0.03)
    assert (changed.model.special_tokens_in_text, changed.algorithm.gamma) == (True, 0.5)
    # the command line over all of them, whatever the order
    typed = ["seed=7", "algorithm.kl_coef=0.05", "task.source=path", "model.path=here"]
    last = parsed(*typed, *ask, "fidelity=official", "scale=small", "model=gpt2_xl")
    assert (last.seed, last.algorithm.kl_coef, last.task.source) == (7, 0.05, "path")
    assert (last.model.name, last.model.path) == ("tiny_2x", "here")


@pytest.mark.slow
def test_without_an_experiment_options_have_their_own_values(mine: str) -> None:
    quick, ppo, paper = parsed().algorithm, parsed("algorithm=ppo").algorithm, parsed(mine, OWN)
    assert quick.learning_rate == ppo.learning_rate == 1.41e-4
    assert (quick.iterations, ppo.iterations, paper.algorithm.iterations) == (24, 24, 100)
    grpo, debate = parsed("algorithm=grpo").algorithm, parsed("algorithm=maporl").algorithm
    assert (grpo.learning_rate, grpo.kl_coef, grpo.prompts_per_iteration) == (1e-6, 0.04, 256)
    assert (debate.learning_rate, debate.kl_coef, debate.minibatch_size) == (1e-5, 0.002, 64)
    larger = parsed("model=gpt2_large")
    assert (larger.algorithm.kl_estimator, larger.algorithm.learning_rate) == ("full", 1.41e-5)
    # runs are named by what they are
    names = [one.experiment for one in (parsed("algorithm=ppo", "task=gsm8k_chat"), paper)]
    assert names == ["gsm8k_chat_ppo", "mine"]


@pytest.mark.parametrize(
    ("words", "reward"),
    [
        (["task=gsm8k_chat"], "exact_match"),
        (["task=taboo", "algorithm=spag"], "game_outcome"),
        (["task=prompts", "algorithm=maft"], "exact_match"),
        (["experiment=maporl/gsm8k_maporl"], "verifier"),
        (["experiment=cory/imdb_cory", "task=gsm8k"], "sentiment"),
        (["task=prompts"], "returned"),
    ],
)
def test_a_task_brings_its_reward_unless_one_is_chosen(words: list[str], reward: str) -> None:
    assert composed(*words).reward.name == reward


PROMPTS = ("task=prompts", "task.path=x", "reward=sentiment")


@pytest.mark.parametrize(
    ("words", "lengths", "prompt"),
    [
        ([], (4, 16), 8),
        # 256 tokens of context: a half for the prompt, a quarter for the answer
        ([*PROMPTS], (64, 64), 128),
        ([*PROMPTS, "algorithm=grpo", "model=gpt2_large"], (256, 256), 512),
        ([*PROMPTS, "algorithm.sampling.max_response_tokens=100"], (100, 100), 128),
        (["task=gsm8k_chat", "algorithm=maporl"], (300, 300), 384),
        (["algorithm=maporl", "algorithm.sampling.max_response_tokens=100"], (100, 100), 8),
        (["task=taboo", "algorithm=spag", "model=llama2_7b"], (256, 256), 1792),
        (["task=gsm8k", "algorithm=sft"], (256, 256), 384),
    ],
)
def test_lengths_are_the_tasks(words: list[str], lengths: tuple[int, int], prompt: int) -> None:
    config = parsed(*words)
    sampling = config.algorithm.sampling
    assert (sampling.min_response_tokens, sampling.max_response_tokens) == lengths
    assert config.task.max_prompt_tokens == prompt


def test_a_tenth_is_held_out_where_there_is_no_test_split() -> None:
    assert parsed(*PROMPTS).task.held_out_share == 0.1
    assert parsed(*PROMPTS, "task.test_split=test").task.held_out_share is None


def test_settings_hold_no_values() -> None:
    classes = [
        c for c in vars(cory.config).values() if isinstance(c, type) and issubclass(c, Settings)
    ]
    assert len(classes) > 8
    for config in classes:
        for name, field in config.model_fields.items():
            assert field.is_required(), f"{config.__name__}.{name}"


def test_where_there_is_no_evaluation_before_the_training() -> None:
    for word in ("evaluation.before=false", "algorithm.iterations=0"):
        assert parsed().evaluates_before and not parsed(word).evaluates_before


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("seed=3", "algorithm=ppo", "algorithm.kl_coef=1e-3", "experiment=cory/imdb_ppo"),
        ("+algorithm.more.still=1", "++seed=4", "~evaluation.probes"),
        ("evaluation.probes=[a,'b, c']", "task.observer_template='\"{answers}\" {query}'"),
        ("evaluation={prompts: 3}", "task.min_characters=${seed}", "hydra.job.name=x"),
        *((f"experiment={name}", "seed=3") for name in options("experiment")[::75]),
    ],
)
def test_values_are_set_as_hydra_sets_them(words: tuple[str, ...]) -> None:
    """Stored configs are those that Hydra would compose now."""
    compose_config(*words)
    stored, anew = compose_config(*words), compose(*run_for(words))
    assert stored == anew and OmegaConf.is_struct(stored)
    assert OmegaConf.to_yaml(stored) == OmegaConf.to_yaml(anew)


# scale=medium: a pretrained model that comes in a package, in place of GPT-2 Large
REVIEWS = [name for name in options("experiment") if name.startswith("cory/imdb_")]
SAME = ("iterations", "epochs", "kl_estimator", "swap_every", "knowledge_transfer", "advantages")


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [name for name in REVIEWS if name != "cory/imdb_ppo_xl"])
def test_a_real_model_without_a_hub(experiment: str) -> None:
    paper = parsed(f"experiment={experiment}")
    medium = parsed(f"experiment={experiment}", "scale=medium")
    chosen = parsed(f"experiment={experiment}", "scale=medium", "model=smollm2_135m")
    # as it is, but with the experiment's value head, and prompts that are no messages
    own = parsed("model=smollm2_135m").model
    own = own.replace(value_init=paper.model.value_init, chat=False)
    products = medium.model.compute_precision  # the CPU decides
    assert medium.model == chosen.model == own.replace(compute_precision=products)
    assert products == parsed(f"experiment={experiment}", "scale=small").model.compute_precision
    places = (medium.scale, medium.task.source, medium.reward.path, medium.hardware.device)
    assert places == ("medium", "package", "asset:tiny_sentiment", "cpu")
    assert type(medium.algorithm) is type(paper.algorithm)
    for key in SAME:
        assert getattr(medium.algorithm, key, None) == getattr(paper.algorithm, key, None), key
    assert (medium.algorithm.kl_coef, medium.algorithm.learning_rate) == (0.03, 4.2e-4)  # as frozen


def test_what_it_has_no_form_of_is_refused() -> None:
    with pytest.raises(MissingConfigException, match="Could not find 'medium/model/gpt2_xl'"):
        compose_config("experiment=cory/imdb_ppo_xl", "scale=medium")
