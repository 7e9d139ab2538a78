"""scripts/settings.py: every setting is on the page, as models and files of conf/ have it."""

from __future__ import annotations

import sys

import pytest
from pydantic import Field

from cory.config import Settings
from scripts.settings import PAGE, entries, lines_of, main, may_be, page, row, rows, shortened


def test_the_page_is_what_the_script_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert max(map(len, page().splitlines())) <= 120
    monkeypatch.setattr("scripts.settings.page", lambda: "another")
    monkeypatch.setattr(sys, "argv", ["settings.py", "--check"])
    with pytest.raises(SystemExit, match="make settings"):
        main()


def test_comments_beside_a_value_and_above_it() -> None:
    text = (
        "# what the file is\n"
        "rate: 1e-5           # the highest\n"
        "                     # of all\n"
        "stop:\n"
        "  # nats\n"
        "  max_kl: null\n"
        '  text: "a # b"      # quoted\n'
        "last: [1, 2]\n"
    )
    assert dict(lines_of(text)) == {
        "rate": ("1e-5", "the highest of all"),
        "stop": ("", ""),
        "stop.max_kl": ("null", "nats"),
        "stop.text": ('"a # b"', "quoted"),
        "last": ("[1, 2]", ""),
    }


def test_an_option_has_what_its_defaults_say() -> None:
    values = entries("algorithm/cory")
    assert values["clip_range"] == entries("algorithm/ppo")["clip_range"]
    assert values["name"][0] == "cory"
    assert entries("algorithm/maporl")["prompts.separator"][0]


class Inner(Settings):
    size: int


class Example(Settings):
    name: str
    share: float = Field(gt=0, le=1)
    most: int | None = Field(ge=1)
    kinds: list[str]
    inner: Inner


def test_rows() -> None:
    found = {"share": ("0.5", "of all"), "inner.size": ("3", ""), "most": ("null", "a | b: c")}
    assert [*rows(Example, found, {("kinds", "list: text")})] == [
        "| `share` | > 0, ≤ 1 | 0.5 | of all |",
        "| `most` | whole ≥ 1 or null | null | a \\| b: c |",
        "| `inner.size` | whole | 3 |  |",
    ]
    assert not [
        *rows(
            Example, found, {("share", "> 0, ≤ 1"), ("most", "whole ≥ 1"), ("inner.size", "whole")}
        )
    ]


def test_choices_are_not_repeated() -> None:
    assert row("x", "a, b", "a", "b | a: whose") == "| `x` | a, b | a | whose |"
    assert may_be({"enum": [1, 2]}, {}) == "1, 2"


def test_what_does_not_fit_ends_with_a_clause() -> None:
    assert shortened("one, two; three", 12) == "one, two"
    assert shortened("one two three four", 14) == "one two ..."
