"""Samples of a run for the page: few enough for one file, the same prompts in every run."""

from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 4000  # characters of a text; the rest is cut, and said to be
SETS = 5  # evaluations, and iterations of the training, whose texts are kept

Line = Mapping[str, Any]  # of samples.jsonl


class Strings:
    """Texts, each stored once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, text: object) -> int | None:
        """The number of a text; None for None."""
        if text is None:
            return None
        said = str(text)
        if len(said) > LONGEST:
            said = f"{said[:LONGEST]} ... ({len(said) - LONGEST} more characters)"
        if said not in self._places:
            self._places[said] = len(self.texts)
            self.texts.append(said)
        return self._places[said]


def evenly(items: Sequence[int], count: int) -> list[int]:
    """At most `count` of the items: the first, the last, and evenly between them."""
    if len(items) <= count:
        return list(items)
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def whom(line: Line) -> str:
    """Who answers in a line: `agent_0`, `team`, `agent_0 as attacker against im`.

    Empty in a line of the training, whose episodes are of all agents.
    """
    role = f" as {line['role']}" if line.get("role") else ""
    opponent = f" against {line['opponent']}" if line.get("opponent") else ""
    return f"{line.get('who') or ''}{role}{opponent}"


def chosen(lines: Sequence[Line], prompts: int) -> list[Line]:
    """The lines that the page has: of a few iterations, the first prompts of each agent.

    prompts: different prompts of an agent in one evaluation; `SETS` limits the evaluations
    """
    times: dict[str, list[int]] = {}
    for line in lines:
        own = times.setdefault(str(line["kind"]), [])
        if line["iteration"] not in own:
            own.append(line["iteration"])
    kept = {kind: set(evenly(sorted(own), SETS)) for kind, own in times.items()}
    seen: dict[tuple[str, int, str], dict[str, None]] = {}
    found = []
    for line in lines:
        if line["iteration"] not in kept[str(line["kind"])]:
            continue
        key = (str(line["kind"]), int(line["iteration"]), whom(line))
        asked = seen.setdefault(key, {})
        name = str(line.get("prompt_id", line["prompt"]))
        if name in asked or len(asked) < prompts:
            asked[name] = None
            found.append(line)
    return found


def packed(line: Line, strings: Strings) -> dict[str, Any]:
    """A line as the page has it; texts are numbers of `strings`."""
    turns = [
        {
            "role": turn.get("role") or "",
            "agent": turn.get("agent") or "",
            "context": strings.place(turn.get("context")),
            "response": strings.place(turn.get("response")),
            "score": turn.get("score"),
        }
        for turn in line["turns"]
    ]
    end = line.get("reason")
    if end and line.get("winners"):
        end = f"{end}, won by {' and '.join(line['winners'])}"
    return {
        "iteration": line["iteration"],
        "kind": line["kind"],
        "who": whom(line),
        # of a game against another player: whose scores count
        "policy": line.get("who") if line.get("opponent") and line.get("role") else None,
        "id": strings.place(line.get("prompt_id", line["prompt"])),
        "sample": line.get("sample"),
        "prompt": strings.place(line["prompt"]),
        "answer": strings.place(line.get("answer")),
        "end": end,
        "turns": turns,
    }
