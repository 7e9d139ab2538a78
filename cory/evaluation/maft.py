"""Metrics of debates between specialised agents: accuracy, standard errors and diversity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cory.config import MaftConfig
from cory.episode import Metrics, Prompt
from cory.evaluation.debates import DebateMetrics, answers_by_round, gold_answers, tie_breaker
from cory.evaluation.diversity import DebateRecord, Diversity
from cory.evaluation.responses import EvalRequest, ResponseSet, by_prompt
from cory.functional.statistics import binomial_se, mean
from cory.functional.votes import VoteRule
from cory.models.policy import Actor, Policy, asked_of
from cory.tasks import Task


@dataclass(frozen=True)
class MaftMetrics:
    """The metrics of evaluated debates; a `TeamEvaluator.team_metrics`."""

    config: MaftConfig
    policies: Mapping[str, Policy]
    base: Actor  # the untrained model
    diversity: Diversity

    def __call__(self, task: Task, responses: ResponseSet, request: EvalRequest) -> Metrics:
        """Accuracy of votes and of the first agent by round, and the diversity of the answers."""
        config, agents = self.config, self.config.evaluation_agents
        vote = VoteRule(config.vote_ties, config.unreadable_votes)
        rounds = range(config.evaluation_turns)
        metrics = DebateMetrics(agents, vote)(task, responses, request)
        rows = [row["turns"] for row in responses.lines]
        answers = [answers_by_round(task, turns, agents) for turns in rows]
        golds = gold_answers(task, responses)
        for number in rounds:
            who = f"turn_{number + 1}"
            metrics[f"eval/vote_se/{who}"] = binomial_se(metrics[f"eval/vote/{who}"], len(golds))
            first = [given[number][0] == gold for given, gold in zip(answers, golds, strict=True)]
            metrics[f"eval/single/{who}"] = single = mean(first)
            metrics[f"eval/single_se/{who}"] = binomial_se(single, len(first))
            shares = by_prompt(first, len(responses.prompts))
            request.scores.add(f"eval/single/{who}", shares, responses.samples or 1)
        if request.untrained:
            return metrics
        base = self._base_responses(responses.prompts, request)
        debates = [
            DebateRecord(
                question=responses.prompt(row).text,
                answers=given,
                votes=[
                    vote.elected(said, tie_breaker(request, row, number))
                    for number, said in enumerate(given)
                ],
                responses=[
                    [turn["response"] or "" for turn in turns[start : start + agents]]
                    for start in range(0, len(turns), agents)
                ],
                contexts=[
                    turn["context"] or responses.prompt(row).text for turn in turns[-agents:]
                ],
                base=base[row],
            )
            for row, (given, turns) in enumerate(zip(answers, rows, strict=True))
        ]
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
        sampling = self.config.sampling
        contexts = [prompt.opening for prompt in prompts]
        limit = sampling.max_response_tokens
        asked = asked_of("base", contexts, limit, (request.seed, "base"))
        return [[turn.response] for turn in self.base.turns(asked, limit, sampling) if turn]
