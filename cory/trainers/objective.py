"""PPO's loss on a minibatch: clipped policy loss, value loss, KL to the reference."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from cory import distributed
from cory.config import PPOConfig
from cory.episode import Batch
from cory.functional.logprobs import MAX_LOG_RATIO, sampled_kl
from cory.functional.losses import LossAverage, clipped_policy_loss, clipped_value_loss
from cory.models.policy import PPOPolicy
from cory.trainers.estimators import Estimate

Numbers = dict[str, Tensor]  # to be added up over the minibatch


@dataclass(frozen=True)
class Objective:
    """The loss of one agent on one minibatch; called with the turns of a microbatch.

    Sums are divided by numbers of the whole minibatch, so that neither the size of a microbatch nor
    the number of processes changes anything.
    """

    config: PPOConfig
    agent: PPOPolicy
    batch: Batch
    estimate: Estimate
    average: LossAverage
    tokens: Tensor  # response tokens of the minibatch

    def __call__(self, index: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The microbatch's part of the loss, with gradient; and its part of the statistics.

        index: (b,) int64
        """
        config, batch, tokens = self.config, self.batch, self.tokens
        mask, before = batch.response_mask[index], batch.logprobs[index]
        logprobs, values, kl = self._outputs(index)
        policy = clipped_policy_loss(
            logprobs,
            before,
            self.estimate.advantages[index],
            mask,
            config.clip_range,
            config.clip_range_high,
            whole_responses=config.ratio == "response",
        )
        total = self.average.part(policy.per_token, index)
        losses: Numbers = {"loss/policy": total.detach() / self.average.whole}
        of_values: Numbers = {}
        if values is not None:
            part, of_values = self._value_part(values, index)
            total = total + config.value_coef * part
            losses["loss/value"] = part.detach() / self.average.whole
        if config.kl_in == "loss":
            if kl is None:
                kl = sampled_kl(logprobs, batch.ref_logprobs[index], "k3")  # 0 outside the mask
            part = self.average.part(kl, index)
            total = total + self.agent.kl_coef * part
            losses["loss/kl"] = part.detach() / self.average.whole
        loss = total / self.average.whole
        difference = (logprobs.detach() - before).clamp(max=MAX_LOG_RATIO)
        ratio = torch.where(mask, difference.exp(), 0.0).sum() / tokens
        passed_over = torch.zeros_like(tokens, dtype=torch.bool)
        if config.max_mean_ratio is not None:
            # as the released code: the gradient of a minibatch with too large a ratio is zeroed
            passed_over = distributed.summed(ratio.clone()) > config.max_mean_ratio
            loss = loss * (~passed_over)
        return loss, {
            **losses,
            "policy/approxkl": policy.deviation.sum() / tokens,
            "policy/clipfrac": policy.clipped.sum() / tokens,
            "policy/ratio": ratio,
            "policy/passed_over": passed_over.float() / distributed.count(),
            **of_values,
        }

    def _outputs(self, index: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Log-probabilities, values, and the exact KL where it is a term of the loss; (b, R)."""
        batch = self.batch
        inputs = batch.input_ids[index], batch.attention_mask[index], batch.response_mask[index]
        if self.config.kl_in != "loss" or self.config.kl_loss != "full":
            logprobs, values = self.agent.engine(*inputs)
            return logprobs, values, None
        reference = self.agent.bundle.reference_outputs(self.agent.model, *inputs)
        spoken, values = self.agent.engine(*inputs, *reference)
        return spoken[0], values, spoken[1]

    def _value_part(self, values: Tensor, index: Tensor) -> tuple[Tensor, Numbers]:
        """The sum of the value loss, and its statistics."""
        mask, old, returns = self.batch.response_mask, self.batch.values, self.estimate.returns
        assert old is not None and returns is not None  # as the value head is there
        value = clipped_value_loss(
            values, old[index], returns[index], mask[index], self.config.value_clip_range
        )
        part = self.average.part(value.per_token, index)
        return part, {"value/clipfrac": value.clipped.sum() / self.tokens}
