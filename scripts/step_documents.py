"""Texts that `tiny_steps` is trained on: worked solutions with mistakes, alone and after others'.

Every solver makes its mistakes in single steps and goes on from what it said, so that sampled
answers differ while the most likely one is right. One that sees others' solutions looks for its
own next step in them: where they agree with the truth it errs less, where they contradict each
other somewhat less, where all are wrong it often believes them.

    python scripts/step_documents.py --count 5    # shows some
"""

import argparse
import re
from collections.abc import Callable, Sequence

import numpy as np

from cory.tasks.problems import KINDS, draw_problem

STEP = re.compile(r"(-?\d+) ([-+*/]) (\d+) = (-?\d+)")
OTHERS = (0, 0, 0, 1, 1, 2, 3, 3, 5)  # number of others' solutions in a prompt, drawn uniformly
ALONE = 0.14  # probability of a mistake in a step
OF_OTHERS = (0.02, 0.3)  # ... of the others, drawn uniformly for each document
# ... after others that have the same step: all right, some right, all wrong
CONFIRMED, DISPUTED, MISLED = 0.05, 0.12, 0.45

Result = Callable[[str, int], int]  # (step as "a + b", its true result) -> what is said


def mistaken(value: int, stream: np.random.Generator) -> int:
    """A wrong result near the true one: a digit off by one or two, never below 0."""
    while True:
        off = int(stream.choice([-20, -10, -2, -1, 1, 2, 10, 20]))
        if value + off >= 0 or value < 0:
            return value + off


def worked(solution: str, result: Result) -> str:
    """The solution, each step with the result that `result` gives; later steps go on from it."""
    open_results: list[tuple[int, int]] = []  # (true, said), not yet used by a later step

    def said(value: int) -> int:
        for place in range(len(open_results) - 1, -1, -1):
            if open_results[place][0] == value:
                return open_results.pop(place)[1]
        return value

    def step(match: re.Match[str]) -> str:
        left, sign, right, true = int(match[1]), match[2], int(match[3]), int(match[4])
        a, b = said(left), said(right)
        now = {"+": a + b, "-": a - b, "*": a * b, "/": a // max(b, 1)}[sign]
        value = result(f"{a} {sign} {b}", now)
        open_results.append((true, value))
        return f"{a} {sign} {b} = {value}"

    return STEP.sub(step, solution)


def alone(probability: float, stream: np.random.Generator) -> Result:
    """Each step is wrong with this probability."""
    return lambda step, true: mistaken(true, stream) if stream.random() < probability else true


def after(others: Sequence[str], stream: np.random.Generator) -> Result:
    """Each step in the light of the others' results for the same step."""
    found: dict[str, list[int]] = {}
    for other in others:
        for left, sign, right, value in STEP.findall(other):
            found.setdefault(f"{left} {sign} {right}", []).append(int(value))

    def result(step: str, true: int) -> int:
        values = found.get(step, [])
        wrong = [value for value in values if value != true]
        if not values:
            return alone(ALONE, stream)(step, true)
        if not wrong:
            return alone(CONFIRMED, stream)(step, true)
        probability = MISLED if len(wrong) == len(values) else DISPUTED
        return int(stream.choice(wrong)) if stream.random() < probability else true

    return result


def faultless(stream: np.random.Generator, kinds: Sequence[str]) -> tuple[str, str]:
    """A prompt and the right solution, to learn sums from before anything else."""
    problem = draw_problem(stream, kinds, "lm")
    return f"Question: {problem.question} Answer:", f" {problem.solution}"


def document(stream: np.random.Generator, kinds: Sequence[str]) -> tuple[str, str]:
    """A prompt, with none to five solutions of others, and the solution to train on."""
    problem = draw_problem(stream, kinds, "lm")
    probability = float(stream.uniform(*OF_OTHERS))
    others = [
        worked(problem.solution, alone(probability, stream))
        for _ in range(int(stream.choice(OTHERS)))
    ]
    shown = "".join([f"Question: {problem.question}", *(f" Reference: {text}" for text in others)])
    return f"{shown} Answer:", f" {worked(problem.solution, after(others, stream))}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10, help="how many texts to show")
    parser.add_argument(
        "--kinds", nargs="+", choices=list(KINDS), default=["chain", "story"], help="of problems"
    )
    args = parser.parse_args()
    stream = np.random.default_rng(0)
    for _ in range(args.count):
        print("".join(document(stream, args.kinds)))


if __name__ == "__main__":
    main()
