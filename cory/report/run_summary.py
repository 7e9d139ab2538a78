"""The summary that a run prints at its end: tables of metrics, three episodes, and the curves."""

import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cory.functional.statistics import Z
from cory.report.agent_names import agent_name, roles_in
from cory.report.before_after import LAST, changes
from cory.report.conclusions import sentences, table
from cory.report.next_steps import next_steps
from cory.report.tables.numbers import agents_in_metrics
from cory.rollout.debate import DEBATER
from cory.runs.recorder import TRAINING
from cory.runs.run_dir import AGENTS, METRICS, RECORD, SAMPLES, TIMES, read_lines
from cory.runs.stored_settings import read_settings
from cory.runs.sweeps.differences import SEED, read_varied

ROWS = {
    "task reward": "objective/score",
    "KL to reference (nats)": "objective/kl",
    "combined reward": "objective/combined",
    "entropy (nats per token)": "objective/entropy",
    "one held-out evaluation": "eval/score",  # the first, and the last one
}
# numbers of an evaluation that every agent has; those with an interval have it under other names
OF_AGENTS = re.compile(r"score|greedy|(pass_at|any_of)_\d+")
# training by examples, and answers that broke a guard
LEARNT = re.compile(
    r"(verifier|supervised)/(loss|accuracy|kept_score|score)|debate/penalised|"
    r"offline/(loss|kl|nll_game|nll_sft)"
)
CHANGES = {"wrong, now right": "eval/flow_wr", "right, now wrong": "eval/flow_rw"}


def show_summary(run_dir: Path) -> None:
    """Print the summary of a finished run and draw its curves."""
    lines = read_lines(run_dir / METRICS)
    record = json.loads((run_dir / RECORD).read_text())
    trained = record["iterations"] > 0
    # without known answers, the table of the training has all that there is
    more = not trained or any(key.startswith("eval/pass_at_") for key in lines[-1])
    alone = evaluation(lines[-1]) if more else ""
    found = [alone, debate(lines[-1]), verifier_table(lines[-1]), games(lines[-1])]
    if not trained:
        print("\n" + "\n\n".join(filter(None, found)))
        print(f"\nrecords in {run_dir}")
        return
    roles, rows = roles_in(lines), changes(run_dir, lines)
    said = samples(read_lines(run_dir / SAMPLES))
    # the last table has the held-out rewards where there were any before
    parts = [training_table(lines, roles, held_out=not rows), learnt(lines), *found, said]
    print("\n" + "\n\n".join(filter(None, parts)))
    print(f"\n{record['iterations']} iterations in {record['wall_s']:.0f} s; records in {run_dir}")
    print(phases(read_lines(run_dir / TIMES)))
    print(f"Agents: {run_dir / AGENTS}")
    if rows:
        last = min(LAST, len(lines))
        in_training = (
            f"(in training: before is the first iteration, after the mean of the last {last})"
        )
        note = [in_training] if any(row.n is None for row in rows) else []
        note += [
            f"({name} was changed while the run lasted: before and after may not be scored alike)"
            for name, versions in record.get("user_code_sha256", {}).items()
            if len(versions) > 1
        ]
        print("\n" + "\n".join([table(rows, roles), *note, *sentences(rows, roles)]))
        from_0 = read_settings(run_dir).model.get("value_init") == "zero"
        steps = next_steps(rows, lines, SEED in read_varied(run_dir), from_0)
        if steps:
            print("\n".join(["What next:", *(f"- {step}" for step in steps)]))
    # after all tables, which an error of drawing must not hide; matplotlib takes half a second,
    # which the start of a run need not take
    from cory.report.figures.run_curves import draw_run_curves  # noqa: PLC0415

    plot = run_dir / "curves.png"
    drawn = draw_run_curves(run_dir, plot)
    print(f"Curves: {plot}" if drawn else "Curves: none; this run has no metric that is drawn")


def phases(lines: list[dict[str, Any]]) -> str:
    """Shares of the iterations' time, generation first."""
    whole = sum(line["time/iteration_s"] for line in lines)
    names = {
        "generation": "time/rollout_s",
        "judging": "time/reward_s",
        "log-probabilities": "time/annotate_s",
        "updates": "time/update_s",
    }
    shares = {
        name: sum(line.get(key, 0.0) for line in lines) / whole
        for name, key in names.items()
        if key in lines[0]
    }
    return "Time: " + ", ".join(f"{share:.0%} {name}" for name, share in shares.items())


def training_table(
    lines: list[dict[str, Any]], roles: Mapping[str, str], held_out: bool = True
) -> str:
    """First iteration beside the mean of the last ones, per agent."""
    agents = agents_in_metrics(lines)
    names = [agent_name(agent, roles) for agent in agents]
    wide = max([15, *(len(name) + 8 for name in names)])
    head = f"{'':26}" + "".join(f"{name + ' first':>{wide}}{last_of(lines):>10}" for name in names)
    rows = [head]
    for name, key in ROWS.items():
        evaluated = key.startswith("eval/")
        if evaluated and not held_out:
            continue
        cells = ""
        for agent in agents:
            values = [line[f"{key}/{agent}"] for line in lines if f"{key}/{agent}" in line]
            tail = values[-1:] if evaluated else values[-LAST:]
            first = f"{values[0]:.3f}" if len(values) > 1 else ""
            last = f"{sum(tail) / len(tail):.3f}" if tail else ""  # not every algorithm has all
            cells += f"{first:>{wide}}{last:>10}"
        if cells.strip():
            rows.append(f"{name:26}{cells}")
    return "\n".join(rows) if len(rows) > 1 else ""


def last_of(lines: list[dict[str, Any]]) -> str:
    """What the column says that averages over the last iterations: of as many as there are."""
    return f"last {min(LAST, len(lines))}"


def learnt(lines: list[dict[str, Any]]) -> str:
    """What learning from examples, or guards, did to each iteration's numbers; empty without."""
    rows = []
    for key in sorted({key for line in lines for key in line if LEARNT.match(key)}):
        values = [line[key] for line in lines if key in line]
        tail = values[-LAST:]
        rows.append(f"{learnt_title(key):34}{values[0]:>10.3f}{sum(tail) / len(tail):>10.3f}")
    return "\n".join([f"{'':34}{'first':>10}{last_of(lines):>10}", *rows]) if rows else ""


def learnt_title(key: str) -> str:
    """What the table calls a metric such as `supervised/loss/critic_0`: loss of critic agent 0."""
    _, what, *who = key.split("/")
    what = {"kl": "KL (nats)"}.get(what, what.replace("_", " "))
    return " of ".join([what, *map(agent_name, who)])


def verifier_table(line: dict[str, Any]) -> str:
    """How good a verifier is at held-out questions; empty for other runs."""
    rows = [
        f"{key.removeprefix('eval/verifier_'):34}{value:>10.3f}"
        for key, value in line.items()
        if key.startswith("eval/verifier_")
    ]
    return "\n".join(["verdicts on held-out answers", *rows]) if rows else ""


def games(line: dict[str, Any]) -> str:
    """What an evaluation found about games: a row per opponent; empty without games."""
    names = [key.removeprefix("eval/invalid/") for key in line if key.startswith("eval/invalid/")]
    if not names:
        return ""
    found = (re.fullmatch(r"eval/win_rate_(\w+)/.+", key) for key in line)
    kinds = dict.fromkeys(match[1] for match in found if match)
    # eval/win_rate_se is an error, and so is eval/win_rate_<role>_se
    roles = [role for role in kinds if role != "se" and not role.endswith("_se")]
    columns = [f"win_rate_{role}" for role in roles] + ["ties", "invalid", "game_turns"]
    heads = [f"win rate as {role}" for role in roles] + ["ties", "invalid", "turns"]
    rows = [f"{'held-out games (± 95 %)':26}" + "".join(f"{head:>24}" for head in heads)]
    for name in names:
        cells = ""
        for column in columns:
            text, error = f"eval/{column}/{name}", f"eval/{column}_se/{name}"
            cell = f"{line[text]:.3f}" if text in line else ""
            cell += f" ± {Z * line[error]:.3f}" if error in line else ""
            cells += f"{cell:>24}"
        rows.append(f"{'against ' + name:26}{cells}")
    return "\n".join(rows)


def evaluation(line: dict[str, Any]) -> str:
    """What an evaluation found: a row for each number, with its 95 % interval where it has one."""
    found: dict[str, dict[str, str]] = {}
    for key, value in line.items():
        family, _, rest = key.partition("/")
        name, _, who = rest.partition("/")  # of parts of a sum, `reward` and two names
        if family != "eval" or not OF_AGENTS.fullmatch(name):
            continue
        text = f"{value:.3f}"
        if f"eval/{name}_low/{who}" in line:
            low, high = (line[f"eval/{name}_{end}/{who}"] for end in ("low", "high"))
            text += f" ({low:.3f} to {high:.3f})"
        found.setdefault(name, {})[who] = text
    whom = list(found.get("score", {}))
    if not set(whom) - {"team"}:
        return ""
    names = [agent_name(who) for who in whom]
    rows = [f"{'alone, held-out prompts':26}" + "".join(f"{name:>24}" for name in names)]
    for name in sorted(found, key=place):
        cells = "".join(f"{found[name].get(who, ''):>24}" for who in whom)
        rows.append(f"{title(name):26}{cells}")
    return "\n".join(rows)


def debate(line: dict[str, Any]) -> str:
    """What an evaluation found about debates: accuracy after each turn; empty without debates."""
    turns = 0
    while f"eval/vote/turn_{turns + 1}" in line:
        turns += 1
    if turns == 0:
        return ""
    whom = [f"turn_{turn + 1}" for turn in range(turns)]
    rows = [
        f"{'debating, held-out prompts':26}" + "".join(f"{'turn ' + who[5:]:>24}" for who in whom)
    ]
    cells = ""
    for who in whom:
        low, high = (line[f"eval/vote_{end}/{who}"] for end in ("low", "high"))
        text = f"{line[f'eval/vote/{who}']:.3f} ({low:.3f} to {high:.3f})"
        cells += f"{text:>24}"
    rows.append(f"{'majority right':26}{cells}")
    cells = "".join(f"{line[f'eval/right/{who}']:>24.3f}" for who in whom)
    rows.append(f"{'single answers right':26}{cells}")
    for name, key in CHANGES.items():
        cells = "".join(
            f"{line[f'{key}/{who}']:>24.3f}" if f"{key}/{who}" in line else f"{'':24}"
            for who in whom
        )
        if cells.strip():
            rows.append(f"{name:26}{cells.rstrip()}")
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
        rows = [
            f"episode {number}, iteration {line['iteration'] + 1}",
            f"  query: {line['prompt']}",
        ]
        for turn in line["turns"]:
            text = textwrap.shorten(turn["response"] or "", 84, placeholder=" ...")
            score = "absent" if turn["score"] is None else f"{turn['score']:+.2f}"
            # debates that only collect data are not paid
            mark = "" if turn["score"] is None and turn["response"] else f"   [{score}]"
            rows.append(f"  {speaker(turn)}: {text}{mark}")
        blocks.append("\n".join(rows))
    return "\n".join(blocks)


def speaker(turn: dict[str, Any]) -> str:
    """Who said a turn: the agent with its role; in a debate, the place and turn."""
    role = str(turn["role"])
    if role.startswith(DEBATER):  # policies may be shared by agents, or differ by turn
        return f"{agent_name(role.replace(DEBATER, 'agent_'))}, turn {turn['round'] + 1}"
    return agent_name(turn["agent"], {} if role == "solo" else {turn["agent"]: role})
