"""Templates of conf/paper/: claims and rows that differ in a few words."""

from collections.abc import Mapping
from typing import Any


def expand(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The claims of a template.

    each: one claim for each of these sets of words, filled in for {word}
    every: one part (or several) for each of these; all parts must hold, or `at_least` so many
    unjudged: why no run can say anything about it; it has no parts
    """
    claims = []
    for words in template.get("each", [{}]):
        parts = template.get("parts") or [
            {key: template[key] for key in ("left", "relation", "factor", "right", "within")
             if key in template}
        ]  # fmt: skip
        if "unjudged" in template:
            parts = []
        filled = [
            fill(part, {**words, **more}) for more in template.get("every", [{}]) for part in parts
        ]
        kept = ("id", "text", "section", "note", "scales", "ours", "at_least", "unjudged",
                "control", "post_hoc")  # fmt: skip
        rest = {key: template[key] for key in kept if key in template}
        claims.append({**fill(rest, words), "parts": filled})
    return claims


def fill(node: Any, words: Mapping[str, Any]) -> Any:
    """A copy of nested data with {word} replaced in every text."""
    if isinstance(node, dict):
        return {key: fill(value, words) for key, value in node.items()}
    if isinstance(node, list):
        return [fill(value, words) for value in node]
    if isinstance(node, str):
        for word, value in words.items():
            node = node.replace(f"{{{word}}}", str(value))
    return node
