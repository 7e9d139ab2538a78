"""What SPAG's paper prints of its settings and its released code has, as experiments have it."""

import pytest
from omegaconf import DictConfig, OmegaConf

from cory.config import parse_config, plan_of
from tests.support.composing import changed, composed, selected

MODELS = ("llama2", "baichuan2")
IMITATION, SELF_PLAY, ALPACA = "im", "spag_1", "alpaca_1"

SECTION_4_1 = {  # Cheng et al., section 4.1: imitation, self-play, Alpaca; None: does not apply
    "learning rate": ("algorithm.learning_rate", (5e-6, 2e-6, 2e-6)),
    "beta_1, beta_2": ("algorithm.kl_coef", (0.1, 0.2, None)),
    "alpha": ("algorithm.instructions_coef", (None, 0.5, 1.0)),
    "instructions beside the games": (
        "algorithm.instructions.per_iteration",
        (0, 1040, 1040),  # 52,000 of them in 50 iterations
    ),
    "batch size": ("algorithm.minibatch_size", (128, 128, 128)),
    "epochs": ("algorithm.epochs", (1, 1, 1)),
    "gamma": ("algorithm.decay", (None, 0.8, None)),
    "maximal turns": ("task.max_turns", (5, 5, 5)),
    "... of GPT-4's games": ("task.collected_turns", ([3, 8], None, None)),
    "words": ("task.train_words", (30_000, None, None)),
    "test words": ("task.test_words", (168, 168, 168)),
    "words of two letters": ("task.min_letters", (2, 2, 2)),
    "instructions": ("algorithm.instructions.path", ("tatsu-lab/alpaca",) * 3),
    "longest sequence": ("algorithm.instructions.max_tokens", (2048, 2048, 2048)),
    "only winners (xi)": ("algorithm.threshold", (None, 0.0, None)),
    "1/T in eq. 8; one KL in eq. 12": ("algorithm.average", ("game", "game", None)),
    "both roles weigh the same": ("algorithm.role_weights", (True, True, None)),
    "no clipping in eq. 12": ("algorithm.clip_range", (None, None, None)),
    "games": ("algorithm.games", ("endpoint", "self_play", "none")),
    "teacher": ("algorithm.endpoint.model", ("gpt-4",) * 3),
    "no LoRA": ("model.sharing", ("copies",) * 3),
    "... nor 4 bits": ("model.quantisation", ("none",) * 3),
    # the paper prints 2048 for both together; the released code's command splits them
    "most tokens of an utterance": ("algorithm.sampling.max_response_tokens", (256,) * 3),
    "... of a context": ("task.max_prompt_tokens", (2048 - 256,) * 3),
}
NAMES = {"llama2": "meta-llama/Llama-2-7b-hf", "baichuan2": "baichuan-inc/Baichuan2-13B-Base"}


def of(name: str, *words: str) -> DictConfig:
    return composed(f"experiment=spag/{name}", *words)


@pytest.mark.parametrize("row", SECTION_4_1)
def test_settings_of_section_4_1(row: str) -> None:
    key, printed = SECTION_4_1[row]
    for model in MODELS:
        for stage, value in zip((IMITATION, SELF_PLAY, ALPACA), printed, strict=True):
            if (model, stage, key) == ("baichuan2", IMITATION, "algorithm.games"):
                continue  # it imitates the games that Llama-2's run has collected
            found = OmegaConf.select(of(f"{model}_{stage}"), key)
            if value is not None or key in ("task.collected_turns", "algorithm.clip_range"):
                assert found == value, (model, stage)


@pytest.mark.parametrize("model", MODELS)
def test_models(model: str) -> None:
    for stage in (IMITATION, SELF_PLAY, ALPACA, "base"):
        assert of(f"{model}_{stage}").model.path == NAMES[model]


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_the_chain_of_stages(model: str) -> None:
    """Imitation of 30,000 games; then, three times, 50,000 games of the model of before."""
    run = "outputs/runs/paper/paper/spag/{}/seed0"
    start = {IMITATION: None, "spag_1": IMITATION, "spag_2": "spag_1", "spag_3": "spag_2"}
    for stage, before in start.items():
        config = parse_config(of(f"{model}_{stage}"))
        name = None if before is None else run.format(f"{model}_{before}")
        assert of(f"{model}_{stage}").init_from == name
        games = config.algorithm.games_per_epoch
        assert games == (30_000 if stage == IMITATION else 49_500)  # without stop words
        assert config.algorithm.iterations == config.algorithm.per_epoch  # one set of games
        if stage not in (IMITATION, "spag_1"):
            found = changed(f"spag/{model}_spag_1", f"spag/{model}_{stage}")
            assert found.keys() == {"init_from"}


@pytest.mark.slow
def test_a_step_learns_from_128_utterances_on_eight_gpus() -> None:
    for stage in (IMITATION, SELF_PLAY):
        config = parse_config(of(f"llama2_{stage}"))
        plan = plan_of(config)
        assert (config.hardware.world, plan.microbatch, plan.accumulation) == (8, 2, 8)


@pytest.mark.parametrize(
    ("base", "name", "change"),
    [
        ("im", "im_kl_005", {"kl_coef": 0.05}),
        ("spag_1", "spag_kl_0", {"kl_coef": 0.0}),
        ("spag_1", "spag_sft_025", {"instructions_coef": 0.25}),
    ],
)
def test_figures_3b_3d_and_3e_vary_a_coefficient(
    base: str, name: str, change: dict[str, float]
) -> None:
    """Of the games that the run itself has collected."""
    games = f"outputs/runs/paper/paper/spag/llama2_{base}/seed0/games/epoch_000.jsonl"
    expected = {f"algorithm.{key}": value for key, value in (change | {"games": games}).items()}
    assert changed(f"spag/llama2_{base}", f"spag/llama2_{name}") == expected


@pytest.mark.parametrize("thousands", [1, 2, 3, 5, 10, 15, 20])
def test_figure_3a_varies_the_words_of_imitation(thousands: int) -> None:
    name = f"llama2_im_words_{thousands}k"
    assert of(name).task.train_words == thousands * 1000
    assert parse_config(of(name)).algorithm.games_per_epoch == thousands * 1000


@pytest.mark.slow
@pytest.mark.parametrize(("game", "name"), [("20q", "twenty_questions"), ("city", "guess_my_city")])
def test_appendix_e(game: str, name: str) -> None:
    """20,000 games are imitated, 10,000 played; 20 rounds."""
    for stage, games in ((f"llama2_im_{game}", 20_000), (f"llama2_sp_{game}", 10_000)):
        config = parse_config(of(stage))
        assert config.task.name == name and config.task.max_turns == 20
        assert config.algorithm.games_per_epoch == games


@pytest.mark.slow
def test_alpaca_for_one_two_and_three_epochs() -> None:
    for epochs in (1, 2, 3):
        algorithm = parse_config(of(f"llama2_alpaca_{epochs}")).algorithm
        assert algorithm.iterations * algorithm.instructions.per_iteration == 52_000 * epochs


# The released code, GitHub Linear95/SPAG: setting -> value, and the place that it comes from. What
# it has otherwise is in conf/released.
RELEASED = {
    "algorithm.sampling.temperature": (1.2, "tools/play_llm_game.py:136"),
    "algorithm.sampling.top_p": (1.0, "tools/play_llm_game.py:134; GenerationConfig's default"),
    "algorithm.kl_estimator": ("weighted", "trainers.py:66, and 110 with 111"),
    "algorithm.final_share": (0.0, "WarmupDecayLR ends at 0"),
    "algorithm.weight_decay": (0.0, "README.md:49 and 124"),
    "model.precision": ("bf16", "README.md:52"),
    "hardware.gradient_checkpointing": (True, "README.md:51"),
    "hardware.zero_stage": (3, "README.md:50"),
    "hardware.offload_optimizer": (True, "README.md:50"),
}


@pytest.mark.parametrize("stage", [IMITATION, SELF_PLAY])
def test_settings_of_the_released_code(stage: str) -> None:
    cfg = of(f"llama2_{stage}")
    assert {key: (selected(cfg, key), RELEASED[key][1]) for key in RELEASED} == RELEASED


def test_the_released_chain_is_a_sweep() -> None:
    """Each stage of sweep=spag/fig4r starts from a run of the same fidelity."""
    before = None
    for stage in ("im", "spag_1", "spag_2", "spag_3"):
        cfg = of(f"llama2_{stage}", "fidelity=official_spag")
        parse_config(cfg)
        assert cfg.init_from == before
        before = f"outputs/runs/paper/official_spag/spag/llama2_{stage}/seed0"


@pytest.mark.parametrize("scale", ["paper", "small"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_quarter_of_the_rate_is_all_that_differs(n: int, scale: str) -> None:
    whole, quarter = (of(f"llama2_spag_{n}{end}", f"scale={scale}") for end in ("", "_quarter"))
    assert whole.algorithm.learning_rate == {"paper": 2e-6, "small": 4e-4}[scale]
    assert quarter.algorithm.learning_rate == whole.algorithm.learning_rate / 4
    before = "im" if n == 1 else f"spag_{n - 1}_quarter"
    assert quarter.init_from.endswith(f"/llama2_{before}/seed0")
    stages = ["im", *(f"spag_{k}_quarter" for k in range(1, n))]
    opponents = {name: run for name, run in quarter.algorithm.opponents.items() if name in stages}
    assert list(opponents) == stages
    assert all(run.endswith(f"/llama2_{name}/seed0") for name, run in opponents.items())
    whole.algorithm.learning_rate = quarter.algorithm.learning_rate
    whole.algorithm.opponents = quarter.algorithm.opponents
    assert whole.algorithm == quarter.algorithm and whole.task == quarter.task
