"""Toy tasks are learnt, from scores, from games and by a team."""

import re

import pytest

from tests.support.building import LetterShare, build
from tests.support.composing import ConfigOf
from tests.support.playing import SPAG, build_games, game_config
from tests.support.warm import WarmCommand

pytestmark = pytest.mark.slow

ITERATIONS = 25
OWN = {"cory": [], "grpo": ["algorithm.samples_per_prompt=8", "algorithm.epochs=4"]}
MARGIN = 0.1  # share of the letter; a random model writes it about once in 100 characters


@pytest.mark.parametrize("algorithm", OWN)
def test_the_score_rises(config_of: ConfigOf, algorithm: str) -> None:
    config = config_of(
        *(f"algorithm={algorithm}", "algorithm.prompts_per_iteration=32"),
        *("algorithm.minibatch_size=32", "algorithm.learning_rate=3e-3", "algorithm.kl_coef=0.001"),
        *OWN[algorithm],
    )
    trainer = build(config, LetterShare())
    scores = []
    for iteration in range(ITERATIONS):
        metrics = trainer.step(iteration)
        agents = [metrics[f"objective/score/{name}"] for name in trainer.agents]
        scores.append(sum(agents) / len(agents))
    gain = sum(scores[-5:]) / 5 - sum(scores[:5]) / 5
    assert gain > MARGIN, scores


def test_self_play_learns_not_to_say_the_word(config_of, tiny_model, tmp_path) -> None:
    """Words are single letters, looked for anywhere: whoever says the letter first, loses.

    A random model says it in six games of ten. It learns to say it less often, so that more games
    are ties.
    """
    config = game_config(
        SPAG,
        *(f"model.path={tiny_model}", f"run_dir={tmp_path}", "reward.broken_rules=lose"),
        *("task.words=[e,a,t,o,i,n,s,r]", "task.min_letters=1", "task.judge=official"),
        *("algorithm.iterations=5", "algorithm.iterations_per_epoch=1"),
        *("algorithm.prompts_per_iteration=128", "algorithm.game_batch=128"),
        *("algorithm.minibatch_size=32", "algorithm.epochs=4", "algorithm.learning_rate=1e-2"),
        *("algorithm.kl_coef=0.01", "algorithm.max_grad_norm=1.0"),
    )
    trainer = build_games(config)
    ties = [trainer.step(n)["game/ties"] for n in range(config.algorithm.iterations)]
    assert sum(ties[-2:]) / 2 - ties[0] > MARGIN, ties


def test_a_team_learns_to_tell_what_one_of_it_knows(tmp_path) -> None:
    """The control of all that trains teams, in a fifth of `make demo-team`."""
    command = WarmCommand(
        tmp_path, ["experiment=split", "algorithm.iterations=8", "evaluation.prompts=100"]
    )
    assert command.wait(400) == 0, command.err
    line = command.out.strip().splitlines()[-1]
    found = re.fullmatch(r"team score: before (.+), after (.+), muted (.+)", line)
    assert found, line
    before, after, muted = map(float, found.groups())
    assert max(before, muted) < 0.25 and after > 0.5, line
