"""Diversity of agents' answers (Subramaniam et al., 2025, 4.2, App. C, I and M).

Frozen models that compare responses, an encoder and a likelihood scorer, are in memory only while
they are used: agents and their optimisers need the room.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from cory import distributed
from cory.config import DiversityConfig, require
from cory.episode import Metrics, PlainRow
from cory.evaluation.evaluate import response_logprobs
from cory.functional.logprobs import pad_turns, padded
from cory.functional.statistics import mean
from cory.functional.votes import (
    agreeing,
    consensus_diversity,
    dissimilarity,
    kl_between,
    kl_diversity,
    mean_distribution,
)
from cory.models.actor_critic import DTYPES
from cory.models.loading import load_encoder, load_language_model, load_tokenizer, longest_text
from cory.models.policy import Policy
from cory.models.tokenization import Texts

KEY = "algorithm.diversity"


class FrozenModel:
    """The tokenizer and settings of an encoder or scorer; weights are loaded when used."""

    setting: ClassVar[str]  # that names it

    def __init__(self, path: str, config: DiversityConfig, device: torch.device) -> None:
        self.path = path
        self.key = key = f"{KEY}.{self.setting}"
        self.config = config
        self.device = device
        self.dtype = DTYPES[config.precision]
        self.texts = Texts(load_tokenizer(path, key), f"{key}={path}")
        self.pad = int(self.texts.tokenizer.pad_token_id)
        self.longest = min(config.max_tokens, longest_text(path, key) or config.max_tokens)


class Encoder(FrozenModel):
    """Embeds texts: the mean of a model's last hidden states over a text's tokens.

    The paper takes the state of a [CLS] token, which its encoder, T5, does not have. A mean serves
    every kind of model; with causal ones it holds more than a first token's state, which sees
    nothing of the text.
    """

    setting = "encoder"

    @torch.no_grad()
    def embeddings(self, texts: Sequence[str]) -> Tensor:
        """(N, D) float32, in main memory: one row per text."""
        model = load_encoder(self.path, self.key, self.dtype).to(self.device)
        # of an empty text some tokenizers give no token
        rows = [row or [self.pad] for row in self.texts.ids(texts, self.longest)]

        def embed(batch: Sequence[list[int]]) -> Tensor:
            ids, mask = padded(batch, self.pad)
            states = model(
                input_ids=ids.to(self.device), attention_mask=mask.long().to(self.device)
            ).last_hidden_state.float()
            counted = mask[..., None].to(self.device)
            return (torch.where(counted, states, 0.0).sum(1) / counted.sum(1)).cpu()

        return torch.stack(distributed.map_rows(rows, self.config.batch_size, embed))


class Scorer(FrozenModel):
    """Turns responses into distributions over a model's vocabulary.

    The paper compares "the probability distributions" of responses by the likelihoods of a model
    that took no part, and says no more. Here the model reads question and response, and the
    distribution of a response is the mean of what the model expects next: after the question, and
    after each token of the response. So equal responses have equal distributions.
    """

    setting = "scorer"

    def loaded(self) -> Any:
        """The model that `distributions` takes."""
        model = load_language_model(self.path, self.key, False, dtype=self.dtype)
        model.to(self.device)
        self.texts.fit(model)
        return model

    @torch.no_grad()
    def distributions(self, model: Any, question: str, responses: Sequence[str]) -> Tensor:
        """Log-probabilities of each response's mean distribution: (N, V) float32.

        ConfigError where the question leaves no room for a response.
        """
        read = self.texts.pairs([f"{question}\n"] * len(responses), responses)
        tokens = len(read[0][0])
        require(
            tokens < self.longest,
            f"{self.key}={self.path}: a question of {tokens} tokens leaves no room for a response; "
            f"it reads {self.longest} ({KEY}.max_tokens={self.config.max_tokens})",
        )
        pairs = [(shown, ids[: self.longest - len(shown)]) for shown, ids in read]
        distributions = []
        for start in range(0, len(pairs), self.config.batch_size):
            shown, said = zip(*pairs[start : start + self.config.batch_size], strict=True)
            # padding stands on the right alone, where nothing that counts can see it
            ids, attended, mask = pad_turns(shown, said, self.pad)
            logits = model(
                input_ids=ids.to(self.device),
                attention_mask=attended.long().to(self.device),
                use_cache=False,
                logits_to_keep=mask.shape[1] + 1,
            ).logits
            # after the question, and after each token of the response
            distributions += [
                mean_distribution(row[: 1 + len(own)])
                for row, own in zip(logits, said, strict=True)
            ]
        return torch.stack(distributions)


@dataclass(frozen=True)
class DebateRecord:
    """The debate about one problem; rounds and agents from 0."""

    question: str
    answers: Sequence[Sequence[Hashable | None]]  # [round][agent], None where none could be read
    votes: Sequence[Hashable | None]  # [round]
    responses: Sequence[Sequence[str]]  # [round][agent]
    contexts: Sequence[str]  # [agent], before the last response; as the model was shown them
    base: Sequence[str]  # responses of the untrained model; empty where no metric needs them


class Diversity:
    """Diversity metrics of debates, by the models that the settings name.

    Agreement with the vote needs no model and is always measured.
    """

    def __init__(self, config: DiversityConfig, device: torch.device) -> None:
        self.config = config
        self.encoder = self.scorer = None
        if config.encoder is not None:
            self.encoder = Encoder(config.encoder, config, device)
        if config.scorer is not None:
            self.scorer = Scorer(config.scorer, config, device)

    def measure(
        self, debates: Sequence[DebateRecord], kinds: Sequence[str], policies: Sequence[Policy]
    ) -> Metrics:
        """Means over problems; a metric is left out where there is no pair of answers for it.

        debates: all of the same number of rounds and agents
        kinds: [round], the kind of policy that speaks in it: generation, critic or single
        policies: [agent], those of the last round
        """
        metrics: Metrics = {}
        for number in range(len(kinds)):
            each = [consensus_diversity(d.answers[number], d.votes[number]) for d in debates]
            metrics[f"eval/consensus_diversity/turn_{number + 1}"] = mean(each)
            if self.encoder is not None:
                metrics |= self._dissimilarity(self.encoder, debates, number)
        if self.scorer is not None:
            metrics |= self._kl(self.scorer, debates, kinds)
        if self.config.nll_others and len(policies) > 1:
            metrics |= nll_others(debates, kinds[-1], policies)
        return metrics

    def _dissimilarity(
        self, encoder: Encoder, debates: Sequence[DebateRecord], number: int
    ) -> Metrics:
        """Dissimilarity of a round's responses that agree with its vote, where there are two.

        The first round's is that of agents that do not debate (M = 1): fig. 3's single agent.
        """
        # by the first process: where formulas are compared, time may run out in another one
        agents = distributed.first_works(
            lambda: [agreeing(d.answers[number], d.votes[number]) for d in debates]
        )
        chosen = [
            [d.responses[number][agent] for agent in own]
            for d, own in zip(debates, agents, strict=True)
            if len(own) > 1
        ]
        if not chosen:
            return {}
        embeddings = encoder.embeddings([text for responses in chosen for text in responses])
        groups = torch.split(embeddings, [len(responses) for responses in chosen])
        return {f"eval/dissimilarity/turn_{number + 1}": mean(map(dissimilarity, groups))}

    def _kl(self, scorer: Scorer, debates: Sequence[DebateRecord], kinds: Sequence[str]) -> Metrics:
        """KL between last responses; with kl_to_base also between a kind's and the base's."""
        agents, to_base = len(debates[0].responses[-1]), self.config.kl_to_base
        # all rounds, or the last one alone
        rounds = range(len(kinds)) if to_base else range(len(kinds) - 1, len(kinds))
        model = scorer.loaded()

        def kl_metrics(debate: DebateRecord) -> Metrics:
            texts = [text for number in rounds for text in debate.responses[number]]
            logp = scorer.distributions(model, debate.question, [*texts, *debate.base])
            by_round = logp[: len(texts)].view(len(rounds), agents, -1)
            metrics: Metrics = {}
            if agents > 1:
                metrics[f"eval/kl_diversity/turn_{len(kinds)}"] = kl_diversity(by_round[-1])
            for kind in sorted(set(kinds)) if to_base else ():
                own = by_round[[number for number in rounds if kinds[number] == kind]]
                metrics[f"eval/kl_base/{kind}"] = kl_between(own.flatten(0, 1), logp[len(texts) :])
            return metrics

        each = distributed.map_rows(debates, 1, lambda batch: [kl_metrics(d) for d in batch])
        return {name: mean([metrics[name] for metrics in each]) for name in each[0]}


def nll_others(debates: Sequence[DebateRecord], kind: str, policies: Sequence[Policy]) -> Metrics:
    """Negative log-likelihood of the others' last responses: mean over ordered pairs of agents.

    A response counts by the mean over its tokens, in the context that its author saw. It is
    tokenized from its text, without EOS. A response without any token is left out.
    """
    total, pairs = 0.0, 0
    for name in dict.fromkeys(policy.name for policy in policies):
        listeners = [agent for agent, policy in enumerate(policies) if policy.name == name]
        # agents that share a model listen alike: each response is read once, and counts for all
        heard = {j: sum(n != j for n in listeners) for j in range(len(policies))}
        said = [(d.contexts[j], d.responses[-1][j], j) for d in debates for j in heard if heard[j]]
        contexts, responses, authors = zip(*said, strict=True)
        each = token_nll(policies[listeners[0]], contexts, responses)
        for author, nll in zip(authors, each, strict=True):
            if nll is not None:
                total += heard[author] * nll
                pairs += heard[author]
    return {f"eval/nll_others/{kind}": total / pairs} if pairs else {}


def token_nll(
    policy: Policy, contexts: Sequence[str], responses: Sequence[str]
) -> list[float | None]:
    """Negative log-likelihood of each response in its context: mean over its tokens, nats.

    contexts: as the model is shown them
    responses: what does not fit into the model's context is cut off
    returns: None for a response without tokens
    """
    room = policy.bundle.context_length
    read = policy.texts.pairs(contexts, responses)
    rows = [PlainRow(before, ids[: room - len(before)]) for before, ids in read]
    each = response_logprobs(policy, rows)
    return [-one if row.response_ids else None for row, one in zip(rows, each, strict=True)]
