"""Fixtures of all tests: real models of a few thousand weights, built once per session."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hydra.core.singleton import Singleton
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from cory import train
from cory.config import Config
from cory.models.engine import start_process_group
from cory.models.loading import load_language_model, load_tokenizer
from cory.runs.signals import STOP_FILE
from tests.support.building import SMALL, asked, small_config
from tests.support.chat_models import byte_level
from tests.support.commands import last_wins
from tests.support.composing import ConfigOf
from tests.support.llama import save_llama
from tests.support.playing import SPAG, game_config
from tests.support.rows import write_rows
from tests.support.supervising import MAFT
from tests.support.warm import WarmCommand

END = "<|endoftext|>"
LONGEST = 64  # tokens
# the observer's prompt has to fit into LONGEST, so its words are tokens
WORDS = "I can make this sentence ‘ ’ more positive: the movie was a good film and it is bad"


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE of about 300 tokens."""
    bpe = byte_level([WORDS] * 2, [END], 320)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=END, model_max_length=LONGEST
    )


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: str) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a random GPT-2 with its tokenizer, for `model.path`."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=LONGEST,
            n_layer=2,
            n_embd=32,
            n_head=2,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    return save(model, tokenizer, str(tmp_path_factory.mktemp("tiny_model")))


@pytest.fixture(scope="session")
def model(tiny_model: str) -> PreTrainedModel:
    """The random GPT-2, only to sample from."""
    return load_language_model(tiny_model, "model.path", keep_dropout=False)


@pytest.fixture(scope="session")
def tokenizer(tiny_model: str) -> PreTrainedTokenizerFast:
    return load_tokenizer(tiny_model, "model.path")


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a random Llama with a chat template; nobody writes into it."""
    return save_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds a GPT-2's config.json alone: two layers, 8 wide."""
    folder = tmp_path_factory.mktemp("described")
    GPT2Config(vocab_size=100, n_positions=64, n_embd=8, n_layer=2, n_head=2).save_pretrained(
        folder
    )
    return folder


@pytest.fixture(scope="session")
def tiny_judge(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a random classifier with its tokenizer, for `reward.path`."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    model = DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=LONGEST,
            n_layers=1,
            dim=32,
            hidden_dim=64,
            n_heads=2,
            initializer_range=0.2,  # scores that differ between texts
            pad_token_id=tokenizer.pad_token_id,
            id2label={0: "NEGATIVE", 1: "POSITIVE"},
            label2id={"NEGATIVE": 0, "POSITIVE": 1},
        )
    )
    return save(model, tokenizer, str(tmp_path_factory.mktemp("tiny_judge")))


@pytest.fixture(scope="session")
def reviews_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty made-up reviews, for `task.source=path`."""
    path = tmp_path_factory.mktemp("reviews") / "reviews.jsonl"
    words = ["the", "movie", "was", "a", "good", "film", "and", "it", "is", "bad"]
    rows = [[words[(i * k + k) % 10] for k in range(1, 13)] + [str(i)] for i in range(60)]
    return write_rows(path, ({"text": " ".join(row)} for row in rows))


def on_reviews(model: str, judge: str, reviews: Path) -> list[str]:
    """Words for these models and sixty reviews, of which 12 are held out."""
    return [
        *(f"model.path={model}", f"reward.path={judge}", "task.source=path"),
        *(f"task.path={reviews}", "task.train_split='train[:80%]'"),
        "task.test_split='train[80%:]'",
    ]


@pytest.fixture(scope="session")
def short(tiny_model: str, tiny_judge: str, reviews_file: Path) -> list[str]:
    """Words for the command with which an iteration takes a fraction of a second."""
    own = [
        *on_reviews(tiny_model, tiny_judge, reviews_file),
        *("task.min_characters=1", "algorithm=ppo", "algorithm.iterations=2"),
        "algorithm.sampling.min_response_tokens=4",
    ]
    return last_wins([*SMALL, *own])


@pytest.fixture
def run(short: list[str], tmp_path: Path) -> Callable[..., WarmCommand]:
    """Runs the command to its end with these words and others."""

    def call(*words: str) -> WarmCommand:
        command = WarmCommand(tmp_path, last_wins([*short, *words]))
        command.wait()
        return command

    return call


@pytest.fixture(autouse=True)
def variables() -> Iterator[None]:
    """Takes away those of a command, whose process would end: the next test must not read them."""
    yield
    for name in (STOP_FILE, "HYDRA_FULL_ERROR"):
        os.environ.pop(name, None)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Puts the handlers of signals back, which a command leaves to its end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def command(monkeypatch, capsys, handlers: None) -> Callable[..., tuple[int, str, str]]:
    """`python -m cory.train <words>` in this process: exit code, stdout, stderr."""
    state = Singleton.get_state()  # Hydra's own: compose_config must work without it

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cory-train", *words])
        code = 0
        try:
            train.main()
        except SystemExit as end:
            code = 1 if isinstance(end.code, str) else int(end.code or 0)
            if isinstance(end.code, str):  # the interpreter prints it
                print(end.code, file=sys.stderr)
        finally:
            Singleton.set_state(state)
        return (code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def process_group() -> None:
    """This process alone in a process group, as engines need it."""
    start_process_group("cpu")
    del os.environ["RANK"]  # the commands that tests start are not under a launcher


@pytest.fixture(scope="session")
def config_of(
    tiny_model: str, tiny_judge: str, reviews_file: Path, process_group: None
) -> ConfigOf:
    """Checked settings of a small run on the tiny random models: `config_of(*overrides)`."""
    base = on_reviews(tiny_model, tiny_judge, reviews_file)
    return lambda *overrides: small_config(base, *overrides)


@pytest.fixture(scope="session")
def questions_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty questions whose answer is 7, for `task=gsm8k task.source=path`."""
    path = tmp_path_factory.mktemp("questions") / "questions.jsonl"
    rows = [{"question": f"{i} and {7 - i}?", "answer": "#### 7"} for i in range(20)]
    return write_rows(path, rows)


@pytest.fixture(scope="session")
def questions(config_of: ConfigOf, tiny_model: str, questions_file: Path) -> ConfigOf:
    """The same for a task with answers, evaluated by four responses: `questions(*overrides)`."""
    base = [f"model.path={tiny_model}", *asked(questions_file)]
    return lambda *overrides: small_config(base, *overrides)


@pytest.fixture
def spag(config_of: ConfigOf, tiny_model: str, tmp_path: Path) -> ConfigOf:
    """Settings of self-play with a random model: `spag(*overrides)`."""
    base = [*SPAG, f"model.path={tiny_model}", f"run_dir={tmp_path}/run"]
    return lambda *overrides: game_config(base, *overrides)


@pytest.fixture
def team(config_of: ConfigOf, tmp_path: Path) -> ConfigOf:
    """Settings of a team whose file has this text: `team(text, *overrides)`."""

    def made(text: str, *overrides: str) -> Config:
        file = tmp_path / f"team_{abs(hash(text))}.py"
        file.write_text(text)
        words = ["algorithm=team", f"algorithm.play={file}:play", "algorithm.agents=[one,two]"]
        return config_of(*words, *overrides)

    return made


@pytest.fixture
def maft(questions: ConfigOf, tmp_path: Path) -> ConfigOf:
    """Settings of Multiagent Finetuning with random models: `maft(*overrides)`."""
    return lambda *overrides: questions(*MAFT, f"run_dir={tmp_path}", *overrides)
