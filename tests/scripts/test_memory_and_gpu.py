"""scripts/memory.py and scripts/gpu.py: hours by hand, estimates, limits of time, numbers."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cory.config import parse_config
from cory.memory import parts_of
from cory.models.loading import skeleton
from cory.runtime.hydra_setup import compose
from scripts import gpu, memory
from scripts.gpu import Session, Work, measured, of_run, run_part, table
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


def test_the_command_prints_estimates_or_one_line(monkeypatch, capsys) -> None:
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


@pytest.mark.parametrize(("algorithm", "asked"), [("grpo", 128), ("cory", 64)])
def test_our_runs_do_the_work_that_is_said(algorithm: str, asked: int, tmp_path: Path) -> None:
    command = Work().ours(algorithm, False, Path("asset:tiny"), tmp_path)
    assert command[:3] == [sys.executable, "-m", "cory.train"]
    config = parse_config(compose(*command[3:]))
    own, sampling = config.algorithm, config.algorithm.sampling
    assert config.hardware.cuda_graphs is False
    assert (own.name, own.prompts_per_iteration, own.epochs) == (algorithm, asked, 1)
    assert own.minibatch_size == config.hardware.microbatch_size == asked // 4
    assert sampling.min_response_tokens == sampling.max_response_tokens == 128
    if algorithm == "grpo":
        assert (own.samples_per_prompt, own.kl_coef, own.learning_rate) == (8, 0.04, 1e-6)
    assert (config.model.adapter.rank, config.model.adapter.alpha) == (16, 32)


def test_a_part_ends_well_or_is_written_down(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(gpu, "SHORTEST_S", 0.1)
    session = Session(tmp_path / "gpu.json", Work(), 60)
    session.add("well", [sys.executable, "-c", "print(1)"])
    session.add("wrong", [sys.executable, "-c", "import sys; print('why'); sys.exit(3)"])
    echo = "import sys; print(sys.stdin.read().count('\\n'))"
    session.add("a line for each iteration", [sys.executable, "-c", echo])
    session.add("nothing", [sys.executable, "-c", "print('{}')"], gpu.of_trl)
    late = run_part(["sh", "-c", "echo 1; sleep 9"], 0.6)
    session.limit_s = 0
    session.add("left out", ["never"])
    parts = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    ended = [part["ended"].partition(":")[0] for part in parts.values()]
    assert parts["a line for each iteration"]["said"] == "3\n"
    assert ended == ["well", "with 3", "well", "without numbers", "no time was left"]
    assert parts["wrong"]["said"] == "why\n"
    assert (late["ended"], late["said"]) == ("late, after 1 s", "1\n")
    assert late["wall_s"] < 5  # what it started ended with it


def test_numbers_of_a_run_and_their_ratio(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    times = [{"time/iteration_s": s, "time/rollout_s": s / 2} for s in (99, 2, 4)]
    said = [{"rollout/response_tokens/a": 8, "rollout/response_tokens/b": n} for n in (1, 4, 8)]
    for name, rows in (("times.jsonl", times), ("metrics.jsonl", said)):
        (tmp_path / "run" / name).write_text("\n".join(map(json.dumps, rows)))
    record = {"peak_memory_gib": 1.5, "device": "d", "packages": {}, "commit": "c", "began": "b"}
    (tmp_path / "run" / "record.json").write_text(json.dumps(record))
    ours = measured({"ended": "well"}, of_run(tmp_path, Work(responses=16)))
    assert ours["iteration_s"] == 3  # the first iteration is not counted
    assert ours["tokens_per_s"] == (6 * 16 / 1 + 8 * 16 / 2) / 2
    lines = [
        [s, {"rollout_s": 2, "tokens": n, "peak_gib": s}] for s, n in ((50, 9), (5, 4), (7, 8))
    ]
    said = "\n".join(["a warning", *(gpu.ANSWER + json.dumps(line) for line in lines)])
    theirs = measured({"ended": "well"}, gpu.of_trl(said))
    assert (theirs["iteration_s"], theirs["tokens_per_s"], theirs["peak_gib"]) == (6, 3, 7)
    rows = table({"1B grpo": ours, "1B TRL": theirs, "2B grpo": ours, "2B TRL": {"ended": "late"}})
    assert "| 1B grpo | well | 3.00 | 0.50 | 80 | 1.5 |" in rows
    assert "| 2B grpo | well | 3.00 | - | 80 | 1.5 |" in rows
