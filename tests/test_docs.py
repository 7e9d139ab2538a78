"""README and docs/: every link, heading, file, name and metric that they mention exists."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from cory.config import experiment_names

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"
# the numbers of docs/results are generated
GUIDE_PAGES = [page for page in sorted((ROOT / "docs").glob("*.md"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *GUIDE_PAGES]
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
# a file or folder of this repository; `cory/fig3` and the like name an experiment or a sweep
PLACE = re.compile(
    r"(?<![\w/.=,-])(?:cory(?:/[\w-]+)*(?:/\w+\.py|/)|(?:conf|scripts|tests|docs)(?:/[\w.-]+)+/?)(?![\w/*<-])"
)
# a choice on the command line; what is not spelt out has <...>, ... or quotes
CHOICE = re.compile(r"(?<![\w.@+/-])(?P<group>\w+)(?:@[\w.]+)?=(?P<options>[\w/.,-]*\w)(?![\w<*{])")
all_pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def anchors(text: str) -> set[str]:
    """The names under which GitHub links to a page's headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", without_code(text), flags=re.MULTILINE):
        shown = LINK.sub(r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        assert name not in found, f"two headings named '{heading}'"
        found.add(name)
    return found


def without_code(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[tuple[str, Path, str]]:
    """Text, file and anchor of every link that does not leave the repository."""
    found = []
    for text, target in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if "://" not in target:
            place, _, anchor = target.partition("#")
            found.append((text, (page.parent / place).resolve() if place else page, anchor))
    return found


def defines(source: str, name: str) -> bool:
    """Whether a module has a function, a class or a constant of that name."""
    return bool(re.search(rf"^\s*(?:(?:def|class) {name}\b|{name}(?:: .+)? = )", source, re.M))


# options of a user's own, in docs/own.md: of the folder that cory-new makes, or to be written
OWN = {"experiment=mine", "sweep=mine/all", "sweep=mine/worth", "experiment=guess"}
OWN |= {"model=my_model", "reward=length"}


@all_pages
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = []
    for text, place, anchor in links(page):
        if not place.exists():
            wrong.append(f"[{text}]: there is no {place.relative_to(ROOT)}")
        elif anchor and anchor not in anchors(place.read_text(encoding="utf-8")):
            wrong.append(f"[{text}]: {place.name} has no heading #{anchor}")
    assert not wrong


@all_pages
def test_a_link_to_a_module_names_what_it_defines(page: Path) -> None:
    wrong = [
        f"{place.relative_to(ROOT)} has no {name}"
        for text, place, _ in links(page)
        if place.suffix == ".py" and place.exists() and text.startswith("`")
        for name in text.strip("`").split(".")
        if not defines(place.read_text(encoding="utf-8"), name)
    ]
    assert not wrong


@all_pages
def test_every_file_that_a_page_mentions_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {match[0].rstrip(".") for match in PLACE.finditer(LINK.sub(r"\1", text))}
    assert not {place for place in named if not (ROOT / place).exists()}


@all_pages
def test_every_option_that_a_page_chooses_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = experiment_names(CONF)
    chosen = {
        (match["group"], option)
        for match in CHOICE.finditer(text)
        if (CONF / match["group"]).is_dir()
        for option in match["options"].split(",")
    }
    wrong = {
        f"{group}={option}"
        for group, option in chosen
        if not (CONF / group / f"{option}.yaml").exists()
        and not (group == "experiment" and option in named)
        and f"{group}={option}" not in OWN
    }
    assert not wrong


def test_the_site_lists_every_page() -> None:
    listed = re.findall(r"(\S+\.md)$", (ROOT / "scripts/docs_site/mkdocs.yml").read_text(), re.M)
    docs = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(
        map(str, [*docs, "index.md", "CONTRIBUTING.md", "CHANGELOG.md"])
    )


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


def test_the_page_and_the_source_name_the_same() -> None:
    """A metric is a string of the source, whichever settings log it."""
    benchmarks = OmegaConf.load(ROOT / "conf" / "benchmarks" / "spag.yaml").benchmarks
    assert len(documented()) == len(set(documented()))
    of_a_record = {f"benchmark/{name}" for name in (*benchmarks, "geometric_mean")}
    assert of_a_record <= set(documented())
    named = {
        name: [f"{name}{whom}" for whom in ("", "/x", "/turn_x")]
        for name in set(documented()) - of_a_record
    }
    found = literals()
    assert {"objective/kl", "time/{}"} <= found
    assert {"eval/score/{}", "eval/pass_at_{}/{}", "transfer/gain/{}"} <= found
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
