"""Figures that no run is needed for: MAPoRL's toy game and MAFT's model of specialisation.

Each comes as rows of the archive of runs, so that tables and figures treat them alike: scale
`computed`, one seed, and turns or iterations as iterations.
"""

import pandas as pd
from collaboration_game import (
    Game,
    collaboration,
    constant,
    disagreements,
    joint,
    response,
    uniform,
)
from papers import COMPUTED
from skills import falls, specialities, trajectories, unlike_equation_3

# MAPoRL, section 2: horizons, opponents and tau are printed; rewards and thresholds are ours,
# chosen so that every state has one equilibrium (R_ind - R_col at most 2 tau)
TURNS = {10: uniform(8), 20: uniform(16)}
FIXED = (0.5, 0.6, 0.7)
REWARDS = {"r_syn": 1.0, "r_ind": 0.5, "r_col": 0.3}
TAU = 0.1
STEPS = 8  # the observations are checked on a grid of eighths
# MAFT, App. G: models and topics are printed; questions of each topic, iterations, ours
MODELS, TOPICS, QUESTIONS, ITERATIONS, SEED = 3, 3, 500, 30, 0
TEAMS = 300  # that shares are taken of


def frame() -> pd.DataFrame:
    """Both, as rows of the archive."""
    return pd.concat([toy_game(), specialisation()], ignore_index=True)


def toy_game() -> pd.DataFrame:
    """Probability of collaborating per turn, and points where an observation fails."""
    rows = []
    for turns, threshold in TURNS.items():
        game = Game(turns, threshold, **REWARDS)
        both = joint(game, TAU)
        curves = {"joint": collaboration(game, both, both)}
        for pi in FIXED:
            opponent = constant(game, pi)
            best = response(game, opponent, TAU)
            curves[f"pi{pi:g}"] = collaboration(game, best, opponent)
        for name, curve in curves.items():
            rows += _rows(f"toy/turns{turns}/{name}", "collaboration", curve, first=1)
            mean = sum(curve) / turns
            rows += _rows(f"toy/turns{turns}/{name}", "mean", [mean])
    for name, (wrong, of) in disagreements(REWARDS["r_syn"], STEPS).items():
        rows += _rows(f"toy/{name}", "wrong", [wrong]) + _rows(f"toy/{name}", "points", [of])
    return _frame(rows)


def specialisation() -> pd.DataFrame:
    """Skills of a drawn team, in how many topics teams specialise, and where Eq. 3 is wrong."""
    settings = (MODELS, TOPICS, QUESTIONS, ITERATIONS, SEED)
    rows = []
    for number, model in enumerate(trajectories(*settings), 1):
        rows += _rows(f"skills/model_{number}", "largest_skill", [max(skills) for skills in model])
    for number, share in specialities(TEAMS, *settings).items():
        rows += _rows(f"skills/topics_{number}", "share", [share])
    models = trajectories(TEAMS * MODELS, *settings[1:])
    rows += _rows("skills/falls", "count", [falls(models)])
    rows += _rows("skills/unlike_equation_3", "count", [unlike_equation_3(models)])
    return _frame(rows)


def _rows(
    experiment: str, metric: str, values: list[float] | list[int], first: int = 0
) -> list[tuple[str, str, int, float]]:
    return [(experiment, metric, first + place, float(v)) for place, v in enumerate(values)]


def _frame(rows: list[tuple[str, str, int, float]]) -> pd.DataFrame:
    columns = ["experiment", "metric", "iteration", "value"]
    return pd.DataFrame(rows, columns=columns).assign(scale=COMPUTED, seed=0)
