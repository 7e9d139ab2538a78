"""One colour for one method in all figures of results, and one for each of a figure's others.

Vermilion is the method of the paper, black what was not trained, blue its main baseline; a family
of variants takes the colours between. Agents of one method share its colour and differ in dash.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cory.report.figures.style import COLOURS, MARKERS, PALETTE, dash

# places in PALETTE by name
BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK, WINE, GREY, OLIVE = range(len(PALETTE))
# the beginning of a label, without what it names in brackets -> its colour; the first that fits
METHODS = (
    (r"PPO, 2x samples|PPO-GPT-2-xl|PPO \(tiny_2x\)", SKY),
    (r"PPO", BLUE),
    (r"CORY w/o KT", GREEN),
    (r"CORY w/o REx", PINK),
    (r"CORY, 3 agents", ORANGE),
    (r"CORY, 4 agents", WINE),
    (r"CORY.*team", ORANGE),
    (r"CORY", VERMILION),
    (r"Off-the-shelf, (twice|600)", GREY),
    (r"Off-the-shelf|Pre-trained|Base$|tiny$|GPT2-Large|No incentives", BLACK),
    (r"MAPoRL, incentives 1", ORANGE),
    (r"MAPoRL, incentives 2", WINE),
    (r"MAPoRL, verifier", PINK),
    (r"MAPoRL|sum, all$", VERMILION),
    (r"Supervised fine-tuning", GREEN),
    (r"One agent alone|Single-agent FT w/o debate", SKY),
    (r"AlpacaSFT-1", SKY),
    (r"AlpacaSFT-2", BLUE),
    (r"AlpacaSFT-3", OLIVE),
    (r"IM\+AlpacaSFT", GREY),
    (r"IM$|Imitation-AG", GREEN),
    (r"SPAG-1", ORANGE),
    (r"SPAG-2", PINK),
    (r"SPAG-3", VERMILION),
    (r"mean of both roles", BLACK),
    (r"as attacker", VERMILION),
    (r"as defender", BLUE),
    (r"Multiagent FT w/o critic|Multiagent FT, each time", ORANGE),
    (r"Multiagent FT w/o summary", PINK),
    (r"Compute-matched|STaR", GREEN),
    (r"Multiagent FT|Ours", VERMILION),
    (r"Single-agent FT", BLUE),
    (r"Majority FT", PINK),
    (r"Majority", GREY),
    (r"Debate", SKY),
)


def places(labels: Sequence[str]) -> dict[str, int]:
    """Label -> its place in PALETTE and among markers.

    A label that METHODS does not know, or whose colour another one has taken, gets the first that
    is free; ValueError where none is.
    """
    found: dict[str, int] = {}
    waiting = []
    for label in dict.fromkeys(labels):
        known = next((place for name, place in METHODS if re.match(name, label)), None)
        if known is None or known in found.values():
            waiting.append(label)
        else:
            found[label] = known
    order = [*range(len(COLOURS)), *range(len(COLOURS), len(PALETTE))]
    for label in waiting:
        free = [place for place in order if place not in found.values()]
        if not free:
            raise ValueError(f"at most {len(PALETTE)} methods fit one figure")
        found[label] = free[0]
    return found


@dataclass(frozen=True)
class Look:
    """How one line of a figure looks: the colour of its method, dash and marker of its agent."""

    place: int  # in PALETTE
    agent: int

    @property
    def marker(self) -> str:
        """A marker that no other agent of the method has."""
        return MARKERS[(self.place + 3 * self.agent) % len(MARKERS)]

    @property
    def line(self) -> dict[str, Any]:
        """Dash and marker, as matplotlib takes them."""
        return {"linestyle": dash(self.agent), "marker": self.marker}


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Label -> its look; `CORY agent 1` has the colour of `CORY` and the second dash."""
    parts = {label: re.fullmatch(r"(.*?)[,:]? agent (\d+)", label) for label in labels}
    methods = {label: match[1] if match else label for label, match in parts.items()}
    colours = places(list(methods.values()))
    return {
        label: Look(colours[methods[label]], int(match[2]) if match else 0)
        for label, match in parts.items()
    }


def renamed(label: str) -> str:
    """Agents of the paper by their numbers here: `CORY LLM1` is `CORY agent 0`."""
    return re.sub(r" LLM(\d+)", lambda match: f" agent {int(match[1]) - 1}", label)
