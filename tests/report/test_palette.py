"""Colours of methods, names at the ends of lines, and texts that cover nothing."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from cory.report.figures.heat import HeatPanel
from cory.report.figures.lines import Curve, LinePanel
from cory.report.figures.notes import Note, Notes
from cory.report.figures.page_curves import page_curves
from cory.report.figures.palette import BLACK, BLUE, SKY, VERMILION, looks, places, renamed
from cory.report.figures.style import MARKERS, PALETTE, figure_of, spread_out


def test_a_method_has_one_colour_in_all_figures() -> None:
    one = looks(["PPO (tiny)", "CORY (tiny) agent 0", "CORY (tiny) agent 1"])
    other = looks(["CORY agent 1", "Pre-trained (tiny_math)", "PPO"])
    assert one["PPO (tiny)"].place == other["PPO"].place == BLUE
    assert one["CORY (tiny) agent 1"] == other["CORY agent 1"]
    assert one["CORY (tiny) agent 0"].place == other["CORY agent 1"].place == VERMILION
    assert one["CORY (tiny) agent 0"].line != one["CORY (tiny) agent 1"].line
    assert other["Pre-trained (tiny_math)"].place == BLACK
    assert places(["PPO (tiny)", "PPO (tiny_2x)"]) == {"PPO (tiny)": BLUE, "PPO (tiny_2x)": SKY}
    assert renamed("CORY LLM2") == "CORY agent 1" and renamed("PPO") == "PPO"


def test_what_the_table_does_not_know_gets_a_free_colour() -> None:
    found = places(["PPO", "new", "PPO again"])
    assert len(set(found.values())) == 3 and found["PPO"] == BLUE
    with pytest.raises(ValueError, match="at most 10 methods fit one figure"):
        places([str(number) for number in range(11)])


def test_every_colour_has_a_marker_and_is_another() -> None:
    assert len(MARKERS) == len(PALETTE) == len(set(PALETTE))
    distances = [
        np.linalg.norm(np.subtract(to_rgb(one), to_rgb(other)))
        for number, one in enumerate(PALETTE)
        for other in PALETTE[:number]
    ]
    assert min(distances) > 0.2


def test_names_are_moved_apart_as_little_as_possible() -> None:
    assert spread_out([0.1, 0.5], [0.1, 0.1]) == pytest.approx([0.1, 0.5])
    assert spread_out([0.5, 0.5], [0.1, 0.1]) == pytest.approx([0.45, 0.55])
    # the third is pushed by both
    assert spread_out([0.5, 0.5, 0.58], [0.1] * 3) == pytest.approx(
        [0.5267 - 0.1, 0.5267, 0.5267 + 0.1], abs=1e-3
    )
    assert spread_out([0.5, 0.5], [0.1, 0.3]) == pytest.approx([0.35, 0.55])


def test_lines_are_named_at_their_ends() -> None:
    curves = [Curve(name, [0, 1], [0, end]) for name, end in (("low", 1.0), ("high", 2.0))]
    figure = figure_of([LinePanel(curves)], direct=True)
    names = [text.get_text() for text in figure.axes[0].texts]
    assert names == ["low", "high"] and not figure.legends
    partly = figure_of([LinePanel(curves), LinePanel(curves[:1])], direct=True)
    assert len(partly.legends) == 1  # the last panel lacks one


def test_texts_cover_no_other_text() -> None:
    points = [(0.0, 0.0), (0.02, 0.01), (0.04, 0.0), (1.0, 1.0)]
    texts = [Note(f"number {place}", point, 0) for place, point in enumerate(points)]
    parts = [Curve("", [x], [y]) for x, y in points]
    figure = figure_of([LinePanel([*parts, Notes(texts, points)])], legend=False)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not [
        (one, other)
        for number, one in enumerate(boxes)
        for other in boxes[:number]
        if one.overlaps(other)
    ]


def test_the_running_mean_ends_with_the_number_of_the_table() -> None:
    values = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 8.0]])
    lines = [
        [{"iteration": i, "objective/score/agent_0": own} for i, own in enumerate(seed)]
        for seed in values
    ]
    axes = page_curves({"PPO": lines}, 2).axes[0]
    raw, smooth = axes.get_lines()[:2]
    assert raw.get_ydata()[-1] == 6.0
    assert smooth.get_xdata().tolist() == [1.5, 2.5, 3.5]  # centred; iterations done
    assert smooth.get_ydata().tolist() == pytest.approx([0.75, 1.25, 3.75])
    assert to_hex(smooth.get_color()) == PALETTE[BLUE].lower()
    segments = [segment[:, 1] for bar in axes.collections for segment in bar.get_segments()]
    ((low, high),) = [ends for ends in segments if np.ptp(ends)]
    assert high - low == pytest.approx(2 * 0.5 / 2**0.5)  # of 3.5 and 4
    short = page_curves({"PPO": lines}, 5).axes[0]  # shorter than the window: as logged alone
    assert [len(line.get_xdata()) for line in short.get_lines()] == [4, 0]


def test_light_is_the_good_end_of_a_heat_map() -> None:
    means = {("a", "x"): 0.0, ("a", "y"): 1.0}

    def lightness(less: bool) -> list[float]:
        panel = HeatPanel(["a"], ["x", "y"], means, lambda r, c: "", lambda r, c: "", "", "", "",
                          less_is_better=less)  # fmt: skip
        image = figure_of([panel], legend=False).axes[0].images[0]
        return [sum(image.cmap(image.norm(value))[:3]) for value in (0.0, 1.0)]

    low, high = lightness(False)
    assert high > low
    low, high = lightness(True)
    assert low > high
