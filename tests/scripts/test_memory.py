"""What scripts/memory.py prints: parts, layouts that have room, mistakes."""

from __future__ import annotations

import pytest

from scripts import memory
from scripts.memory import layout_lines


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """For others the same is computed again."""
    monkeypatch.setattr(memory, "LAYOUTS", ("gpu1", "gpu4_zero2"))


@pytest.mark.usefixtures("one_gpu")
def test_layouts_that_cannot_share_the_batches_are_said() -> None:
    words = ["algorithm.minibatch_size=2", "algorithm.prompts_per_iteration=8", "model=tiny"]
    said = {text.split()[0]: text for text in layout_lines(memory.composed(words), words)}
    assert "algorithm.minibatch_size=2: must be a multiple of the number of" in said["gpu4_zero2"]
    assert "not possible" not in said["gpu1"] and said["gpu1"].split()[1] == "1"
    assert "h200, h100, " in said["gpu1"]


@pytest.mark.usefixtures("one_gpu")
def test_the_command_prints_estimates_or_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["memory.py", "experiment=cory/gsm8k_cory"])
    memory.main()
    out = capsys.readouterr().out
    assert out.startswith("ESTIMATE for each of 4 processes, GiB: model=llama2_7b_chat (bf16, ")
    # 6.476e9 weights at half a byte and 1/64 for scales, 0.262e9 at two bytes: 3.60 GiB
    assert "  base, frozen                                 3.60  always\n" in out
    monkeypatch.setattr("sys.argv", ["memory.py", "algorithm.clip_range=5"])
    with pytest.raises(SystemExit):
        memory.main()
    assert capsys.readouterr().err.startswith("error: algorithm.clip_range=5: must be less than 1")
