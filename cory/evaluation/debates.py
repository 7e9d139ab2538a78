"""Metrics of debates: votes, single answers, and how answers change from round to round.

Of specialised agents (MAFT) also standard errors and diversity.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cory.config import MaftConfig
from cory.endpoint import Endpoint
from cory.episode import Episode, Metrics, Prompt
from cory.evaluation.diversity import DebateRecord, Diversity
from cory.evaluation.responses import TEAM, EvalRequest, ResponseSet
from cory.functional.credit import answer_changes, rounds_of, transition_rates
from cory.functional.statistics import contributions, mean
from cory.functional.votes import VoteRule
from cory.models.actor import Actor
from cory.models.policy import Policy
from cory.rollout.scheduler import RollOut, single_turn
from cory.tasks import Task


def debate_metrics(
    agents: int, vote: VoteRule, task: Task, responses: ResponseSet, request: EvalRequest
) -> Metrics:
    """Accuracy of votes and single answers by round, and changes of answers between rounds.

    But for its first two arguments a `TeamEvaluator.team_metrics`. Metrics are named by
    `turn_<n>`: the rounds, from 1.
    """
    debates = read_debates(task, responses, agents)
    right = [[[answer == gold for answer in given] for given in rounds] for rounds, gold in debates]
    prefix = "" if responses.samples is not None else "greedy_"
    metrics: Metrics = {}
    for number in range(len(right[0])):
        votes = [
            vote.score(rounds[number], gold, tie_breaker(request, row, number))
            for row, (rounds, gold) in enumerate(debates)
        ]
        who, tries = f"turn_{number + 1}", responses.samples or 1
        request.scores.add(name := f"eval/{prefix}vote/{who}", votes, tries)
        metrics[name] = mean(request.scores.values[name])
        singles = [value for rounds in right for value in rounds[number]]
        metrics[f"eval/{prefix}right/{who}"] = mean(singles)
        rows = [mean(rounds[number]) for rounds in right]
        request.scores.add(f"eval/{prefix}right/{who}", rows, tries)
    if responses.samples is None:
        return metrics
    given = [[turn["score"] for turn in row["turns"]] for row in responses.lines]
    scores = [[float(score) for score in row if score is not None] for row in given]
    each = contributions([*map(sum, scores)], [*map(len, scores)])
    request.scores.add(f"eval/score/{TEAM}", each, None)
    metrics[f"eval/score/{TEAM}"] = mean(each)
    # rates of changed answers, for each round after the first and over all of them
    changes = [change for rounds in right for change in answer_changes(rounds)]
    for number in sorted({change.turn for change in changes}):
        own = transition_rates([change for change in changes if change.turn == number])
        metrics |= {f"eval/{name}/turn_{number + 1}": value for name, value in own.items()}
    whole = transition_rates(changes)
    return metrics | {f"eval/{name}/{TEAM}": value for name, value in whole.items()}


def read_debates(
    task: Task, responses: ResponseSet, agents: int
) -> list[tuple[list[list[Hashable | None]], Hashable | None]]:
    """The answers of each debate, [round][agent], and the right one.

    After the end of a debate they are those of its last round.
    """
    debates = []
    for row, line in enumerate(responses.lines):
        rounds: list[list[Hashable | None]] = []
        for start in range(0, len(line["turns"]), agents):
            said = [turn["response"] for turn in line["turns"][start : start + agents]]
            rounds.append(rounds[-1] if None in said else [task.read(text) for text in said])
        debates.append((rounds, task.read(str(responses.prompt(row).answer))))
    return debates


def tie_breaker(request: EvalRequest, row: int, number: int) -> np.random.Generator:
    """Random numbers for the ties of a row's vote in round `number`, from 0."""
    return np.random.default_rng([request.seed, row, number])


def roll_out_metrics(episodes: list[Episode], agents: int) -> Metrics:
    debates = [rounds_of(episode, agents) for episode in episodes]
    metrics: Metrics = {}
    for number in range(max(map(len, debates))):
        turns = [turn for rounds in debates if number < len(rounds) for turn in rounds[number]]
        who, count = f"turn_{number + 1}", len(turns)
        if turns[0].right is not None:
            metrics[f"debate/right/{who}"] = sum(bool(turn.right) for turn in turns) / count
        metrics[f"debate/bonus/{who}"] = sum(turn.bonus for turn in turns) / count
        metrics[f"debate/penalised/{who}"] = sum(turn.flawed for turn in turns) / count
    whole = max(len(episode.turns) // agents for episode in episodes)
    metrics |= shortened_share(episodes)
    metrics["debate/ended_early"] = sum(len(rounds) < whole for rounds in debates) / len(debates)
    return metrics


def shortened_share(episodes: Sequence[Episode]) -> Metrics:
    """The share of turns whose prompt had to be shortened to fit the model's context."""
    spoken = [turn for episode in episodes for turn in episode.turns if not turn.absent]
    return {"debate/shortened": sum(turn.shortened for turn in spoken) / len(spoken)}


@dataclass(frozen=True)
class MaftMetrics:
    """The metrics of evaluated debates; a `TeamEvaluator.team_metrics`."""

    config: MaftConfig
    policies: Mapping[str, Policy]
    base: Actor  # the untrained model
    diversity: Diversity
    endpoint: Endpoint | None  # that speaks for the agents

    def __call__(self, task: Task, responses: ResponseSet, request: EvalRequest) -> Metrics:
        """Accuracy of votes and of the first agent by round, diversity of answers, and costs."""
        metrics = self._measured(task, responses, request)
        if self.endpoint is not None:
            requests, tokens = self.endpoint.spent()
            metrics[f"eval/endpoint_requests/{TEAM}"] = float(requests)
            metrics[f"eval/endpoint_tokens/{TEAM}"] = float(tokens)
        return metrics

    def _measured(self, task: Task, responses: ResponseSet, request: EvalRequest) -> Metrics:
        config, agents = self.config, self.config.evaluation_agents
        vote = VoteRule(config.vote_ties, config.unreadable_votes)
        rounds = range(config.evaluation_turns)
        metrics: Metrics = {}
        if config.labels == "reward":
            scores = [[float(turn["score"]) for turn in line["turns"]] for line in responses.lines]
            for number in rounds:
                own = slice(number * agents, (number + 1) * agents)
                each, name = [mean(row[own]) for row in scores], f"eval/score/turn_{number + 1}"
                metrics[name] = mean(each)
                request.scores.add(name, each, None)
            if responses.prompts[0].answer is None:
                return metrics
        metrics |= debate_metrics(agents, vote, task, responses, request)
        read = read_debates(task, responses, agents)
        for number in rounds:
            who = f"turn_{number + 1}"
            first = [float(answers[number][0] == gold) for answers, gold in read]
            metrics[f"eval/single/{who}"] = mean(first)
            request.scores.add(f"eval/single/{who}", first, 1)  # of each problem there is one
        if request.untrained:
            return metrics
        base = self._base_responses(responses.prompts, request)
        debates = []
        for row, (answers, _) in enumerate(read):
            question, turns = responses.prompt(row).text, responses.lines[row]["turns"]
            said = [turn["response"] for turn in turns]
            debates.append(
                DebateRecord(
                    question=question,
                    answers=answers,
                    votes=[
                        vote.elected(answers[number], tie_breaker(request, row, number))
                        for number in rounds
                    ],
                    responses=[said[n : n + agents] for n in range(0, len(said), agents)],
                    contexts=[turn["context"] or question for turn in turns[-agents:]],
                    base=base[row],
                )
            )
        # generation, critic or single
        kinds = [config.policy(number, 0).partition("_")[0] for number in rounds]
        # a model behind an endpoint is no policy, and is asked for no likelihood
        last = [config.policy(rounds[-1], agent) for agent in range(agents)]
        policies = [self.policies[name] for name in last if name in self.policies]
        return metrics | self.diversity.measure(debates, kinds, policies)

    def _base_responses(self, prompts: Sequence[Prompt], request: EvalRequest) -> list[list[str]]:
        """The untrained model's response to each problem, where a metric needs it."""
        if not self.config.diversity.kl_to_base:
            return [[] for _ in prompts]
        key = (request.seed, "base")
        roll_out = RollOut.of({"base": self.base}, self.config.sampling, key)
        return [[e.turns[0].response] for e in roll_out(single_turn("base"), prompts)]
