"""Updates on stored games: their references, their weights, their loss, and going on with them."""

import math
from pathlib import Path

import pytest
import torch

from cory.functional.losses import self_play_loss
from cory.trainers import offline
from cory.trainers.offline import OfflineExample, OfflineTrainer, response_logprobs
from cory.trainers.sanity_checks import FirstUpdateError
from tests.support.building import plain_logprobs
from tests.support.composing import ConfigOf
from tests.support.playing import IMITATION, build_games, game_config, played, write_games
from tests.support.rows import write_rows

# three games that attackers win and one of a defender's; words of 6 train words
GAMES = [
    played("movie", "attacker", "it is a good film", "the movie"),
    played("good", "attacker", "a film", "it is bad", "was a sentence", "good"),
    played("film", "attacker", "it was", "film"),
    played("bad", "defender", "not good", "I know the word! It is bad"),
]

SEVEN_WORDS = [  # to train on, with room for what is said of them
    *("task.words=[movie,good,make,film,bad,sentence,positive,more]", "task.test_words=1"),
    *("task.train_words=7", "evaluation.prompts=1", "algorithm.sampling.min_response_tokens=24"),
    *("algorithm.sampling.max_response_tokens=24", "task.max_prompt_tokens=40"),
]


@pytest.fixture
def imitation(config_of: ConfigOf, tiny_model: str, tmp_path: Path) -> ConfigOf:
    """Imitation of GAMES; all four words are trained on."""
    base = [
        *IMITATION,
        *(f"model.path={tiny_model}", f"run_dir={tmp_path}/run"),
        f"algorithm.games={write_games(tmp_path / 'teacher.jsonl', GAMES)}",
        "algorithm.prompts_per_iteration=2",
        *SEVEN_WORDS,
    ]
    return lambda *overrides: game_config(base, *overrides)


def logprob(trainer: OfflineTrainer, said: OfflineExample) -> float:
    """Mean log-probability of an utterance's tokens, by the library alone."""
    lm = trainer.policy.model.lm.eval()
    return float(plain_logprobs(lm, said.context_ids, said.response_ids).mean())


def test_imitation_loss_by_hand(imitation: ConfigOf) -> None:
    """The first step of a set: the loss is the weighted mean of -log p, since the KL is 0."""
    config = imitation("algorithm.iterations=1", "algorithm.prompts_per_iteration=4",
                       "algorithm.minibatch_size=8", "algorithm.kl_coef=0.5")  # fmt: skip
    trainer = build_games(config)
    metrics = trainer.step(0)
    said = [one for own in trainer.games or [] for one in own]
    # an attacker's one utterance, another's two, a third one's, and a defender's
    assert [len(own) for own in trainer.games or []] == [1, 2, 1, 1]
    # N / (2 N_role), 1 / T, and 5 utterances over 4 games
    share = 5 / 4
    attacker, defender = 4 / (2 * 3), 4 / (2 * 1)
    weights = [attacker, attacker / 2, attacker / 2, attacker, defender]
    assert [one.weight for one in said] == pytest.approx([w * share for w in weights])
    # the run is over: its weights have moved, so a new one tells what they were
    fresh = build_games(config)
    nll = [-logprob(fresh, one) for one in said]
    by_hand = sum(w * share * n for w, n in zip(weights, nll, strict=True)) / 5
    assert metrics["offline/loss/agent_0"] == pytest.approx(by_hand, rel=1e-4)
    assert metrics["offline/nll_game/agent_0"] == pytest.approx(sum(nll) / 5, rel=1e-4)
    assert metrics["offline/ratio/agent_0"] == pytest.approx(1, abs=1e-4)
    assert metrics["offline/kl/agent_0"] == pytest.approx(0, abs=1e-4)
    assert metrics["offline/examples/agent_0"] == 5
    # -log p has a slope of 1; the KL's is beta_1 times the probability of what was said
    push = sum(one.weight * (1 - 0.5 * math.exp(one.reference)) for one in said) / 5
    assert {one.kl_share for one in said} == {1.0}
    assert metrics["offline/push/agent_0"] == pytest.approx(push, rel=1e-4)


@pytest.mark.slow
def test_every_set_is_a_stage_of_its_own(spag: ConfigOf) -> None:
    """Two sets of two iterations of one minibatch each: what is sampled is what is learnt."""
    trainer = build_games(
        spag(
            *("algorithm.iterations=4", "algorithm.iterations_per_epoch=2"),
            *("algorithm.prompts_per_iteration=6", "algorithm.minibatch_size=24"),
            "algorithm.threshold=-0.5",  # ties too: a random model seldom wins
            "algorithm.schedule=linear",
            "algorithm.final_share=0.4",
        )
    )
    peak = trainer.config.learning_rate
    weight = trainer.policy.model.lm.get_output_embeddings().weight
    for iteration in range(4):
        before = weight.detach().clone()
        metrics = trainer.step(iteration)
        begins = iteration % 2 == 0
        assert ("game/games" in metrics) == begins
        assert (abs(metrics["offline/ratio/agent_0"] - 1) < 1e-4) == begins
        assert (abs(metrics["offline/kl/agent_0"]) < 1e-4) == begins
        rate = peak * (0.4 + 0.6 * (0.75 if begins else 0.25))
        assert metrics["offline/learning_rate/agent_0"] == pytest.approx(rate)
        # Adam's first step moves every weight by the learning rate; one with older moments does not
        moved = ((weight - before).abs() / rate - 1).abs() < 0.01
        share = moved.float().mean().item()
        assert share > 0.9 if begins else share < 0.5, share


@pytest.mark.parametrize(
    ("words", "worth", "weight", "kl_share"),
    [
        (["kl_in_advantage=true"], [4 / 9, 5 / 9], 1.0, 0.5),
        (["average=utterance", "kl_in_advantage=false"], [4 / 9, 5 / 9], 0.5, 1.0),
        (["decay=0.25"], [0.2, 0.8], 1.0, 0.5),
    ],
)
def test_a_won_game_by_hand(spag, tmp_path, words, worth, weight, kl_share) -> None:
    """The attacker wins in two turns.

    The other role never wins: its half of the weight is left to it. The KL is 0 at first, and takes
    beta_2 off how far the game is made more likely, once in a game or in an utterance.
    """
    path = write_games(tmp_path / "games.jsonl", [GAMES[1]])
    changes = [f"games={path}", "iterations=1", "prompts_per_iteration=1"]
    changes += ["kl_coef=0.2", "kl_estimator=weighted", "average=game", *words]
    trainer = build_games(spag(*SEVEN_WORDS, *(f"algorithm.{word}" for word in changes)))
    metrics = trainer.step(0)
    (said,) = trainer.games or []
    assert [one.weight for one in said] == [weight] * 2
    assert [one.advantage for one in said] == pytest.approx(worth)
    assert [one.kl_share for one in said] == [kl_share] * 2
    # of two utterances
    loss, push = -weight * sum(worth) / 2, weight * (sum(worth) - 2 * 0.2 * kl_share) / 2
    assert metrics["offline/loss/agent_0"] == pytest.approx(loss, abs=1e-4)
    assert metrics["offline/push/agent_0"] == pytest.approx(push, abs=1e-4)


def test_instructions_stand_beside_games(imitation: ConfigOf, tmp_path: Path) -> None:
    """The loss is that of the games plus alpha times that of the instructions."""
    row = {"input": "", "output": "a good film"}
    rows = [{**row, "instruction": f"make {n}"} for n in range(12)]
    path = write_rows(tmp_path / "instructions.jsonl", rows)
    changes = [
        *("algorithm.iterations=1", "algorithm.prompts_per_iteration=4"),
        *("algorithm.minibatch_size=8", f"algorithm.instructions.path={path}"),
        "algorithm.instructions.template='{instruction}:'",
    ]
    alone = build_games(imitation(*changes)).step(0)
    told = [*changes, "algorithm.instructions.per_iteration=3"]
    half = build_games(imitation(*told, "algorithm.instructions_coef=0.5")).step(0)
    assert "offline/nll_sft/agent_0" not in alone
    by_hand = alone["offline/loss/agent_0"] + 0.5 * half["offline/nll_sft/agent_0"]
    assert half["offline/loss/agent_0"] == pytest.approx(by_hand, rel=1e-4)
    assert half["offline/examples/agent_0"] == alone["offline/examples/agent_0"] == 5
    only = build_games(imitation(*told, "algorithm.games=none")).step(0)
    assert "offline/nll_game/agent_0" not in only
    assert only["offline/loss/agent_0"] == pytest.approx(only["offline/nll_sft/agent_0"], rel=1e-5)


def test_a_checkpoint_in_the_middle_of_a_set_goes_on_with_its_reference(spag: ConfigOf) -> None:
    config = spag(
        *("algorithm.iterations=3", "algorithm.iterations_per_epoch=3"),
        *("algorithm.minibatch_size=24", "algorithm.threshold=-0.5"),
    )
    whole = build_games(config)
    whole.step(0)
    state = whole.state_dict()
    weights = {k: v.clone() for k, v in whole.policy.model.state_dict().items()}
    expected = [whole.step(1), whole.step(2)]
    again = build_games(config)
    again.policy.model.load_state_dict(weights)
    again.load_state_dict(state)
    assert again.updates == 1
    found = [again.step(1), again.step(2)]
    # Adam's moments are the engine's to keep; the first step shows what the trainer keeps
    for key in ("loss", "ratio", "kl", "nll_game", "examples"):
        name = f"offline/{key}/agent_0"
        assert found[0][name] == pytest.approx(expected[0][name], rel=1e-5), key
    assert again.references == whole.references and again.order == whole.order
    assert torch.equal(
        again.components.streams.shuffle.get_state(), whole.components.streams.shuffle.get_state()
    )


def test_a_training_pass_that_disagrees_is_found(spag: ConfigOf, monkeypatch) -> None:
    trainer = build_games(spag("algorithm.threshold=-0.5"))
    monkeypatch.setattr(
        offline, "response_logprobs", lambda *words: [x - 0.1 for x in response_logprobs(*words)]
    )
    with pytest.raises(FirstUpdateError, match=r"the policy ratio is off 1 by 0\.11"):
        trainer.step(0)


def test_the_loss_is_the_one_of_the_settings(spag: ConfigOf) -> None:
    trainer = build_games(
        spag(
            *("algorithm.clip_range=0.1", "algorithm.kl_in_advantage=true"),
            *("algorithm.kl_coef=0.7", "algorithm.kl_estimator=weighted"),
        )
    )
    own, old, worth = torch.tensor([-1.0]), torch.tensor([-1.5]), torch.tensor([0.3])
    share = torch.tensor([0.25])
    expected = self_play_loss(own, old, worth, 0.7, "weighted", 0.1, True, share)
    assert trainer.loss(own, old, worth, kl_shares=share).per_utterance == expected.per_utterance
