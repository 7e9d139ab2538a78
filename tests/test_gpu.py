"""Ways of running on a GPU, each beside the CPU or the plain way: `make test-gpu`.

The first iteration samples with random numbers that are drawn on the CPU, so in float32 both
devices say the same, and learn the same from it in two passes: every number agrees but for
rounding. In bfloat16 and 4 bits a few tokens differ; there the log-probabilities of sampling and of
training have to be close, and the update has to move the policy.
"""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from cory.models.bundle import ModelBundle
from cory.models.loading import load_tokenizer
from tests.support.commands import FAILS_ONCE, Command, last_wins, metrics
from tests.support.composing import ConfigOf

GPU = "hardware=gpu1"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

RUN = [
    *("algorithm=ppo", "algorithm.iterations=2", "algorithm.prompts_per_iteration=16"),
    *("algorithm.minibatch_size=16", "algorithm.epochs=2", "algorithm.learning_rate=3e-4"),
    "algorithm.kl_estimator=full",
    "algorithm.value_coef=0.01",  # else the gradient's norm is that of the value head
    *("algorithm.sampling.min_response_tokens=16", "algorithm.sampling.max_response_tokens=16"),
    *("task.max_prompt_tokens=8", "model.compute_precision=${model.precision}"),
    "hardware.keep_whole_below=0",  # else ZeRO-3 splits nothing of a small model
    *("hardware.microbatch_size=8", "evaluation.prompts=1", "evaluation.before=false"),
]
PLAIN = "hardware.cuda_graphs=false"  # else passes of a token are recorded
OFFLOAD = "hardware.zero_stage=3 hardware.offload_optimizer=true hardware.offload_parameters=true"
ONE_BASE = "algorithm=cory model.sharing=adapters"
LORA_RATE = "algorithm.learning_rate=1e-2"
# of a number of the first iteration in float32; Adam's first step follows the sign of gradients,
# and rounding turns the sign of small ones around
RELATIVE, ABSOLUTE = 1e-2, 1e-3
GAP = "objective/sampler_gap_p99/"  # between sampling and training; a bound of the p99 in nats
GAPS = {"fp32": 5e-4, "rounded": 0.25}
# rounding itself, a ratio of small variances, and shares of tokens past a bound that one may lie at
SHARES = ("ppo/policy/clipfrac/", "ppo/value/clipfrac/", "ppo/policy/passed_over/")
NOT_COMPARED = ("objective/sampler_gap", "ppo/value/explained_variance", *SHARES)
EXACT = {
    "copies": "",
    "plain passes": PLAIN,
    "ZeRO 1": "hardware.zero_stage=1",
    "ZeRO 2": "hardware.zero_stage=2",
    "ZeRO 3": "hardware.zero_stage=3",
    "ZeRO 3, everything offloaded": OFFLOAD,
    "two agents on one base": f"{ONE_BASE} {LORA_RATE}",
    "two agents on one base, ZeRO 3": f"{ONE_BASE} {LORA_RATE} hardware.zero_stage=3",
}
ROUNDED = {
    "bf16": "model.precision=bf16",
    "mixed precision, ZeRO 2": "model.compute_precision=bf16 hardware.zero_stage=2",
    "4 bits": f"{ONE_BASE} {LORA_RATE} model.quantisation=nf4 model.precision=bf16",
}


def run(folder: Path, name: str, *words: str) -> list[dict[str, Any]]:
    """The metrics of each iteration of a run in the folder's directory `name`."""
    settings = last_wins([*RUN, *words, f"run_dir={folder / name}"])
    command = Command(folder, ["-m", "cory.train", *settings])
    assert command.wait(600) == 0, command.err
    return metrics(folder / name)


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The first iteration on the CPU, of one agent and of two."""
    folder = tmp_path_factory.mktemp("cpu")
    words = {"one": "", "two": f"{ONE_BASE} {LORA_RATE}"}
    return {name: run(folder, name, "hardware=cpu", *w.split())[0] for name, w in words.items()}


def require_alike(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """AssertionError where the numbers of an iteration differ by more than rounding does."""
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        if not key.startswith(NOT_COMPARED):
            assert ours[key] == pytest.approx(value, rel=RELATIVE, abs=ABSOLUTE), key


def require_learning(rows: list[dict[str, Any]], gap: float) -> None:
    """AssertionError unless the run's policies moved, and are trained as they were sampled.

    gap: of log-probabilities, in nats, at most
    """
    first, second = rows
    assert all(math.isfinite(value) for row in rows for value in row.values())
    policies = [key.removeprefix(GAP) for key in first if key.startswith(GAP)]
    assert policies
    for name in policies:
        assert first[GAP + name] < gap and second[GAP + name] < gap, name
        assert first[f"ppo/gradient_norm/{name}"] > 0, name
        assert abs(first[f"objective/kl_k3/{name}"]) < gap / 10, name
        assert second[f"objective/kl_k3/{name}"] > 1e-3, name


@pytest.mark.parametrize("case", EXACT)
def test_float32_gives_the_numbers_of_the_cpu(on_the_cpu, case: str, tmp_path) -> None:
    rows = run(tmp_path, "run", GPU, *EXACT[case].split())
    require_alike(rows[0], on_the_cpu["two" if "two" in case else "one"])
    require_learning(rows, GAPS["fp32"])


@pytest.mark.parametrize("case", ROUNDED)
def test_lower_precision_samples_and_learns(case: str, tmp_path: Path) -> None:
    require_learning(run(tmp_path, "run", GPU, *ROUNDED[case].split()), GAPS["rounded"])


def test_recorded_passes_of_a_model_with_a_sliding_window(tmp_path: Path) -> None:
    """Its window is shorter than prompt and response together."""
    torch.manual_seed(0)
    tokenizer = load_tokenizer("asset:tiny", "model.path")
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 8}
    end = {"bos_token_id": tokenizer.eos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = MistralConfig(
        vocab_size=len(tokenizer), initializer_range=0.2, max_position_embeddings=512,
        **sizes, **heads, **end,
    )  # fmt: skip
    model = tmp_path / "model"
    MistralForCausalLM(config).save_pretrained(model)
    tokenizer.save_pretrained(model)
    plain = run(tmp_path, "plain", GPU, f"model.path={model}", PLAIN)
    recorded = run(tmp_path, "recorded", GPU, f"model.path={model}", "hardware.cuda_graphs=true")
    require_alike(recorded[0], plain[0])
    require_learning(recorded, GAPS["fp32"])


def test_a_model_that_waits_for_the_gpu_is_not_recorded(config_of: ConfigOf) -> None:
    """Torch draws random numbers after it was tried, as after no recording that failed."""
    device = torch.device("cuda")
    bundles = [ModelBundle(config_of().model, device) for _ in range(2)]
    assert bundles[0].recordable(bundles[0].pretrained, must=True)
    waiting = bundles[1].pretrained

    def wait(_: object, __: object, embedded: torch.Tensor) -> None:
        embedded.sum().item()

    waiting.get_input_embeddings().register_forward_hook(wait)
    assert not bundles[1].recordable(waiting, must=False)
    assert torch.rand(2, device=device).isfinite().all()


def test_a_resumed_run_gives_the_numbers_of_one_start(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FAILS_ONCE)
    words = (GPU, "algorithm=cory", "reward=python", "reward.function=mine.py:score")
    words = (*words, "algorithm.iterations=4", "checkpoint_every=1")
    whole = run(tmp_path, "whole", *words)
    (tmp_path / "fails").touch()
    with pytest.raises(AssertionError, match="it fails once"):
        run(tmp_path, "halves", *words)
    halves = run(tmp_path, "halves", *words)
    trained = [{k: v for k, v in row.items() if "eval/" not in k} for row in halves]
    assert trained == [{k: v for k, v in row.items() if "eval/" not in k} for row in whole]
