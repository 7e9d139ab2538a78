"""Self-play of word games with offline updates (Cheng et al., 2024: SPAG).

Stage 1, `algorithm=imitation`: a policy imitates the winners of other players' games (eq. 8).
Stage 2, `algorithm=spag`: it plays both roles against a snapshot of itself, its state before the
first update on those games, and learns from the winners' utterances (Algorithm 2, eq. 12).
"""

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from torch import Tensor

from cory import distributed
from cory.config import OfflineConfig, SpagConfig, require
from cory.episode import TEXT_ONLY, Context, Episode, Metrics, Turn
from cory.evaluation.games import GameEvaluator
from cory.functional.credit import outcome_decay
from cory.functional.losses import OfflineLoss, kl_imitation_loss, role_weights, self_play_loss
from cory.functional.statistics import mean
from cory.games.rules import GameState
from cory.games.transcript import FinishedGame, read_games
from cory.models.policy import Policy
from cory.models.tokenization import Texts
from cory.rewards.game_outcome import GameOutcome
from cory.rollout.games import Opponents, WordGame, fitting, form_of, stored_games
from cory.rollout.scheduler import RollOut
from cory.runs.files import append_lines
from cory.runs.run_dir import GAMES
from cory.runs.signals import leave_if_asked
from cory.seeding import EpochSampler, generator
from cory.tasks.game import KEY, GameTask, load_instructions
from cory.trainers.components import Components
from cory.trainers.offline import (
    INSTRUCTION,
    ExampleLoss,
    OfflineExample,
    OfflineTrainer,
    StoredGames,
)

AGENT = "agent_0"
STYLE = 3  # begins the keys of the random numbers for prompts' paraphrases


def build_imitation(config: OfflineConfig, components: Components) -> OfflineTrainer:
    """A policy that imitates the winners of games."""

    def loss(
        logprobs: Tensor, reference: Tensor, advantages: Tensor, *, kl_shares: Tensor
    ) -> OfflineLoss:
        return kl_imitation_loss(logprobs, reference, config.kl_coef, config.kl_estimator)

    return game_trainer(config, components, loss)


def build_spag(config: SpagConfig, components: Components) -> OfflineTrainer:
    """A policy that plays against itself and learns from the winners' utterances."""
    loss = partial(
        self_play_loss,
        kl_coef=config.kl_coef,
        estimator=config.kl_estimator,
        clip_range=config.clip_range,
        kl_in_advantage=config.kl_in_advantage,
    )
    return game_trainer(config, components, loss)


def game_trainer(
    config: OfflineConfig, components: Components, loss: ExampleLoss
) -> OfflineTrainer:
    """The trainer of either stage: a policy, those it plays against, and sets of games."""
    task, reward, bundle = components.task, components.reward, components.bundle
    assert isinstance(task, GameTask) and isinstance(reward, GameOutcome)
    others = {name: Path(folder) for name, folder in config.runs_played_against.items()}
    agents, frozen = components.new_team([AGENT], others, "algorithm.opponents")
    policy = agents[AGENT]
    task.require_room(policy.texts.tokens, form_of(policy.texts))
    policy.texts.require_learnable()
    opponents = Opponents(config, task, policy, frozen, Path(components.config.run_dir))
    instructions, carried = None, {}
    if config.instructions.per_iteration > 0:
        longest, context = config.instructions.max_tokens, bundle.context_length
        require(
            longest <= context or config.iterations == 0,
            f"algorithm.instructions.max_tokens={longest} exceeds the context of "
            f"model={components.config.model.name} ({context} tokens)",
        )
        rows = load_instructions(config.instructions)
        source = EpochSampler(rows, components.streams.data, rows, KEY)
        instructions = partial(next_instructions, source, policy.texts, longest)
        carried["instructions"] = source
    collector = GameCollector(config, components, task, reward, policy, opponents)
    if config.from_file and config.iterations > 0:
        assert collector.recorded  # read now: an evaluation before the training may cost money
    return OfflineTrainer(
        components,
        policy,
        collector,
        instructions,
        loss,
        GameEvaluator(config, policy, task, reward, opponents, collector.fits),
        carried,
    )


@dataclass(frozen=True)
class GameCollector:
    """Collects a set of games, played or read from a file, and selects what is learnt."""

    config: OfflineConfig
    components: Components
    task: GameTask
    reward: GameOutcome
    policy: Policy
    opponents: Opponents

    @cached_property
    def tokenizer(self) -> str:
        """A digest of the policy's vocabulary; with equal ones token ids mean the same."""
        entries = json.dumps(sorted(self.components.bundle.tokenizer.get_vocab().items()))
        return hashlib.sha256(entries.encode()).hexdigest()[:16]

    def fits(self, context: Context) -> bool:
        return self.policy.texts.tokens(context) <= self.task.config.max_prompt_tokens

    def __call__(self, epoch: int, again: bool) -> StoredGames:
        """The set of an epoch; again: it was collected before a restart."""
        if self.config.games == "none":
            return StoredGames([], [])
        games = self.recorded if self.config.from_file else self._play(epoch, again)
        examples, selected = self._examples(games, epoch)
        metrics = set_metrics(games, self.reward) | selected
        if self.opponents.endpoint is not None:
            requests, tokens = self.opponents.endpoint.spent()
            metrics["game/endpoint_requests"] = float(requests)
            metrics["game/endpoint_tokens"] = float(tokens)
        kept = games[: self.components.config.samples_kept]
        return StoredGames(examples, [self._episode(played) for played in kept], metrics)

    @cached_property
    def recorded(self) -> list[FinishedGame]:
        """The first games about training words of the file; ConfigError where it has too few."""
        config, path = self.config, Path(self.config.games).expanduser()
        every = read_games(path, self.task.game, "algorithm.games")
        words = set(self.task.train_words)
        games = [played for played in every if played.word in words]
        wanted = config.games_per_epoch
        require(
            len(games) >= wanted,
            f"algorithm.games={path} holds {len(every)} games, {len(games)} of them about training "
            f"words; algorithm.iterations_per_epoch x algorithm.prompts_per_iteration asks for "
            f"{wanted}",
        )
        return games[:wanted]

    def _play(self, epoch: int, again: bool) -> list[FinishedGame]:
        """Play every word once, many games side by side; each such batch is kept on the disk."""
        config, task, run = self.config, self.task, self.components.config
        path = Path(run.run_dir) / GAMES / f"epoch_{epoch:03d}.jsonl"
        games = distributed.first_works(lambda: stored_games(path, task.game))
        wanted = config.games_per_epoch
        if again:
            return games
        prompts = task.sample(wanted)
        itself = config.games == "self_play"
        game = WordGame(
            task.game,
            task.wording,
            self.fits,
            self.opponents.seats("games", "itself" if itself else config.games),
            lambda key: task.turns_to_collect(generator((*key, "turns"))),
        )

        def leave() -> None:
            leave_if_asked(f"saved with {len(games)} of {wanted} games of a set")

        roll_out = RollOut.of(
            self.opponents.actors,
            config.sampling,
            (run.seed, "games", epoch),
            self.components.streams.length,
            before_each=leave,  # collecting may take hours: between any two utterances
        )
        for start in range(len(games), wanted, config.game_batch):
            leave()  # what a server samples is no batch
            # ZeRO-3 gathers its weights once for all utterances of these games
            with self.policy.whole() if itself else nullcontext():
                of_batch = replace(roll_out, first=start)
                played = game(of_batch, prompts[start : start + config.game_batch])
            # a game says whose token ids it has, where a model spoke
            batch = [
                one.model_copy(update={"tokenizer": None if one.ids is None else self.tokenizer})
                for _, one in sorted(played.items())
            ]
            games.extend(batch)
            if distributed.rank() == 0:
                append_lines(path, [one.as_line() for one in batch])
        return games

    def _episode(self, played: FinishedGame) -> Episode:
        """A game as samples.jsonl keeps it."""
        outcome = self.reward.settled(played.outcome)
        turns = [
            Turn(
                agent=AGENT,
                role=said.role,
                round=place // 2,
                context="",
                response=said.text,
                thinking=said.thinking or "",
                context_ids=[],
                response_ids=(None if played.ids is None else played.ids[place]) or TEXT_ONLY,
                score=self.reward.worth(outcome, said.role),
            )
            for place, said in enumerate(played.utterances)
        ]
        return Episode(self.task.prompt_of(played.word), turns)

    def _examples(
        self, games: Sequence[FinishedGame], epoch: int
    ) -> tuple[list[list[OfflineExample]], Metrics]:
        """The examples of each game, and metrics of the selection."""
        learnt = Counter(role for played in games for role in self._roles(played))
        weights = dict.fromkeys(learnt, 1.0)
        if self.config.role_weights:
            weights = role_weights(learnt)
        longest = self.config.sampling.max_response_tokens
        selected: list[list[OfflineExample]] = []
        long = 0
        for number, played in enumerate(games):
            key = (self.components.config.seed, STYLE, epoch, number)
            own = list(self._game_examples(played, key, weights))
            selected.append([e for e in own if len(e.response_ids) <= longest])
            long += len(own) - len(selected[-1])
        count = sum(map(len, selected))
        if self.config.average == "game" and count:
            share = count / sum(learnt.values())  # from a mean over utterances to one over games
            selected = [[replace(e, weight=e.weight * share) for e in own] for own in selected]
        metrics = {f"game/weight_{role}": weight for role, weight in weights.items()}
        return selected, metrics | {"game/learnt": float(count), "game/too_long": float(long)}

    def _roles(self, played: FinishedGame) -> list[str]:
        """The roles that are learnt from in a game."""
        outcome = self.reward.settled(played.outcome)
        spoke = {said.role for said in played.utterances}
        least = self.config.threshold if isinstance(self.config, SpagConfig) else 0.0
        return [
            role
            for role in self.task.game.roles
            if outcome.valid and role in spoke and self.reward.worth(outcome, role) > least
        ]

    def _lesson(self, turns: int) -> tuple[list[float], float, float]:
        """Of a winner's turns: parts of the reward, their weight, and the weight of their KL."""
        share = 1 / turns if self.config.average == "game" else 1.0
        if isinstance(self.config, SpagConfig):
            return outcome_decay(turns, self.config.decay), 1.0, share
        # eq. 8 has 1 / T before the sum of log-probabilities: there the weight holds it for both
        return [1.0] * turns, share, 1.0

    def _game_examples(
        self, played: FinishedGame, key: tuple[int, ...], weights: Mapping[str, float]
    ) -> Iterator[OfflineExample]:
        """The winners' utterances in a game, but empty ones."""
        outcome, texts = self.reward.settled(played.outcome), self.policy.texts
        # token ids of another model's are not learnt from
        sampled = played.ids if played.tokenizer == self.tokenizer else None
        for role in self._roles(played):
            places = [place for place, said in enumerate(played.utterances) if said.role == role]
            worth = self.reward.worth(outcome, role)
            parts, weight, kl_share = self._lesson(len(places))
            for place, part in zip(places, parts, strict=True):
                text = played.utterances[place].text
                if not text:
                    continue
                state = GameState(played.word, played.max_turns, played.utterances[:place])
                own = None if sampled is None else sampled[place]
                style = None  # as it was played, or a paraphrase
                if self.config.varied_prompts:
                    seed = np.random.SeedSequence((*key, place))
                    style = int(seed.generate_state(1)[0])
                context = fitting(self.task.wording, self.fits, state, role, style, form_of(texts))
                yield OfflineExample(
                    array("i", texts.context_ids(context)),
                    array("i", own or texts.answer_ids(text)),
                    role,
                    weights[role] * weight,
                    worth * part,
                    kl_share,
                    context if self.components.config.export_examples else "",
                )


def next_instructions(
    source: EpochSampler, texts: Texts, longest: int, count: int
) -> list[OfflineExample]:
    """The next `count` instructions to imitate beside the games.

    longest: tokens of an instruction with its answer; longer ones are left out
    """
    examples: list[OfflineExample] = []
    tried = 0  # since the last one that was short enough
    while len(examples) < count:
        prompt, answer = source.next()
        context, response = texts.context_ids(prompt), texts.answer_ids(answer)
        tried += 1
        if len(context) + len(response) <= longest:
            ids = array("i", context), array("i", response)
            examples.append(OfflineExample(*ids, INSTRUCTION, 1.0, 0.0))
            tried = 0
        said = f"{KEY}.max_tokens={longest}: no instruction is that short"
        require(tried < len(source.rows), said)
    return examples


def set_metrics(games: Sequence[FinishedGame], reward: GameOutcome) -> Metrics:
    """Metrics of a set of games. Shares are of all games, those with broken rules included."""
    outcomes = [reward.settled(played.outcome) for played in games]
    metrics = {
        "game/games": float(len(games)),
        "game/ties": mean(outcome.valid and not outcome.winners for outcome in outcomes),
        "game/invalid": mean(not outcome.valid for outcome in outcomes),
        # the last turn perhaps by one role only
        "game/turns": mean((len(played.utterances) + 1) // 2 for played in games),
    }
    for role in reward.game.roles:
        metrics[f"game/{role}_wins"] = mean(role in outcome.winners for outcome in outcomes)
    return metrics
