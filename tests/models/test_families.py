"""Chat models of the families of conf/model, tiny and random: from their prompts to export."""

from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from cory.config import Config
from cory.episode import Asked
from cory.models.bundle import ModelBundle
from cory.runs.export import export_agents
from tests.support.building import LetterShare, build, plain_logprobs, steps
from tests.support.chat_models import FAMILIES, save_chat_model, varied
from tests.support.composing import parsed
from tests.support.refusals import refusal
from tests.support.rows import write_rows

# what a template puts after an answer that ends a model's turn
ENDS = {**{family: "<|im_end|>" for family in FAMILIES}, "llama3": "<|eot_id|>",
        "gemma3": "<end_of_turn>", "phi4_mini": "<|end|>", "mistral": "</s>"}  # fmt: skip
QUICK = {("qwen3", "lora"), ("gemma3", "full")}
CAPPED = {"gemma3": {"final_logit_softcapping": 1.5}}
ADAPTED = {"phi4_mini": {"qkv_proj", "gate_up_proj"}}  # else q_proj, k_proj, ...
QUESTION = "Tom has 3 apples."


@pytest.mark.parametrize("family", FAMILIES)
def test_a_turn_ends_where_the_template_ends_it(family: str, config_of, tmp_path) -> None:
    path = save_chat_model(family, tmp_path)
    bundle = ModelBundle(config_of().model.replace(path=path, chat=True), torch.device("cpu"))
    ids = bundle.tokenizer.convert_tokens_to_ids([ENDS[family], *FAMILIES[family].ends])
    assert bundle.texts.end == ids[0]
    assert bundle.stops == {*ids, bundle.tokenizer.eos_token_id}


def settings(folder: str, tmp_path: Path, *words: str) -> Config:
    """What a newcomer types with a model and data of their own, and how small it is here."""
    rows = [{"prompt": f"{QUESTION} Add {number}.", "answer": "7"} for number in range(10)]
    write_rows(tmp_path / "mine.jsonl", rows)
    small = ["algorithm.prompts_per_iteration=8", "algorithm.minibatch_size=8", "seed=1",
             "algorithm.sampling.min_response_tokens=6", "algorithm.sampling.max_response_tokens=6",
             "algorithm.epochs=1", "algorithm.kl_estimator=full", "task.max_prompt_tokens=120",
             "algorithm.learning_rate=1e-2", "reward=exact_match"]  # fmt: skip
    data = ["task=prompts", f"task.path={tmp_path}/mine.jsonl", "task.held_out_share=0.2"]
    data += ["task.answer_column=answer"]
    return parsed(f"model.path={folder}", *data, *small, *words)


@pytest.mark.parametrize(
    ("family", "way"),
    [
        pytest.param(family, way, marks=() if (family, way) in QUICK else pytest.mark.slow)
        for family in FAMILIES
        for way in ("full", "lora")
    ],
)
def test_from_a_prompt_to_an_exported_agent(family: str, way: str, tmp_path, process_group) -> None:
    folder = save_chat_model(family, tmp_path / family, **CAPPED.get(family, {}))
    config = settings(folder, tmp_path, f"adapter={way}")
    assert config.model.chat
    trainer = build(config, reward=LetterShare())
    # its own checks stop a run whose first batch has another ratio than 1 or a KL, or whose update
    # moves no weight, or another's
    (metrics,) = steps(trainer, 0)
    assert metrics["objective/kl/agent_0"] == pytest.approx(0, abs=1e-6)
    plain = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    date = {"date_string": "26 Jul 2024"} if family == "llama3" else {}
    for episode in trainer.episodes:
        turn = episode.turns[0]
        asked = [{"role": "user", "content": episode.prompt.text}]
        if family != "smollm3":  # whose template knows no argument for the date
            shown = tokenizer.apply_chat_template(asked, add_generation_prompt=True, **date)
            assert turn.context_ids == shown["input_ids"]
        said = plain_logprobs(plain, turn.context_ids, turn.response_ids)
        torch.testing.assert_close(
            torch.tensor(turn.sampler_logprobs), said, rtol=1e-4, atol=1e-4, check_dtype=False
        )
    agent = trainer.agents["agent_0"]
    if way == "lora":
        layers = {*agent.model.base.peft.peft_config["agent_0"].target_modules}
        assert layers >= ADAPTED.get(family, {"q_proj", "k_proj", "gate_proj"}) | {"down_proj"}
        assert "lm_head" not in layers
    (turn,) = agent.turns([Asked(QUESTION, "solo")], 8, None)
    export_agents({"agent_0": agent}, config, tmp_path)
    exported = tmp_path / "agents" / "agent_0"
    assert len({file.stat().st_mode for file in exported.iterdir()}) == 1  # as the umask says
    card = (exported / "README.md").read_text()
    library = "transformers" if way == "full" else "peft"
    for word in ("agent_0", "seed 1", "task=prompts", "algorithm=cory", f"library_name: {library}"):
        assert word in card
    typed = card.split("```python")[1].split("```")[0].replace('"."', repr(str(exported)))
    exec(typed, given := {})
    assert given["model"].num_parameters() > 0 and len(given["tokenizer"]) > 0
    if way == "full":
        loaded = AutoModelForCausalLM.from_pretrained(exported)
        assert AutoTokenizer.from_pretrained(exported).chat_template == tokenizer.chat_template
    else:
        loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), exported)
    ids = torch.tensor([turn.context_ids])
    assert (loaded(ids).logits - plain(ids).logits).abs().max() > 1e-2
    stops = sorted(agent.bundle.stops)
    said = loaded.generate(input_ids=ids, max_new_tokens=8, do_sample=False, eos_token_id=stops)
    assert said[0, ids.shape[1] :].tolist() == turn.response_ids


def test_a_tokenizer_that_does_not_fit_the_model_is_refused(tmp_path, process_group) -> None:
    folder = save_chat_model("qwen3", tmp_path / "mixed")
    own = AutoModelForCausalLM.from_pretrained(folder)
    own.resize_token_embeddings(250)
    varied(own).save_pretrained(folder)
    config = settings(folder, tmp_path, "adapter=lora")
    said = refusal(lambda: build(config))
    assert said.startswith(f"model.path={folder}: the tokenizer's token '")
    assert "and the model has embeddings for 250 tokens" in said and "\n" not in said
