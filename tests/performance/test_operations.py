"""Operations of iterations: torch's counter against sums by hand, phase by phase."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from cory.config import Config, parse_config
from cory.performance import workload
from cory.performance.operations import operations_by_phase
from cory.performance.workload import Workload
from cory.performance.workloads import PRECISIONS, WORKLOADS
from cory.trainers.clock import Clock
from tests.support.commands import last_wins

ROWS, PROMPT, NEW, EPOCHS = 8, 6, 16, 4
LAYERS, WIDTH, HEADS = 2, 32, 2  # of the random model
SMALL = [f"algorithm.prompts_per_iteration={ROWS}", f"algorithm.minibatch_size={ROWS}"]


@pytest.fixture(autouse=True)
def in_this_process(config_of: Callable[..., Config], monkeypatch: pytest.MonkeyPatch) -> None:
    """The process group of these tests is there already."""
    monkeypatch.setattr(workload, "start_process_group", lambda device: None)


@pytest.mark.parametrize("backward", [False, True])
def test_attention_on_a_cpu_counts(backward: bool) -> None:
    """Two products of (5 x 8) by (8 x 5) in each of 2 x 3 heads; backward five of them."""
    query, key, value = torch.randn(3, 2, 3, 5, 8, requires_grad=True).unbind()
    with operations_by_phase() as found:
        clock = Clock()
        attended = scaled_dot_product_attention(query, key, value)
        clock.lap("forward")
        if backward:
            attended.sum().backward()
            clock.lap("backward")
    one = 2 * 6 * 5 * 8 * 5
    assert found == {"forward": 2 * one} | ({"backward": 5 * one} if backward else {})


def test_a_phase_counts_what_happened_in_it() -> None:
    left, right = torch.randn(3, 4), torch.randn(4, 5)
    with operations_by_phase() as found:
        clock = Clock()
        left @ right
        clock.lap("rollout_s")
        left @ right
        left @ right
        clock.lap("update_s")
        clock.lap("rollout_s")
        left @ right
        clock.lap("rollout_s")
    assert found == {"rollout_s": 2 * 120, "update_s": 2 * 120}
    assert set(clock.seconds) == set(found)  # times are still taken
    clock.lap("later")
    assert "later" not in found


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_ppo_by_hand(precision: str, tiny_model: str, tmp_path: Path) -> None:
    """Every layer's products and attention over all tokens but the last, and the head's.

    Float32 goes through torch's kernel of attention, bfloat16 through plain products.
    """
    settings = [*WORKLOADS["ppo"], *SMALL, f"model.path={tiny_model}", "task.min_characters=1",
                f"model.compute_precision={precision}"]  # fmt: skip
    ppo = Workload(last_wins(settings), tmp_path)
    vars(ppo.parts.team)["stops"] = frozenset()  # every answer has all its tokens
    ppo.step()  # its checks of the first update make passes of their own
    vocabulary = ppo.parts.team.pretrained.config.vocab_size
    answer = ppo.measure()
    columns = PROMPT + NEW - 1
    layers = 2 * ROWS * columns * LAYERS * 12 * WIDTH**2  # 3 + 1 for attention, 4 + 4 for the MLP
    attention = 2 * (2 * ROWS * columns**2 * WIDTH) * LAYERS  # over all heads
    head, value = 2 * ROWS * NEW * WIDTH * vocabulary, 2 * ROWS * NEW * WIDTH
    # backward: twice the products; of attention's kernel five for the two of the way there
    back = attention * (2.5 if precision == "fp32" else 2)
    update = EPOCHS * (3 * (layers + head + value) + attention + back)
    assert answer["operations"]["update"] == pytest.approx(update, rel=1e-3)
    # the statistics: policy with its values, and reference
    assert answer["operations"]["annotate"] == pytest.approx(
        2 * (layers + attention + head) + value, rel=1e-3
    )


@pytest.mark.slow
def test_the_estimate_of_a_run_is_near_what_is_counted(tiny_model: str, tmp_path: Path) -> None:
    settings = [*WORKLOADS["ppo"], *SMALL, f"model.path={tiny_model}", "task.min_characters=1"]
    ppo = Workload(last_wins(settings), tmp_path)
    answer = ppo.measure()
    counted = sum(answer["operations"].values())
    assert 0.5 < answer["estimated_operations"] / counted < 2


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_every_workload_takes_an_iteration(name: str, tmp_path: Path) -> None:
    few = ["algorithm.prompts_per_iteration=4", "algorithm.minibatch_size=4"]
    if name == "debate":  # every operation of torch is counted, token by token
        few += [f"algorithm.sampling.{end}_response_tokens=12" for end in ("min", "max")]
    one = workload.Workload(last_wins([*WORKLOADS[name], *few]), tmp_path)
    step, answer = one.step(), one.measure()
    assert step["tokens"] > 0
    assert step["seconds"]["iteration"] == pytest.approx(
        sum(value for phase, value in step["seconds"].items() if phase != "iteration")
    )
    assert set(answer["operations"]) == set(step["seconds"]) - {"iteration"}
    assert answer["operations"]["rollout"] > 0 and answer["peak_bytes"] > 2**20
    assert answer["estimated_operations"] > 0
    for floor in ("products_alone", "torch_operations"):
        assert set(answer[floor]) == set(answer["operations"]) and answer[floor]["rollout"] > 0
    if name in ("ppo", "cory", "debate", "update"):
        assert {"attention", "MLP", "output head", "optimiser"} <= set(answer["update_by_part"])
    else:
        assert "update_by_part" not in answer


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize(("precision", "products"), [("fp32", "fp32"), ("mixed", "bf16")])
def test_a_precision_does_not_depend_on_the_processor(
    name: str, precision: str, products: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORY_CPU_HAS_BF16", "1")
    words = last_wins([*WORKLOADS[name], *PRECISIONS[precision], "run_dir=here"])
    config = parse_config(workload.compose(*words))
    assert (config.model.precision, config.model.compute_precision) == ("fp32", products)
