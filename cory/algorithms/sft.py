"""Supervised fine-tuning on the answers that a task's data give."""

from dataclasses import dataclass

from cory import distributed
from cory.config import SFTConfig, require
from cory.episode import TEXT_ONLY, Episode, Metrics, Prompt, Turn
from cory.evaluation.evaluate import TeamEvaluator, response_logprobs
from cory.evaluation.responses import BeforeEach, EvalRequest
from cory.functional.statistics import mean
from cory.models.policy import Policy
from cory.rollout.scheduler import single_turn
from cory.trainers.components import Components
from cory.trainers.supervised import CollectedExamples, Example, SupervisedTrainer

AGENT = "agent_0"


def build_sft(config: SFTConfig, components: Components) -> SupervisedTrainer:
    """One policy, fine-tuned on the next prompts' answers in every iteration."""
    agents, task = components.new_policies([AGENT]), components.task
    policy = agents[AGENT]
    given = GivenAnswers(config, components, policy)
    given.describe()
    play = single_turn(AGENT)
    own = TeamEvaluator(agents, task, components.reward, config.sampling, play, agents)
    return SupervisedTrainer(components, agents, given, AnswerEvaluator(own, policy, given))


@dataclass(frozen=True)
class GivenAnswers:
    """Makes examples of the data's own answers."""

    config: SFTConfig
    components: Components
    policy: Policy

    @property
    def longest(self) -> int:
        """Tokens of a prompt and its answer, at most."""
        return self.config.max_tokens or self.policy.bundle.context_length

    def example(self, prompt: Prompt) -> Example:
        """The prompt as the agent sees it, and the answer's tokens, the end included."""
        texts = self.policy.texts
        answer = texts.answer_ids(str(prompt.answer_text))
        return Example(texts.context_ids(prompt.opening), answer, 1.0, prompt.opening)

    def describe(self) -> None:
        """Say how often the data are passed, and how many examples are left out.

        ConfigError where that is all of them, or the model has no room for the longest ones.
        """
        config, bundle = self.config, self.policy.bundle
        said, context = f"algorithm.max_tokens={self.longest}", bundle.context_length
        require(self.longest <= context, f"{said}: the model's context has {context} tokens")
        self.policy.texts.require_learnable()
        rows = self.components.task.sampler.rows
        kept = sum(self.example(prompt).tokens <= self.longest for prompt in rows)
        require(kept > 0, f"{said}: all {len(rows)} training examples are longer")
        if kept < len(rows):
            distributed.note(f"{said} leaves out {len(rows) - kept} of {len(rows)} examples")
        passes = config.iterations * config.prompts_per_iteration * config.epochs / kept
        distributed.note(f"the training passes {passes:.2g} times over {kept} examples")

    def __call__(self, iteration: int) -> CollectedExamples:
        """The next examples that are not too long."""
        examples: list[Example] = []
        episodes = []
        while len(examples) < self.config.prompts_per_iteration:
            (prompt,) = self.components.task.sample(1)
            example = self.example(prompt)
            if example.tokens <= self.longest:
                examples.append(example)
                said = Turn(AGENT, "data", 0, prompt.text, str(prompt.answer_text), [], TEXT_ONLY)
                episodes.append(Episode(prompt, [said]))
        return CollectedExamples({AGENT: examples}, episodes)


@dataclass(frozen=True)
class AnswerEvaluator:
    """The agent's own responses, and how likely the data's answers are to it; an `Evaluator`."""

    responses: TeamEvaluator
    policy: Policy
    given: GivenAnswers

    def __call__(self, request: EvalRequest, before_each: BeforeEach) -> Metrics:
        metrics: Metrics = {}
        if self.given.components.config.reward.name != "returned":  # else nobody scores responses
            metrics = self.responses(request, before_each)
        prompts = self.responses.task.held_out(request.config.prompts, request.config.split)
        examples = [self.given.example(prompt) for prompt in prompts]
        for prompt, one in zip(prompts, examples, strict=True):  # as much as there is room for
            longest, asked = self.given.longest, len(one.context_ids)
            said = f"algorithm.max_tokens={longest}: the prompt {prompt.id} alone has {asked}"
            require(asked < longest, said)
            del one.response_ids[longest - asked :]
        nll = [-value for value in response_logprobs(self.policy, examples)]
        request.scores.prompts = [prompt.id for prompt in prompts]
        request.scores.add(f"eval/nll/{AGENT}", nll, None)
        return metrics | {f"eval/nll/{AGENT}": mean(nll)}
