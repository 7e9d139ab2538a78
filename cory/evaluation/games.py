"""Evaluates a policy in games about held-out words, in both roles, against several opponents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from cory.config import OfflineConfig
from cory.episode import Metrics, Prompt
from cory.evaluation.responses import (
    MEASURED,
    PROBE,
    BeforeEach,
    EvalRequest,
    PromptScores,
    as_line,
    in_batches,
)
from cory.functional.statistics import contributions, mean, standard_error
from cory.games.transcript import FinishedGame
from cory.models.policy import Policy
from cory.rewards.game_outcome import GameOutcome
from cory.rollout.games import Opponents, WordGame
from cory.rollout.scheduler import RollOut
from cory.runs.files import Line
from cory.tasks.game import GameTask


@dataclass(frozen=True)
class Match:
    """Games against one opponent in one role."""

    opponent: str
    kind: str
    role: str | None  # the policy's own; None: it plays both, against itself
    prompts: Sequence[Prompt]
    samples: int
    greedy: bool
    purpose: str  # MEASURED | PROBE
    number: int  # the match's own, for its random numbers

    def __len__(self) -> int:
        return len(self.prompts) * self.samples


@dataclass(frozen=True)
class GameEvaluator:
    """The policy plays every opponent, and wins are counted; an `Evaluator`."""

    config: OfflineConfig
    policy: Policy
    task: GameTask
    reward: GameOutcome
    opponents: Opponents
    fits: Callable[[str], bool]  # whether a context leaves room for an utterance

    def __call__(self, request: EvalRequest, before_each: BeforeEach) -> Metrics:
        """As `Evaluator`; each line is a game."""
        matches = self._matches(request)
        answer, size = partial(self._play, request), self.config.game_batch
        try:
            lines = in_batches(request, matches, size, answer, before_each)
        finally:
            self.opponents.dismiss()
        request.scores.prompts = [prompt.id for prompt in matches[0].prompts]
        return game_metrics(matches, lines, self.task.game.roles, request.scores)

    def _matches(self, request: EvalRequest) -> list[Match]:
        """One match per opponent and role; in probes the policy plays itself."""
        config = request.config
        prompts = self.task.held_out(config.prompts, config.split)
        sides = [
            (opponent, kind, role)
            for opponent, kind in self.config.played_against.items()
            for role in ((None,) if kind == "itself" else self.task.game.roles)
        ]
        samples, greedy = config.samples, self.config.test_greedy
        matches = [
            Match(*side, prompts, samples, greedy, MEASURED, number)
            for number, side in enumerate(sides)
        ]
        if request.final and config.probes:
            probes = [self.task.prompt_of(text) for text in config.probes]
            for greedy in (False, True):
                number = len(matches)
                matches.append(Match("itself", "itself", None, probes, 1, greedy, PROBE, number))
        return matches

    def _play(self, request: EvalRequest, match: Match, rows: range) -> list[Line]:
        """Some games of a match, as samples.jsonl keeps them."""
        prompts = [match.prompts[row % len(match.prompts)] for row in rows]
        own = self.opponents.seats("itself", "itself")
        other = self.opponents.seats(match.opponent, match.kind)
        game = WordGame(
            self.task.game,
            self.task.wording,
            self.fits,
            {
                role: (own if match.role in (None, role) else other)[role]
                for role in self.task.game.roles
            },
            lambda key: self.task.max_turns,
        )
        roll_out = RollOut(
            self.opponents.actors,
            self.config.sampling.max_response_tokens,
            None if match.greedy else self.config.sampling,
            (request.seed, match.purpose, match.number),
            rows.start,
        )
        # ZeRO-3 gathers the policy's weights once for all utterances of these games
        self.opponents.seat(match.opponent)
        with self.policy.whole():
            played = game(roll_out, prompts)
        return [
            self._line(request, match, row, prompt, played[row])
            for row, prompt in zip(rows, prompts, strict=True)
        ]

    def _line(
        self, request: EvalRequest, match: Match, row: int, prompt: Prompt, played: FinishedGame
    ) -> Line:
        outcome = self.reward.settled(played.outcome)
        sample = None if match.greedy else row // len(match.prompts)
        line = as_line(request, match.purpose, self.policy.name, sample, prompt)
        if match.purpose == PROBE:  # pages show a probe as one text
            turn = {"agent": self.policy.name, "role": "both", "context": None}
            texts = [f"{said.role}: {said.text}" for said in played.utterances]
            dialogue = "\n".join([*texts, f"[{outcome.reason}]"])
            return line | {"turns": [turn | {"response": dialogue, "score": None}]}
        ids = played.ids or [None] * len(played.utterances)
        who = {True: self.policy.name, False: match.opponent}
        return line | {
            "opponent": match.opponent,
            "role": match.role,
            "winners": list(outcome.winners),
            "reason": outcome.reason,
            "valid": outcome.valid,
            "turns": [
                {
                    "agent": who[match.role in (None, said.role)],
                    "role": said.role,
                    "context": None,
                    "response": said.text,
                    "score": self.reward.worth(outcome, said.role),
                    "tokens": None if own is None else len(own),
                }
                for said, own in zip(played.utterances, ids, strict=True)
            ],
        }


def game_metrics(
    matches: Sequence[Match],
    lines: Sequence[Sequence[Line]],
    roles: Sequence[str],
    scores: PromptScores,
) -> Metrics:
    """Win rates and statistics of the games against each opponent.

    What each word contributes to the win rates against others, among itself to games solved, goes
    to `scores`. A number that an opponent's games do not give, as without a valid game, is left out

    lines: the games of every match
    """
    metrics: Metrics = {}
    measured = [match for match in matches if match.purpose == MEASURED]
    for opponent in dict.fromkeys(match.opponent for match in measured):
        own = {match.role: match for match in measured if match.opponent == opponent}
        by_role = {role: lines[match.number] for role, match in own.items()}
        games = [line for played in by_role.values() for line in played]
        itself, (first, *_) = None in own, own.values()
        words, tries = len(first.prompts), first.samples
        rates = []
        for role in roles:
            played = by_role[None if itself else role]
            by_game = [win_scores([line], role) for line in played]
            won = [score for own_score in by_game for score in own_score]
            if not won:
                continue
            # games about one word are not independent; the words are
            sums = by_word([sum(own_score) for own_score in by_game], words)
            rates.append(contributions(sums, by_word(list(map(len, by_game)), words)))
            metrics |= mean_with_error(f"win_rate_{role}", opponent, rates[-1])
            metrics[f"eval/wins_{role}/{opponent}"] = mean(score == 1 for score in won)
            if not itself:
                scores.add(f"eval/win_rate_{role}/{opponent}", rates[-1], tries)
        if len(rates) == len(roles):
            means = [mean(of_word) for of_word in zip(*rates, strict=True)]
            both = mean_with_error("win_rate", opponent, means)
            if itself:  # what one role wins the other loses: nothing is left to chance
                both.pop(f"eval/win_rate_se/{opponent}", None)
            else:
                scores.add(f"eval/win_rate/{opponent}", means, tries * len(roles))
            metrics |= both
        valid = [line for line in games if line["valid"]]
        metrics[f"eval/invalid/{opponent}"] = 1 - len(valid) / len(games)
        if valid:
            metrics[f"eval/ties/{opponent}"] = mean(not line["winners"] for line in valid)
            solved = mean(len(line["winners"]) > 1 for line in valid)
            metrics[f"eval/solved/{opponent}"] = solved
        if valid and itself:
            solves = by_word([float(len(line["winners"]) > 1) for line in games], words)
            counts = by_word([float(line["valid"]) for line in games], words)
            scores.add(f"eval/solved/{opponent}", contributions(solves, counts), tries)
        lengths = [(len(line["turns"]) + 1) // 2 for line in games]
        metrics |= mean_with_error("game_turns", opponent, lengths)
        said_by_policy = (
            [turn for turn in line["turns"] if turn["agent"] == line["who"]] for line in games
        )
        spoken = [turns for turns in said_by_policy if turns]
        tokens = [mean(turn["tokens"] for turn in said) for said in spoken]
        metrics |= mean_with_error("utterance_tokens", opponent, tokens)
        empty = [mean(not turn["response"] for turn in said) for said in spoken]
        metrics |= mean_with_error("empty_share", opponent, empty)
    return metrics


def by_word(games: Sequence[float], words: int) -> list[float]:
    """The sum over each word's games; every word once, then every word again."""
    return [sum(games[start::words]) for start in range(words)]


def win_scores(lines: Sequence[Line], role: str) -> list[float]:
    """Of each valid game, 1 where the role wins, 1/2 for a tie, else 0 (Cheng et al., 4.1)."""
    return [
        0.5 if not line["winners"] else float(role in line["winners"])
        for line in lines
        if line["valid"]
    ]


def mean_with_error(name: str, opponent: str, values: Sequence[float]) -> Metrics:
    """A mean and its standard error; empty without values."""
    if not values:
        return {}
    metrics = {f"eval/{name}/{opponent}": mean(values)}
    if len(values) > 1:
        metrics[f"eval/{name}_se/{opponent}"] = standard_error(values)
    return metrics
