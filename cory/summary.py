"""What is shown at the end of a run: a table, three episodes, and the curves."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from cory.plots.curves import draw_curves
from cory.record import TRAINING
from cory.run_dir import AGENTS, METRICS, RECORD, SAMPLES, TIMES, read_lines

ROWS = {
    "task reward": "objective/score",
    "KL to reference (nats)": "objective/kl",
    "combined reward": "objective/combined",
    "entropy (nats per token)": "objective/entropy",
    "held-out task reward": "eval/score",
}
LAST = 10  # iterations that an end value is averaged over


def show(run_dir: Path) -> None:
    """Print the summary of a finished run and draw its curves."""
    lines = read_lines(run_dir / METRICS)
    record = json.loads((run_dir / RECORD).read_text())
    print()
    if record["iterations"] == 0:
        print(evaluation(lines[-1]))
        print(f"\nrecords in {run_dir}")
        return
    print(table(lines))
    print()
    if any(key.startswith("eval/pass_at_") for key in lines[-1]):
        print(f"{evaluation(lines[-1])}\n")
    print(samples(read_lines(run_dir / SAMPLES)))
    plot = run_dir / "curves.png"
    draw_curves({record["experiment"]: [run_dir]}, plot)
    print(f"\n{record['iterations']} iterations in {record['wall_s']:.0f} s; records in {run_dir}")
    print(phases(read_lines(run_dir / TIMES)))
    print(f"Agents: {run_dir / AGENTS}")
    print(f"Curves: {plot}")


def phases(lines: list[dict[str, Any]]) -> str:
    """Shares of the iterations' time, generation first."""
    whole = sum(line["time/iteration_s"] for line in lines)
    names = {
        "generation": "time/rollout_s",
        "judging": "time/reward_s",
        "log-probabilities": "time/annotate_s",
        "updates": "time/update_s",
    }
    shares = {name: sum(line[key] for line in lines) / whole for name, key in names.items()}
    return "Time: " + ", ".join(f"{share:.0%} {name}" for name, share in shares.items())


def table(lines: list[dict[str, Any]]) -> str:
    """First iteration beside the mean of the last ones, per agent."""
    # in the order of their numbers
    agents = [key.rpartition("/")[2] for key in lines[-1] if key.startswith("eval/score/agent_")]
    head = f"{'':26}" + "".join(
        f"{agent + ' first':>15}{'last ' + str(LAST):>10}" for agent in agents
    )
    rows = [head]
    for name, key in ROWS.items():
        cells = ""
        for agent in agents:
            values = [line[f"{key}/{agent}"] for line in lines if f"{key}/{agent}" in line]
            tail = values[-LAST:]
            first = f"{values[0]:.3f}" if len(values) > 1 else ""
            cells += f"{first:>15}{sum(tail) / len(tail):>10.3f}"
        rows.append(f"{name:26}{cells}")
    return "\n".join(rows)


def evaluation(line: dict[str, Any]) -> str:
    """What an evaluation found: a row for each number, with its 95 % interval where it has one."""
    found: dict[str, dict[str, str]] = {}
    for key, value in line.items():
        if not key.startswith("eval/"):
            continue
        _, name, who = key.split("/")
        if name.endswith(("_low", "_high")):
            continue
        text = f"{value:.3f}"
        if f"eval/{name}_low/{who}" in line:
            low, high = (line[f"eval/{name}_{end}/{who}"] for end in ("low", "high"))
            text += f" ({low:.3f} to {high:.3f})"
        found.setdefault(name, {})[who] = text
    whom = list(found["score"])
    rows = [f"{'held-out prompts':26}" + "".join(f"{who:>24}" for who in whom)]
    for name in sorted(found, key=place):
        cells = "".join(f"{found[name].get(who, ''):>24}" for who in whom)
        rows.append(f"{title(name):26}{cells}")
    return "\n".join(rows)


def place(name: str) -> tuple[int, int]:
    """Where a number of an evaluation stands in the table."""
    kind, _, k = name.rpartition("_")
    kinds = ["score", "greedy", "pass_at", "any_of"]
    return (kinds.index(kind), int(k)) if k.isdigit() else (kinds.index(name), 0)


def title(name: str) -> str:
    """What the table calls it."""
    if name == "score":
        return "task reward"
    if name == "greedy":
        return "greedy"
    return name.replace("pass_at_", "pass@").replace("any_of_", "right within first ")


def samples(lines: list[dict[str, Any]], count: int = 3) -> str:
    """The last episodes of the training that were kept: query, each answer, its score."""
    blocks = []
    kept = [line for line in lines if line["kind"] == TRAINING]
    for number, line in enumerate(kept[-count:], 1):
        rows = [f"episode {number}, iteration {line['iteration']}", f"  query     {line['prompt']}"]
        for turn in line["turns"]:
            text = textwrap.shorten(turn["response"], 84, placeholder=" ...")
            rows.append(f"  {turn['role']:<9} {text}   [{turn['score']:+.2f}]")
        blocks.append("\n".join(rows))
    return "\n".join(blocks)
