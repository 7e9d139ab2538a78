"""docs/metrics.md and the code name the same metrics."""

from __future__ import annotations

import ast
import re
from itertools import chain
from pathlib import Path

from omegaconf import OmegaConf

from cory.benchmarks import GEOMETRIC_MEAN

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ("objective", "rollout", "ppo", "role", "transfer", "debate", "verifier", "supervised")
FAMILIES += ("game", "offline", "eval", "time", "reward")
PACKAGES = ("trainers", "algorithms", "evaluation", "rewards")  # whose modules name metrics
# the last part of a name, when it says whom the number is about
WHOM = re.compile(
    r"/(agent_\d+(_turn_\d+)?|turn_\d+|pioneer|observer(_\d+)?|team|natural|balanced|within"
    r"|itself|scripted|single|(generation|critic)(_\d+)?)$"
)


def documented() -> list[str]:
    """The first column of the tables of docs/metrics.md."""
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[^|]+`) \|", text, flags=re.MULTILINE)
    return [name for cell in cells for name in cell.strip("`").split("`, `")]


def literals() -> set[str]:
    """Every string of PACKAGES that names a metric, `{}` for what is filled in."""
    found = set()
    for path in chain.from_iterable((ROOT / "cory" / room).glob("*.py") for room in PACKAGES):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        formatted = [node.values for node in nodes if isinstance(node, ast.JoinedStr)]
        inside = {id(part) for parts in formatted for part in parts}
        plain = [[n] for n in nodes if isinstance(n, ast.Constant) and id(n) not in inside]
        for parts in [*formatted, *plain]:
            text = "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)
            if re.fullmatch(rf"({'|'.join(FAMILIES)})/[\w/{{}}]+", text):
                found.add(text)
    return found


def plain(name: str) -> str:
    """A logged name as the page has it: without whom it is about, <k> for a number, <role>, ..."""
    name = re.sub(r"((pass_at|any_of)_)\d+", r"\1<k>", WHOM.sub("", name))
    name = re.sub(r"(?<=[/_])(own|tone|taste)(?=/|_|$)", "<part>", name)
    name = re.sub(r"^reward/<part>/", "reward/", name).replace("logged/length", "logged/<name>")
    return re.sub(r"(?<=[/_])(attacker|defender)(?=_|$)", "<role>", name)


def test_no_metric_is_named_twice() -> None:
    assert len(documented()) == len(set(documented()))


def test_the_page_and_the_source_name_the_same() -> None:
    """A metric is a string of the source, whichever settings log it."""
    benchmarks = OmegaConf.load(ROOT / "conf" / "benchmarks" / "spag.yaml").benchmarks
    of_a_record = {f"benchmark/{name}" for name in (*benchmarks, GEOMETRIC_MEAN)}
    assert of_a_record <= set(documented())
    named = {
        name: [f"{name}{whom}" for whom in ("", "/x", "/turn_x")]
        for name in set(documented()) - of_a_record
    }
    found = literals()
    assert {"objective/kl", "objective/kl_{}", "ppo/value/mean/{}", "time/{}"} <= found
    assert {"eval/score/{}", "eval/{}_low/{}", "transfer/gain/{}"} <= found
    patterns = {one: re.escape(plain(one)).replace(r"\{\}", r"[\w/<>]+") for one in found}
    for literal, pattern in patterns.items():
        assert any(re.fullmatch(pattern, one) for own in named.values() for one in own), literal
    for name, own in named.items():
        assert any(re.fullmatch(pattern, one) for pattern in patterns.values() for one in own), name


def test_every_line_says_where_the_number_is_computed() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `.+", text, flags=re.MULTILINE)
    of_rows = [re.findall(r"`((?:\w+/)*\w+\.py)(?:: ([\w.]+))?`", row) for row in rows]
    assert rows and all(of_rows)
    places = [place for of_row in of_rows for place in of_row]
    for file, name in places:
        source = (ROOT / "cory" / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"(def|class) {name.rpartition('.')[2]}\b", source), name
