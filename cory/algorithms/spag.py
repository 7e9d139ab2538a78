"""Self-play of word games, learnt from offline (Cheng et al., 2024: SPAG).

Stage 1, `algorithm=imitation`: a policy learns to say what winners of others' games said (eq. 8).
Stage 2, `algorithm=spag`: it plays both roles against a snapshot of itself, which is itself before
the first update on those games, and learns from what winners said (Algorithm 2, eq. 12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from cory.algorithms.parts import Parts
from cory.algorithms.spag_data import TrainingSelection
from cory.config import (
    ITSELF,
    NONE,
    SELF_PLAY,
    ImitationConfig,
    OfflineConfig,
    SpagConfig,
    require,
)
from cory.episode import Episode, Metrics, Turn
from cory.evaluation.games import GameEvaluator, mean
from cory.functional.credit import outcome_decay
from cory.functional.offline import OfflineLoss, kl_imitation_loss, self_play_loss
from cory.games.state import GameState
from cory.games.transcript import FinishedGame, read_games
from cory.models.tokenization import Codec
from cory.rewards.game_outcome import GameOutcome
from cory.rollout.game_store import NUMBER, GameSet, sampled_ids, tokenizer_of, vocabulary_digest
from cory.rollout.opponents import Opponents
from cory.rollout.self_play import play
from cory.tasks.game import GameTask
from cory.tasks.instructions import Instructions
from cory.trainers.offline import INSTRUCTION, Loss, OfflineTrainer, Stored, Utterance

NAME = "agent_0"
PLAY = 1  # begins the keys of self-play's random numbers, apart from those of evaluations


def build_imitation(config: ImitationConfig, parts: Parts) -> OfflineTrainer:
    """A policy that learns to say what winners said."""

    def loss(logprobs: Tensor, reference: Tensor, advantages: Tensor) -> OfflineLoss:
        return kl_imitation_loss(logprobs, reference, config.kl_coef, config.kl_estimator)

    whole = config.average == "game"
    return Arrangement(config, parts).trainer(
        loss,
        credit=lambda turns: [1.0] * turns,
        turn_weight=lambda turns: 1 / turns if whole else 1.0,
        threshold=0,
    )


def build_spag(config: SpagConfig, parts: Parts) -> OfflineTrainer:
    """A policy that plays itself and learns from what won."""

    def loss(logprobs: Tensor, reference: Tensor, advantages: Tensor) -> OfflineLoss:
        return self_play_loss(
            logprobs,
            reference,
            advantages,
            config.kl_coef,
            config.kl_estimator,
            config.clip_range,
            config.kl_in_advantage,
        )

    return Arrangement(config, parts).trainer(
        loss,
        credit=partial(outcome_decay, decay=config.decay, normaliser=config.normaliser),
        turn_weight=lambda turns: 1.0,
        threshold=config.threshold,
    )


class Arrangement:
    """What both stages share: who plays, where games come from, how a policy is measured."""

    def __init__(self, config: OfflineConfig, parts: Parts) -> None:
        assert isinstance(parts.task, GameTask) and isinstance(parts.reward, GameOutcome)
        self.config = config
        self.parts = parts
        self.task: GameTask = parts.task
        self.reward: GameOutcome = parts.reward
        self.run_dir = Path(parts.config.run_dir)
        others = {name: Path(folder) for name, folder in config.runs_played_against.items()}
        self.voice, still = parts.new_players(NAME, others)
        self.codec = Codec(parts.team, self.task.config.max_prompt_tokens)
        self.opponents = Opponents(config, self.task, self.codec, self.voice, still, self.run_dir)

    def trainer(
        self,
        loss: Loss,
        credit: Callable[[int], list[float]],
        turn_weight: Callable[[int], float],
        threshold: float,
    ) -> OfflineTrainer:
        """All parts put together; `TrainingSelection` says what the last three mean."""
        config, parts = self.config, self.parts
        lessons = TrainingSelection(
            config,
            self.task,
            self.reward,
            self.codec,
            credit,
            turn_weight,
            threshold,
            parts.config.seed,
        )
        carried: dict[str, Instructions] = {}
        if config.instructions.per_iteration > 0:
            carried["instructions"] = Instructions(config.instructions, parts.streams.data)
        return OfflineTrainer(
            config,
            parts.plan,
            self.voice,
            self.task,
            parts.streams,
            collect=Collector(self, lessons),
            instructions=partial(self._instructions, carried.get("instructions")),
            loss=loss,
            measure=GameEvaluator(config, self.voice, self.task, self.reward, self.opponents),
            carried=carried,
        )

    def _instructions(self, source: Instructions | None, count: int) -> list[Utterance]:
        """So many instructions, none longer than a setting allows."""
        found: list[Utterance] = []
        if source is None:
            return found
        longest, left = self.config.instructions.max_tokens, len(source.rows)
        while len(found) < count:
            prompt, answer = source.next()
            context, response = self.codec.context_ids(prompt), self.codec.response_ids(answer)
            if len(context) + len(response) <= longest:
                found.append(Utterance(context, response, INSTRUCTION, 1.0, 0.0))
                left = len(source.rows)
            else:
                left -= 1
                require(
                    left > 0,
                    f"algorithm.instructions.max_tokens={longest}: no instruction is that short",
                )
        return found


class Collector:
    """Where games come from: they are played, or read from a file."""

    def __init__(self, arrangement: Arrangement, lessons: TrainingSelection) -> None:
        self.arrangement = arrangement
        self.lessons = lessons
        self.own_tokens = vocabulary_digest(arrangement.parts.team.tokenizer)

    def __call__(self, epoch: int, again: bool) -> Stored:
        """The set of an epoch.

        again: it was collected before, and the run was stopped since
        """
        here = self.arrangement
        if here.config.games == NONE:
            return Stored([], [])
        if here.config.from_file:
            games, same_tokens = self._read()
        else:
            games = self._play(epoch, again)
            same_tokens = here.config.games == SELF_PLAY
        utterances, chosen = self.lessons.of(games, epoch, same_tokens)
        metrics = set_metrics(games, here.reward) | chosen
        if here.opponents.endpoint is not None:
            spent = here.opponents.endpoint.spent()
            metrics["game/endpoint_requests"] = float(spent.requests)
            metrics["game/endpoint_tokens"] = float(spent.prompt_tokens + spent.completion_tokens)
        kept = here.parts.config.samples_kept
        return Stored(utterances, [self._episode(played) for played in games[:kept]], metrics)

    def _read(self) -> tuple[list[FinishedGame], bool]:
        """A file's first games about training words; whether their token ids are this model's."""
        config, path = self.arrangement.config, Path(self.arrangement.config.games).expanduser()
        every = read_games(path, self.arrangement.task.game, "algorithm.games")
        words = set(self.arrangement.task.train_words)
        games = [played for played in every if played.word in words]
        if all(NUMBER in played.extra for played in games):
            # a run writes games as they end: the first lines of its file are the shortest games
            games.sort(key=lambda played: int(played.extra[NUMBER]))
        wanted = config.games_per_epoch
        require(
            len(games) >= wanted,
            f"algorithm.games={path} holds {len(every)} games, {len(games)} of them about training "
            f"words; algorithm.iterations_per_epoch x algorithm.prompts_per_iteration asks for "
            f"{wanted}",
        )
        return games[:wanted], tokenizer_of(path) == self.own_tokens

    def _play(self, epoch: int, again: bool) -> list[FinishedGame]:
        """Every word once, many games side by side; those on disk are not played again."""
        here = self.arrangement
        path = here.run_dir / "games" / f"epoch_{epoch:03d}.jsonl"
        games = GameSet(path, here.task.game, self.own_tokens)
        wanted = here.config.games_per_epoch
        if again:
            require(
                len(games.found) == wanted,
                f"{path} holds {len(games.found)} of the {wanted} games that this run had begun to "
                f"learn from; delete {here.run_dir} to start again",
            )
            return games.close()
        prompts = here.task.sample(wanted)
        seed, size = here.parts.config.seed, here.config.game_batch
        kind = ITSELF if here.config.games == SELF_PLAY else here.config.games
        players = here.opponents.named("games", kind, here.config.sampling).players
        for start in range(0, wanted, size):
            table = prompts[start : start + size]
            key = (seed, PLAY, epoch, start)
            draw = np.random.default_rng(key)
            over = {
                n - start: games.found[n] for n in games.found if n in range(start, start + size)
            }
            play(
                here.task.game,
                [GameState(p.text, here.task.turns_to_collect(draw)) for p in table],
                players,
                key,
                over,
                partial(self._ended, games, start),
                partial(self._stop_if_asked, games, wanted),
            )
        return games.close()

    def _ended(self, games: GameSet, first: int, number: int, played: FinishedGame) -> None:
        games.add(first + number, played)

    def _stop_if_asked(self, games: GameSet, wanted: int) -> None:
        """A collection may take hours: it can be left between any two utterances."""
        self.arrangement.parts.stop.check(f"with {len(games.found)} of {wanted} games of a set")

    def _episode(self, played: FinishedGame) -> Episode:
        """A game as samples.jsonl keeps it."""
        here, ids = self.arrangement, sampled_ids(played)
        outcome = here.reward.settled(played.outcome)
        turns = [
            Turn(
                agent=NAME,
                role=said.role,
                round=place // 2,
                context="",
                response=said.text,
                context_ids=[],
                response_ids=(None if ids is None else ids[place]) or [],
                score=here.reward.worth(outcome, said.role),
            )
            for place, said in enumerate(played.utterances)
        ]
        return Episode(here.task.prompt_of(played.word), turns)


def set_metrics(games: Sequence[FinishedGame], reward: GameOutcome) -> Metrics:
    """How a set of games went. Shares are of all games, and broken rules are ended games, too."""
    outcomes = [reward.settled(played.outcome) for played in games]
    said = [utterance for played in games for utterance in played.utterances]
    sampled = [len(own) for played in games for own in sampled_ids(played) or [] if own]
    metrics = {
        "game/games": float(len(games)),
        "game/ties": mean(outcome.valid and not outcome.winners for outcome in outcomes),
        "game/invalid": mean(not outcome.valid for outcome in outcomes),
        "game/turns": mean(played.turns for played in games),
        "game/empty_share": mean(not utterance.text for utterance in said),
    }
    for role in reward.game.roles:
        metrics[f"game/{role}_wins"] = mean(role in outcome.winners for outcome in outcomes)
    if sampled:
        metrics["game/utterance_tokens"] = mean(sampled)
    return metrics
