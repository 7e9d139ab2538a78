"""A policy trained by PPO: it annotates its turns and keeps its own statistics."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from cory import distributed
from cory.config import HardwareConfig, PPOConfig
from cory.episode import Batch, Turn
from cory.functional.logprobs import sampled_kl
from cory.functional.scores import RunningMoments, adapted_kl_coef, scaled_credits
from cory.models.actor_critic import ActorCriticModel
from cory.models.engine import Engine
from cory.models.policy import Policy
from cory.models.precision import kept_casts
from cory.models.team import Team


class PPOPolicy(Policy):
    """A policy with its KL coefficient and running score statistics, kept through every role."""

    def __init__(
        self,
        team: Team,
        model: ActorCriticModel,
        engine: Engine,
        config: PPOConfig,
        hardware: HardwareConfig,
        from_reference: bool,
    ) -> None:
        """from_reference: the policy starts as the reference."""
        super().__init__(team, model, engine, hardware)
        self.config = config
        model.temperature = config.policy_temperature
        self.from_reference = from_reference
        self.updates = 0  # iterations with an update, from the first that changed weights on
        self.start_statistics()

    def start_statistics(self) -> None:
        """Reset the KL coefficient and the running score statistics, as of a new trainer."""
        self.updated = False  # since then
        self.kl_coef = self.config.kl_coef
        self.moments = RunningMoments()

    @contextmanager
    def rolling_out(self) -> Iterator[None]:
        """Sample as in a roll-out: with dropout where `model.rollout_dropout` asks for it."""
        self.samples_with_dropout = self.updated and self.team.config.rollout_dropout
        try:
            yield
        finally:
            self.samples_with_dropout = False

    def annotate(self, turns: list[Turn]) -> Batch:
        """The turns as tensors, with each token's statistics under policy and reference.

        Credits are scaled by this agent's running statistics, which first take in the turns.
        """
        if any(turn.credit is None for turn in turns if not turn.absent):
            raise ValueError(f"{self.name}: a turn has no credit")
        credits = [turn.credit or 0.0 for turn in turns]  # absent turns have no tokens
        if self.config.score_scaling != "none":
            self.moments.update([turn.credit or 0.0 for turn in turns if not turn.absent])
        credits = scaled_credits(
            credits, self.moments, self.config.score_scaling, self.config.score_clip
        )
        input_ids, attention_mask, response_mask = self.tensors(turns)
        self.model.eval()

        def statistics(batch: Sequence[int]) -> Tensor:  # (b, 5, R); (b, 4, R) without values
            rows = torch.tensor(batch)
            tokens, values = self.team.statistics(
                self.model, input_ids[rows], attention_mask[rows], response_mask[rows]
            )
            columns = [*tokens] if values is None else [*tokens, values]
            return torch.stack(columns, dim=1).cpu()

        with self.engine.whole(), kept_casts(self.model.lm):
            rows = distributed.map_rows(
                range(len(turns)),
                self.hardware.rollout_batch_size,
                statistics,
                lambda number: turns[number].tokens,
            )
        columns = torch.stack(rows, dim=1).to(self.team.device)
        logprobs, entropy, ref_logprobs, full, *values = columns
        estimator = self.config.kl_estimator
        kl = full if estimator == "full" else sampled_kl(logprobs, ref_logprobs, estimator)
        return Batch(
            input_ids=input_ids,
            attention_mask=attention_mask,
            response_mask=response_mask,
            credits=torch.tensor(credits, dtype=torch.float32, device=self.team.device),
            logprobs=logprobs,
            ref_logprobs=ref_logprobs,
            kl=kl,
            entropy=entropy,
            values=values[0] if values else None,
        )

    def adapt_kl_coef(self, kl: float, turns: int) -> None:
        """Update the KL coefficient after an iteration, when the controller is adaptive.

        kl: mean over turns of the KL summed over tokens, nats
        """
        if self.config.kl_controller == "adaptive":
            self.kl_coef = adapted_kl_coef(
                self.kl_coef, kl, self.config.kl_target, self.config.kl_horizon, turns
            )

    def state_dict(self) -> dict[str, Any]:
        """KL coefficient, running score statistics, updates so far; weights are the engine's."""
        return {
            "kl_coef": self.kl_coef,
            "moments": asdict(self.moments),
            "updates": self.updates,
            "updated": self.updated,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.kl_coef = state["kl_coef"]
        self.moments = RunningMoments(**state["moments"])
        self.updates = state["updates"]
        self.updated = state["updated"]
