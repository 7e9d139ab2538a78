from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cory.tasks.imdb import ImdbTask, clean, package_reviews
from tests.support.composing import parsed
from tests.support.rows import write_rows

SLICES = ["task.train_split='train[:90%]'", "task.test_split='train[90%:]'"]


@pytest.fixture(scope="module")
def parts() -> dict[str, pd.DataFrame]:
    return {name: package_reviews(name) for name in ("lm", "classifier", "train", "test")}


def task(tokenizer: Any, *overrides: str, seed: int = 0) -> ImdbTask:
    return ImdbTask(parsed(*overrides).task, tokenizer, np.random.default_rng(seed))


def file_task(path: Path, tokenizer: Any, *overrides: str, seed: int = 0) -> ImdbTask:
    where = ["task.source=path", f"task.path={path}", "task.min_characters=1", *SLICES]
    return task(tokenizer, *where, *overrides, seed=seed)


def test_the_parts_of_the_package_share_no_review(parts: dict[str, pd.DataFrame]) -> None:
    sizes = {name: len(reviews) for name, reviews in parts.items()}
    # 3,000 and 1,000, less the 26 whose text an earlier part has
    assert sizes == {"lm": 10_000, "classifier": 11_000, "train": 2_979, "test": 995}
    for one, other in combinations(parts, 2):
        assert not {*parts[one].index} & {*parts[other].index}, (one, other)
        texts = {*parts[one]["text"]} & {*parts[other]["text"]}
        # the data set holds 38 reviews twice that language model and judge have both seen
        assert len(texts) == (38 if (one, other) == ("lm", "classifier") else 0), (one, other)


def test_the_parts_of_the_package_are_always_the_same(parts: dict[str, pd.DataFrame]) -> None:
    assert package_reviews("test").equals(parts["test"])
    assert {name: part.index[0] for name, part in parts.items()} == FIRST_ROWS
    for name, part in parts.items():
        assert 0.48 < part["label"].mean() < 0.52, name


# a new version of NumPy or of the package that moved the parts would let prompts be seen before
FIRST_ROWS = {"lm": 19086, "classifier": 7249, "train": 3721, "test": 19694}


def test_a_review_becomes_one_paragraph() -> None:
    assert clean("  a<br /><br />b \n\t c < d<br />") == "a b c < d"


def test_officially_prompts_have_2_to_7_tokens(reviews_file: Path, tokenizer: Any) -> None:
    imdb = file_task(reviews_file, tokenizer, "fidelity=official", "task.min_characters=1")
    reviews, lengths = {one.id: one.text for one in imdb.parts["train"]}, set()
    for prompt in imdb.sample(300):
        ids = imdb.tokenizer(reviews[prompt.id])["input_ids"]
        fits = [n for n in range(1, 20) if imdb.tokenizer.decode(ids[:n]) == prompt.text]
        assert len(fits) == 1 and prompt.answer is None
        lengths |= {*fits}
    assert lengths == {2, 3, 4, 5, 6, 7}


def test_held_out_prompts_depend_on_nothing(reviews_file: Path, tokenizer: Any) -> None:
    imdb, other, third = (file_task(reviews_file, tokenizer, seed=s) for s in (1, 2, 1))
    first = imdb.held_out(6, "test")
    assert [prompt.id for prompt in first] == [f"reviews.jsonl:{n}" for n in range(55, 61)]
    assert len({len(prompt.text) for prompt in first}) > 1
    next_ones = imdb.sample(5)
    assert imdb.held_out(6, "test") == first == other.held_out(6, "test")
    assert imdb.held_out(4, "test") == first[:4]
    # they take nothing from the data stream, which depends on the seed alone
    assert third.sample(2) + third.sample(3) == next_ones != other.sample(5)
    assert imdb.held_out(7, "test") == first  # all that there are


def test_short_reviews_are_left_out(tokenizer: Any, tmp_path: Path) -> None:
    lengths = [5, 10, 11, 30, 9, 10, 10, 40, 1, 12]
    path = write_rows(tmp_path / "reviews.jsonl", [{"text": "x" * n} for n in lengths])
    imdb = file_task(path, tokenizer, "task.min_characters=10")
    kept = {
        part: [(p.id.split(":")[1], len(p.text)) for p in imdb.parts[part]] for part in imdb.parts
    }
    assert kept["train"] == [("2", 10), ("3", 11), ("4", 30), ("6", 10), ("7", 10), ("8", 40)]
    assert kept["test"] == [("10", 12)]
    package = task(tokenizer)
    assert min(len(one.text) for one in package.parts["train"] + package.parts["test"]) >= 200
