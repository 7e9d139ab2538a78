"""How long a run takes on a GPU of a data sheet, by hand, and on this project's own CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cory.config import GPUS, ConfigError, Gpu
from cory.memory import duration
from cory.memory.duration import (
    KERNELS_PER_LAYER,
    Reached,
    Sampling,
    batches_of,
    bytes_read,
    duration_on,
    passes_of,
    rate_of,
    samplings,
)
from cory.memory.estimate import SAMPLING, SCORING, Usage
from cory.memory.operations import mean_response, operations_of, weights_of
from cory.memory.workload import mean_context
from tests.support.composing import parsed

# measured at 1249bce on an AMD EPYC with two threads: 64 prompts of 6 tokens, 16 new ones, 4 epochs
MEASURED = (
    *("algorithm=ppo", "algorithm.prompts_per_iteration=64", "algorithm.minibatch_size=64"),
    *("algorithm.epochs=4", "algorithm.kl_estimator=full", "model.compute_precision=fp32"),
    *("algorithm.sampling.min_response_tokens=16", "algorithm.sampling.max_response_tokens=16"),
    *("task.min_prompt_tokens=6", "task.max_prompt_tokens=6"),
)
MEASURED_SECONDS, MEASURED_RATE = 0.8865, 1.751e11  # of an iteration; products of 2048 squares
ONE = Gpu(memory=1, bandwidth=1e9, fp32=1e12, tf32=2e12, half=4e12)
PPO = ("scale=small", "experiment=cory/imdb_ppo", "algorithm.iterations=100")
CACHE = [Usage("KV cache", 1000, SAMPLING), Usage("slab", 7, SCORING)]


def test_rates_by_precision() -> None:
    assert [rate_of(ONE, products) for products in ("fp32", "tf32", "bf16", "fp16")] == [
        1e12,
        2e12,
        4e12,
        4e12,
    ]
    for gpu in GPUS.values():  # a data sheet, in GiB, bytes and operations
        assert 20 < gpu.memory < 200 and 5e11 < gpu.bandwidth < 1e13
        assert 1e13 < gpu.fp32 <= gpu.tf32 < gpu.half < 1e15


def test_passes_of_batches_that_wait_for_each_other() -> None:
    config = parsed(*PPO, "hardware.generation_batch_size=10")
    limit = config.algorithm.sampling.max_response_tokens
    # 45 rows of two processes: 23 each, in three batches of at most ten
    config.hardware.processes = 2
    assert passes_of(config, Sampling(7, 45)) == 7 * 3 * limit
    config.hardware.processes = 1
    assert passes_of(config, Sampling(7, 45)) == 7 * 5 * limit


def test_who_samples_how_often() -> None:
    config = parsed(*PPO)
    config.evaluation.prompts, config.evaluation.samples = 20, 2
    config.evaluation.greedy, config.evaluation.team, config.evaluate_every = False, False, 50
    config.evaluation.before = False
    prompts = config.algorithm.prompts_per_iteration
    assert samplings(config, {}) == (Sampling(100, prompts), Sampling(2, 40))
    config.algorithm = parsed("scale=small", "experiment=cory/imdb_cory").algorithm
    config.algorithm.iterations = 100
    prompts = config.algorithm.prompts_per_iteration  # the observer waits for the pioneer
    assert samplings(config, {}) == (Sampling(200, prompts), Sampling(4, 40))


def test_games_of_an_epoch_are_played_side_by_side() -> None:
    config = parsed("experiment=spag/llama2_spag_1", "scale=small")
    algorithm = config.algorithm
    algorithm.iterations, algorithm.iterations_per_epoch = 12, 4
    config.evaluate_every, config.evaluation.prompts, config.evaluation.samples = 0, 5, 2
    config.evaluation.before = False
    turns = 2 * config.task.max_turns
    training, tested = samplings(config, {})
    assert training == Sampling(3 * turns, algorithm.games_per_epoch)
    speakers = sum(1 if who in ("itself", "scripted", "random", "endpoint") else 2
                   for who in algorithm.played_against.values())  # fmt: skip
    assert tested == Sampling(turns * speakers, 10)
    algorithm.games = "scripted"
    assert samplings(config, {})[0].rounds == 0


@pytest.mark.slow
def test_debates_and_answers() -> None:
    config = parsed("experiment=maft/phi3_arithmetic_maft", "scale=small")
    maft = config.algorithm
    maft.agents, maft.turns, maft.summary, maft.iterations = 3, 2, True, 5
    assert samplings(config, {})[0] == Sampling(5 * (6 + 3), maft.prompts_per_iteration)
    config = parsed("experiment=maporl/verifier_gsm8k", "scale=small")
    verifier = config.algorithm
    verifier.iterations, verifier.answers_per_question = 3, 7
    assert samplings(config, {})[0] == Sampling(3, 7 * verifier.prompts_per_iteration)
    config = parsed("experiment=maporl/gsm8k_maporl_exact", "scale=small", "algorithm=sft")
    sft = config.algorithm
    sft.iterations, sft.agents, sft.turns = 3, 2, 4
    assert samplings(config, {})[0] == Sampling(24, sft.prompts_per_iteration)


def test_bytes_of_a_pass() -> None:
    config = parsed(*PPO)
    assert bytes_read(config, 10, CACHE) == 10 * 4 + 500
    config.model.compute_precision = "bf16"
    assert bytes_read(config, 10, CACHE) == 10 * 2 + 500
    config.model.quantisation = "nf4"
    assert bytes_read(config, 10, CACHE) == 10 * 4.5 + 500


def test_batches_that_operations_are_made_of() -> None:
    config = parsed(*PPO, "hardware.microbatch_size=8", "evaluation.prompts=1")
    config.algorithm.iterations, config.algorithm.epochs, config.evaluation.prompts = 3, 2, None
    config.algorithm.prompts_per_iteration = config.algorithm.minibatch_size = 64
    operations, _ = operations_of(config, 10, {})  # no evaluation
    # a response is read while it is sampled, scored by policy and reference, and learnt twice,
    # forwards and, as twice the operations, back
    assert batches_of(config, operations, 10) == pytest.approx(3 * 64 * (1 + 2 + 2 * 3) / 8)
    config.hardware.processes = 2
    assert batches_of(config, operations, 10) == pytest.approx(3 * 64 * (1 + 2 + 2 * 3) / 8 / 2)
    tokens = mean_context(config) + mean_response(config)
    config.hardware.processes, config.hardware.microbatch_size = 1, 512  # more than a minibatch
    assert batches_of(config, 2 * 10 * tokens * 64, 10) == pytest.approx(1)


def test_batches_wait_for_products_or_for_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parsed(*PPO, "evaluation.prompts=128")
    operations, _ = operations_of(config, weights_of(config), {})
    passes = sum(passes_of(config, one) for one in samplings(config, {}))
    batches = batches_of(config, operations, weights_of(config))
    starts, kernels = batches * KERNELS_PER_LAYER * 4, passes * KERNELS_PER_LAYER * 4
    for start in (1e-9, 1.0):
        fast = replace(ONE, bandwidth=1e30)
        monkeypatch.setattr(duration, "ASSUMED", (Reached(1, 1, start),) * 3)
        waited = max(operations / 1e12, starts * start) + kernels * start
        assert duration_on(config, fast, [], {}).hours[1] == pytest.approx(waited / 3600)
    config.hardware.cuda_graphs = True  # records the passes of one token alone
    waited = starts + 0.4 * kernels
    assert duration_on(config, fast, [], {}).hours[1] == pytest.approx(waited / 3600)


@pytest.mark.slow
def test_three_times_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parsed(*PPO, "evaluation.prompts=128")
    expected = Reached(0.5, 0.25, 1e-7)  # starts that products hide
    monkeypatch.setattr(duration, "ASSUMED", (expected, expected, Reached(0.25, 0.25, 1e-7)))
    weights = weights_of(config)
    operations, _ = operations_of(config, weights, {})
    found = duration_on(config, ONE, CACHE, {})
    training, tested = samplings(config, {})
    passes = passes_of(config, training) + passes_of(config, tested)
    each = (4 * weights + 500) / 0.25e9 + KERNELS_PER_LAYER * 4 * 1e-7  # tiny has four layers
    assert found.operations == operations and found.passes == passes
    assert found.hours[1] == pytest.approx((operations / 0.5e12 + passes * each) / 3600)
    assert found.hours[2] == pytest.approx((operations / 0.25e12 + passes * each) / 3600)
    responses = sum(one.rounds * one.rows for one in (training, tested))
    sampling = config.algorithm.sampling
    mean = (sampling.min_response_tokens + sampling.max_response_tokens) / 2
    assert found.sampled == responses * mean

    config.hardware.processes = 2  # products are shared out; passes by their rows
    assert duration_on(config, ONE, CACHE, {}).hours[1] == pytest.approx(
        (operations / 2 / 0.5e12 + passes * each) / 3600
    )
    config.hardware.processes, config.hardware.cuda_graphs = 1, True
    recorded = (4 * weights + 500) / 0.25e9 + 0.4 * KERNELS_PER_LAYER * 4 * 1e-7
    assert duration_on(config, ONE, CACHE, {}).hours[1] == pytest.approx(
        (operations / 0.5e12 + passes * recorded) / 3600
    )
    config.model.compute_precision = "bf16"
    assert duration_on(config, ONE, [], {}).hours[0] < found.hours[0] / 2


def test_what_cannot_be_said() -> None:
    config = parsed("experiment=maft/gpt35_arithmetic_base")
    with pytest.raises(ConfigError, match="no estimate of hours for algorithm=maft"):
        duration_on(config, ONE, CACHE, {})


def test_the_sum_holds_for_the_cpu_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """An iteration of PPO, from the CPU's own rates: within a factor of 1.5.

    65 % of the rate of bare products, as was measured of updates; 5 milliseconds for the operations
    of a pass of four layers, as was measured, too; weights from a cache that is not waited for.
    """
    config = parsed(*MEASURED)
    config.algorithm.iterations, config.evaluation.prompts = 1, None  # no evaluation
    start = 5e-3 / (4 * KERNELS_PER_LAYER)
    monkeypatch.setattr(duration, "ASSUMED", (Reached(0.65, 1, start),) * 3)
    cpu = replace(ONE, fp32=MEASURED_RATE, bandwidth=1e12)
    found = 3600 * duration_on(config, cpu, [], {}).hours[1]
    assert 1 / 1.5 < found / MEASURED_SECONDS < 1.5
