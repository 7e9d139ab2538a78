"""Word games on the tiny random model, built as worker.py builds them, without a sweep."""

from collections.abc import Sequence
from pathlib import Path

from cory.config import Config, parse_config
from cory.games.rules import GameResult, GameState, GameUtterance
from cory.games.transcript import FinishedGame
from cory.trainers.offline import OfflineTrainer
from tests.support.building import built
from tests.support.commands import last_wins
from tests.support.composing import compose_config
from tests.support.rows import write_rows

WORDS = ["movie", "film", "good", "bad", "make", "sentence", "positive", "more"]
# contexts short enough for a model that sees 64 tokens
SHORT = [
    *("hardware=cpu", "task.source=list", f"task.words=[{','.join(WORDS)}]", "task.stop_words=[]"),
    *("task.train_words=6", "task.test_words=2", "task.test_path=null", "task.max_turns=2"),
    *("task.max_prompt_tokens=56", "task.texts.rules={attacker: '', defender: ''}"),
    "task.texts.instructions={attacker: '{word}=', defender: '?'}",
    *("task.texts.names={attacker: a, defender: d}", "task.texts.start=''"),
    *("task.texts.history='{lines}'", "task.texts.line='{name}{text};'"),
    *("task.texts.layout='{history}{instruction}'", "algorithm.sampling.temperature=1.0"),
    *("algorithm.sampling.min_response_tokens=4", "algorithm.sampling.max_response_tokens=4"),
    *("algorithm.iterations=2", "algorithm.prompts_per_iteration=3", "algorithm.minibatch_size=4"),
    *("algorithm.learning_rate=3e-3", "algorithm.endpoint=null"),
    *("algorithm.opponents.endpoint=null", "algorithm.opponents.scripted=null"),
    *("algorithm.test_greedy=false", "algorithm.varied_prompts=false", "algorithm.game_batch=4"),
    *("algorithm.instructions.source=path", "algorithm.instructions.per_iteration=0"),
    *("algorithm.instructions.max_tokens=60", "evaluation.prompts=2"),
]
IMITATION = ["experiment=spag/llama2_im", "model=tiny", *SHORT]
SPAG = [
    "experiment=spag/llama2_spag_1",
    "model=tiny",
    *SHORT,
    *("init_from=null", "algorithm.opponents.im=null", "algorithm.iterations_per_epoch=1"),
]


def game_config(base: list[str], *overrides: str) -> Config:
    """Checked settings; a later one overrides an earlier one."""
    return parse_config(compose_config(*last_wins([*base, *overrides])))


def build_games(config: Config) -> OfflineTrainer:
    trainer = built(config)
    assert isinstance(trainer, OfflineTrainer)
    return trainer


def played(word: str, winner: str | None, *texts: str, max_turns: int = 2) -> FinishedGame:
    """A game in which the attacker says the first of `texts`, the defender the second, ..."""
    roles = ("attacker", "defender")
    said = tuple(GameUtterance(roles[n % 2], text) for n, text in enumerate(texts))
    winners = () if winner is None else (winner,)
    result = GameResult(winners, "made up", valid=True)
    return FinishedGame(**vars(GameState(word, max_turns, said)), **vars(result))


def write_games(path: Path, games: Sequence[FinishedGame]) -> Path:
    """A file of games, as a teacher might have left it."""
    return write_rows(path, (game.as_line() for game in games))
