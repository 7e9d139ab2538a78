"""Self-play of word games with offline updates (Cheng et al., 2024: SPAG).

Stage 1, `algorithm=imitation`: a policy imitates the winners of other players' games (eq. 8).
Stage 2, `algorithm=spag`: it plays both roles against a snapshot of itself, its state before the
first update on those games, and learns from the winners' utterances (Algorithm 2, eq. 12).
"""

from array import array
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from torch import Tensor

from cory.algorithms.parts import Parts
from cory.algorithms.spag_data import TrainingSelection
from cory.config import ImitationConfig, OfflineConfig, SpagConfig, require
from cory.episode import TEXT_ONLY, Episode, Metrics, Turn
from cory.evaluation.games import GameEvaluator
from cory.functional.credit import outcome_decay
from cory.functional.losses import OfflineLoss, kl_imitation_loss, self_play_loss
from cory.functional.statistics import mean
from cory.games.transcript import FinishedGame
from cory.models.engine import weights_fingerprint
from cory.rewards.game_outcome import GameOutcome
from cory.rollout.game_store import GameSet, read_set, require_ids, sampled_ids, vocabulary_digest
from cory.rollout.games import WordGame
from cory.rollout.opponents import Opponents
from cory.rollout.scheduler import RollOut
from cory.runs.signals import leave_if_asked
from cory.seeding import generator
from cory.tasks.game import GameTask
from cory.tasks.instructions import Instructions
from cory.trainers.offline import (
    INSTRUCTION,
    ExampleLoss,
    OfflineExample,
    OfflineTrainer,
    StoredGames,
)

AGENT = "agent_0"


def build_imitation(config: ImitationConfig, parts: Parts) -> OfflineTrainer:
    """A policy that imitates the winners of games."""

    def loss(
        logprobs: Tensor, reference: Tensor, advantages: Tensor, kl_shares: Tensor
    ) -> OfflineLoss:
        # eq. 8 has 1 / T before the sum of log-probabilities: there the weight holds it for both
        return kl_imitation_loss(logprobs, reference, config.kl_coef, config.kl_estimator)

    whole = config.average == "game"
    return GameTraining(config, parts).trainer(
        loss,
        credit=lambda turns: [1.0] * turns,
        turn_weight=lambda turns: 1 / turns if whole else 1.0,
        kl_share=lambda turns: 1.0,
        threshold=0,
    )


def build_spag(config: SpagConfig, parts: Parts) -> OfflineTrainer:
    """A policy that plays against itself and learns from the winners' utterances."""

    def loss(
        logprobs: Tensor, reference: Tensor, advantages: Tensor, kl_shares: Tensor
    ) -> OfflineLoss:
        return self_play_loss(
            logprobs,
            reference,
            advantages,
            config.kl_coef,
            config.kl_estimator,
            config.clip_range,
            config.kl_in_advantage,
            kl_shares,
        )

    whole = config.average == "game"
    return GameTraining(config, parts).trainer(
        loss,
        credit=partial(outcome_decay, decay=config.decay, normaliser=config.normaliser),
        turn_weight=lambda turns: 1.0,
        kl_share=lambda turns: 1 / turns if whole else 1.0,
        threshold=config.threshold,
    )


class GameTraining:
    """The components of both stages: players, games and evaluation."""

    def __init__(self, config: OfflineConfig, parts: Parts) -> None:
        assert isinstance(parts.task, GameTask) and isinstance(parts.reward, GameOutcome)
        self.config = config
        self.parts = parts
        self.task: GameTask = parts.task
        self.reward: GameOutcome = parts.reward
        self.run_dir = Path(parts.config.run_dir)
        others = {name: Path(folder) for name, folder in config.runs_played_against.items()}
        self.policy, frozen = parts.new_players(AGENT, others)
        self.task.require_room(parts.bundle.tokens)
        self.texts = parts.bundle.texts
        self.texts.require_learnable()
        self.opponents = Opponents(config, self.task, self.policy, frozen, self.run_dir)

    def fits(self, context: str) -> bool:
        """Whether a context is not too long."""
        return self.texts.tokens(context) <= self.task.config.max_prompt_tokens

    def trainer(
        self,
        loss: ExampleLoss,
        credit: Callable[[int], list[float]],
        turn_weight: Callable[[int], float],
        kl_share: Callable[[int], float],
        threshold: float,
    ) -> OfflineTrainer:
        """The trainer of a stage; `TrainingSelection` describes the last four."""
        config, parts = self.config, self.parts
        config.check_instructions(f"model={parts.config.model.name}", parts.bundle.context_length)
        selection = TrainingSelection(
            config,
            self.task,
            self.reward,
            self.texts,
            self.fits,
            credit,
            turn_weight,
            kl_share,
            threshold,
            parts.config.seed,
        )
        carried, instructions = parts.carried, None
        if config.instructions.per_iteration > 0:
            instructions = Instructions(config.instructions, parts.streams.data)
            carried["instructions"] = instructions
        return OfflineTrainer(
            config,
            parts.plan,
            self.policy,
            parts.streams,
            collect=GameCollector(self, selection),
            instructions=partial(self._instructions, instructions),
            loss=loss,
            evaluate=GameEvaluator(
                config, self.policy, self.task, self.reward, self.opponents, self.fits
            ),
            carried=carried,
        )

    def _instructions(self, source: Instructions | None, count: int) -> list[OfflineExample]:
        """The next `count` instructions that are not longer than the settings allow."""
        examples: list[OfflineExample] = []
        if source is None:
            return examples
        longest, left = self.config.instructions.max_tokens, len(source.rows)
        while len(examples) < count:
            prompt, answer = source.next()
            context, response = self.texts.context_ids(prompt), self.texts.answer_ids(answer)
            if len(context) + len(response) <= longest:
                ids = array("i", context), array("i", response)
                examples.append(OfflineExample(*ids, INSTRUCTION, 1.0, 0.0))
                left = len(source.rows)
            else:
                left -= 1
                require(
                    left > 0,
                    f"algorithm.instructions.max_tokens={longest}: no instruction is that short",
                )
        return examples


class GameCollector:
    """Collects a set of games: plays them, or reads them from a file."""

    def __init__(self, training: GameTraining, selection: TrainingSelection) -> None:
        self.training = training
        self.selection = selection
        self.own_tokens = vocabulary_digest(training.parts.bundle.tokenizer)

    def __call__(self, epoch: int, again: bool) -> StoredGames:
        """The set of an epoch.

        again: the set was collected before a restart
        """
        training = self.training
        if training.config.games == "none":
            return StoredGames([], [])
        if training.config.from_file:
            games, same_tokens = self._read()
        else:
            games = self._play(epoch, again)
            same_tokens = training.config.games == "self_play"
        examples, selected = self.selection.examples(games, epoch, same_tokens)
        metrics = set_metrics(games, training.reward) | selected
        if training.opponents.endpoint is not None:
            requests, tokens = training.opponents.endpoint.spent()
            metrics["game/endpoint_requests"] = float(requests)
            metrics["game/endpoint_tokens"] = float(tokens)
        kept = training.parts.config.samples_kept
        return StoredGames(examples, [self._episode(played) for played in games[:kept]], metrics)

    def _read(self) -> tuple[list[FinishedGame], bool]:
        """A file's first games about training words; whether their token ids are this model's."""
        config, task = self.training.config, self.training.task
        path = Path(config.games).expanduser()
        every, same_tokens = read_set(
            path, task.game, "algorithm.games", self.training.parts.bundle.tokenizer
        )
        words = set(task.train_words)
        games = [played for played in every if played.word in words]
        wanted = config.games_per_epoch
        require(
            len(games) >= wanted,
            f"algorithm.games={path} holds {len(every)} games, {len(games)} of them about training "
            f"words; algorithm.iterations_per_epoch x algorithm.prompts_per_iteration asks for "
            f"{wanted}",
        )
        return games[:wanted], same_tokens

    def _play(self, epoch: int, again: bool) -> list[FinishedGame]:
        """Play every word once, many games side by side; those on disk are not played again."""
        training = self.training
        path = training.run_dir / "games" / f"epoch_{epoch:03d}.jsonl"
        itself = training.config.games == "self_play"
        weights = None
        if itself and not again:
            weights = weights_fingerprint({AGENT: training.policy})
        games = GameSet(path, training.task.game, self.own_tokens, weights)
        wanted = training.config.games_per_epoch
        if again:
            require_ids(games.found.values(), len(training.parts.bundle.tokenizer))
            require(
                sorted(games.found) == list(range(wanted)),
                f"{path} holds {len(games.found)} of the {wanted} games that this run had begun to "
                f"learn from; delete {training.run_dir} to start again",
            )
            return games.close()
        prompts = training.task.sample(wanted)
        size, seed = training.config.game_batch, training.parts.config.seed
        kind = "itself" if itself else training.config.games
        game = WordGame(
            training.task.game,
            training.task.wording,
            training.fits,
            training.opponents.seats("games", kind),
            lambda key: training.task.turns_to_collect(generator((*key, "turns"))),
            over=games.found,
            ended=games.add,
        )
        for start in range(0, wanted, size):
            roll_out = RollOut(
                training.opponents.actors,
                training.config.sampling.max_response_tokens,
                training.config.sampling,
                (seed, "games", epoch),
                start,
                before_each=partial(self._stop_if_asked, games, wanted),
            )
            # ZeRO-3 gathers its weights once for all utterances of these games
            with training.policy.whole() if itself else nullcontext():
                games.found |= game(roll_out, prompts[start : start + size])
        return games.close()

    def _stop_if_asked(self, games: GameSet, wanted: int) -> None:
        """Collecting may take hours: it can be interrupted between any two utterances."""
        leave_if_asked(f"with {len(games.found)} of {wanted} games of a set")

    def _episode(self, played: FinishedGame) -> Episode:
        """A game as samples.jsonl keeps it."""
        training, ids = self.training, sampled_ids(played)
        outcome = training.reward.settled(played.outcome)
        turns = [
            Turn(
                agent=AGENT,
                role=said.role,
                round=place // 2,
                context="",
                response=said.text,
                context_ids=[],
                response_ids=(None if ids is None else ids[place]) or TEXT_ONLY,
                score=training.reward.worth(outcome, said.role),
            )
            for place, said in enumerate(played.utterances)
        ]
        return Episode(training.task.prompt_of(played.word), turns)


def set_metrics(games: Sequence[FinishedGame], reward: GameOutcome) -> Metrics:
    """Metrics of a set of games. Shares are of all games, those with broken rules included."""
    outcomes = [reward.settled(played.outcome) for played in games]
    utterances = [utterance for played in games for utterance in played.utterances]
    sampled = [len(own) for played in games for own in sampled_ids(played) or [] if own]
    metrics = {
        "game/games": float(len(games)),
        "game/ties": mean(outcome.valid and not outcome.winners for outcome in outcomes),
        "game/invalid": mean(not outcome.valid for outcome in outcomes),
        "game/turns": mean(played.turns for played in games),
        "game/empty_share": mean(not utterance.text for utterance in utterances),
    }
    for role in reward.game.roles:
        metrics[f"game/{role}_wins"] = mean(role in outcome.winners for outcome in outcomes)
    if sampled:
        metrics["game/utterance_tokens"] = mean(sampled)
    return metrics
