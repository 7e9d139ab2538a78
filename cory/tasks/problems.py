"""Arithmetic and word problems, and problems in two halves, generated from a random stream."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from cory.config import ConfigError

# Percent of all questions. A question belongs to one part, whatever stream it came from, so that
# pre-training (lm), training and test share no question.
PARTS = {"lm": 80, "train": 15, "test": 5}

NAMES = (
    *("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo", "Iris", "Jon"),
    *("Kim", "Leo", "Mina", "Noah", "Olga", "Paul", "Rosa", "Sam", "Tara", "Yuki"),
)
THINGS = (
    *("apples", "books", "cards", "coins", "eggs", "marbles", "nuts", "pencils", "shells"),
    *("stamps", "stones", "toys"),
)
CONTAINERS = ("bags", "boxes", "jars", "packs")
PLACES = "abcdefgh"
WAYS = ("north", "east", "south", "west")


@dataclass(frozen=True)
class Problem:
    kind: str
    question: str
    solution: str  # a sentence or two; its last number is the answer
    answer: str
    columns: Mapping[str, str] = field(default_factory=dict)  # of the task's rows, for plays


def add(stream: np.random.Generator) -> Problem:
    """a + b, each below 100."""
    a, b = _numbers(stream, 0, 99, 2)
    return _problem("add", f"What is {a} + {b}?", f"{a} + {b} = {a + b}.")


def subtract(stream: np.random.Generator) -> Problem:
    """a - b, each below 100; the answer may be negative."""
    a, b = _numbers(stream, 0, 99, 2)
    return _problem("subtract", f"What is {a} - {b}?", f"{a} - {b} = {a - b}.")


def multiply(stream: np.random.Generator) -> Problem:
    """a * b with a below 100 and b below 10, solved tens first."""
    a, b = _numbers(stream, 0, 99, 1)[0], _numbers(stream, 0, 9, 1)[0]
    tens, ones = a - a % 10, a % 10
    steps = [f"{a} * {b} = {a * b}."]
    if tens and ones:
        steps = [
            f"{tens} * {b} = {tens * b}.",
            f"{ones} * {b} = {ones * b}.",
            f"{tens * b} + {ones * b} = {a * b}.",
        ]
    return _problem("multiply", f"What is {a} * {b}?", *steps)


def mixed(stream: np.random.Generator, kind: str = "mixed", largest: int = 30) -> Problem:
    """a + b * c + d - e * f, each up to `largest` (Subramaniam et al., 2025, sec. 4.1)."""
    a, b, c, d, e, f = _numbers(stream, 0, largest, 6)
    first, second = b * c, e * f
    total = a + first
    return _problem(
        kind,
        f"What is {a} + {b} * {c} + {d} - {e} * {f}?",
        f"{b} * {c} = {first}.",
        f"{e} * {f} = {second}.",
        f"{a} + {first} = {total}.",
        f"{total} + {d} = {total + d}.",
        f"{total + d} - {second} = {total + d - second}.",
    )


def chain(stream: np.random.Generator) -> Problem:
    """Two to five operations from left to right, as 6 * 7 - 5 + 8; no result is below 0.

    It begins with a number up to 50 or a product of two digits; then digits come and go.
    """
    operations = int(stream.integers(2, 6))
    steps = []
    if stream.random() < 0.5:
        a, b = _numbers(stream, 2, 9, 2)
        total, question = a * b, f"{a} * {b}"
        steps.append(f"{question} = {total}.")
    else:
        total = _numbers(stream, 2, 50, 1)[0]
        question = f"{total}"
    while len(steps) < operations:
        number = _numbers(stream, 2, 9, 1)[0]
        minus = total >= number and stream.random() < 0.5
        result, sign = (total - number, "-") if minus else (total + number, "+")
        question += f" {sign} {number}"
        steps.append(f"{total} {sign} {number} = {result}.")
        total = result
    return _problem("chain", f"What is {question}?", *steps)


def story(stream: np.random.Generator) -> Problem:
    """A word problem of two steps, with one of four plots."""
    return STORIES[int(stream.integers(len(STORIES)))](stream)


def _story_boxes(stream: np.random.Generator) -> Problem:
    name, thing, container = _words(stream, NAMES, THINGS, CONTAINERS)
    own, count, each = _numbers(stream, 2, 50, 1)[0], *_numbers(stream, 2, 9, 2)
    bought = count * each
    return _problem(
        "story",
        f"{name} has {own} {thing} and buys {count} {container} with {each} {thing} each. "
        f"How many {thing} does {name} have now?",
        f"The {container} hold {count} * {each} = {bought} {thing}.",
        f"{own} + {bought} = {own + bought}.",
    )


def _story_gift(stream: np.random.Generator) -> Problem:
    name, thing = _words(stream, NAMES, THINGS)
    own, more = _numbers(stream, 5, 60, 2)
    given = int(stream.integers(1, own + more))
    return _problem(
        "story",
        f"{name} had {own} {thing}, found {more} more and gave {given} to a friend. "
        f"How many {thing} are left?",
        f"{own} + {more} = {own + more} {thing} before the gift.",
        f"{own + more} - {given} = {own + more - given}.",
    )


def _story_share(stream: np.random.Generator) -> Problem:
    name, thing = _words(stream, NAMES, THINGS)
    friends, each, kept = _numbers(stream, 2, 9, 3)
    total = friends * each + kept
    return _problem(
        "story",
        f"{name} has {total} {thing}, keeps {kept} and shares the rest equally among {friends} "
        f"friends. How many {thing} does each friend get?",
        f"{total} - {kept} = {total - kept} {thing} to share.",
        f"{total - kept} / {friends} = {each}.",
    )


def _story_sale(stream: np.random.Generator) -> Problem:
    (name,) = _words(stream, NAMES)
    one, other = (THINGS[place] for place in sorted(stream.choice(len(THINGS), 2, replace=False)))
    count, price, more, cost = _numbers(stream, 2, 9, 4)
    left, right = count * price, more * cost
    return _problem(
        "story",
        f"{name} sells {count} {one} for ${price} each and {more} {other} for ${cost} each. "
        f"How many dollars does {name} earn?",
        f"The {one} bring {count} * {price} = {left} and the {other} {more} * {cost} = {right}.",
        f"{left} + {right} = {left + right}.",
    )


def addends(stream: np.random.Generator, size: int) -> Problem:
    """The sum of `size` digits of each; one half alone tells it in 1 of 10 cases at best."""
    one, other = _numbers(stream, 0, 9, size), _numbers(stream, 0, 9, size)
    first, second = (" + ".join(map(str, digits)) for digits in (one, other))
    answer = sum(one) + sum(other)
    return halved(f"addends_{size}", "What is the sum?", first, second, sum(one), answer)


def rows(stream: np.random.Generator, size: int) -> Problem:
    """The sum of a column, each knowing a row of `size` digits; alone 1 of 10."""
    one, other = _numbers(stream, 0, 9, size), _numbers(stream, 0, 9, size)
    place = int(stream.integers(size))
    question = f"What is the sum of {PLACES[place]}?"
    answer = one[place] + other[place]
    return halved(f"rows_{size}", question, _table(one), _table(other), one[place], answer)


def roads(stream: np.random.Generator, size: int) -> Problem:
    """The way from a place of a map: one knows the place, one the map; alone 1 of 4.

    size: places, 4 or 8; each way is that of as many
    """
    ways = [WAYS[number % len(WAYS)] for number in stream.permutation(size)]
    place = int(stream.integers(size))
    name, way = PLACES[place], ways[place]
    return halved(f"roads_{size}", "Which way?", f"at {name}", _table(ways), name, way)


def halved(
    kind: str, question: str, first: str, second: str, message: object, answer: object
) -> Problem:
    """A problem of which each of two agents knows one half.

    message: the least that who knows `second` must be told to answer; no agent is shown it
    """
    columns = {"question": question, "first": first, "second": second, "message": str(message)}
    return Problem(kind, f"{question} {first}; {second}", str(answer), str(answer), columns)


def _table(values: Sequence[object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(PLACES, values, strict=False))


STORIES = (_story_boxes, _story_gift, _story_share, _story_sale)
Draw = Callable[[np.random.Generator], Problem]
HALVED: Mapping[str, Draw] = {  # by their size, as addends_2: two digits in each half
    f"{make.__name__}_{size}": partial(make, size=size)
    for make, sizes in ((addends, range(1, 9)), (rows, range(1, 9)), (roads, (4, 8)))
    for size in sizes
}
KINDS: Mapping[str, Draw] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "story": story,
    "mixed": mixed,
    "chain": chain,
    # as drawn in the released code for debates
    "mixed_29": partial(mixed, kind="mixed_29", largest=29),
    **HALVED,
}


def draw_problem(stream: np.random.Generator, kinds: Sequence[str], part: str) -> Problem:
    """One problem of a part, of a kind drawn uniformly from `kinds`."""
    make = KINDS[kinds[int(stream.integers(len(kinds)))]]
    while True:
        problem = make(stream)
        if part_of(problem.question) == part:
            return problem


def draw_distinct(
    stream: np.random.Generator, kinds: Sequence[str], part: str, count: int
) -> list[Problem]:
    """`count` problems with different questions; ConfigError where the kinds have too few."""
    problems: dict[str, Problem] = {}
    repeated = 0
    while len(problems) < count:
        problem = draw_problem(stream, kinds, part)
        repeated = repeated + 1 if problem.question in problems else 0
        # with one of n questions left, so many draws in a row miss it with probability 2e-9
        if repeated > 20 * (len(problems) + 1):
            said = f"task.kinds={', '.join(kinds)}"
            raise ConfigError(f"{said}: only {len(problems)} questions found in part {part}")
        problems.setdefault(problem.question, problem)
    return list(problems.values())


def part_of(question: str) -> str:
    """The part that a question belongs to, by a hash of its text."""
    number = int.from_bytes(hashlib.sha256(question.encode()).digest()[:8], "big") % 100
    lm, train = PARTS["lm"], PARTS["train"]
    return "lm" if number < lm else "train" if number < lm + train else "test"


def _numbers(stream: np.random.Generator, low: int, high: int, count: int) -> list[int]:
    """`count` integers from `low` to `high`, both included."""
    return [int(number) for number in stream.integers(low, high + 1, count)]


def _words(stream: np.random.Generator, *lists: Sequence[str]) -> list[str]:
    return [words[int(stream.integers(len(words)))] for words in lists]


def _problem(kind: str, question: str, *steps: str) -> Problem:
    answer = steps[-1].rpartition("= ")[2].rstrip(".")
    return Problem(kind, question, " ".join(steps), answer)
