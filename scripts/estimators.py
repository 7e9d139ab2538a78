"""Bias and variance of policy gradients by each estimator, on the same stored roll-outs.

    python scripts/estimators.py docs/results
    python scripts/estimators.py /tmp/pilot --batches 32 --reference 32 --seed 1000   # how noisy

Two agents know one half of a problem each (task=split): the first tells and the second answers,
then the second tells and the first answers (`play`). An answer is right (1) or not (0) and pays who
gave it; what both are worth together, J, is what the team is for. `tiny_split` speaks for both,
after PPO until half of the answers of an iteration are right. An estimator gives the first agent's
gradient of J from a batch of 128 episodes, 4 about each of 32 problems: the sum over tokens of
advantage times the gradient of the log-probability, over the number of episodes, by the estimators
of `cory` at their own settings. Averages of losses, clipping and KL have no part in it. The
reference is that by REINFORCE with the leave-one-out mean as baseline, which is unbiased, from many
more episodes.

Written are estimators.json and figures/estimators.png. Of N batches, with g a gradient, r the
reference:

- cosine: of g and r, mean over batches: how much of one step goes the right way
- direction: of E[g] and r, noise of both taken out: 1 is unbiased up to a factor
- noise: trace of the covariance of g over the squared norm of E[g]

NaN stands where N is too small to tell E[g] from its noise.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hydra
import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray
from scipy.special import stdtrit
from torch import Tensor

from cory.algorithms.cory import shared_sum
from cory.config import builder, parse_config
from cory.episode import Batch, Episode, turns_of
from cory.functional.advantages import CreditScale
from cory.functional.credit import own_and_later, own_return
from cory.functional.statistics import LEVEL, mean_interval
from cory.models.engine import start_process_group, stop_process_group
from cory.models.policy import PPOPolicy
from cory.report.plots import STYLE, save
from cory.runtime.hydra_setup import CONF, composed
from cory.runtime.worker import build_components, silence_libraries
from cory.trainers.estimates import compared, estimator_of
from cory.trainers.ppo import PPOTrainer
from cory.trainers.steps import Clock

Array = NDArray[Any]
AGENT, EPISODES, SAMPLES, GROUPS = "first", 128, 4, 8
LEARNT, AT_MOST = 0.5, 60  # share of right answers at which PPO stops; and iterations
RUN = [
    "algorithm=team",
    f"algorithm.play={Path(__file__).resolve()}:play",
    f"algorithm.agents=[{AGENT},second]",
    "algorithm.iterations=1",
    f"algorithm.prompts_per_iteration={EPISODES}",
    f"algorithm.minibatch_size={EPISODES}",
    f"algorithm.samples_per_prompt={SAMPLES}",
    "algorithm.credit=counterfactual",
    "algorithm.learning_rate=1e-3",  # as experiment=split
    "algorithm.kl_coef=0.1",
    "algorithm.kl_estimator=k1",
    "model=tiny_split",
    "model.value_init=zero",
    "model.value_detached=true",
    "task=split",
    "reward=returned",
]
LATER, UNBIASED, RAE, REPLAYED = "later", "leave-one-out", "RAE (SPIRAL)", "counterfactual"
CREDITS: dict[str, Callable[[list[Episode]], None]] = {
    LATER: own_and_later,  # all scores that an utterance can change
    "sum": shared_sum,
    "own": own_return,
}
GROUP = {"advantages": "group", "divide_by_std": True}
MEAN = {"advantages": "group", "divide_by_std": False}
ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {  # credit, and what conf/advantages has
    "REINFORCE": (LATER, {}),  # the credit itself
    RAE: (LATER, {"advantages": "rae"}),
    "batch (REINFORCE++)": (LATER, {"advantages": "batch"}),
    "GAE, fitted values": (LATER, {"advantages": "gae"}),
    UNBIASED: (LATER, {"advantages": "leave_one_out"}),
    "by turn (AT-GRPO)": (LATER, GROUP | {"groups": "turn"}),
    "by turn, not divided": (LATER, MEAN | {"groups": "turn"}),
    "by agent (Dr. MAS)": (LATER, GROUP | {"groups": "agent"}),
    "global": (LATER, GROUP | {"groups": "prompt"}),
    "joint (MAGRPO)": ("sum", MEAN | {"groups": "episode"}),
    "leave-one-out, own credit": ("own", {"advantages": "leave_one_out"}),
    "counterfactual": (REPLAYED, {}),
    "counterfactual, leave-one-out": (REPLAYED, {"advantages": "leave_one_out"}),
}


async def play(prompt: Any, team: Any) -> dict[str, list[float]]:
    """Each tells once and answers once; answers are paid."""
    question, halves = prompt.columns["question"], (prompt.columns[k] for k in ("first", "second"))
    know = dict(zip((team.first, team.second), halves, strict=True))
    paid = []
    for teller, answerer in ((team.first, team.second), (team.second, team.first)):
        told = await teller.say(f"{question} You know: {know[teller]}. Tell:")
        heard = f"{question} Told: {told.text.strip()}. You know: {know[answerer]}. Answer:"
        answer = await answerer.say(heard)
        paid.append(float(answer.text.strip() == prompt.answer))
    return {AGENT: [0.0, paid[1]], "second": [paid[0], 0.0]}


def right_by_utterance(episodes: list[Episode]) -> Array:
    """(4,) mean scores of what is told and answered, in the order of speaking."""
    return np.mean([[float(turn.score or 0) for turn in one.turns] for one in episodes], 0)


class Bench:
    """The team, its roll-outs, and the gradients of its first agent."""

    def __init__(self, seed: int, folder: str) -> None:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            config = parse_config(composed(*RUN, f"seed={seed}", f"run_dir={folder}"))
        components = build_components(config)
        self.trainer: PPOTrainer = builder("algorithm", "team")(config.algorithm, components)
        self.agent: PPOPolicy = self.trainer.agents[AGENT]
        self.weights = [p for p in self.agent.model.lm.parameters() if p.requires_grad]
        for self.iterations in range(1, AT_MOST + 1):
            self.trainer.step(self.iterations - 1)
            if right_by_utterance(self.trainer.episodes)[1::2].mean() >= LEARNT:
                break
        self.means = CreditScale("none", None, config.algorithm.baseline_decay)

    def roll_out(self) -> tuple[list[Episode], Batch, dict[str, Tensor]]:
        """New episodes, the first agent's turns, and the credits of these by each rule."""
        self.trainer._roll_out(0, Clock())
        episodes = self.trainer.episodes
        turns, credits = turns_of(episodes, AGENT), {}
        for name, rule in ((REPLAYED, None), *CREDITS.items()):
            if rule is not None:  # the roll-out's own comes with it
                rule(episodes)
            credits[name] = torch.tensor([float(turn.credit or 0.0) for turn in turns])
        return episodes, self.agent.annotate(turns), credits

    def advantages(
        self, name: str, episodes: list[Episode], batch: Batch, credits: dict[str, Tensor]
    ) -> Tensor:
        """(B, R), by one estimator."""
        credit, values = ESTIMATORS[name]
        own, config = credits[credit], self.trainer.config.model_copy(update=values)
        if not values:
            return torch.where(batch.response_mask, own[:, None], 0.0)
        if credit in CREDITS:
            CREDITS[credit](episodes)  # pools of other agents' turns read them
        if name == RAE:  # whose means go on from batch to batch
            own = torch.tensor(self.means(own.tolist(), [AGENT] * len(own)))
        groups = compared(config, episodes, AGENT, batch)
        return estimator_of(config)(replace(batch, credits=own), groups, 0.0).advantages

    def spoken(self, batch: Batch) -> Tensor:
        """Log-probabilities (B, R) of the first agent's tokens, with gradient."""
        inputs = batch.input_ids, batch.attention_mask, batch.response_mask
        return self.agent.model.forward(*inputs)[0]

    def gradients(self, batch: Batch, advantages: Sequence[Tensor]) -> list[Tensor]:
        """For each of the advantages (B, R) the gradient (P,) of one agent's J."""
        spoken, found = self.spoken(batch), []
        for own in advantages:
            total = (own * spoken).sum() / EPISODES
            each = torch.autograd.grad(total, self.weights, retain_graph=True)
            found.append(torch.cat([one.flatten() for one in each]))
        return found

    def fit_values(self, batches: int) -> float:
        """Fit the value head to credits by ridge regression; the share of variance explained."""
        head = self.agent.model.value_head
        assert head is not None
        states, aims = list[Tensor](), list[Tensor]()
        for _ in range(batches):
            _, batch, credits = self.roll_out()
            hook = head.register_forward_pre_hook(lambda _, given: states.append(given[0]))
            with torch.no_grad():
                self.spoken(batch)
            hook.remove()
            aims.append(credits[LATER].repeat_interleave(batch.response_mask.sum(1)))
        x, y = torch.cat(states).double(), torch.cat(aims).double()
        x = torch.cat([x, torch.ones(len(x), 1)], 1)
        solved = torch.linalg.solve(x.T @ x + torch.eye(x.shape[1]), x.T @ y)
        with torch.no_grad():
            head.weight.copy_(solved[None, :-1])
            head.bias.copy_(solved[-1:])
        return float(1 - (y - x @ solved).var() / y.var())


def direction_and_noise(
    groups: Array, dots: Array, squares: Array, length: float, left_out: int | None = None
) -> Array:
    """Direction and log noise, see above, of N gradients.

    groups: (K, K) inner products of the sums of each group; dots: (N,) with the reference; squares:
    (N,) squared norms; length: of the reference, without its noise; left_out: a group
    """
    kept = np.arange(GROUPS) != (GROUPS if left_out is None else left_out)
    rows = np.repeat(kept, len(dots) // GROUPS)
    n, mean_square = rows.sum(), squares[rows].mean()
    # |E g|^2 without the noise that |mean g|^2 has
    size = (groups[np.ix_(kept, kept)].sum() - n * mean_square) / (n * (n - 1))
    if size <= 0:  # so few batches that the mean is lost in its noise
        return np.full(2, math.nan)
    direction = dots[rows].mean() / math.sqrt(size) / length
    return np.array([direction, math.log((mean_square - size) / size)])


def jackknife(*given: Any) -> list[list[float]]:
    """Direction and noise, each with the ends of its LEVEL interval, by leaving groups out."""
    whole = direction_and_noise(*given)
    each = np.array([direction_and_noise(*given, k) for k in range(GROUPS)])
    error = np.sqrt((GROUPS - 1) / GROUPS * ((each - each.mean(0)) ** 2).sum(0))
    half = stdtrit(GROUPS - 1, (1 + LEVEL) / 2) * error
    direction, noise = np.stack([whole, whole - half, whole + half], 1)
    return [direction.tolist(), np.exp(noise).tolist()]


def with_ends(values: Array) -> list[float]:
    """The mean and the ends of its LEVEL interval."""
    return [float(values.mean()), *(mean_interval(values) or (values.mean(),) * 2)]


def measure(bench: Bench, batches: int, reference: int) -> dict[str, Any]:
    """The table; batches, reference: multiples of GROUPS and of 2, EPISODES each."""
    explained, began = bench.fit_values(8), time.process_time()
    halves, right = [torch.zeros(()), torch.zeros(())], []
    for number in range(reference):
        episodes, batch, credits = bench.roll_out()
        best = bench.advantages(UNBIASED, episodes, batch, credits)
        (found,) = bench.gradients(batch, [best])
        halves[number % 2] = halves[number % 2] + found.double() * (2 / reference)
        right.append(right_by_utterance(episodes))
    first, second = halves
    if float(first @ second) <= 0:
        raise SystemExit(f"--reference {reference}: too few batches, its halves do not agree")
    towards, length = (first + second) / 2, math.sqrt(float(first @ second))
    sums = {name: torch.zeros(GROUPS, len(towards)) for name in ESTIMATORS}
    dots = {name: np.zeros(batches) for name in ESTIMATORS}
    squares = {name: np.zeros(batches) for name in ESTIMATORS}
    for number in range(batches):
        episodes, batch, credits = bench.roll_out()
        every = [bench.advantages(name, episodes, batch, credits) for name in ESTIMATORS]
        for name, own in zip(ESTIMATORS, bench.gradients(batch, every), strict=True):
            sums[name][number * GROUPS // batches] += own
            dots[name][number] = own.double() @ towards
            squares[name][number] = own.double() @ own.double()
    cosines = {name: dots[name] / np.sqrt(squares[name]) / length for name in ESTIMATORS}
    table = {}
    for name in ESTIMATORS:
        gram = (sums[name].double() @ sums[name].double().T).numpy()
        direction, noise = jackknife(gram, dots[name], squares[name], length)
        table[name] = {
            "credit": ESTIMATORS[name][0],
            "cosine": with_ends(cosines[name]),
            "cosine less leave-one-out's": with_ends(cosines[name] - cosines[UNBIASED]),
            "direction": direction,
            "noise": noise,
        }
    return {
        "iterations of PPO before": bench.iterations,
        "batches": batches,
        "reference": reference,
        "cosine of the reference's halves": float(first @ second / first.norm() / second.norm()),
        "right, by utterance": np.mean(right, 0).tolist(),
        "variance of returns that values explain": explained,
        "seconds of one core": time.process_time() - began,
        "estimators": table,
    }


def draw(found: dict[str, Any], path: Path) -> None:
    """A panel for each number, a row for each estimator; whiskers: LEVEL intervals."""
    table = found["estimators"]
    panels = {
        "cosine": "cosine of a batch",
        "direction": "direction of the mean",
        "noise": "noise (log)",
    }
    places = np.arange(len(table))[::-1]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 3.4), layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True)
        for number, (panel, (key, title)) in enumerate(zip(axes, panels.items(), strict=True)):
            middle, low, high = np.array([row[key] for row in table.values()]).T
            ends, colour = [middle - low, high - middle], f"C{number}"
            panel.errorbar(middle, places, xerr=ends, fmt="o", color=colour, markersize=4, lw=1.2)
            panel.set_title(title, fontsize=9)
        axes[0].set_yticks(places, list(table))
        axes[1].axvline(1.0, color="#333333", lw=0.8)
        axes[2].set_xscale("log")
        axes[2].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes[2].xaxis.set_major_formatter("{x:g}")
        axes[2].xaxis.set_minor_locator(NullLocator())
        save(figure, path)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of estimators.json and figures/estimators.png")
    parser.add_argument("--batches", type=int, default=64, help="a multiple of 8")
    parser.add_argument("--reference", type=int, default=128, help="batches of the reference, even")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    silence_libraries()
    start_process_group("cpu")
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Bench(args.seed, folder), args.batches, args.reference)
    text = json.dumps(found, indent=1, default=float)
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "estimators.json").write_text(f"{text}\n", encoding="utf-8")
    draw(found, args.folder / "figures" / "estimators.png")
    print(text)
    stop_process_group()


if __name__ == "__main__":
    main()
