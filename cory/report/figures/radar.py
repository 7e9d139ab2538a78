"""Scores on several benchmarks around a circle (Cheng et al., fig. 1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes

from cory.report.figures.palette import places
from cory.report.figures.style import PALETTE, dash, legend_name


@dataclass(frozen=True)
class RadarPanel:
    """One panel with polar axes; every axis ends at the largest value on it."""

    title: str
    methods: Mapping[str, Mapping[str, float]]  # method -> benchmark -> mean over seeds

    def draw(self, axes: Axes) -> None:
        """Draw every method."""
        colours = places(list(self.methods))
        names = list(dict.fromkeys(name for scores in self.methods.values() for name in scores))
        most = {name: max(own.get(name, 0.0) for own in self.methods.values()) for name in names}
        angles = [2 * math.pi * place / len(names) for place in range(len(names))]
        for place, (method, scores) in enumerate(self.methods.items()):
            heights = [scores.get(name, math.nan) / most[name] for name in names]
            axes.plot(
                [*angles, angles[0]], [*heights, heights[0]], color=PALETTE[colours[method]],
                linewidth=1.5, linestyle=dash(place % 3), label=legend_name(method),
            )  # fmt: skip
        axes.set_xticks(angles, [f"{name}\n{100 * most[name]:.1f}" for name in names], fontsize=8)
        drawn = [own[name] / most[name] for own in self.methods.values() for name in own]
        axes.set_ylim(max(0.0, min(drawn) - 0.05), 1.0)
        axes.tick_params(axis="y", labelsize=6)
        axes.set_title(self.title, fontsize=10)
