"""Stored configs are those that Hydra would compose now."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from cory.runtime.hydra_setup import compose
from tests.support.composing import compose_config, options, run_for
from tests.support.compositions import Compositions


def test_another_choice_or_another_state_of_the_files_asks_hydra_again(tmp_path: Path) -> None:
    conf, code = tmp_path / "conf", tmp_path / "train.py"
    (conf / "model").mkdir(parents=True)
    (conf / "train.yaml").write_text("a: 1\n")
    code.write_text("x = 1\n")
    asked = []

    def count(*words: str) -> DictConfig:
        asked.append(words)
        return OmegaConf.create({"words": list(words), "seed": 0, "call": len(asked)})

    def call(*words: str) -> int:
        config = Compositions(tmp_path / "store", conf, [code], count)(*words)
        assert config.seed == words.count("seed=3") * 3
        return int(config.call)

    assert [call("seed=3"), call(), call("model=a"), call("model=b", "seed=3")] == [1, 1, 2, 3]
    for number, path in enumerate((conf / "train.yaml", conf / "model" / "new.yaml", code), 4):
        path.write_text("b: 2\n")
        assert [call("model=a"), call("model=a")] == [number] * 2
    assert len(list((tmp_path / "store").iterdir())) == 1  # nobody asks for the others again


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("seed=3", "algorithm=ppo", "algorithm.kl_coef=1e-3", "experiment=cory/imdb_ppo"),
        ("+algorithm.more.still=1", "++seed=4", "~evaluation.probes"),
        ("evaluation.probes=[a,'b, c']", "task.observer_template='\"{answers}\" {query}'"),
        ("evaluation={prompts: 3}", "task.min_characters=${seed}", "hydra.job.name=x"),
        *((f"experiment={name}", "seed=3") for name in options("experiment")[::75]),
    ],
)
def test_values_are_set_as_hydra_sets_them(words: tuple[str, ...]) -> None:
    compose_config(*words)
    stored, composed = compose_config(*words), compose(*run_for(words))
    assert stored == composed and OmegaConf.is_struct(stored)
    assert OmegaConf.to_yaml(stored) == OmegaConf.to_yaml(composed)


@pytest.mark.parametrize(
    "word", ["nope=1", "algorithm.nope=1", "+seed=2", "seed=1,2", "seed=[", "~nope", "model=none"]
)
def test_values_are_refused_as_hydra_refuses_them(word: str) -> None:
    with pytest.raises(HydraException) as stored:
        compose_config("algorithm=ppo", word)
    with pytest.raises(HydraException) as composed:
        compose("algorithm=ppo", word)
    assert (type(stored.value), str(stored.value)) == (type(composed.value), str(composed.value))
