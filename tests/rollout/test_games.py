"""Games side by side: who speaks when, what is shown, and when a game drops out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cory.config import ConfigError
from cory.episode import Asked, Context, Prompt, Turn
from cory.evaluation.games import Match
from cory.games.rules import GameState, rules_of
from cory.games.transcript import FinishedGame
from cory.rollout.games import Seat, WordGame, fitting
from cory.rollout.scheduler import RollOut
from cory.runtime.worker import build_components
from cory.tasks.game import GameTask
from tests.support.chat_models import save_chat_model
from tests.support.llama import save_llama
from tests.support.playing import IMITATION, SPAG, build_games, game_config, played, write_games
from tests.support.speaking import Script

TABOO = rules_of("taboo", "words")


class Fixed:
    """Wording that shows the word and how far the game is."""

    def context(
        self, position: GameState, role: str, style: int | None, form: str = "text"
    ) -> Context:
        text = f"{position.word} {len(position.utterances)}"
        return text if form == "text" else [{"role": "user", "content": text}]


def run(
    texts: dict[str, str], words: Sequence[str], seats: dict[str, Seat] | None = None
) -> tuple[list[FinishedGame], Script]:
    """Games about these words, in which is said what stands beside what is shown, else `hm`."""
    wording: Any = Fixed()
    script = Script(lambda agent, asked: texts.get(str(asked.context), "hm"))
    game = WordGame(
        TABOO,
        wording,
        lambda context: True,
        seats or dict.fromkeys(TABOO.roles, Seat("one")),
        lambda key: 2,
    )
    actors: Any = script
    prompts = [Prompt(word, word) for word in words]
    found = game(RollOut(actors, 4, None, (7, 8), first=5), prompts)
    return [found[number] for number in range(5, 5 + len(words))], script


def test_games_that_ended_drop_out() -> None:
    texts = {"film 1": "a film?", "star 0": "star", "sea 3": "the sea"}
    over, script = run(texts, ["film", "star", "sea", "sun"])
    assert [game.outcome.reason for game in over] == ["uttered", "broke_rules", "uttered", "tie"]
    assert [len(game.utterances) for game in over] == [2, 1, 4, 4]
    assert [(role, shown) for _, role, _, shown in script.shown] == [
        ("attacker", ["film 0", "star 0", "sea 0", "sun 0"]),
        ("defender", ["film 1", "sea 1", "sun 1"]),
        ("attacker", ["sea 2", "sun 2"]),
        ("defender", ["sea 3", "sun 3"]),
    ]
    assert over[0].ids == [[2], [2]]


def test_what_is_thought_in_private_is_neither_judged_nor_shown() -> None:
    """Both think of the word; a thought that has no end says nothing to the other."""
    texts = {
        "film 0": "<think>It is film.</think>\n\nYou see it there.",
        "film 1": "<think>A film? I know the word! It is film</think> Where?",
        "film 2": "<think>film film",
        "film 3": "<think>Now.</think>I know the word! It is film",
    }
    ((game,), _) = run(texts, ["film"])
    assert game.outcome.reason == "guessed"
    said = [one.text for one in game.utterances]
    assert said == ["You see it there.", "Where?", "", "I know the word! It is film"]


def test_scripts_and_remote_models_play_beside_agents() -> None:
    """A script draws its own numbers for each game and utterance; nobody samples their tokens."""
    drawn: list[float] = []

    def script(position: GameState, draws: np.random.Generator) -> str:
        drawn.append(float(draws.random()))
        return "hm"

    seats = {"attacker": Seat(script), "defender": Seat("far", "system", remote=True)}
    (game, _), shown = run({}, ["film", "sun"], seats=seats)
    assert game.ids is None
    assert len({*drawn}) == len(drawn) == 4
    assert shown.shown[0] == (
        "far",
        "defender",
        0,
        [[{"role": "user", "content": "film 1"}], [{"role": "user", "content": "sun 1"}]],
    )


def test_the_oldest_utterances_are_left_out_of_what_does_not_fit() -> None:
    class Lines:
        def context(self, position: GameState, role: str, style: int | None, form: str) -> str:
            return f"{role}{style}:" + "".join(said.text for said in position.utterances)

    position = GameState("film", 3)
    for n, role in enumerate(("attacker", "defender", "attacker")):
        position = position.after(role, str(n))
    shown = [fitting(Lines(), lambda c, m=m: len(c) <= m, position, "defender", 5)  # type: ignore[arg-type, misc]
             for m in (99, 13, 12, 11, 10, 3)]  # fmt: skip
    head = "defender5:"
    assert shown == [f"{head}012", f"{head}012", f"{head}12", f"{head}2", head, head]


def test_the_first_prompt_counts_as_the_model_is_shown_it(config_of, tmp_path) -> None:
    """With the token that begins every text, where the tokenizer adds one."""
    path = save_llama(tmp_path / "llama")
    base = [*SPAG, f"model.path={path}", "model.chat=false", f"run_dir={tmp_path}/run"]
    components = build_components(game_config(base, "task.max_prompt_tokens=400"))
    assert isinstance(components.task, GameTask)
    counted: list[int] = []

    def tokens_of(text: Context) -> int:
        counted.append(components.bundle.texts.tokens(text))
        bare = components.bundle.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert counted[-1] == len(bare) + 1
        return counted[-1]

    components.task.require_room(tokens_of, "text")
    build_games(game_config(base, f"task.max_prompt_tokens={max(counted)}"))
    with pytest.raises(ConfigError, match=f"is below the {max(counted)} tokens that the"):
        build_games(game_config(base, f"task.max_prompt_tokens={max(counted) - 1}"))


NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}"
    "{{ '<|im_start|>' + m.role + ' ' + m.content + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant ' }}{% endif %}"
)
RULES = [
    *("task.texts.rules={attacker: Lure., defender: Beware.}", "task.texts.opening=Begin."),
    *("task.max_prompt_tokens=200", "algorithm.sampling.min_response_tokens=40"),
    "algorithm.sampling.max_response_tokens=40",
]


@pytest.mark.parametrize("system", [True, False])
def test_a_chat_model_is_shown_messages_as_it_plays_and_as_it_learns(
    system: bool, tmp_path: Path, process_group: None, monkeypatch
) -> None:
    """The same as a model behind an endpoint, but where its template has no system prompt."""

    def opened(told: str, first: str) -> list[dict[str, str]]:
        if system:
            return [{"role": "system", "content": told}, {"role": "user", "content": first}]
        return [{"role": "user", "content": f"{told}\n\n{first}"}]

    path = save_chat_model("qwen3", tmp_path / "model")
    if not system:
        (tmp_path / "model" / "chat_template.jinja").write_text(NO_SYSTEM)
    games = [played("film", "defender", "a", "I know the word! It is film!")] * 9
    file = write_games(tmp_path / "games.jsonl", games)
    words = [f"model.path={path}", "model.chat=true", f"run_dir={tmp_path}/run", *RULES]
    trainer = build_games(game_config(IMITATION, *words, f"algorithm.games={file}"))
    collector: Any = trainer.collect
    policy = trainer.policy
    ((example, *_), *_) = collector(0, False).examples
    assert [*example.context_ids] == policy.texts.context_ids(opened("Beware.\n?", "a"))
    assert policy.texts.tokenizer.decode(example.response_ids).endswith("It is film!<|im_end|>")

    shown: list[Context] = []
    speak = policy.turns

    def turns(asked: Sequence[Asked], *how: Any) -> list[Turn]:
        shown.extend(one.context for one in asked)
        said = speak(asked, *how)
        for turn in said:
            turn.thinking = "plan"
        return said

    monkeypatch.setattr(policy, "turns", turns)
    seats = collector.opponents.seats("x", "itself")
    assert seats["attacker"].form == ("system" if system else "user")
    assert collector.opponents.seats("x", "endpoint")["attacker"] == Seat(
        "endpoint", "system", True
    )
    game = WordGame(TABOO, collector.task.wording, collector.fits, seats, lambda key: 2)
    sampling = collector.config.sampling
    game(RollOut(collector.opponents.actors, 4, sampling, (1,)), [Prompt("0", "film")])
    over = game.finished[0]
    said = [one.text for one in over.utterances]
    assert {one.thinking for one in over.utterances} == {"plan"} and "plan" not in str(shown)
    assert FinishedGame.from_json(json.dumps(over.as_line()), TABOO) == over
    assert {turn.thinking for turn in collector._episode(over).turns} == {"plan"}
    match = Match("x", "measured", [Prompt("0", "film")], None, "y", "itself", None)
    evaluate: Any = trainer.evaluate
    assert {turn["thinking"] for turn in evaluate._line(match, over)["turns"]} == {"plan"}
    assert len(said) == len(shown) == 4  # by chance nobody has lost or guessed
    assert shown[0] == opened("Lure.\nfilm=", "Begin.")
    own, other = (
        {"role": role, "content": said[n]} for n, role in enumerate(("assistant", "user"))
    )
    assert shown[2] == [*opened("Lure.\nfilm=", "Begin."), own, other]
    own = {"role": "assistant", "content": said[1]}
    other = {"role": "user", "content": said[2]}
    assert shown[3] == [*opened("Beware.\n?", said[0]), own, other]
