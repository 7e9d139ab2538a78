"""One case, in a process of its own: numbers to compare, seconds, memory.

The run is built and stepped by the code that trains. Only the first roll-out is not sampled anew:
every case replays what the case on the CPU said, so that all of them learn from the same tokens.
"""

import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from cory import distributed
from cory.config import Config, ConfigError, SamplingConfig, builder, parse_config
from cory.episode import Context, Turn
from cory.gpu_check.extrapolate import operations_per_iteration
from cory.memory import preflight
from cory.memory.estimate import peak
from cory.models.actor_critic import response_states
from cory.models.engine import start_process_group, stop_process_group
from cory.models.policy import Actor, Spoken
from cory.models.ppo_policy import PPOPolicy
from cory.runs.provenance import memory_used
from cory.runs.run_dir import write_whole
from cory.runtime.worker import build_parts, check_devices
from cory.seeding import keyed
from cory.train import compose
from cory.trainers.ppo import PPOTrainer

ORDER, RESULT, NUMBERS, LOG = "order.json", "result.json", "numbers.json", "log.txt"
FIXED_ROWS, FIXED_CONTEXT, FIXED_RESPONSE = 16, 12, 12  # of the fixed sequences, at most
TIMED = 2  # iterations, after the first, which warms up
PHASES = ("rollout", "reward", "annotate", "update", "iteration")
METRICS = ("objective/score", "objective/sampler_gap", "ppo/loss/policy", "ppo/loss/value",
           "ppo/gradient_norm", "ppo/skipped_steps")  # fmt: skip
GREEDY = ("The film", "I have never seen such a", "It", "This is one of the best", "Why did they")
GREEDY_TOKENS = 16


@dataclass(frozen=True)
class Order:
    """What a process is asked to do."""

    overrides: list[str]
    reference: str | None  # folder of the case whose roll-out is replayed; None: it is sampled
    timed: bool = True  # also further iterations, for seconds and memory

    @property
    def spoken(self) -> Path | None:
        """The file with the roll-out to replay."""
        return None if self.reference is None else Path(self.reference) / NUMBERS


class Recorded:
    """An actor that keeps what it says."""

    def __init__(self, actor: Actor, kept: list[dict[str, Any]]) -> None:
        self.name, self._actor, self._kept = actor.name, actor, kept

    def turns(
        self,
        role: str,
        round: int,
        contexts: Sequence[Context | None],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
    ) -> Spoken:
        """As `Actor.turns`."""
        said = self._actor.turns(role, round, contexts, limit, sampling, stream)
        rows = [{"turn": vars(turn) | {}, "logprobs": logprobs} for turn, logprobs in said]
        self._kept.append({"actor": self.name, "rows": rows})
        return said


class Replayed:
    """An actor that says what a recorded one said."""

    def __init__(self, name: str, recorded: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self._calls = iter([call for call in recorded if call["actor"] == name])

    def turns(
        self,
        role: str,
        round: int,
        contexts: Sequence[Context | None],
        limit: int,
        sampling: SamplingConfig | None,
        stream: torch.Generator,
    ) -> Spoken:
        """As `Actor.turns`; RuntimeError where the recorded one was asked something else."""
        rows = next(self._calls)["rows"]
        said: Spoken = [(Turn(**row["turn"]), row["logprobs"]) for row in rows]
        if [turn.context for turn, _ in said] != [context or "" for context in contexts]:
            raise RuntimeError("the prompts are not those of the case on the CPU")
        return said


def fixed_turns(agent: str, vocabulary: int) -> list[Turn]:
    """Random token sequences of unequal lengths, the same for every case."""
    stream = keyed((0, vocabulary))

    def drawn(least: int, most: int, count: int) -> list[int]:
        return torch.randint(least, most + 1, (count,), generator=stream).tolist()

    contexts = drawn(3, FIXED_CONTEXT, FIXED_ROWS)
    responses = drawn(4, FIXED_RESPONSE, FIXED_ROWS)
    return [
        Turn(
            agent=agent,
            role="fixed",
            round=0,
            context="",
            response="",
            context_ids=drawn(1, vocabulary - 1, before),
            response_ids=drawn(1, vocabulary - 1, after),
            credit=0.0,
        )
        for before, after in zip(contexts, responses, strict=True)
    ]


def statistics_of(agent: PPOPolicy) -> dict[str, list[float]]:
    """Per token of the fixed sequences: log-probability, KL to the reference, entropy, value."""
    turns = fixed_turns(agent.name, min(agent.model.vocabulary, len(agent.team.tokenizer)))
    batch = agent.annotate(turns)
    mask = batch.response_mask
    columns = {"logprobs": batch.logprobs, "kl": batch.kl, "entropy": batch.entropy,
               "values": batch.values}  # fmt: skip
    return {name: column[mask].tolist() for name, column in columns.items() if column is not None}


def greedy_tokens(agent: PPOPolicy) -> list[list[int]]:
    """Token ids of greedy responses to a few texts."""
    said = agent.respond(list(GREEDY), GREEDY_TOKENS, None, keyed((0,)))
    return [response.ids for _, response in said]


@torch.no_grad()
def greedy_margins(agent: PPOPolicy, responses: Sequence[list[int]]) -> list[list[float]]:
    """By how many nats the most probable token led at each place of greedy responses."""
    contexts = agent.team.tokenizer(list(GREEDY))["input_ids"]
    turns = [
        Turn(agent.name, "greedy", 0, "", "", context_ids, response)
        for context_ids, response in zip(contexts, responses, strict=True)
    ]
    ids, attention, mask = agent.tensors(turns)
    agent.model.eval()
    with agent.whole():  # split by ZeRO-3
        agent.model.activate()
        states = response_states(agent.model.lm, ids, attention, mask)
        logp = agent.model.lm.get_output_embeddings()(states).float().log_softmax(-1)
    first, second = logp.topk(2).values.unbind(-1)
    return [row.tolist() for row in (first - second).split([len(r) for r in responses])]


def numbers_of(trainer: PPOTrainer, order: Order) -> dict[str, Any]:
    """The numbers that cases are compared by, from before, in and after the first iteration."""
    agents = list(trainer.agents.values())
    agent, alone = agents[0], order.spoken is None
    greedy = greedy_tokens(agent)
    found: dict[str, Any] = {"before": statistics_of(agent), "greedy": greedy}
    if alone:
        found["margins"] = greedy_margins(agent, greedy)
    recorded: list[dict[str, Any]] = []
    actors = dict(trainer.actors)
    if order.spoken is not None:
        recorded = json.loads(order.spoken.read_text(encoding="utf-8"))["spoken"]
        trainer.actors = {name: Replayed(name, recorded) for name in actors}
    else:
        trainer.actors = {name: Recorded(actor, recorded) for name, actor in actors.items()}
    metrics = trainer.step(0)
    trainer.actors = actors
    found["metrics"] = {f"{key}/{a.name}": metrics[f"{key}/{a.name}"]
                        for a in agents for key in METRICS}  # fmt: skip
    found["after"] = statistics_of(agent)
    if alone:
        found["spoken"] = recorded
    return found


def measured(trainer: PPOTrainer, config: Config) -> dict[str, Any]:
    """Seconds per phase and tokens per second: medians of `TIMED` iterations after a further one.

    The first iteration sampled nothing where it was replayed, so one more warms up.
    """
    rows, tokens = [], []
    for iteration in range(1, TIMED + 2):
        metrics = trainer.step(iteration)
        rows.append(metrics)
        lengths = [v for k, v in metrics.items() if k.startswith("rollout/response_tokens/agent")]
        tokens.append(config.algorithm.prompts_per_iteration * sum(lengths))
    seconds = {
        phase: statistics.median(row[f"time/{phase}_s"] for row in rows[1:]) for phase in PHASES
    }
    return {
        "seconds": seconds,
        "sampled_tokens_per_s": statistics.median(tokens[1:]) / seconds["rollout"],
        "operations_per_s": operations_per_iteration(config) / seconds["iteration"],
    }


def run_case(order: Order) -> tuple[dict[str, Any], dict[str, Any]]:
    """Numbers of a case, and times and memory; ConfigError where it does not fit."""
    config = parse_config(compose(*order.overrides))
    check_devices(config.hardware)
    start_process_group(config.hardware.device)
    preflight.check(config, speak=False)
    estimated = peak(preflight.rows_of(config)[0])[1]
    before = memory_used(config.hardware.device)
    parts = build_parts(config)
    torch.manual_seed(config.seed + distributed.rank())
    trainer = builder("algorithm", config.algorithm.name)(config.algorithm, parts)
    assert isinstance(trainer, PPOTrainer)
    numbers = numbers_of(trainer, order)
    found = measured(trainer, config) if order.timed else {}
    used = memory_used(config.hardware.device) - before
    return numbers, found | {
        "memory": {"measured": used, "estimated": estimated},
        "parameters": sum(p.numel() for p in parts.team.pretrained.parameters()),
        "products": config.model.compute_precision,
        "precision": config.model.precision,
        "quantisation": config.model.quantisation,
        "layers": parts.team.pretrained.config.num_hidden_layers,
    }


def run_process(folder: Path) -> int:
    """Run the order that lies in the folder, and write what came of it; the exit code."""
    order = Order(**json.loads((folder / ORDER).read_text(encoding="utf-8")))
    began = time.monotonic()
    result: dict[str, Any] = {}
    numbers: dict[str, Any] | None = None
    try:
        numbers, result = run_case(order)
    except ConfigError as error:
        result = {"obstacle": str(error)}
    except Exception as error:  # however a case fails, it has failed (detail 17)
        traceback.print_exc()
        result = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    if distributed.rank() == 0 or "error" in result:
        if numbers is not None:
            write_whole(folder / NUMBERS, json.dumps(numbers))
        result["wall_s"] = round(time.monotonic() - began, 1)
        write_whole(folder / RESULT, json.dumps(result, indent=1))
    return 1 if "error" in result else 0


def main() -> None:
    """`python -m cory.gpu_check.measure <folder>`; the runner starts it."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    code = run_process(Path(sys.argv[1]))
    if code == 0:
        stop_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of the process group may abort a normal exit


if __name__ == "__main__":
    main()
