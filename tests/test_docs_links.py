"""README and docs/: every link, heading, file and name of the code that they mention exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cory.config import experiment_names

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"
# the numbers of docs/results are generated
GUIDE_PAGES = [page for page in sorted((ROOT / "docs").glob("*.md"))]
PAGES = [ROOT / "README.md", *GUIDE_PAGES]
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
OWN = {"experiment=mine", "sweep=mine/all", "experiment=guess", "model=my_model", "reward=length"}


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
