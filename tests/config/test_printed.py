"""Experiments have what printed.yaml says that papers print and released code has; presets."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from cory.config import parse_config, plan_of
from tests.support.composing import CONF, changed, composed, leaves, selected

PRINTED = yaml.safe_load((Path(__file__).parent / "printed.yaml").read_text())
# of a variant, beside those of algorithm
GROUPS = {"model", "task", "init_from", "evaluate_every"}


def of(experiment: str, *words: str) -> DictConfig:
    return composed(f"experiment={experiment}", *words)


def filled(text: str) -> dict[str, str]:
    """The text with each name of its holes -> the name of each hole, as `{x}` has them."""
    holes = dict.fromkeys(re.findall(r"{(\w+)}", text))
    names = [
        dict(zip(holes, own, strict=True)) for own in product(*map(PRINTED["names"].get, holes))
    ]
    return {text.format(**own): own for own in names}


def runs_of(one: str | list[str]) -> list[str]:
    return [run for text in ([one] if isinstance(one, str) else one) for run in filled(text)]


ROWS = [
    pytest.param(block, key, id=f"{block['about'][:20]}-{key}", marks=[pytest.mark.slow] * slow)
    for block in PRINTED["settings"]
    for slow in [block.get("slow", False)]
    for key in block["settings"]
]


@pytest.mark.parametrize(("block", "key"), ROWS)
def test_what_is_printed(block: dict[str, Any], key: str) -> None:
    value = block["settings"][key]
    each = value["each"] if isinstance(value, dict) else [value] * len(block["runs"])
    for runs, expected in zip(block["runs"], each, strict=True):
        for run in runs_of(runs):
            found = selected(of(run), key)
            assert expected == "-" or found == expected, run


def variants() -> dict[str, tuple[str, dict[str, Any]]]:
    """run -> another, and what differs."""
    found = {}
    for row in re.split(r"\n(?! )", PRINTED["variants"].strip()):
        run, base, words = re.split(" = | with ", " ".join(row.split()))
        for name, own in filled(run).items():
            settings = {}
            for word in words.format(**own).split():
                key, _, value = word.partition("=")
                key = key if key.split(".")[0] in GROUPS else f"algorithm.{key}"
                settings[key] = yaml.safe_load(value)
            found[name] = (base.format(**own), settings)
    return found


VARIANTS = variants()


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_differs_from_another_run_in_what_is_said(name: str) -> None:
    base, change = VARIANTS[name]
    assert changed(base, name) == change


# an experiment, the preset, and the files that say how the released code differs from the paper
PRESETS = [
    ("cory/imdb_cory", "official_cory", ("fidelity/official", "fidelity/official_cory")),
    ("cory/imdb_ppo", "official_ppo", ("fidelity/official", "fidelity/official_ppo")),
    ("maft/phi3_math_maft", "official_maft", ("fidelity/official_maft",)),
    ("maporl/gsm8k_maporl", "official_maporl", ("released/official_maporl_maporl",)),
    ("maporl/verifier_gsm8k", "official_maporl", ("released/official_maporl_verifier",)),
    ("spag/llama2_im", "official_spag", ("released/official_spag_imitation",)),
    (
        *("spag/llama2_spag_1", "official_spag"),
        ("released/official_spag_imitation", "released/official_spag_spag"),
    ),
]
# those of other runs, of the same fidelity
OF_RUNS = {"fidelity", "init_from", "reward.path", "algorithm.opponents.im"}


@pytest.mark.parametrize(("experiment", "preset", "files"), PRESETS)
def test_a_preset_changes_what_its_files_say_and_nothing_else(experiment, preset, files) -> None:
    said = leaves(OmegaConf.merge(*(OmegaConf.load(CONF / f"{file}.yaml") for file in files)))
    said.pop("defaults", None)
    plain, other = (of(experiment, *more) for more in ((), (f"fidelity={preset}",)))
    parse_config(other)
    before, after = leaves(plain), leaves(other)
    assert {key: after[key] for key in said} == said
    assert {key for key in before if after[key] != before[key]} <= said.keys() | OF_RUNS


@pytest.mark.slow
@pytest.mark.parametrize("model", ["llama2", "baichuan2"])
def test_the_chain_of_stages_of_spag(model: str) -> None:
    """Imitation of 30,000 games; then, three times, 50,000 games of the model of before."""
    start = {"im": None, "spag_1": "im", "spag_2": "spag_1", "spag_3": "spag_2"}
    for stage, before in start.items():
        cfg = of(f"spag/{model}_{stage}")
        name = before and f"outputs/runs/paper/paper/spag/{model}_{before}/seed0"
        assert cfg.init_from == name
        algorithm = parse_config(cfg).algorithm
        assert algorithm.games_per_epoch == (30_000 if stage == "im" else 49_500)  # less stop words
        assert algorithm.iterations == algorithm.per_epoch  # one set of games
        if stage not in ("im", "spag_1"):
            found = changed(f"spag/{model}_spag_1", f"spag/{model}_{stage}")
            assert found.keys() == {"init_from"}


@pytest.mark.slow
def test_numbers_of_spag_that_follow_from_settings() -> None:
    """128 utterances a step on eight GPUs; App. E's games; Alpaca's epochs; fig. 3a's games."""
    for stage in ("im", "spag_1"):
        config = parse_config(of(f"spag/llama2_{stage}"))
        plan = plan_of(config)
        assert (config.hardware.world, plan.microbatch, plan.accumulation) == (8, 2, 8)
    sizes = {"im_20q": 20_000, "im_city": 20_000, "sp_20q": 10_000, "sp_city": 10_000}
    for stage, games in (sizes | {"im_words_1k": 1000, "im_words_20k": 20_000}).items():
        assert parse_config(of(f"spag/llama2_{stage}")).algorithm.games_per_epoch == games
    for epochs in (1, 2, 3):
        algorithm = parse_config(of(f"spag/llama2_alpaca_{epochs}")).algorithm
        assert algorithm.iterations * algorithm.instructions.per_iteration == 52_000 * epochs


def test_the_released_chain_of_spag_is_a_sweep() -> None:
    """Each stage of sweep=spag/fig4r starts from a run of the same fidelity."""
    before = None
    for stage in ("im", "spag_1", "spag_2", "spag_3"):
        cfg = of(f"spag/llama2_{stage}", "fidelity=official_spag")
        parse_config(cfg)
        assert cfg.init_from == before
        before = f"outputs/runs/paper/official_spag/spag/llama2_{stage}/seed0"


@pytest.mark.parametrize("scale", ["paper", "small"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_quarter_of_the_rate_is_all_that_differs(n: int, scale: str) -> None:
    names = [f"spag/llama2_spag_{n}{end}" for end in ("", "_quarter")]
    whole, quarter = (of(name, f"scale={scale}") for name in names)
    assert whole.algorithm.learning_rate == {"paper": 2e-6, "small": 4e-4}[scale]
    assert quarter.algorithm.learning_rate == whole.algorithm.learning_rate / 4
    before = "im" if n == 1 else f"spag_{n - 1}_quarter"
    assert quarter.init_from.endswith(f"/llama2_{before}/seed0")
    stages = ["im", *(f"spag_{k}_quarter" for k in range(1, n))]
    opponents = {name: run for name, run in quarter.algorithm.opponents.items() if name in stages}
    assert list(opponents) == stages
    assert all(run.endswith(f"/llama2_{name}/seed0") for name, run in opponents.items())
    found = changed(*names, f"scale={scale}")
    assert all(key.startswith(("algorithm.learning", "algorithm.opp", "init_")) for key in found)


@pytest.mark.parametrize("model", ["phi3", "mistral", "llama3"])
def test_a_step_learns_from_one_answer_whatever_the_processes(model: str) -> None:
    config = parse_config(of(f"maft/{model}_math_maft"))
    plan = plan_of(config)
    assert (plan.microbatch, plan.accumulation, config.hardware.world) == (1, 1, 8)


MEASURED = {
    "algorithm.iterations": 5,
    "evaluate_every": 1,
    "algorithm.diversity.encoder": "google-t5/t5-3b",  # App. C: "T5-3B"
    "algorithm.diversity.scorer": "google/gemma-2-2b",  # "Gemma-2 (2B)"
    "algorithm.diversity.kl_to_base": True,
    "algorithm.diversity.nll_others": True,
}


@pytest.mark.parametrize("kind", ["maft", "single"])
@pytest.mark.parametrize("model", ["phi3", "mistral", "llama3"])
def test_iterations_are_evaluated_with_the_papers_models(model: str, kind: str) -> None:
    name = f"{model}_math_{'' if kind == 'maft' else 'single_'}iters"
    found = changed(f"maft/{model}_math_{kind}", f"maft/{name}")
    assert found.items() >= MEASURED.items()
    assert all(key in MEASURED or key.startswith("algorithm.diversity.") for key in found)


@pytest.mark.slow
def test_agents_that_cooperate_have_words_of_their_own() -> None:
    words = OmegaConf.load(CONF / "maft_prompts" / "cooperative.yaml")
    own = {f"algorithm.prompts.{key}": words[key]
           for key in ("follow_up", "follow_up_summary", "chats_only")}  # fmt: skip
    for task, end in product(("arithmetic", "gsm", "math"), ("", "_maft")):
        name = f"maft/phi3_{task}_cooperative{end}"
        assert changed(f"maft/phi3_{task}{end or '_base'}", name) == own


def test_experiments_of_each_method_are_phi_3s_on_arithmetic() -> None:
    for method in ("maft", "base", "star", "majority_ft", "single"):
        assert changed(f"maft/phi3_arithmetic_{method}", f"maft/{method}") == {}


def test_adapters_are_fine_tuned_instead_of_copies() -> None:
    found = changed("maft/phi3_math_maft", "maft/phi3_math_adapters")
    assert found["model.sharing"] == "adapters"
    rates = ("learning_rate", "critic_learning_rate", "later_learning_rate")
    training = {key for key in found if key.startswith(("algorithm.", "task.", "evaluation."))}
    assert training == {f"algorithm.{rate}" for rate in rates}


def test_the_verifier_of_maporls_released_code() -> None:
    """utils/reward_model.py: the loss is a mean over answers of means over tokens."""
    cfg = of("maporl/verifier_gsm8k", "fidelity=official_maporl")
    parse_config(cfg)
    assert cfg.algorithm.average == "responses"
    debates = of("maporl/gsm8k_maporl", "fidelity=official_maporl")
    verifier = "outputs/runs/paper/official_maporl/maporl/verifier_gsm8k/seed0/agents/verifier"
    assert debates.reward.path == verifier


@pytest.mark.parametrize("task", ["gsm8k", "anli"])
def test_maporl_debates_each_question_once_and_starts_from_untrained_debaters(task: str) -> None:
    config = parse_config(of(f"maporl/{task}_maporl"))
    algorithm = config.algorithm
    assert algorithm.iterations * algorithm.prompts_per_iteration == 12_800
    assert algorithm.turns_per_policy() == 8 * algorithm.minibatch_size
    # all seven projections have adapters; Phi-3 joins three and two of them
    layers = {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
    assert {*(config.model.adapter.targets or [])} == layers
    found = changed(f"maporl/{task}_maporl", f"maporl/{task}_untrained")
    assert {key for key in found if not key.startswith("reward.")} == {"algorithm.iterations"}
    assert of(f"maporl/{task}_untrained").algorithm.iterations == 0


@pytest.mark.parametrize(
    ("name", "partner"),
    [("qwen", "Qwen/Qwen2.5-3B-Instruct"), ("llama", "meta-llama/Meta-Llama-3-8B-Instruct")],
)
def test_pairs_of_different_models(name: str, partner: str) -> None:
    cfg = of(f"maporl/gsm8k_hetero_{name}")
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
    assert of("maporl/gsm8k_maporl_zero", "scale=small").model.value_init == "zero"
    small = changed("maporl/gsm8k_maporl_zero", f"maporl/gsm8k_{design}", "scale=small")
    assert small == changed("maporl/gsm8k_maporl", f"maporl/gsm8k_{design}") != {}
