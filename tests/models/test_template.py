"""What chat templates are handed: arguments, a date, a system prompt; refused where it is lost."""

import datetime
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from cory.config.model import TemplateConfig
from cory.models.tokenization import Texts
from cory.rewards.verifier import Verifier
from cory.runtime.worker import build_components
from tests.support.chat_models import chat_tokenizer, save_chat_model
from tests.support.composing import parsed
from tests.support.refusals import refusal

PIRATE = "Talk like a pirate."
HI = {"role": "user", "content": "Hi"}


def texts(family: str, template: str | None = None, **arguments: Any) -> Texts:
    """Those of a family's tokenizer, perhaps with another template."""
    tokenizer = chat_tokenizer(family)
    tokenizer.chat_template = template or tokenizer.chat_template
    settings = TemplateConfig(**{"date": None, "enable_thinking": None, **arguments})
    return Texts(tokenizer, "model.path=x", True, settings)


def test_arguments_reach_the_template() -> None:
    thinking, at_once = texts("qwen3"), texts("qwen3", enable_thinking=False)
    assert thinking.render("Hi") == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert at_once.render("Hi") == f"{thinking.render('Hi')}<think>\n\n</think>\n\n"
    # as what a model says at once is learnt: not once more behind an empty block
    assert at_once.tokenizer.decode(at_once.answer_ids("Yes.")) == "Yes.<|im_end|>"
    mood = texts("qwen3", "{{ mood }}{% generation %}{{ messages[0].content }}{% endgeneration %}",
                 mood="calm")  # fmt: skip
    assert mood.render("Hi") == "calmHi"


@pytest.mark.parametrize(
    ("family", "shown"), [("llama3", "{0:%d %b %Y}"), ("smollm3", "{0:%d %B %Y}")]
)
def test_a_template_shows_the_same_date_every_day(family: str, shown: str) -> None:
    default, asked = datetime.date(2024, 7, 26), datetime.date(2031, 12, 1)
    plain = texts(family)
    assert f"Today Date: {shown.format(default)}\n" in plain.render("Hi")
    told = texts(family, date="01 Dec 2031").render("Hi")
    assert told == plain.render("Hi").replace(shown.format(default), shown.format(asked))


@pytest.mark.parametrize("family", ["llama3", "gemma3", "smollm3"])
def test_a_system_prompt_stands_before_every_chat(family: str) -> None:
    plain = texts(family)
    told = texts(family).with_system(PIRATE, "model.system")
    first = {"role": "system", "content": PIRATE}
    assert told.render("Hi") == plain.render([first, HI])
    assert told.render("Hi", "Ahoy") == plain.render([first, HI], "Ahoy")
    # that of the prompt follows
    own = {"role": "system", "content": "Be brief."}
    assert told.render([own, HI]) == plain.render(
        [{"role": "system", "content": f"{PIRATE}\n\nBe brief."}, HI]
    )
    assert told.own_tokens != plain.own_tokens


DROPS = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
RAISES = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}Hi"


@pytest.mark.parametrize(
    ("family", "words", "said"),
    [
        ("qwen3", "model.template.date='26 Jul 2024'", "model.template.date=26 Jul 2024: |date"),
        ("qwen3", "+model.template.thinking=false",
         "model.template.thinking=false: |model.path={path}|enable_thinking"),
        ("qwen3", "+model.template.date_string=x", "model.template.date_string=x: "),
        ("qwen3", "model.chat=false model.system=Hi", "model.system=Hi: |model.path={path}"),
        ("qwen3", "model.chat=false model.template.enable_thinking=false",
         "model.template.enable_thinking=false: "),
        (DROPS, "model.system=Hi", "model.system=Hi: model.path={path} has no chat"),
        (RAISES, "model.system=Hi", "model.system=Hi: model.path={path} has no chat"),
        ("{{ strftime_now(form) }}", "", "model.path={path}: |date"),
        ("{% if %}", "", "model.path={path}: |cannot be read"),
    ],
)  # fmt: skip
def test_what_a_template_does_not_show_is_refused_before_weights_are_loaded(
    family: str, words: str, said: str, tmp_path: Path
) -> None:
    known = "qwen3" if "{" in family else family
    path = save_chat_model(known, tmp_path / "model")
    if known != family:
        (tmp_path / "model" / "chat_template.jinja").write_text(family)
    (tmp_path / "model" / "model.safetensors").unlink()  # loading it would be another refusal
    config = parsed(f"model.path={path}", "model.chat=true", *shlex.split(words))
    message = refusal(lambda: build_components(config))
    for part in said.format(path=path).split("|"):
        assert part in message, message


def test_a_verifier_reads_questions_as_the_model_does(tmp_path: Path) -> None:
    folder = save_chat_model("llama3", tmp_path)
    (tmp_path / "value_head.safetensors").touch()
    words = ["reward=verifier", f"reward.path={folder}", "model.chat=true"]

    def refused(*more: str) -> str:
        config = parsed("experiment=maporl/gsm8k_maporl", *words, *more).reward
        return refusal(lambda: Verifier(config, task, torch.device("cpu"), None))

    task: Any = None
    said = refused("model.template.enable_thinking=false")
    assert said.startswith("reward.template.enable_thinking=false: reward.path=")
    (tmp_path / "chat_template.jinja").write_text(DROPS)
    assert refused("model.system=Hi").startswith("reward.system=Hi: reward.path=")


@pytest.mark.parametrize(
    ("words", "told"), [([], True), (["model.template.date=1 Dec 2031"], False)]
)
def test_a_date_that_nobody_chose_is_said(words: list[str], told: bool, tmp_path, capsys) -> None:
    path = save_chat_model("llama3", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    refusal(lambda: build_components(parsed(f"model.path={path}", "model.chat=true", *words)))
    assert ("26 Jul 2024 (model.template.date)" in capsys.readouterr().err) == told
