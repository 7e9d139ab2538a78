"""Pictures of what is computed without any run: the collaboration game, and the skill model."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from cory.report.figures.lines import Curve, LinePanel, marked
from cory.report.figures.style import figure_of, require_styles
from cory.report.paper import Table
from cory.report.tables.game import label, played
from cory.report.tables.skills import drawn

RED = 1  # of the colours: the agents that are trained together


def draw_game(table: Table) -> Figure:
    """How often agents collaborate, turn by turn (Park et al., 2025, fig. 5): a panel per game."""
    games = {
        f"T = {one.turns}": {
            **{label(pi): curve for pi, curve in one.fixed.items()},
            label(None): one.together,
        }
        for one in played(table.entry["game"])
    }
    return collaboration_figure(games, label(None))


def collaboration_figure(
    games: Mapping[str, Mapping[str, Sequence[float]]], together: str
) -> Figure:
    """One line per way of training; that of `together` solid red.

    games: name of the panel -> way of training -> probability of collaborating at turns 1, 2, ...
    """
    panels: list[LinePanel] = []
    for name, curves in games.items():
        require_styles(list(curves))
        others = iter(number for number in range(len(curves) + 1) if number != RED)
        drawn_curves = []
        for way, probabilities in curves.items():
            joint = way == together
            number, turns = RED if joint else next(others), len(probabilities)
            look = marked(number % 3, turns, 0 if joint else 1, 2.2 if joint else 1.6)
            x = range(1, turns + 1)
            drawn_curves.append(Curve(way, x, probabilities, colour=number, look=look))
        y = "" if panels else "probability of collaborating"
        panels.append(LinePanel(drawn_curves, "turn", y, name, limits=(0, 1.03)))
    return figure_of(panels, width=4.6, letters=True)


def draw_skills(table: Table) -> Figure:
    """Skills of models that learn from their own right answers (Subramaniam et al., App. G)."""
    return skills_figure(drawn(table.entry["skills"]))


def skills_figure(models: Sequence[Sequence[Sequence[float]]]) -> Figure:
    """One panel per model, one line per topic.

    models: [model][iteration][topic], as `cory.functional.skills.trajectories` gives them
    """
    require_styles(range(len(models[0][0])))
    panels: list[LinePanel] = []
    for number, model in enumerate(models, 1):
        curves = [
            Curve(f"topic {chr(ord('A') + topic)}", range(len(model)), skill, colour=topic,
                  look=marked(topic, len(model), topic, 1.8))
            for topic, skill in enumerate(zip(*model, strict=True))
        ]  # fmt: skip
        y = "" if panels else "skill"
        panels.append(LinePanel(curves, "iteration", y, f"model {number}", limits=(-0.03, 1.03)))
    return figure_of(panels, height=3.8)
