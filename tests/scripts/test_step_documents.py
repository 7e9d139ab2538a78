"""scripts/step_documents.py: mistakes in steps, and what others' solutions do to them."""

from __future__ import annotations

from scripts.step_documents import (
    worked,
)


def test_later_steps_go_on_from_a_mistake() -> None:
    wrong = {"4 * 6": 34, "41 - 9": 30}
    said = worked("4 * 6 = 24. 7 + 24 = 31. 31 - 9 = 22.", lambda step, true: wrong.get(step, true))
    assert said == "4 * 6 = 34. 7 + 34 = 41. 41 - 9 = 30."
    shared = worked(
        "17 - 5 = 12 stamps to share. 12 / 2 = 6.",
        lambda step, true: 15 if step == "17 - 5" else true,
    )
    assert shared == "17 - 5 = 15 stamps to share. 15 / 2 = 7."
