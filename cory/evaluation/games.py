"""Evaluates a policy in games about held-out words, in both roles, against several opponents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cory.config import ITSELF, OfflineConfig
from cory.episode import Metrics, Prompt
from cory.evaluation.prompt_scores import PromptScores
from cory.evaluation.responses import (
    MEASURED,
    PROBE,
    BeforeEach,
    EvalRequest,
    as_line,
    in_batches,
)
from cory.functional.statistics import contributions, mean, standard_error
from cory.games.state import GameState
from cory.games.transcript import IDS, FinishedGame
from cory.models.policy import Policy
from cory.rewards.game_outcome import GameOutcome
from cory.rollout.opponents import Opponent, Opponents
from cory.rollout.self_play import Player, play
from cory.runs.files import Line
from cory.tasks.game import GameTask

MATCH = 2  # begins the keys of all random numbers here; self-play for training uses another


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

    def __call__(self, request: EvalRequest, before_each: BeforeEach) -> Metrics:
        """As `Evaluator`; each line is a game."""
        matches = self._matches(request)
        lines: dict[int, list[Line]] = {match.number: [] for match in matches}
        answer, size = partial(self._play, request), self.config.game_batch
        try:
            for match, games in in_batches(request, matches, size, answer, before_each):
                lines[match.number] += games
        finally:
            self.opponents.dismiss()
        request.scores.prompts = [prompt.id for prompt in matches[0].prompts]
        add_contributions(request.scores, matches, lines, self.task.game.roles)
        return game_metrics(matches, lines, self.task.game.roles)

    def _matches(self, request: EvalRequest) -> list[Match]:
        """One match per opponent and role; in probes the policy plays itself."""
        config = request.config
        prompts = self.task.held_out(config.prompts, config.split)
        matches: list[Match] = []

        def add(opponent: str, kind: str, role: str | None, **changes: Any) -> None:
            match = Match(
                opponent,
                kind,
                role,
                prompts,
                config.samples,
                self.config.test_greedy,
                MEASURED,
                len(matches),
            )
            matches.append(replace(match, **changes))

        for opponent, kind in self.config.played_against.items():
            for role in (None,) if kind == ITSELF else self.task.game.roles:
                add(opponent, kind, role)
        if request.final and config.probes:
            probes = [self.task.prompt_of(text) for text in config.probes]
            for greedy in (False, True):
                changes = {"prompts": probes, "samples": 1, "greedy": greedy, "purpose": PROBE}
                add(ITSELF, ITSELF, None, **changes)
        return matches

    def _play(self, request: EvalRequest, match: Match, rows: range) -> list[Line]:
        """Some games of a match, as samples.jsonl keeps them."""
        sampling = None if match.greedy else self.config.sampling
        own = self.opponents.named(ITSELF, ITSELF, sampling)
        other = self.opponents.named(match.opponent, match.kind, sampling)
        key = (request.seed, MATCH, match.number)
        prompts = [match.prompts[row % len(match.prompts)] for row in rows]
        starts = [GameState(p.text, self.task.max_turns) for p in prompts]
        players = self._players(match, own, other)
        # ZeRO-3 gathers the policy's weights once for all utterances of these games
        self.opponents.seat(other)
        with self.policy.whole():
            games = play(
                self.task.game, starts, players, key, rows.start, {}, no_callback, no_callback
            )
        return [
            self._line(request, match, row, prompt, played)
            for row, prompt, played in zip(rows, prompts, games, strict=True)
        ]

    def _players(self, match: Match, own: Opponent, other: Opponent) -> dict[str, Player]:
        return {
            role: (own if match.role in (None, role) else other).players[role]
            for role in self.task.game.roles
        }

    def _line(
        self, request: EvalRequest, match: Match, row: int, prompt: Prompt, played: FinishedGame
    ) -> Line:
        outcome = self.reward.settled(played.outcome)
        sample = None if match.greedy else row // len(match.prompts)
        line = as_line(request, match.purpose, self.policy.name, sample, prompt)
        if match.purpose == PROBE:  # pages show a probe as one text
            turn = {"agent": self.policy.name, "role": "both", "context": None}
            return line | {"turns": [turn | {"response": dialogue(played), "score": None}]}
        ids = played.extra.get(IDS) or [None] * len(played.utterances)
        return line | {
            "opponent": match.opponent,
            "role": match.role,
            "winners": list(outcome.winners),
            "reason": outcome.reason,
            "valid": outcome.valid,
            "turns": [
                {
                    "agent": self.policy.name
                    if match.role in (None, said.role)
                    else match.opponent,
                    "role": said.role,
                    "context": None,
                    "response": said.text,
                    "score": self.reward.worth(outcome, said.role),
                    "tokens": None if own is None else len(own),
                }
                for said, own in zip(played.utterances, ids, strict=True)
            ],
        }


def no_callback(*_: Any) -> None:
    """A no-op progress callback."""


def dialogue(played: FinishedGame) -> str:
    """A game as text: a line for each utterance, and how it ended."""
    lines = [f"{said.role}: {said.text}" for said in played.utterances]
    return "\n".join([*lines, f"[{played.outcome.reason}]"])


def game_metrics(
    matches: Sequence[Match], lines: Mapping[int, Sequence[Line]], roles: Sequence[str]
) -> Metrics:
    """Win rates and statistics of the games against each opponent."""
    metrics: Metrics = {}
    measured = [match for match in matches if match.purpose == MEASURED]
    for opponent in dict.fromkeys(match.opponent for match in measured):
        by_role = {m.role: lines[m.number] for m in measured if m.opponent == opponent}
        games = [line for own in by_role.values() for line in own]
        sides = {role: by_role[role if role in by_role else None] for role in roles}
        words = next(len(m.prompts) for m in measured if m.opponent == opponent)
        by_words = []
        for role, own in sides.items():
            won = win_scores(own, role)
            if not won:
                continue
            by_words.append(win_contributions(own, role, words))
            metrics |= mean_with_error(f"win_rate_{role}", opponent, by_words[-1])
            wins = sum(score == 1 for score in won) / len(won)
            metrics[f"eval/wins_{role}/{opponent}"] = wins
        if len(by_words) == len(sides):
            both = mean_with_error("win_rate", opponent, over_roles(by_words))
            # in games against itself what one role wins the other loses: nothing is left to chance
            if None in by_role:
                both.pop(f"eval/win_rate_se/{opponent}", None)
            metrics |= both
        valid = [line for line in games if line["valid"]]
        metrics[f"eval/invalid/{opponent}"] = 1 - len(valid) / len(games)
        if valid:
            ties = sum(not line["winners"] for line in valid)
            metrics[f"eval/ties/{opponent}"] = ties / len(valid)
            solved = sum(len(line["winners"]) > 1 for line in valid)
            metrics[f"eval/solved/{opponent}"] = solved / len(valid)
        turns = [(len(line["turns"]) + 1) // 2 for line in games]
        metrics |= mean_with_error("game_turns", opponent, turns)
        spoken = [own for line in games if (own := own_turns(line))]
        tokens = [mean(turn["tokens"] for turn in own) for own in spoken]
        metrics |= mean_with_error("utterance_tokens", opponent, tokens)
        empty = [mean(not turn["response"] for turn in own) for own in spoken]
        metrics |= mean_with_error("empty_share", opponent, empty)
    return metrics


def add_contributions(
    scores: PromptScores,
    matches: Sequence[Match],
    lines: Mapping[int, Sequence[Line]],
    roles: Sequence[str],
) -> None:
    """What each word contributes to the win rates against others; among itself, to games solved.

    A number that some opponent's games do not give, as without a valid game, is left out.
    """
    measured = [match for match in matches if match.purpose == MEASURED]
    for opponent in dict.fromkeys(match.opponent for match in measured):
        own = {m.role: lines[m.number] for m in measured if m.opponent == opponent}
        match = next(match for match in measured if match.opponent == opponent)
        words, tries = len(match.prompts), match.samples
        if None in own:  # both sides are its own: one wins what the other loses
            solved = [float(len(line["winners"]) > 1) for line in own[None]]
            valid = [float(line["valid"]) for line in own[None]]
            if any(valid):
                found = contributions(by_word(solved, words), by_word(valid, words))
                scores.add(f"eval/solved/{opponent}", found, tries)
            continue
        rates = []
        for role in roles:
            if win_scores(own[role], role):
                rates.append(win_contributions(own[role], role, words))
                scores.add(f"eval/win_rate_{role}/{opponent}", rates[-1], tries)
        if len(rates) == len(roles):
            scores.add(f"eval/win_rate/{opponent}", over_roles(rates), tries * len(roles))


def win_contributions(lines: Sequence[Line], role: str, words: int) -> list[float]:
    """What each word contributes to a role's win rate, see `contributions`.

    Games about one word are not independent; the words are.

    lines: games, of which at least one is valid; every word once, then every word again
    """
    won = [win_scores([line], role) for line in lines]
    sums = by_word([sum(score) for score in won], words)
    return contributions(sums, by_word([len(score) for score in won], words))


def over_roles(by_words: Sequence[Sequence[float]]) -> list[float]:
    """What each word contributes to the mean over roles."""
    return [mean(of_word) for of_word in zip(*by_words, strict=True)]


def by_word(games: Sequence[float], words: int) -> list[float]:
    """The sum over each word's games; every word once, then every word again."""
    return [sum(games[start::words]) for start in range(words)]


def own_turns(line: Line) -> list[dict[str, Any]]:
    """The policy's own turns in a game."""
    return [turn for turn in line["turns"] if turn["agent"] == line["who"]]


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
    error = standard_error(values)
    if error is not None:
        metrics[f"eval/{name}_se/{opponent}"] = error
    return metrics
