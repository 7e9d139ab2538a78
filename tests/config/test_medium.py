"""scale=medium: a pretrained model that comes in a package, in place of GPT-2 Large."""

import pytest
from hydra.errors import MissingConfigException

from tests.support.composing import compose_config, options, parsed

REVIEWS = [name for name in options("experiment") if name.startswith("cory/imdb_")]
# what an experiment is about is at this scale what it is in the paper
SAME = ("iterations", "epochs", "kl_estimator", "swap_every", "knowledge_transfer", "advantages")


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [name for name in REVIEWS if name != "cory/imdb_ppo_xl"])
def test_a_real_model_without_a_hub(experiment: str) -> None:
    paper = parsed(f"experiment={experiment}")
    medium = parsed(f"experiment={experiment}", "scale=medium")
    chosen = parsed(f"experiment={experiment}", "scale=medium", "model=smollm2_135m")
    # as it is, but with the experiment's value head
    own = parsed("model=smollm2_135m").model.replace(value_init=paper.model.value_init)
    products = medium.model.compute_precision  # the CPU decides
    assert medium.model == chosen.model == own.replace(compute_precision=products)
    assert products == parsed(f"experiment={experiment}", "scale=small").model.compute_precision
    places = (medium.scale, medium.task.source, medium.reward.path, medium.hardware.device)
    assert places == ("medium", "package", "asset:tiny_sentiment", "cpu")
    assert type(medium.algorithm) is type(paper.algorithm)
    for key in SAME:
        assert getattr(medium.algorithm, key, None) == getattr(paper.algorithm, key, None), key
    assert (medium.algorithm.kl_coef, medium.algorithm.learning_rate) == (0.03, 4.2e-4)  # as frozen


def test_what_it_has_no_form_of_is_refused() -> None:
    with pytest.raises(MissingConfigException, match="Could not find 'medium/model/gpt2_xl'"):
        compose_config("experiment=cory/imdb_ppo_xl", "scale=medium")
