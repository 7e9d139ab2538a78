"""An adapter merged into its base: a normal Hugging Face folder, checked against the adapter."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cory.config import Config, ConfigError, ModelConfig, parse_config, require
from cory.models.loading import load_language_model, load_tokenizer, nf4
from cory.models.lora import DESCRIPTION, load_adapter, merged
from cory.runs.export import VALUE_HEAD, with_card
from cory.runs.run_dir import AGENTS
from cory.runs.stored_settings import read_settings

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Largest difference of log-probabilities that rounding explains, in nats, by the type of the merged
# weights: some hundred times what was measured, and far less than what an adapter changes.
TOLERANCES = {"fp32": 1e-3, "bf16": 0.3, "fp16": 0.05}
CHECKED = 32  # tokens of the text by which both are compared


@dataclass(frozen=True)
class Difference:
    """How far log-probabilities over the vocabulary are apart, at most, in nats."""

    merged: float  # of the merged model from base and adapter
    trained: float  # of base and adapter from the base alone


def agents_of(run_dir: Path, chosen: list[str] | None) -> list[Path]:
    """The folders of a run's agents, or of the chosen ones; ConfigError where there is none."""
    read_settings(run_dir)
    folder = run_dir / AGENTS
    require(folder.is_dir(), f"{run_dir}: the run has no agents; they appear when it finishes")
    there = sorted(path for path in folder.iterdir() if path.is_dir())
    names = [path.name for path in there]
    wrong = sorted(set(chosen or []) - set(names))
    require(not wrong, f"--agent {''.join(wrong[:1])}: {run_dir} has {', '.join(names)}")
    return [path for path in there if chosen is None or path.name in chosen]


def is_adapter(agent: Path) -> bool:
    """Whether an exported agent is an adapter; else it is a whole model."""
    return (agent / DESCRIPTION).is_file()


def base_of_agent(run_dir: Path, agent: Path) -> tuple[Config, ModelConfig]:
    """The settings of the run, and those of the agent's model (`partner` of every second one)."""
    config = parse_config(read_settings(run_dir))
    name = agent.name
    number = int(name.split("_")[1]) if name.startswith("agent_") else 0
    partner = config.partner
    return config, config.model if partner is None or number % 2 == 0 else partner


def merge(run_dir: Path, agent: Path, out: Path, precision: str | None = None) -> Difference:
    """Write an agent's adapter, merged into its base, to a new folder.

    precision: fp32 | bf16 | fp16: of the merged weights; None: as the base had in the run
    The sums are computed in float32. The folder is read back and compared with the adapter on its
    base; ConfigError, with nothing written, where they are not equal up to rounding.
    """
    require(
        is_adapter(agent),
        f"--merge: {agent} is a whole model already, which transformers loads as it is",
    )
    require(
        not out.exists() or (out.is_dir() and not any(out.iterdir())),
        f"--out={out} exists and is not empty; delete it or name another folder",
    )
    config, model = base_of_agent(run_dir, agent)
    require(not model.remote_code, f"{run_dir}: model.remote_code=true: such a base is not merged")
    precision = precision or model.precision
    require(precision in DTYPES, f"--precision={precision} must be fp32, bf16 or fp16")
    tokenizer = load_tokenizer(model.path, "model.path")
    ids = probe(model.path)
    base = base_in_float32(model)
    alone = logprobs(base, ids)
    adapted = load_adapter(base, agent)
    together = logprobs(adapted.eval(), ids)
    part = out.with_name(f"{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        merged(adapted).to(DTYPES[precision]).save_pretrained(part)
        del base, adapted
        tokenizer.save_pretrained(part)
        if (agent / VALUE_HEAD).exists():
            shutil.copy(agent / VALUE_HEAD, part / VALUE_HEAD)
        with_card(part, card(config, model, agent.name, precision))
        again = load_language_model(str(part), "merged", keep_dropout=True)
        found = Difference(
            merged=float((logprobs(again, ids) - together).abs().max()),
            trained=float((together - alone).abs().max()),
        )
        require(
            found.merged <= TOLERANCES[precision],
            f"{agent}: the merged model's log-probabilities are {found.merged:.2g} nats from the "
            f"adapter's, more than rounding to {precision} explains ({TOLERANCES[precision]:g}); "
            f"nothing was written",
        )
        if out.exists():
            out.rmdir()
        part.rename(out)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return found


def base_in_float32(model: ModelConfig) -> Any:
    """The base with the values that the adapter was trained on, as float32 on the CPU."""
    dtype = DTYPES[model.precision]
    quantisation = None
    if model.quantisation == "nf4":
        quantisation = nf4(model.double_quantisation, torch.float32, dtype)
    base = load_language_model(
        model.path, "model.path", True, dtype, quantisation, torch.device("cpu")
    )
    if quantisation is not None:
        base = base.dequantize()
    return base.float()


def probe(path: str) -> Tensor:
    """Token ids (1, CHECKED) spread over the vocabulary: both models are asked about them."""
    size = len(load_tokenizer(path, "model.path"))
    return torch.tensor([[(7 + 977 * place) % size for place in range(CHECKED)]])


@torch.no_grad()
def logprobs(lm: torch.nn.Module, ids: Tensor) -> Tensor:
    """Log-probabilities (1, T, V) of the next token after each of `ids` (1, T), in float32."""
    scores: Tensor = lm(input_ids=ids).logits.float()
    return scores.log_softmax(-1)


def card(config: Config, model: ModelConfig, agent: str, precision: str) -> str:
    """The README.md of a merged agent."""
    front = ["---", "library_name: transformers", "tags: [cory, reinforcement-learning]"]
    if is_hub_name(model.path):
        front.insert(1, f"base_model: {model.path}")
    packed = " in 4 bits (NF4)" if model.quantisation == "nf4" else ""
    return (
        "\n".join([*front, "---"])
        + f"""

# {agent} of {config.experiment}, seed {config.seed}, merged

A LoRA adapter that cory trained with `algorithm={config.algorithm.name}`, added to the weights of
its base ({model.name}{packed}); the sums were rounded to {precision}.

    AutoModelForCausalLM.from_pretrained("<this folder>")
"""
    )


def is_hub_name(path: str) -> bool:
    """Whether a model's path is a name on the hub, which others can load too."""
    local = path.startswith((".", "/", "~", "package:", "asset:")) or Path(path).exists()
    return not local and path.count("/") <= 1
