"""What cannot be is refused in one line that names the key, the value and the rule."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra.core.singleton import Singleton
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file, save_file

from cory import train
from cory.config import ConfigError, parse_config
from cory.pretrained import load_classifier, load_language_model, load_tokenizer
from cory.run_dir import (
    CHECKPOINTS,
    METRICS,
    OVERRIDES,
    RECORD,
    SETTINGS,
    is_complete,
    write_settings,
)
from cory.worker import build_parts
from tests.composing import compose_config, parsed

Typed = Callable[..., tuple[int, str, str]]
MISSPELT = "algorithm.clip_rang is not a setting; did you mean clip_range?\n"


@pytest.fixture
def typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Typed:
    """`python -m cory.train <words>` in this process: exit code, stdout, stderr.

    Workers are not started: each would be named on stdout.
    """
    monkeypatch.setattr(train, "launch", lambda run_dir, *_: print("launch", run_dir) or True)
    state = Singleton.get_state()  # Hydra's own: compose_config must work without it

    def call(*words: str) -> tuple[int, str, str]:
        places = [f"hydra.run.dir={tmp_path}/run", f"hydra.sweep.dir={tmp_path}/sweep"]
        monkeypatch.setattr(sys, "argv", ["cory-train", *words, *places])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "")
        monkeypatch.delenv("HYDRA_FULL_ERROR")
        code = 0
        try:
            train.main()
        except SystemExit as error:
            code = 1 if isinstance(error.code, str) else int(error.code or 0)
            if isinstance(error.code, str):  # the interpreter prints it
                print(error.code, file=sys.stderr)
        finally:
            Singleton.set_state(state)
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture(scope="module")
def composed() -> DictConfig:
    return compose_config()


def assert_refused(answer: tuple[int, str, str], *said: str) -> None:
    code, out, err = answer
    assert code == 1, answer
    assert err.startswith("error: ") and err.count("\n") == 1, err
    for part in said:
        assert part in err, (part, err)
    assert "launch" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # a misspelt key, wherever it stands
        ("algorithm.clip_rang=0.1", MISSPELT),
        ("+algorithm.clip_rang=0.1", MISSPELT),
        ("--config-dir={tmp} experiment=typo", MISSPELT),
        ("hydra.searchpath=[file://{tmp}] experiment=typo", MISSPELT),
        ("--config-dir={tmp} experiment=shallow", "clip_range is not a setting"),
        ("modl=tiny", "modl is not a setting; did you mean model?"),
        ("+wandb.projekt=x", "wandb.projekt is not a setting; did you mean project?"),
        ("algorithm.sampling.topk=3", "sampling.topk is not a setting; did you mean top_k?"),
        ("algorithm=ppo algorithm.swap_every=3", "algorithm.swap_every is not a setting"),
        ("fidelity=official_cory algorithm=ppo", "algorithm.official_swap is not a setting"),
        # an option that a group does not have
        ("algorithm=pppo", "algorithm=pppo is not an option; choose one of cory, ppo\n"),
        ("experiment=cory/imdb_pp", "experiment=cory/imdb_pp is not an option; choose one of cory"),
        ("sweep=fig3", "sweep=fig3 is not an option; choose one of adhoc, cory/fig3"),
        ("-m algorithm=ppo,pppo", "algorithm=pppo is not an option"),
        ("model=null", "must be a string or a list"),
        # what is no setting at all
        ("algorithm.clip_range", "missing EQUAL"),
        ("--config-dir={tmp} experiment=broken", "broken.yaml"),
        # a value
        ("algorithm.clip_range=abc", "algorithm.clip_range: Value 'abc'"),
        ("~algorithm.clip_range", "no value given for algorithm.clip_range"),
        ("reward=exact_match", "reward=exact_match needs a task with answers; task=imdb has none"),
    ],
)  # fmt: skip
def test_what_was_typed_is_refused_in_one_line(
    words: str, said: str, typed: Typed, tmp_path: Path
) -> None:
    files = {
        "typo": "algorithm:\n  clip_rang: 0.1\n",
        "shallow": "clip_range: 0.1\n",
        "broken": "algorithm: [\n",
    }
    (tmp_path / "experiment").mkdir()
    for name, text in files.items():
        file = tmp_path / "experiment" / f"{name}.yaml"
        file.write_text(f"# @package _global_\n{text}")
    assert_refused(typed(*words.format(tmp=tmp_path).split()), said)
    assert not list(tmp_path.rglob(SETTINGS))


def test_a_launcher_is_refused(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    assert_refused(typed(), "cory.train starts its own workers, without torchrun, deepspeed or")


def test_a_sweep_goes_on_after_a_refused_job(typed: Typed) -> None:
    code, out, err = typed("-m", "algorithm.clip_range=5,0.1,abc,0.3")
    assert code == 1
    assert out.count("launch") == 2
    assert [line[:27] for line in err.splitlines()] == ["error: algorithm.clip_range"] * 2, err


def test_a_sweep_starts_every_job_in_a_directory_of_its_own(typed: Typed) -> None:
    code, out, err = typed("sweep=cory/fig3", "scale=small")
    assert (code, err) == (0, "")
    assert len(set(out.splitlines())) == out.count("launch") == 9


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("algorithm.clip_range=abc", "algorithm.clip_range: Value 'abc'"),
        ("algorithm.epochs=1.5", "algorithm.epochs: Value '1.5'"),
        ("algorithm.whiten_advantages=maybe", "algorithm.whiten_advantages: Value 'maybe'"),
        ("algorithm.sampling=3", "algorithm.sampling: "),
        ("model.path=null", "model.path: Incompatible value 'None'"),
        ("seed=1.5", "seed: Value '1.5'"),
        ("algorithm.name=spag", "algorithm.name 'spag' is unknown; choose one of cory, ppo"),
        ("task.name=x", "task.name 'x' is unknown; choose one of gsm8k, imdb"),
        ("reward.name=x", "reward.name 'x' is unknown; choose one of exact_match, sentiment"),
        ("algorithm.clip_range=0", "algorithm.clip_range must lie in (0, 1), got 0"),
        ("algorithm.clip_range=1", "algorithm.clip_range must lie in (0, 1), got 1"),
        ("algorithm.clip_range=nan", "algorithm.clip_range must lie in (0, 1), got nan"),
        ("algorithm.value_clip_range=0", "value_clip_range must be above 0 and finite, got 0"),
        ("algorithm.learning_rate=-1e-5", "learning_rate must be above 0 and finite, got -1e-05"),
        ("algorithm.kl_target=0", "kl_target must be above 0 and finite, got 0"),
        ("algorithm.weight_decay=-0.1", "algorithm.weight_decay must be at least 0, got -0.1"),
        ("algorithm.value_coef=-0.1", "algorithm.value_coef must be at least 0, got -0.1"),
        ("algorithm.kl_coef=-0.1", "algorithm.kl_coef must be at least 0, got -0.1"),
        ("algorithm.gamma=1.1", "algorithm.gamma must lie in [0, 1], got 1.1"),
        ("algorithm.gae_lambda=-0.1", "algorithm.gae_lambda must lie in [0, 1], got -0.1"),
        ("algorithm.iterations=-1", "algorithm.iterations must be at least 0, got -1"),
        ("algorithm.epochs=0", "algorithm.epochs must be at least 1, got 0"),
        ("algorithm.minibatch_size=0", "algorithm.minibatch_size must be at least 1, got 0"),
        ("algorithm.kl_horizon=0", "algorithm.kl_horizon must be at least 1, got 0"),
        ("algorithm.max_grad_norm=0", "max_grad_norm must be above 0 and finite, got 0"),
        ("algorithm.score_clip=-1", "score_clip must be above 0 and finite, got -1"),
        ("algorithm.max_mean_ratio=0", "max_mean_ratio must be above 0 and finite, got 0"),
        ("algorithm.kl_estimator=k4", "algorithm.kl_estimator must be one of full, k1, k2, k3"),
        ("algorithm.kl_controller=on", "algorithm.kl_controller must be one of fixed, adaptive"),
        ("algorithm.score_scaling=std", "algorithm.score_scaling must be one of none, scale, norm"),
        ("algorithm.agents=1", "algorithm.agents must be at least 2, got 1"),
        ("algorithm.swap_every=0", "algorithm.swap_every must be at least 1, got 0"),
        ("algorithm.sampling.temperature=0", "temperature must be above 0 and finite, got 0"),
        ("algorithm.sampling.top_k=-1", "algorithm.sampling.top_k must be at least 0, got -1"),
        ("algorithm.sampling.top_p=1.5", "algorithm.sampling.top_p must lie in (0, 1], got 1.5"),
        ("algorithm.sampling.repetition_penalty=0", "penalty must be above 0 and finite, got 0"),
        ("algorithm.sampling.min_response_tokens=0", "response_tokens must be at least 1, got 0"),
        ("algorithm.sampling.max_response_tokens=3", "max_response_tokens (3) must not be below"),
        ("model.precision=fp8", "model.precision must be one of fp32, bf16, fp16, got fp8"),
        ("model.value_dropout=1", "model.value_dropout must lie in [0, 1), got 1"),
        ("task.source=web", "task.source must be one of package, hub, path, got web"),
        ("task.min_characters=-1", "task.min_characters must be at least 0, got -1"),
        ("task.min_prompt_tokens=0", "task.min_prompt_tokens must be at least 1, got 0"),
        ("task.max_prompt_tokens=1", "task.max_prompt_tokens (1) must not be below task.min_"),
        ("task.observer_template='{answers}'", "task.observer_template must contain {query}"),
        ("task.observer_template='{query}'", "task.observer_template must contain {answers}"),
        ("task.observer_template='{answers}{query}{x}'", "must not contain {x}, got '{answers}{qu"),
        ("task.observer_template='{answers}{query}{'", "template='{answers}{query}{'"),
        ("task.answer_template='{query}'", "task.answer_template must contain {response}"),
        ("reward.output=odds", "reward.output must be one of logit, probability, got odds"),
        ("reward.batch_size=0", "reward.batch_size must be at least 1, got 0"),
        ("hardware.device=tpu", "hardware.device must be one of cpu, cuda, got tpu"),
        ("hardware.zero_stage=4", "hardware.zero_stage must be one of 0, 1, 2"),
        ("hardware.microbatch_size=0", "hardware.microbatch_size must be at least 1, got 0"),
        ("hardware.rollout_batch_size=0", "hardware.rollout_batch_size must be at least 1, got 0"),
        ("wandb.mode=on", "wandb.mode must be one of disabled, offline, online, got"),
        ("wandb.init_timeout=0", "wandb.init_timeout must be at least 1, got 0"),
        ("seed=-1", "seed must be at least 0, got -1"),
        (f"seed={2**64}", f"seed must be below 2**63, got {2**64}"),
        ("evaluate_every=-1", "evaluate_every must be at least 0, got -1"),
        ("evaluation_prompts=0", "evaluation_prompts must be at least 1, got 0"),
        ("samples_every=-1", "samples_every must be at least 0, got -1"),
        ("samples_kept=-1", "samples_kept must be at least 0, got -1"),
    ],
)  # fmt: skip
def test_a_value_outside_its_range_is_refused(
    override: str, said: str, composed: DictConfig
) -> None:
    cfg = OmegaConf.merge(composed, OmegaConf.from_dotlist([override]))
    assert isinstance(cfg, DictConfig)
    with pytest.raises(ConfigError) as refusal:
        parse_config(cfg)
    message = str(refusal.value)
    assert said in message and "\n" not in message


@pytest.mark.parametrize(
    ("prompts", "minibatch", "microbatch", "said"),
    [
        (256, 100, 64, "algorithm.prompts_per_iteration (256) must be a multiple of "
         "algorithm.minibatch_size (100)"),
        (64, 128, 64, "algorithm.prompts_per_iteration (64) must be a multiple of"),
        (96, 96, 64, "algorithm.minibatch_size (96) must be a multiple of "
         "hardware.microbatch_size (64)"),
        (96, 48, 64, None),  # a microbatch is never larger than its minibatch
    ],
)  # fmt: skip
def test_batches_that_leave_a_rest_are_refused(
    prompts: int, minibatch: int, microbatch: int, said: str | None
) -> None:
    cfg = compose_config(
        f"algorithm.prompts_per_iteration={prompts}",
        f"algorithm.minibatch_size={minibatch}",
        f"hardware.microbatch_size={microbatch}",
    )
    if said is None:
        parse_config(cfg)
        return
    with pytest.raises(ConfigError) as refusal:
        parse_config(cfg)
    assert said in str(refusal.value)


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ("model.path={tmp}/nowhere", "model.path={tmp}/nowhere: there is no such folder"),
        ("model.path={tmp}", "model.path={tmp}: the folder has no config.json"),
        ("model.path=asset:huge", "model.path=asset:huge: cory ships no such model; choose one of"),
        ("model.path=asset:../tasks", "model.path=asset:../tasks: cory ships no such model"),
        ("model.path=nobody/nothing", "model.path=nobody/nothing: |set model.path to a folder"),
        ("model.path={judge}", "model.path={judge}: "),
        ("reward.path={tmp}/nowhere", "reward.path={tmp}/nowhere: there is no such folder"),
        ("reward.path=asset:huge", "reward.path=asset:huge: cory ships no such model"),
        ("reward.path=nobody/nothing", "reward.path=nobody/nothing: |set reward.path to a folder"),
        ("reward.path={model}", "the checkpoint has no weights for score.weight"),
        ("reward.label=JOY", "reward.label=JOY is not a class of {judge}; choose one of NEGATIVE"),
        ("task.source=hub task.path=nobody/nothing", "=nobody/nothing: |task.source=package"),
        ("task.path={tmp}/x.csv", "task.path={tmp}/x.csv: there is no such file"),
        ("task.path={tmp}/x.txt", "task.path={tmp}/x.txt must end in one of .jsonl"),
        ("task.text_column=body", "task.text_column=body is not in the data; it has text, label"),
        ("task.path={tmp}/bad.jsonl", "task.path={tmp}/bad.jsonl: cannot be read"),
        ("task.path={tmp}/bad.parquet", "task.path={tmp}/bad.parquet: cannot be"),
        ("task.test_split=test", "slices of the file|train[:90%]|got test"),
        ("task.min_characters=500", "no train review of task.source=path is that long"),
        ("task.max_prompt_tokens=49", "task.max_prompt_tokens (49) and algorithm.sampling."
         "max_response_tokens (16) exceed the context of model=tiny (64 tokens)"),
    ],
)  # fmt: skip
def test_models_and_data_that_cannot_be_used_are_refused(
    overrides: str,
    said: str,
    tiny_model: str,
    tiny_judge: str,
    tmp_path: Path,
) -> None:
    write(tmp_path / "x.txt", "text")
    write(tmp_path / "ok.jsonl", json.dumps({"text": "a fine film", "label": 1}) + "\n")
    write(tmp_path / "bad.jsonl", '{"text": ')
    write(tmp_path / "bad.parquet", "PAR?")
    names = {"tmp": tmp_path, "model": tiny_model, "judge": tiny_judge}
    config = parsed(
        f"model.path={tiny_model}",
        f"reward.path={tiny_judge}",
        "task.source=path",
        f"task.path={tmp_path}/ok.jsonl",
        "task.min_characters=1",
        "task.train_split='train[:100%]'",
        "task.test_split='train[:100%]'",
        *overrides.format(**names).split(),
    )
    with pytest.raises(ConfigError) as refusal:
        build_parts(config)
    message = str(refusal.value)
    assert "\n" not in message
    for part in said.format(**names).split("|"):
        assert part in message, message


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def cut_off(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def not_safetensors(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 3)


def one_layer_missing(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = {key: value for key, value in load_file(file).items() if ".h.1." not in f".{key}"}
    save_file(tensors, file, metadata={"format": "pt"})


def other_width(folder: Path) -> None:
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"n_embd": 64}))


def broken_config(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def unknown_kind(folder: Path) -> None:
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"model_type": "gpt2000"}))


@pytest.mark.parametrize(
    "spoil",
    [no_weights, cut_off, not_safetensors, one_layer_missing, other_width, broken_config,
     unknown_kind],
)  # fmt: skip
def test_a_spoilt_model_folder_is_refused(
    spoil: Callable[[Path], None], tiny_model: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    spoil(folder)
    for load in (load_classifier, lambda *a: load_language_model(*a, keep_dropout=False)):
        with pytest.raises(ConfigError, match=r"^model\.path=") as refusal:
            load(str(folder), "model.path")
        assert "\n" not in str(refusal.value) and str(folder) in str(refusal.value)


@pytest.mark.parametrize("text", [None, "{", "{}"])
def test_a_spoilt_tokenizer_is_refused(text: str | None, tiny_model: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    (folder / "tokenizer.json").unlink()
    if text is not None:
        (folder / "tokenizer.json").write_text(text)
    with pytest.raises(ConfigError, match=r"^model\.path=") as refusal:
        load_tokenizer(str(folder), "model.path")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed=1", "holds a run with seed=0, not 1"),
        ("algorithm.clip_range=0.3", "holds a run with algorithm.clip_range=0.2, not 0.3"),
        ("algorithm=ppo", "holds a run with algorithm."),
        ("scale=small", "holds a run with "),
    ],
)
def test_a_directory_with_another_run_is_refused(override: str, said: str, tmp_path: Path) -> None:
    write_settings(tmp_path, compose_config(), [])
    assert not is_complete(tmp_path, compose_config(override))  # nothing was done there
    (tmp_path / METRICS).write_text("{}")
    with pytest.raises(ConfigError, match=f"^run_dir={tmp_path} {said}"):
        is_complete(tmp_path, compose_config(override))


def test_checkpoints_of_another_layout_and_of_nobody_knows_what_are_refused(
    tmp_path: Path,
) -> None:
    write_settings(tmp_path, compose_config(), [])
    (tmp_path / CHECKPOINTS).mkdir()
    with pytest.raises(ConfigError, match=r"made with hardware.zero_stage=0, not 2; go on with"):
        is_complete(tmp_path, compose_config("hardware.zero_stage=2"))
    (tmp_path / SETTINGS).write_text("model: {name: tiny}\n")
    with pytest.raises(ConfigError, match=r"holds a config.yaml without task.name: torn; delete"):
        is_complete(tmp_path, compose_config())
    (tmp_path / SETTINGS).unlink()
    with pytest.raises(ConfigError, match=r"holds checkpoints but no config.yaml; delete it or"):
        is_complete(tmp_path, compose_config())


def test_the_same_run_may_start_again_and_is_skipped_when_done(
    typed: Typed, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for extra in ("hardware.microbatch_size=32", "wandb.project=x", "seed=0"):
        code, out, err = typed(extra)
        assert (code, err) == (0, "") and out.endswith(f"launch {run}\n")
        assert ("unfinished run" in out) == (extra != "hardware.microbatch_size=32")
        (run / METRICS).write_text("{}")
    assert (run / OVERRIDES).read_text() == "seed=0\n"
    before = (run / SETTINGS).read_text()
    assert_refused(typed("seed=3"), f"run_dir={run} holds a run with seed=0, not 3; delete it or")
    assert (run / SETTINGS).read_text() == before
    (run / RECORD).write_text("{}")
    assert typed() == (0, f"{run} is complete; delete it to run it again\n", "")


@pytest.mark.parametrize(
    ("place", "said"),
    [("{tmp}/file/run", "cannot be written"), ("{tmp}/broken", "config.yaml")],
)
def test_an_unusable_run_dir_is_refused(
    place: str, said: str, typed: Typed, tmp_path: Path
) -> None:
    write(tmp_path / "file", "")
    (tmp_path / "broken").mkdir()
    write(tmp_path / "broken" / SETTINGS, "a: [")
    write(tmp_path / "broken" / METRICS, "{}")
    run_dir = place.format(tmp=tmp_path)
    assert_refused(typed(f"run_dir={run_dir}"), f"run_dir={run_dir} ", said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("algorithm.clip_rang=0.1", MISSPELT),
        ("model.path={tmp}/nowhere", "model.path={tmp}/nowhere: there is no such folder"),
        ("model=gpt2 model.path=nobody/nothing", "set model.path to a folder"),
    ],
)  # fmt: skip
def test_a_refusal_by_the_command_itself(words: str, said: str, tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "cory.train", *words.format(tmp=tmp_path).split(),
         f"hydra.run.dir={tmp_path}/run"],
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert_refused((answer.returncode, answer.stdout, answer.stderr), said.format(tmp=tmp_path))
    assert not (tmp_path / "run" / RECORD).exists()
