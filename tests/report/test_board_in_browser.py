"""The page of `cory-board` in a real browser: it draws itself, asks for nothing, runs no text."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.support.made_up_boards import line, page_of, run_writer, sample

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: none of {', '.join(BROWSERS)} is installed"
)
EVIL = "</script></template><script>document.title='run'</script><img src=http://a.example/x>"
OPPONENT = "<b onmouseover=alert(1)>im"


class Texts(HTMLParser):
    """The elements and the text of a page as the browser has drawn it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.page = page
        self.code = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.code = tag in ("script", "style", "template")

    def handle_endtag(self, tag: str) -> None:
        self.code = False

    def handle_data(self, data: str) -> None:
        if not self.code:
            self.text += data


def requests_in(log: Path) -> set[str]:
    """The addresses that a page asked for; what the browser asks for itself has no origin."""
    asked = set()
    for row in log.read_text(encoding="utf-8").splitlines():
        if '"initiator":' in row:
            (initiator,) = re.findall(r'"initiator":"([^"]*)"', row)
            (url,) = re.findall(r'"url":"([^"]*)"', row)
            if initiator != "not an origin":
                asked.add(url)
    return asked


def dump(page: Path, folder: Path, **chosen: str | list[str]) -> tuple[str, set[str]]:
    """The page as the browser has drawn it after these choices, and what it asked for."""
    assert BROWSER is not None
    log = folder / "net.json"
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}",
        "--virtual-time-budget=10000",
        "--dump-dom",
        f"{page.as_uri()}#{urlencode(chosen, doseq=True)}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, requests_in(log)


def drawn(page: Path, folder: Path, **chosen: str | list[str]) -> Texts:
    """The page of `cory-board` after these choices."""
    text, asked = dump(page, folder, **chosen)
    found = Texts(text)
    assert asked == set()
    assert 'data-ready="yes"' in text, found.text
    assert "<title>runs - cory board</title>" in text, "a text of a run was run"
    return found


def test_a_request_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<img src=http://a.example/x>")
    _, asked = dump(tmp_path / "page.html", tmp_path)
    assert "http://a.example/x" in asked


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page of four runs in two groups, whose texts would like to run."""
    write = run_writer(tmp_path / "runs")
    for kl in ("0.1", "0.3"):
        for seed in (0, 1):
            lines = [
                line(i, seed, **{f"eval/win_rate/{OPPONENT}": 0.75, "eval/win_rate/itself": 0.5})
                for i in range(3)
            ]
            samples = [sample(at, EVIL, f"{at} {EVIL}", answer=EVIL) for at in (0, 2)]
            words = (f"algorithm.kl_coef={kl}", f"seed={seed}", f"wandb.project='{seed}<img>'")
            row = {"metric": f"eval/score/{OPPONENT}", "before": 0.5, "after": 0.7 + seed / 10}
            table = [row | {"low": 0.1, "high": 0.3, "n": 64}]
            write(f"kl{kl}_seed{seed}", *words, lines=lines, samples=samples, before_after=table)
    (write("damaged") / "record.json").write_text("<img>")
    page = tmp_path / "board.html"
    page.write_text(page_of(tmp_path / "runs"), encoding="utf-8")
    return page


def test_the_page_draws_itself_and_filters_runs(page: Path, tmp_path: Path) -> None:
    runs = drawn(page, tmp_path, tab="runs", **{"not.seed": "1"})
    assert "2 of 4 runs shown" in runs.text and "1 left out" in runs.text
    assert "kl0.1_seed0" in runs.text and "kl0.1_seed1" not in runs.text
    assert runs.tags.count("tr") == 3 and "img" not in runs.tags


@pytest.mark.slow
def test_every_view_is_drawn_and_texts_stay_texts(page: Path, tmp_path: Path) -> None:
    show = partial(drawn, page, tmp_path)
    pooled = show(tab="runs", rows="groups", metrics=["objective/score"])
    # of both groups the mean of seeds 0 and 1, and its standard deviation
    assert pooled.text.count("0.5 ± 0.71") == 2 and pooled.text.count("1.5 ± 0.71") == 2

    curves = show(tab="curves", metrics=["objective/score", "eval/win_rate"], smooth="0.5")
    assert curves.text.count("2 runs") == 2
    assert curves.tags.count("figure") == 2 and curves.tags.count("svg") >= 2
    # in both panels, of two groups and two names: a mean, its band's two edges, the raw mean behind
    assert curves.page.count('class="trace scatter') == 32

    texts = show(tab="samples")
    assert f"0 {EVIL}" in texts.text and f"2 {EVIL}" in texts.text
    assert "img" not in texts.tags and texts.tags.count("article") == 1

    change = show(tab="before")
    # two seeds: their mean, and its interval by Student's t with one degree of freedom
    assert change.text.count("+0.25") == 2 and change.text.count("-0.385 to +0.885") == 2
    assert change.text.count("no difference can be told") >= 2
    alone = show(tab="before", **{"not.seed": "1"})
    assert alone.text.count("+0.1 to +0.3") == 2 and alone.text.count("rose") == 2

    games = show(tab="matrices")
    assert f"against {OPPONENT}" in games.text and games.text.count("75 %") == 2
    assert "b" not in games.tags
