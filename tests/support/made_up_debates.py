"""Metrics as runs of debates and of verifiers leave them, with made-up numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from cory.report.claims.templates import fill
from cory.report.pages.write import Places, checked, gather_tables, write_page
from tests.support.made_up_runs import WriteRun
from tests.support.reporting import composed

RATES = [
    f"{what}_{change}"
    for what in ("revision", "influence")
    for change in ("wr_w", "wr_r", "rw_r", "rw_w")
]
METRICS = """\
| name | meaning |
|---|---|
| `eval/vote/turn_<t>` | x |
| `eval/flow_wr` | x |
| `eval/revision_wr_r` | x |
| `eval/verifier_auc` | x |
"""


def debate(
    votes: Sequence[float],
    seed: int,
    flows: Sequence[float] = (0.5, 0.1, 0.05, 0.35),
    rates: Sequence[float | None] = (0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1, 0.2),
    alone: float = 0.5,
    policies: Sequence[str] = ("turn_2", "turn_3"),
) -> list[dict[str, float]]:
    """The one line of an evaluated team.

    flows: rr, wr, rw, ww
    rates: of RATES; None: no such case
    """
    noise = random.Random(seed)
    line: dict[str, float] = {"iteration": 0}
    for turn, vote in enumerate(votes, 1):
        value = vote + noise.gauss(0, 0.005)
        line |= {
            f"eval/vote/turn_{turn}": value,
            f"eval/vote_low/turn_{turn}": value - 0.03,
            f"eval/vote_high/turn_{turn}": value + 0.03,
            f"eval/right/turn_{turn}": value - 0.02,
        }
    for where in ("team", *[f"turn_{turn}" for turn in range(2, len(votes) + 1)]):
        shift = noise.gauss(0, 0.005)
        rr, wr, rw, ww = flows
        own = {"rr": rr - shift, "wr": wr + shift, "rw": rw, "ww": ww}
        line |= {f"eval/flow_{flow}/{where}": share for flow, share in own.items()}
        line |= {
            f"eval/{name}/{where}": rate + shift
            for name, rate in zip(RATES, rates, strict=True)
            if rate is not None
        }
    for policy in policies:
        line |= {f"eval/{kind}/{policy}": alone for kind in ("pass_at_1", "greedy", "score")}
    return [line]


def verified(natural: float, balanced: float, within: float) -> list[dict[str, float]]:
    """The one line of an evaluated verifier."""
    return [
        {
            "iteration": 0,
            "eval/verifier_accuracy/natural": natural,
            "eval/verifier_accuracy/balanced": balanced,
            "eval/verifier_auc/natural": natural + 0.1,
            "eval/verifier_auc/balanced": balanced + 0.1,
            "eval/verifier_auc/within": within,
        }
    ]


def one_table(folder: Path, entry: dict[str, Any], metrics: str = METRICS) -> Places:
    """A conf/ with one paper `p`, whose table `t` shows runs of CORY's experiments."""
    conf = folder / "conf"
    words = {word: by["small"] for word, by in entry.get("by_scale", {}).items()}
    named = [*entry.get("needs", []), *(row["experiment"] for row in entry["rows"])]
    needed = fill(named, words)
    for name in [f"experiment/{name}" for name in needed] + ["scale/paper", "scale/small"]:
        (conf / f"{name}.yaml").parent.mkdir(parents=True, exist_ok=True)
        (conf / f"{name}.yaml").write_text("{}\n")
    (conf / "train.yaml").write_text("{}\n")
    (conf / "sweep").mkdir()
    (conf / "paper").mkdir()
    experiments = ",".join(dict.fromkeys(needed))
    params = {"experiment": experiments, "seed": "0,1,2"}
    OmegaConf.save({"hydra": {"sweeper": {"params": params}}}, conf / "sweep/p.yaml")
    own = {"title": "T", "sweep": "p", "claims": []} | entry
    about = {
        "title": "P",
        "short": "P",
        "where": "W",
        "window": 1,
        "tables": {"t": own},
    }
    OmegaConf.save(about, conf / "paper/p.yaml")
    (folder / "metrics.md").write_text(metrics)
    return Places(conf, folder / "docs", folder / "metrics.md")


def page_of(places: Places, outputs: Path, scale: str = "small") -> str:
    """The page of the one table, from the runs in outputs/."""
    table = checked(places, "p", "t", scale)
    gather_tables([table], places, outputs, False)
    _, path = write_page(table, places, composed)
    assert path is not None
    return path.read_text()


def three_seeds(write: WriteRun, experiment: str, votes: Sequence[float], **more: Any) -> None:
    """Runs of an experiment that end about there."""
    for seed in range(3):
        write(experiment, seed, debate(votes, seed, **more))
