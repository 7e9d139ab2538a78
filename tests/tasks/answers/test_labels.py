from __future__ import annotations

import pytest

from cory.tasks.answers.labels import final_label

E, N, C = "entailment", "neutral", "contradiction"


@pytest.mark.parametrize(
    ("response", "label"),
    [
        # boxes
        (r"So it follows. Answer: \boxed{entailment}", E),
        (r"\boxed{\text{Contradiction}}", C),
        (r"\boxed { **contradiction** }", C),
        (r"\boxed{entailment} no, \boxed{neutral}", N),
        # what is said outside of it does not count
        (r"It looks like a contradiction. \boxed{neutral} Not entailment, contradiction!", N),
        (r"This is neutral. \boxed{maybe}", None),
        (r"\boxed{not entailment}", None),
        (r"\boxed{contradiction (not entailment)}", C),
        (r"\boxed{entailment / neutral / contradiction}", None),
        (r"\boxed{entailment, I mean: neutral}", None),
        # without one, the last label that is asserted
        ("The answer is neutral.", N),
        ("At first it seems neutral, but the date makes it a contradiction.", C),
        ("The hypothesis is entailed by the premise.", E),
        # denied
        ("This is neutral; there's no contradiction", N),
        ("Neutral, since the premise does not entail or contradict the hypothesis.", N),
        ("I would say neutral rather than a *contradiction*", N),
        ("Neutral. The premise neither entails nor contradicts it.", N),
        ("Neutral. It fails to entail the hypothesis.", N),
        ("Neutral, a non-contradiction", N),
        ("Neutral, as nothing is said without contradiction", N),
        ("It is not entailment but contradiction.", C),
        ("Nothing says so, therefore neutral", N),
        ("He is not in Rome, which contradicts the hypothesis", C),
        ("It cannot be neutral. It is an entailment", E),
        ("It is not true that he was there and so it is a contradiction", C),
        # lists to choose from
        ("Choose one of entailment, neutral or contradiction", None),
        ("It is an entailment. (entailment / neutral / contradiction)", E),
        ("It could be entailment or neutral", None),
        # none
        ("Yes", None),
        ("", None),
        ("The pony neighed, uncontradicted.", None),
    ],
)
def test_the_label_of_a_response(response: str, label: str | None) -> None:
    assert final_label(response) == label


def test_a_collapsed_response_is_read_in_no_time() -> None:
    assert final_label("not " * 20_000) is None
    assert final_label("neutral, " * 20_000) == N
    assert final_label("\\boxed{" * 5_000) is None
