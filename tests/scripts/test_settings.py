"""scripts/settings.py: every setting is on the page, as models and files of conf/ have it."""

from __future__ import annotations

import re
import sys

import pytest

from scripts.settings import PAGE, main, page


def test_the_page_is_what_the_script_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert max(map(len, page().splitlines())) <= 120
    monkeypatch.setattr("scripts.settings.page", lambda: "another")
    monkeypatch.setattr(sys, "argv", ["settings.py", "--check"])
    with pytest.raises(SystemExit, match="make settings"):
        main()


def test_every_setting_is_explained_where_it_is_first_given() -> None:
    """But for those whose choices say it all."""
    unexplained = re.findall(r"^\| `([\w.]+)` .+\|  \|$", page(), re.MULTILINE)
    assert set(unexplained) == {"evaluation.split"}
