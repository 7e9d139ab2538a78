"""Damaged files of JSON lines, made up by hypothesis from sound ones."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

# what JSON can hold and programs forget: halves of characters, huge numbers, NaN, nesting
ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, float("nan"), float("inf"), 10**30, -(10**400), 2**31, 2**63,
    "", " ", "a", "0", "1e999", "\ud800", "\x00", "\u2028", "é" * 50, [], {}, [[]], [None], {"": 0},
    [1, "a"], {"a": {"b": []}},
]  # fmt: skip
LINES = [
    b"", b" ", b"3", b"null", b"[]", b"{}", b'"x"', b"NaN", b"{", b"}", b"\xff", b"\xed\xa0\x80",
    b"\x00", b"[" * 5000, b'{"a":' * 5000, b"[" * 200_000, b"9" * 5000, b'{"a": 1, "a": 2}',
    "\ufeff{}".encode(), '{"a": 1}'.encode("utf-16"), b'{"a": "\\ud800"}', b"{'a': 1}",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where values stand in a value of JSON, itself included."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            found += places(inner, (*path, number))
    return found


def put(value: Any, path: tuple[Any, ...], new: Any, remove: bool) -> Any:
    """The value with something else at a place, or nothing."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and remove:
        del copy[path[0]]
    else:
        copy[path[0]] = put(copy[path[0]], path[1:], new, remove)
    return copy


@st.composite
def damaged_json(draw: st.DrawFn, sound: bytes) -> bytes:
    """A JSON text with another value at one to three places, or without it."""
    value = json.loads(sound)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(value)))
        value = put(value, path, draw(st.sampled_from(ODD)), draw(st.booleans()))
    return json.dumps(value).encode()


@st.composite
def damaged_bytes(draw: st.DrawFn, sound: bytes) -> bytes:
    """Bytes that are changed, lost, doubled or inserted at one place."""
    start = draw(st.integers(0, len(sound)))
    end = draw(st.integers(start, min(len(sound), start + 40)))
    return sound[:start] + draw(st.binary(max_size=8)) + sound[end:]


@st.composite
def damaged_lines(draw: st.DrawFn, rows: list[bytes]) -> bytes:
    """The bytes of a file whose lines were damaged in one or two ways."""
    found = list(rows)
    for _ in range(draw(st.integers(1, 2))):
        how = draw(st.sampled_from(["value", "line", "swap", "lose", "double"]))
        at = draw(st.integers(0, max(0, len(found) - 1)))
        if not found or how == "line":
            found.insert(at, draw(st.sampled_from(LINES)))
        elif how == "value":
            try:
                found[at] = draw(damaged_json(found[at]))
            except (ValueError, RecursionError):  # it is damaged already
                found[at] = draw(damaged_bytes(found[at]))
        elif how == "swap":
            found[at], found[-1] = found[-1], found[at]
        elif how == "lose":
            del found[at]
        else:
            found.insert(at, found[at])
    content = b"".join(row + b"\n" for row in found)
    return draw(st.one_of(st.just(content), damaged_bytes(content)))
