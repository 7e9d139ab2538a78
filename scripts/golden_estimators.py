"""Store advantages, losses and gradients of TRL's GRPOTrainer and RLOOTrainer, for tests.

This script has an environment of its own; tests need only the JSON that it writes. From the root
of the repository:

    python -m venv ../estimators-venv
    ../estimators-venv/bin/pip install torch==2.13.0
    ../estimators-venv/bin/pip install trl==1.16.0 transformers==5.23.0
    ../estimators-venv/bin/python scripts/golden_estimators.py \
        tests/functional/golden_estimators.json

Whole trainers are made, and their own methods run: `_generate_and_score_completions` gives the
advantages, `_compute_loss` the loss. Replaced is only what would be drawn or depend on history:
the answers, and the log-probabilities of the policy that gave them and of the reference.

The model is a Llama of two layers and a few weights, in float32. TRL passes no positions to the
model, so that one with learnt positions would see those of a prompt's padding, too; Llama's
attention depends on distances alone.
"""

import argparse
import json
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

SEED = 20241122
CONFIG = {
    "vocab_size": 24,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}
PROMPTS = [[5, 9, 14], [2, 3, 17, 21, 8], [11, 4, 6, 23]]  # a group of answers to each
LENGTHS = [[7, 2, 5, 3], [4, 8, 1, 6], [3, 5, 2, 8]]  # of the answers, in tokens
REWARDS = [[1.0, 0.0, 0.5, 2.0], [0.7, 0.7, 0.7, 0.7], [-1.0, 0.25, 0.25, 1.6]]
LONGEST = 10  # tokens that an answer may have; none of these has as many
GROUP = 4
# weights whose whole gradient is stored; of the others its norm
WHOLE = ("model.norm.weight", "model.layers.0.self_attn.v_proj.weight")
GRPO: dict[str, dict[str, Any]] = {
    # normalisation of the loss, each without and with a KL penalty in it
    **{
        f"{loss}, beta {beta}": {"loss_type": loss, "beta": beta}
        for loss in ("grpo", "bnpo", "dr_grpo", "dapo")
        for beta in (0.0, 0.05)
    },
    # normalisation of the advantages
    **{
        f"scale_rewards {scale}": {"loss_type": "grpo", "beta": 0.0, "scale_rewards": scale}
        for scale in ("none", "batch")
    },
    # the KL penalty times the ratio, TRL's default
    "KL times ratio": {"loss_type": "dapo", "beta": 0.05, "use_bias_correction_kl": True},
    "one epsilon": {"loss_type": "dapo", "beta": 0.0, "epsilon_high": None},
    # the geometric mean of a response's ratios; an answer without an end left out; a bonus
    "GSPO": {"loss_type": "grpo", "beta": 0.0, "importance_sampling_level": "sequence"},
    "masked": {"loss_type": "dapo", "beta": 0.05, "mask_truncated_completions": True},
    "entropy": {"loss_type": "dapo", "beta": 0.0, "entropy_coef": 0.1},
}
GRPO_DEFAULTS = {
    "scale_rewards": "group",
    "epsilon": 0.2,
    "epsilon_high": 0.4,
    "use_bias_correction_kl": False,
}
RLOO: dict[str, dict[str, Any]] = {
    f"beta {beta}, normalize_advantages {normal}": {"beta": beta, "normalize_advantages": normal}
    for beta in (0.0, 0.05)
    for normal in (False, True)
}
RLOO_DEFAULTS = {"epsilon": 0.2, "epsilon_high": 0.4}


def plain(value: Any) -> Any:
    """Tensors as lists; nine digits restore every float32 exactly."""
    if isinstance(value, Tensor):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def tokenizer() -> PreTrainedTokenizerFast:
    """A word for each id."""
    words = {f"w{number}": number for number in range(CONFIG["vocab_size"])}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w2")),
        pad_token="w0",
        eos_token="w1",
        unk_token="w2",
    )


def new_model() -> LlamaForCausalLM:
    """Weights large enough that probabilities differ between tokens."""
    torch.manual_seed(SEED)
    return LlamaForCausalLM(LlamaConfig(**CONFIG, initializer_range=0.4)).float()


def answers() -> list[list[int]]:
    """Random tokens; a short answer ends with the end-of-text token, one of 8 was cut."""
    stream = torch.Generator().manual_seed(SEED)
    found = []
    for length in (length for own in LENGTHS for length in own):
        ids = torch.randint(2, CONFIG["vocab_size"], (length,), generator=stream).tolist()
        found.append(ids if length == 8 else [*ids[:-1], CONFIG["eos_token_id"]])
    return found


class Batch:
    """The prompts and answers, and the log-probabilities that are given."""

    def __init__(self) -> None:
        self.prompt_ids = [ids for ids in PROMPTS for _ in range(GROUP)]
        self.completion_ids = answers()
        self.rewards = [reward for own in REWARDS for reward in own]
        longest = max(map(len, self.completion_ids))
        lengths = torch.tensor([len(ids) for ids in self.completion_ids])
        self.mask = torch.arange(longest)[None] < lengths[:, None]
        stream = torch.Generator().manual_seed(SEED + 1)
        near = self.current()

        def off(scale: float) -> Tensor:
            noise = scale * torch.randn(near.shape, generator=stream)
            return torch.where(self.mask, near + noise, 0.0)

        # so that some ratios, of tokens and for RLOO of whole answers, lie on each side of a bound
        self.old, self.reference = off(0.25), off(0.3)

    def current(self) -> Tensor:
        """Log-probabilities of the answers' tokens, one answer at a time."""
        model, rows = new_model(), []
        for prompt, answer in zip(self.prompt_ids, self.completion_ids, strict=True):
            with torch.no_grad():
                logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
            own = logits.log_softmax(-1).gather(-1, torch.tensor(answer)[:, None])[:, 0]
            rows.append(torch.nn.functional.pad(own, (0, self.mask.shape[1] - len(answer))))
        return torch.stack(rows)


def run(kind: type, config: Any, batch: Batch, folder: str) -> dict[str, Any]:
    """What a trainer makes of the batch: advantages, loss and gradients.

    folder: of the model, from which TRL loads its reference once more
    """
    size = len(batch.rewards)

    def score(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float]:
        return batch.rewards

    trainer = kind(
        model=LlamaForCausalLM.from_pretrained(folder),
        reward_funcs=score,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "w2"}] * size),
        processing_class=tokenizer(),
    )
    trainer.current_gradient_accumulation_steps = 1
    texts = [" ".join(f"w{number}" for number in ids) for ids in batch.completion_ids]
    answered: tuple[Any, ...] = (batch.prompt_ids, batch.completion_ids)
    # GRPOTrainer also asks for tools, log-probabilities of another sampler, and images
    answered += (texts,) if kind is RLOOTrainer else (None, texts, None, {}, None, [[]] * size)
    trainer._generate = lambda prompts: answered
    compute = trainer._get_per_token_logps_and_entropies

    def given(model: Any, *rest: Any, **named: Any) -> tuple[Tensor, None, None]:
        return (batch.reference if model is trainer.ref_model else batch.old), None, None

    kept: list[Tensor] = []

    def keeping(*rest: Any, **named: Any) -> Any:
        logprobs, *others = compute(*rest, **named)
        logprobs.retain_grad()
        kept.append(logprobs)
        return logprobs, *others

    trainer.model.train()
    trainer._get_per_token_logps_and_entropies = given
    inputs = trainer._generate_and_score_completions([{"prompt": "w2"}] * size)
    trainer._get_per_token_logps_and_entropies = keeping
    loss = trainer._compute_loss(trainer.model, inputs)
    loss.backward()
    (logprobs,) = kept
    mask = inputs["completion_mask"].bool()
    assert config.mask_truncated_completions or torch.equal(mask, batch.mask)
    own = torch.where(mask, logprobs.detach() - batch.current(), 0.0)
    assert own.abs().max() < 1e-5, "padding of the prompts changes something"
    gradients = {name: p.grad for name, p in trainer.model.named_parameters()}
    return {
        "advantages": inputs["advantages"],
        "loss": loss.item(),
        "logprob_gradient": torch.where(batch.mask, logprobs.grad, 0.0),
        "gradient_norm": torch.cat([g.flatten() for g in gradients.values()]).double().norm(),
        "gradient_norms": {name: g.double().norm() for name, g in gradients.items()},
        "gradients": {name: gradients[name] for name in WHOLE},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="the JSON file to write")
    path = parser.parse_args().path
    batch = Batch()
    found: dict[str, dict[str, Any]] = {"grpo": {}, "rloo": {}}
    with tempfile.TemporaryDirectory() as folder:
        new_model().save_pretrained(folder)
        common = {
            "output_dir": f"{folder}/output",
            "per_device_train_batch_size": len(batch.rewards),
            "gradient_accumulation_steps": 1,
            "num_generations": GROUP,
            "num_iterations": 2,  # so that the policy that gave the answers is asked
            "max_completion_length": LONGEST,
            "temperature": 1.0,
            "pad_to_multiple_of": None,
            "report_to": [],
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
        }
        for name, settings in GRPO.items():
            settings = GRPO_DEFAULTS | settings
            config = GRPOConfig(**common, **settings)
            found["grpo"][name] = {"settings": settings, **run(GRPOTrainer, config, batch, folder)}
        for name, settings in RLOO.items():
            settings = RLOO_DEFAULTS | settings
            config = RLOOConfig(**common, **settings)
            found["rloo"][name] = {"settings": settings, **run(RLOOTrainer, config, batch, folder)}
    weights = {name: p.detach() for name, p in new_model().named_parameters()}
    parts = {
        "versions": {name: version(name) for name in ("trl", "transformers", "torch")},
        "model": {"config": CONFIG, "weights": weights},
        "batch": {
            "prompt_ids": batch.prompt_ids,
            "completion_ids": batch.completion_ids,
            "rewards": batch.rewards,
            "samples_per_prompt": GROUP,
            "max_completion_length": LONGEST,
            "logprobs": batch.current(),
            "old_logprobs": batch.old,
            "ref_logprobs": batch.reference,
        },
        **found,
    }
    lines = []
    for key, part in parts.items():
        rows = [f"{json.dumps(name)}: {json.dumps(plain(own))}" for name, own in part.items()]
        lines.append(f"{json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
