"""Layouts that cannot work are refused in one line, before anything heavy is loaded."""

from __future__ import annotations

import pytest
import torch

from cory.config import ConfigError
from cory.runtime.build import check_devices
from tests.support.composing import parsed


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            "model.quantisation=nf4",
            "model.quantisation=nf4 needs model.sharing=adapters: weights in 4 bits cannot be "
            "trained themselves",
        ),
        (
            "hardware.processes=128",
            "hardware: 128 processes are more than algorithm.prompts_per_iteration (64)",
        ),
        (
            "hardware.processes=3",
            "algorithm.minibatch_size (64) must be a multiple of the number of processes (3)",
        ),
        (
            "hardware.processes=2 hardware.microbatch_size=5",
            "algorithm.minibatch_size per process (32) must be a multiple of "
            "hardware.microbatch_size (5)",
        ),
        ("hardware.zero_stage=4", "hardware.zero_stage must be one of 0, 1, 2, 3, got 4"),
        (
            "hardware.offload_optimizer=true",
            "hardware.offload_optimizer=true needs hardware.zero_stage of at least 1, got 0",
        ),
        (
            "hardware.offload_parameters=true hardware.zero_stage=2",
            "hardware.offload_parameters=true needs hardware.zero_stage=3, got 2",
        ),
        (
            "hardware.offload_parameters=true hardware.zero_stage=3",
            "hardware.offload_parameters=true needs hardware.offload_optimizer=true: what is "
            "updated lies in main memory then",
        ),
        (
            "hardware.routed_reference=true",
            "hardware.routed_reference=true needs model.sharing=adapters: a copy and its "
            "reference are two models",
        ),
        (
            "hardware.nodes=2",
            "hardware.nodes=2 needs hardware.rendezvous=host:port, a port on one of the nodes "
            "that all of them reach",
        ),
        *(
            (
                f"hardware.rendezvous='{place}'",
                f"hardware.rendezvous must be host:port, the port from 1 to 65535, got {place}",
            )
            for place in ("here", "host:", ":29500", "host:0", "host:65536", "host:99999999", "h:²")
        ),
        (
            "algorithm.prompts_per_iteration=1 algorithm.minibatch_size=1 "
            "algorithm.sampling.min_response_tokens=1 algorithm.sampling.max_response_tokens=1",
            "algorithm.whiten_advantages=true needs at least two tokens in an iteration",
        ),
        (
            "model.precision=fp16",
            "model.precision=fp16 needs a GPU: hardware.device=cpu has no fast half precision",
        ),
        (
            "model.precision=fp16 hardware=gpu1",
            "model.precision=fp16 needs hardware.zero_stage=1 or more: at 0 DeepSpeed divides "
            "gradients by a scale that it has not applied",
        ),
        ("model.sharing=none", "model.sharing must be one of copies, adapters, adapter_copies"),
        ("model.adapter.rank=0", "model.adapter.rank must be at least 1, got 0"),
        ("model.adapter.targets=[]", "model.adapter.targets must name a layer"),
        ("parallel_runs=0", "parallel_runs must be at least 1, got 0"),
        (
            "parallel_runs=2 hardware=gpu1",
            "parallel_runs=2 needs hardware.device=cpu and hardware.nodes=1, got cuda and 1",
        ),
        (
            "parallel_runs=2 hardware.nodes=2 hardware.rendezvous=a:1",
            "parallel_runs=2 needs hardware.device=cpu and hardware.nodes=1, got cpu and 2",
        ),
        ("keep_last=0", "keep_last must be at least 1, got 0"),
        ("algorithm.stop.max_kl=-1", "algorithm.stop.max_kl must be above 0 and finite, got -1"),
    ],
)
def test_a_layout_that_cannot_work_is_refused(overrides: str, said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parsed(*overrides.split())
    assert str(refusal.value).startswith(said)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("hardware", "devices", "said"),
    [
        ("gpu1", 0, "hardware.device=cuda: this machine has no CUDA device; use hardware=cpu"),
        (
            "gpu4_zero2",
            1,
            "hardware.processes=4: this machine has 1 CUDA devices; one process needs one",
        ),
    ],
)
def test_missing_gpus_are_refused(
    hardware: str, devices: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    with pytest.raises(ConfigError) as refusal:
        check_devices(parsed(f"hardware={hardware}").hardware)
    assert str(refusal.value) == said
