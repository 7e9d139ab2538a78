"""How different agents answer (Subramaniam et al., 2025, 4.2, App. C, I and M)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cory import distributed
from cory.config import DiversityConfig
from cory.episode import Metrics
from cory.evaluation.scorers import Encoder, Scorer
from cory.functional.diversity import (
    agreeing,
    consensus_diversity,
    dissimilarity,
    kl_between,
    kl_diversity,
)
from cory.functional.masking import pad_turns
from cory.models.policy import Policy


@dataclass(frozen=True)
class Debated:
    """What was said of one problem; turns and agents from 0."""

    question: str
    answers: Sequence[Sequence[Hashable | None]]  # [turn][agent], None where none could be read
    votes: Sequence[Hashable | None]  # [turn]
    responses: Sequence[Sequence[str]]  # [turn][agent]
    contexts: Sequence[str]  # [agent], before the last response; as the model was shown them
    base: Sequence[str]  # what the model said before any training; none where nobody asks


class Diversity:
    """Measures debates by the models that its settings name; agreement with the vote always."""

    def __init__(
        self, config: DiversityConfig, device: torch.device, questions: Sequence[str]
    ) -> None:
        """questions: all that an evaluation asks; too long ones are refused now."""
        self.config = config
        self.encoder = self.scorer = None
        if config.encoder is not None:
            self.encoder = Encoder(config.encoder, config, device)
        if config.scorer is not None:
            self.scorer = Scorer(config.scorer, config, device, questions)

    def measure(
        self, debates: Sequence[Debated], kinds: Sequence[str], voices: Sequence[Policy]
    ) -> Metrics:
        """Means over problems; a number is left out where there is no pair to take it from.

        debates: all of as many turns and agents
        kinds: [turn], what the metrics call those who speak: generation, critic or single
        voices: [agent], who spoke in the last turn
        """
        turns = len(kinds)
        metrics: Metrics = {}
        for turn in range(turns):
            each = [consensus_diversity(d.answers[turn], d.votes[turn]) for d in debates]
            metrics[f"eval/consensus_diversity/turn_{turn + 1}"] = mean(each)
        if self.encoder is not None:
            metrics |= self._dissimilarity(self.encoder, debates, f"turn_{turns}")
        if self.scorer is not None:
            metrics |= self._kl(self.scorer, debates, kinds)
        if self.config.nll_others and len(voices) > 1:
            metrics |= nll_others(debates, kinds[-1], voices)
        return metrics

    def _dissimilarity(self, encoder: Encoder, debates: Sequence[Debated], last: str) -> Metrics:
        """Of last responses that agree with the vote, where there are two."""
        chosen = [
            [d.responses[-1][agent] for agent in agreeing(d.answers[-1], d.votes[-1])]
            for d in debates
        ]
        chosen = [responses for responses in chosen if len(responses) > 1]
        metrics = {f"eval/dissimilarity_problems/{last}": float(len(chosen))}
        if chosen:
            embeddings = encoder.embeddings([text for responses in chosen for text in responses])
            groups = torch.split(embeddings, [len(responses) for responses in chosen])
            metrics[f"eval/dissimilarity/{last}"] = mean([dissimilarity(own) for own in groups])
        return metrics

    def _kl(self, scorer: Scorer, debates: Sequence[Debated], kinds: Sequence[str]) -> Metrics:
        """Between last responses; with kl_to_base also of every kind's responses to the base's."""
        agents, to_base = len(debates[0].responses[-1]), self.config.kl_to_base
        if to_base and not all(d.base for d in debates):
            raise ValueError("kl_to_base needs what the model said before any training")
        # all of them, or the last turn's alone, by turn and then by agent
        turns = range(len(kinds)) if to_base else range(len(kinds) - 1, len(kinds))

        def found(logp: Tensor) -> Metrics:
            spoken, base = logp[: agents * len(turns)], logp[agents * len(turns) :]
            by_turn = torch.split(spoken, agents)
            numbers: Metrics = {}
            if agents > 1:
                numbers[f"eval/kl_diversity/turn_{len(kinds)}"] = kl_diversity(by_turn[-1])
            for kind in sorted(set(kinds)) if to_base else ():
                own = [
                    said for turn, said in zip(turns, by_turn, strict=True) if kinds[turn] == kind
                ]
                numbers[f"eval/kl_base/{kind}"] = kl_between(torch.cat(own), base)
            return numbers

        read = [
            [*(text for turn in turns for text in d.responses[turn]), *(d.base if to_base else ())]
            for d in debates
        ]
        each = scorer.compare([d.question for d in debates], read, found)
        return {name: mean([numbers[name] for numbers in each]) for name in each[0]}


def nll_others(debates: Sequence[Debated], kind: str, voices: Sequence[Policy]) -> Metrics:
    """How unlikely an agent's model finds what the others said last: mean over ordered pairs.

    A response counts by the mean over its tokens, in the context that its speaker saw. It is read
    from its text, so its end is no token. A response without any token is left out.
    """
    total, pairs = 0.0, 0
    for name in dict.fromkeys(voice.name for voice in voices):
        listeners = [agent for agent, voice in enumerate(voices) if voice.name == name]
        # agents that share a model listen alike: each response is read once, and counts for all
        heard = {j: sum(n != j for n in listeners) for j in range(len(voices))}
        said = [(d.contexts[j], d.responses[-1][j], j) for d in debates for j in heard if heard[j]]
        contexts, responses, speakers = zip(*said, strict=True)
        each = token_nll(voices[listeners[0]], contexts, responses)
        for speaker, nll in zip(speakers, each, strict=True):
            if nll is not None:
                total += heard[speaker] * nll
                pairs += heard[speaker]
    return {f"eval/nll_others/{kind}": total / pairs} if pairs else {}


@torch.no_grad()
def token_nll(
    voice: Policy, contexts: Sequence[str], responses: Sequence[str]
) -> list[float | None]:
    """Negative log-likelihood of each response in its context: mean over its tokens, nats.

    contexts: as the model is shown them
    responses: what does not fit into the model's context is cut off
    returns: None for a response without tokens
    """
    tokenizer, room = voice.team.tokenizer, voice.team.context_length

    def score(pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        shown = [tokenizer(context)["input_ids"] for context, _ in pairs]
        said = [tokenizer(text, add_special_tokens=False)["input_ids"] for _, text in pairs]
        said = [ids[: room - len(before)] for before, ids in zip(shown, said, strict=True)]
        tensors = pad_turns(shown, said, tokenizer.pad_token_id)
        ids, attended, mask = (tensor.to(voice.team.device) for tensor in tensors)
        # not called as a module: at its end ZeRO-3 would take a training pass to be over
        logprobs, _ = voice.model.forward(ids, attended, mask)
        return [
            -float(row[counted].mean()) if bool(counted.any()) else None
            for row, counted in zip(logprobs, mask, strict=True)
        ]

    voice.model.eval()
    pairs = list(zip(contexts, responses, strict=True))
    with voice.whole():
        return distributed.map_rows(pairs, voice.hardware.rollout_batch_size, score)


def mean(numbers: Sequence[float]) -> float:
    """Of at least one."""
    return sum(numbers) / len(numbers)
