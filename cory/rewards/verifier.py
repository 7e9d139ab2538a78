"""The reward of a verifier: the probability that a response is right."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from cory import distributed
from cory.config import ConfigError, VerifierRewardConfig, require
from cory.episode import Episode
from cory.functional.advantages import last_token
from cory.functional.logprobs import pad_turns
from cory.functional.losses import verdict_logits
from cory.models.actor_critic import (
    DTYPES,
    VALUE_HEAD,
    ActorCriticModel,
    ValueHead,
    cast_weights,
    response_states,
    store_as_products,
)
from cory.models.bundle import load_frozen
from cory.models.loading import load_tokenizer
from cory.models.paths import require_context_length
from cory.models.tokenization import Texts
from cory.rewards import Reward, Row
from cory.tasks import Task
from cory.tasks.answers import judge_rest

ADAPTER = "adapter_config.json"
Reading = tuple[list[int], list[int]]  # token ids: context, and those that a score precedes


def readings(
    texts: Texts, questions: Sequence[str], answers: Sequence[str], room: int | None
) -> list[Reading]:
    """Token ids of questions and answers, for a value head that scores before each token.

    The first token of an answer belongs to the context, so that every score is of a part of the
    answer, and the one before EOS of all of it. An empty answer is scored by its question alone.

    questions: prompts, rendered
    room: tokens of the verifier's context, to which answers are cut; None: not cut
    Raises ConfigError where a question alone does not fit.
    """
    eos = int(texts.tokenizer.eos_token_id)
    pairs = texts.pairs(questions, answers)
    if room is not None:
        longest = max(len(asked) for asked, _ in pairs)
        require(
            longest < room,
            f"reward=verifier: a question of {longest} tokens leaves no room for an answer in the "
            f"verifier's context of {room}",
        )
        pairs = [(asked, answered[: room - len(asked) - 1]) for asked, answered in pairs]
    return [([*q, *a[:1]], [*a[1:], eos]) for q, a in pairs]


def whole_model(config: VerifierRewardConfig) -> str:
    """Path or name of a verifier's whole model: its own, or the base of its adapter."""
    described = Path(config.path).expanduser() / ADAPTER
    if not described.is_file():
        return config.path
    if config.base is not None:
        return config.base
    try:
        return str(json.loads(described.read_text(encoding="utf-8"))["base_model_name_or_path"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"reward.path={config.path}: its {ADAPTER} names no base; set reward.base"
        ) from error


@torch.no_grad()
def correctness_probabilities(
    model: ActorCriticModel, rows: Sequence[Reading], pad: int
) -> list[float]:
    """Probability that each answer is right, after its last token.

    model: whole, in evaluation mode, with its own adapter active
    rows: of `readings`
    pad: token id
    """
    head = model.value_head
    assert head is not None  # a verifier has one
    tensors = pad_turns([row[0] for row in rows], [row[1] for row in rows], pad)
    ids, attended, mask = (tensor.to(head.weight.device) for tensor in tensors)
    if model.likelihood_coef == 0:  # without the log-probabilities of the vocabulary
        logits = head(response_states(model.lm, ids, attended, last_token(mask)))
    else:
        # not as a module: ZeRO-3's hooks are collectives, and processes have unequal rows
        logprobs, values, *_ = model.forward(ids, attended, mask)
        assert values is not None  # of the head
        logits = verdict_logits(values, logprobs, model.likelihood_coef)[last_token(mask)]
    probabilities: list[float] = logits.sigmoid().tolist()
    return probabilities


class Verifier(Reward):
    """A language model with a value head, as trained by `algorithm=verifier`."""

    def __init__(
        self, config: VerifierRewardConfig, task: Task, device: torch.device, run: Any
    ) -> None:
        self.config = config
        self.task = task
        self.folder = folder = Path(config.path).expanduser()
        key = f"reward.path={config.path}"
        require(
            (folder / VALUE_HEAD).is_file(),
            f"{key}: there is no verifier, whose folder has {VALUE_HEAD}; algorithm=verifier makes "
            f"one",
        )
        self.adapter = (folder / ADAPTER).is_file()
        # path of the model and its tokenizer, and the setting that it comes from
        self.source = whole_model(config), "reward.base" if self.adapter else "reward.path"
        self.tokenizer = load_tokenizer(*self.source)
        path, setting = self.source
        said = f"{setting}={path}"
        texts = Texts(self.tokenizer, said, config.chat, config.template, "reward.template")
        self.texts = texts.with_system(config.system, "reward.system")
        require(
            config.quantisation == "none" or self.adapter,
            f"reward.quantisation=nf4: the verifier at {config.path} is a full model, trained as "
            f"it is: set none",
        )
        lm = load_frozen(config, *self.source, device)
        self.texts.fit(lm)
        if self.adapter:
            from cory.models.lora import load_adapter  # noqa: PLC0415  five seconds, and copies need none

            load_adapter(lm, folder)
        head = ValueHead(lm)
        self.model = ActorCriticModel("verifier", lm, value_head=head)
        self.model.likelihood_coef = head.load(folder / VALUE_HEAD, key)
        cast_weights(self.model, DTYPES[config.precision])
        self.model.to(device).eval().requires_grad_(False)
        store_as_products(self.model.lm)
        self.room = require_context_length(self.model.lm.config, key)

    def scores(self, rows: Sequence[Row]) -> list[float]:
        """Probabilities that responses are right; by answers that are known, fills `turn.right`."""
        judge_rest(self.task, [Episode(prompt, [turn]) for prompt, turn in rows])
        return distributed.map_rows(
            rows,
            self.config.batch_size,
            self._scores,
            lambda row: len(row[0].text) + len(row[1].response),
        )

    def _scores(self, turns: Sequence[Row]) -> list[float]:
        rows = readings(
            self.texts,
            [self.texts.render(prompt.opening) for prompt, _ in turns],
            [turn.response for _, turn in turns],
            self.room,
        )
        return correctness_probabilities(self.model, rows, int(self.tokenizer.pad_token_id))
