"""What scripts/memory.py prints: hours by hand, estimates, mistakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cory.memory import parts_of
from cory.models.loading import skeleton
from scripts import memory
from scripts.memory import GPUS, estimated_hours, turns_of
from tests.support.building import SMALL
from tests.support.composing import parsed

H100 = GPUS["h100"]
MAFT = ("experiment=maft/phi3_arithmetic_maft", "algorithm.epochs=2", "algorithm.critic_epochs=5")


@pytest.mark.parametrize(
    ("words", "said", "learned"),
    [
        (("algorithm=ppo", "algorithm.epochs=3"), 1, 3),
        (("algorithm=cory", "algorithm.agents=3", "algorithm.epochs=4"), 3, 12),
        (("experiment=maporl/gsm8k_maporl_exact", "algorithm.epochs=2"), 6, 12),
        ((*MAFT, "algorithm.agents=3", "algorithm.turns=4"), 12, 3 * (2 + 5)),
        (("experiment=maporl/verifier_gsm8k", "algorithm.answers_per_question=7",
          "algorithm.keep_per_label=2", "algorithm.epochs=3"), 7, 12),
        (("experiment=spag/llama2_spag_1", "task.max_turns=5", "algorithm.epochs=2"), 10, 10),
        (("experiment=spag/llama2_im", "task.max_turns=5", "algorithm.epochs=2"), 0, 10),
    ],
)  # fmt: skip
def test_turns_of_a_prompt(words: tuple[str, ...], said: int, learned: int) -> None:
    assert turns_of(parsed(*words)) == (said, learned)


def test_hours_by_hand() -> None:
    config = parsed(
        *SMALL,
        "hardware=gpu1", "algorithm.iterations=10", "algorithm.epochs=3", "evaluate_every=0",
        "evaluation.before=false", "hardware.generation_batch_size=4",
    )  # fmt: skip
    weights = skeleton(config.model.path, "model.path", None).num_parameters()
    (cache,) = (part.bytes for part in parts_of(config) if part.what == "KV cache")
    # 80 prompts, two agents: sampled (2), read by policy and reference (4), learned thrice (6);
    # 8 held-out prompts are answered by both; each turn has (4 + 14) / 2 + 6 tokens
    turns = 80 * (6 * 2 + 6 * 2 * 3) + 2 * 8 * 2
    computing = turns * 15 * weights / (0.3 * 67e12)
    # batches of 4 rows, with 6 tokens each
    passes = 6 * (10 * 2 * 2 + 2 * 2)
    each = (4 * weights + cache / 2) / (0.6 * 3.35e12) + 4 * 1.2e-3
    hours = estimated_hours(config, H100)
    assert hours == pytest.approx((computing + passes * each) / 3600, rel=1e-3)
    twice = estimated_hours(config, replace(H100, fp32=2 * 67e12))
    assert hours - twice == pytest.approx(computing / 2 / 3600, rel=1e-3)


def test_the_command_prints_estimates_or_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory, "GPUS", {"h100": H100})  # for others the same is computed again
    monkeypatch.setattr(memory, "LAYOUTS", ("gpu1", "gpu4_zero2"))
    monkeypatch.setattr("sys.argv", ["memory.py", "experiment=cory/gsm8k_cory"])
    memory.main()
    out = capsys.readouterr().out
    assert out.startswith("ESTIMATE for each of 4 processes, GiB: model=llama2_7b_chat (bf16, ")
    # 6.476e9 weights at half a byte and 1/64 for scales, 0.262e9 at two bytes: 3.60 GiB
    assert "  base, frozen                                 3.60  always\n" in out
    monkeypatch.setattr("sys.argv", ["memory.py", "algorithm.clip_range=5"])
    with pytest.raises(SystemExit):
        memory.main()
    assert capsys.readouterr().err.startswith("error: algorithm.clip_range=5: Input should")
