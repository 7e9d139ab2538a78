"""Evaluates a policy in games about held-out words, in both roles, against several opponents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from cory.config import OfflineConfig
from cory.episode import Context, Metrics
from cory.evaluation.responses import (
    MEASURED,
    PROBE,
    BeforeEach,
    EvalRequest,
    PromptScores,
    ResponseSet,
    in_batches,
)
from cory.functional.statistics import contributions, mean
from cory.games.transcript import FinishedGame
from cory.models.policy import Policy
from cory.rewards.game_outcome import GameOutcome
from cory.rollout.games import Opponents, WordGame
from cory.rollout.scheduler import RollOut
from cory.runs.files import Line
from cory.tasks.game import GameTask


@dataclass
class Match(ResponseSet):
    """Games of the policy against one opponent in one role."""

    opponent: str
    opponent_kind: str
    role: str | None  # the policy's own; None: it plays both, against itself
    number: int = 0  # the match's own, for its random numbers


@dataclass(frozen=True)
class GameEvaluator:
    """The policy plays every opponent, and wins are counted; an `Evaluator`."""

    config: OfflineConfig
    policy: Policy
    task: GameTask
    reward: GameOutcome
    opponents: Opponents
    fits: Callable[[Context], bool]  # whether a context leaves room for an utterance

    def __call__(self, request: EvalRequest, before_each: BeforeEach) -> Metrics:
        """As `Evaluator`; each line is a game."""
        matches = self._matches(request)
        answer, size = partial(self._play, request), self.config.game_batch
        try:
            in_batches(request, matches, size, answer, before_each)
        finally:
            self.opponents.dismiss()
        return game_metrics(matches, self.task.game.roles, request.scores)

    def _matches(self, request: EvalRequest) -> list[Match]:
        """One match per opponent and role; in probes the policy plays itself."""
        config, who = request.config, self.policy.name
        prompts = self.task.held_out(config.prompts, config.split)
        samples = None if self.config.test_greedy else config.samples
        matches = [
            Match(who, MEASURED, prompts, samples, opponent, kind, role)
            for opponent, kind in self.config.played_against.items()
            for role in ((None,) if kind == "itself" else self.task.game.roles)
        ]
        if request.final:
            probes = [self.task.prompt_of(text) for text in config.probes]
            for tries in (1, None):
                matches.append(Match(who, PROBE, probes, tries, "itself", "itself", None))
        for number, match in enumerate(matches):
            match.number = number
        return matches

    def _play(self, request: EvalRequest, match: Match, rows: range) -> list[Line]:
        """Some games of a match, as samples.jsonl keeps them."""
        task, seats = self.task, self.opponents.seats(match.opponent, match.opponent_kind)
        if match.role is not None:  # else it plays both
            seats[match.role] = self.opponents.seats("itself", "itself")[match.role]
        game = WordGame(task.game, task.wording, self.fits, seats, lambda key: task.max_turns)
        roll_out = RollOut.of(
            self.opponents.actors,
            self.config.sampling,
            (request.seed, match.kind, match.number),
            greedy=match.samples is None,
            first=rows.start,
        )
        # ZeRO-3 gathers the policy's weights once for all utterances of these games
        self.opponents.seat(match.opponent)
        with self.policy.whole():
            played = game(roll_out, [match.prompt(row) for row in rows])
        return [self._line(match, played[row]) for row in rows]

    def _line(self, match: Match, played: FinishedGame) -> Line:
        outcome = self.reward.settled(played.outcome)
        if match.kind == PROBE:  # pages show a probe as one text
            turn = {"agent": match.who, "role": "both", "context": None}
            texts = [f"{said.role}: {said.text}" for said in played.utterances]
            dialogue = "\n".join([*texts, f"[{outcome.reason}]"])
            return {"turns": [turn | {"response": dialogue, "score": None}]}
        ids = played.ids or [None] * len(played.utterances)
        return {
            "opponent": match.opponent,
            "role": match.role,
            "winners": list(outcome.winners),
            "reason": outcome.reason,
            "valid": outcome.valid,
            "turns": [
                {
                    "agent": match.who if match.role in (None, said.role) else match.opponent,
                    "role": said.role,
                    "context": None,
                    **({"thinking": said.thinking} if said.thinking else {}),
                    "response": said.text,
                    "score": self.reward.worth(outcome, said.role),
                    "tokens": None if own is None else len(own),
                }
                for said, own in zip(played.utterances, ids, strict=True)
            ],
        }


def game_metrics(matches: Sequence[Match], roles: Sequence[str], scores: PromptScores) -> Metrics:
    """Win rates and statistics of the games against each opponent.

    What each word contributes to the win rates against others, among itself to games solved, goes
    to `scores`. A number that an opponent's games do not give, as without a valid game, is left out
    """
    metrics: Metrics = {}
    measured = [match for match in matches if match.kind == MEASURED]
    for opponent in dict.fromkeys(match.opponent for match in measured):
        own = {match.role: match for match in measured if match.opponent == opponent}
        games = [line for match in own.values() for line in match.lines]
        itself, (first, *_) = None in own, own.values()
        tries, rates = first.samples or 1, []
        for role in roles:
            played = own[None if itself else role].lines
            won = win_scores(played, role)
            if not won:
                continue
            # games about one word are not independent; the words are
            wins = [win_scores(lines, role) for lines in scores.by_prompt(played)]
            rates.append(contributions([*map(sum, wins)], [*map(len, wins)]))
            metrics[f"eval/win_rate_{role}/{opponent}"] = mean(rates[-1])
            metrics[f"eval/wins_{role}/{opponent}"] = mean(score == 1 for score in won)
            if not itself:
                scores.add(f"eval/win_rate_{role}/{opponent}", rates[-1], tries)
        if len(rates) == len(roles):
            means = [mean(of_word) for of_word in zip(*rates, strict=True)]
            metrics[f"eval/win_rate/{opponent}"] = mean(means)
            if not itself:  # there what one role wins the other loses: nothing is left to chance
                scores.add(f"eval/win_rate/{opponent}", means, tries * len(roles))
        valid = [line for line in games if line["valid"]]
        metrics[f"eval/invalid/{opponent}"] = 1 - len(valid) / len(games)
        if valid:
            metrics[f"eval/ties/{opponent}"] = mean(not line["winners"] for line in valid)
            metrics[f"eval/solved/{opponent}"] = mean(len(line["winners"]) > 1 for line in valid)
        if valid and itself:
            by_word = scores.by_prompt(games)
            solves = [sum(len(line["winners"]) > 1 for line in lines) for lines in by_word]
            counts = [sum(line["valid"] for line in lines) for lines in by_word]
            scores.add(f"eval/solved/{opponent}", contributions(solves, counts), tries)
        lengths = [(len(line["turns"]) + 1) // 2 for line in games]
        metrics[f"eval/game_turns/{opponent}"] = mean(lengths)
        own_turns = [[t for t in line["turns"] if t["agent"] == line["who"]] for line in games]
        spoken = [turns for turns in own_turns if turns]
        if spoken:
            tokens = [mean(turn["tokens"] for turn in said) for said in spoken]
            metrics[f"eval/utterance_tokens/{opponent}"] = mean(tokens)
    return metrics


def win_scores(lines: Sequence[Line], role: str) -> list[float]:
    """Of each valid game, 1 where the role wins, 1/2 for a tie, else 0 (Cheng et al., 4.1)."""
    return [
        0.5 if not line["winners"] else float(role in line["winners"])
        for line in lines
        if line["valid"]
    ]
