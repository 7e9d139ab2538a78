"""Stored configs are those that Hydra would compose now."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf

from cory.train import compose
from tests.support.composing import compose_config, options, read_once, run_for
from tests.support.compositions import Compositions, digest_of


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "conf"
    (folder / "model").mkdir(parents=True)
    (folder / "train.yaml").write_text("a: 1\n")
    (folder / "model" / "tiny.yaml").write_text("b: 2\n")
    return folder


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("x = 1\n")
    return path


class Counted:
    """Composes nothing but the number of its call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *words: str) -> DictConfig:
        self.calls += 1
        return OmegaConf.create({"words": list(words), "call": self.calls})


@pytest.mark.parametrize(
    "change",
    [
        lambda conf, code: (conf / "train.yaml").write_text("a: 2\n"),
        lambda conf, code: (conf / "model" / "tiny.yaml").write_text("b: 2 # said\n"),
        lambda conf, code: (conf / "model" / "other.yaml").write_text(""),
        lambda conf, code: (conf / "model" / "tiny.yaml").unlink(),
        lambda conf, code: (conf / "model" / "tiny.yaml").rename(conf / "tiny.yaml"),
        lambda conf, code: code.write_text("x = 2\n"),
    ],
    ids=["value", "comment", "new file", "gone", "moved", "code"],
)
def test_every_change_of_a_file_asks_hydra_again(conf: Path, code: Path, change, tmp_path) -> None:  # type: ignore[no-untyped-def]  # a lambda above
    def composed_now() -> object:
        return Compositions(tmp_path / "store", digest_of(conf, code), conf, counted)("seed=1").call

    counted = Counted()
    assert [composed_now(), composed_now()] == [1, 1]
    change(conf, code)
    assert [composed_now(), composed_now()] == [2, 2]
    assert len(list((tmp_path / "store").iterdir())) == 1  # nobody asks for the others again


def test_other_options_make_another_config_and_nobody_shares_one(
    conf: Path, tmp_path: Path
) -> None:
    counted = Counted()
    store = Compositions(tmp_path / "store", "digest", conf, counted)
    first = store("model=a", "+model@other=b")
    first.call = 0
    assert store("model=a", "+model@other=b") == {"words": ["model=a", "+model@other=b"], "call": 1}
    for words in (("+model@other=b", "model=a"), ("model=a+model@other=b",), ("model=a",), ()):
        assert store(*words).words == list(words)
    assert counted.calls == 5
    assert store("call=7", "model=a") == {"words": ["model=a"], "call": 7}
    assert store("model=a").call == 4 and counted.calls == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("seed=3", "algorithm=ppo", "algorithm.kl_coef=1e-3", "experiment=cory/imdb_ppo"),
        ("+algorithm.more.still=1", "++seed=4", "~evaluation.probes"),
        ("evaluation.probes=[a,'b, c']", "task.observer_template='\"{answers}\" {query}'"),
        ("seed=4", "seed=5", "run_dir=here", "sweep=cory/fig3"),
        ("evaluation={prompts: 3}", "task.min_characters=${seed}"),
    ],
)
def test_values_are_set_as_hydra_sets_them(words: tuple[str, ...]) -> None:
    stored, composed = compose_config(*words), compose(*run_for(words))
    assert stored == composed
    assert OmegaConf.to_yaml(stored) == OmegaConf.to_yaml(composed)


@pytest.mark.parametrize(
    "word",
    ["nope=1", "algorithm.nope=1", "+seed=2", "seed=1,2", "seed=[", "seed@x=1", "~nope"],
)
def test_values_are_refused_as_hydra_refuses_them(word: str) -> None:
    with pytest.raises(HydraException) as stored:
        compose_config("algorithm=ppo", word)
    with pytest.raises(HydraException) as composed:
        compose("algorithm=ppo", word)
    assert (stored.type, str(stored.value)) == (composed.type, str(composed.value))


@pytest.mark.parametrize("word", ["hydra.searchpath=[x]", "--config-dir=x", "+hydra.x=1"])
def test_what_is_read_elsewhere_is_not_stored(word: str, conf: Path, tmp_path: Path) -> None:
    store = Compositions(tmp_path / "store", "digest", conf, Counted())
    assert [store("a=1", word).call for _ in range(2)] == [1, 2]


def test_errors_are_not_stored() -> None:
    for _ in range(2):
        with pytest.raises(MissingConfigException, match="Could not find 'model/none'"):
            compose_config("model=none")


@pytest.mark.slow
@pytest.mark.parametrize(
    "experiment", [name for name in options("experiment") if "_mathall_" not in name][::20]
)
def test_a_stored_config_is_the_composed_one(experiment: str) -> None:
    words = (f"experiment={experiment}", "seed=3")
    compose_config(*words)
    stored, composed = compose_config(*words), compose(*run_for(words))
    assert stored == composed
    assert OmegaConf.to_yaml(stored) == OmegaConf.to_yaml(composed)
    assert OmegaConf.is_struct(stored) and OmegaConf.is_struct(composed)
    assert OmegaConf.is_interpolation(stored, "run_dir") is False


@pytest.mark.slow
def test_hydra_reads_a_file_that_has_not_changed_once() -> None:
    compose("seed=4")
    before = read_once.cache_info()
    compose("seed=5")
    after = read_once.cache_info()
    assert after.misses == before.misses and after.hits > before.hits + 10
