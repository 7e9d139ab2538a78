"""Every algorithm on prompts of one's own: texts and chat messages, with and without answers."""

from pathlib import Path
from typing import Any

import pytest

from cory.config import Config, parse_config
from cory.episode import Asked, Context, Episode
from cory.evaluation.responses import EvalRequest
from cory.inference import load_team
from cory.models.policy import Policy
from cory.tasks.prompts import PromptsTask
from tests.support.building import LetterShare, built, leave_run
from tests.support.commands import last_wins
from tests.support.composing import ConfigOf, compose_config
from tests.support.rows import write_rows

SYSTEM = {"role": "system", "content": "Be kind."}
NEW_TOKENS = 5
MAFT = ["experiment=maft/maft", "algorithm.summary=false"]
SHORT = ["algorithm.prompts.follow_up='{others} {query}'", "algorithm.turns=2"]
METHODS = {
    "ppo": ["algorithm=ppo", "evaluation.samples=4", "evaluation.k=[1,4]"],
    "cory": ["algorithm=cory", "evaluation.team=true", "evaluation.greedy=true"],
    "maporl": [
        *("algorithm=maporl", "evaluation.team=true", "algorithm.guards.min_tokens=null"),
        *("algorithm.beta=[1.0,1.0]", "algorithm.consensus=1.0", *SHORT),
    ],
    "ppo, only evaluated": ["algorithm=ppo", "algorithm.iterations=0"],
    "maft": [*MAFT, "algorithm.identities=true"],
    "maft_star": [
        *(*MAFT, "algorithm.select=correct", "algorithm.policies=single", "algorithm.agents=1"),
        *("algorithm.turns=1", "algorithm.evaluation_agents=1", "algorithm.evaluation_turns=1"),
    ],
    "debate_sft": [
        *("experiment=maporl/gsm8k_sft", "algorithm.keep_share=0.5", "algorithm.train_turns=null"),
        *SHORT,
    ],
    "verifier": [
        *("experiment=maporl/verifier_gsm8k", "algorithm.answers_per_question=3"),
        *("algorithm.max_tokens=400", "algorithm.keep_per_label=2", "evaluation.k=[1]"),
    ],
}


@pytest.fixture
def own(config_of: ConfigOf, llama: str, tmp_path: Path) -> ConfigOf:
    """ConfigOf of a small run on twelve prompts, four of them held out: texts, or chats."""
    rows = [{"question": f"{n} and {7 - n}?", "gold": 7, "n": n} for n in range(12)]
    chats = [
        {**row, "question": [SYSTEM, {"role": "user", "content": row["question"]}]} for row in rows
    ]
    write_rows(tmp_path / "texts.jsonl", rows)
    write_rows(tmp_path / "chats.jsonl", chats)

    def make(kind: str, *overrides: str) -> Config:
        base = [
            *("task=prompts", f"task.path={tmp_path / kind}.jsonl", "task.prompt_column=question"),
            *("task.train_split='train[4:]'", "task.test_split='train[:4]'"),
            "task.prompt_template='{prompt} So'",
            *("task.observer_template='{query} {answers} So'", "task.max_prompt_tokens=60"),
            *(f"model.path={llama}", f"model.chat={str(kind == 'chats').lower()}"),
            *("model.precision=fp32", "model.quantisation=none", "model.sharing=copies"),
            *("hardware=cpu", "algorithm.prompts_per_iteration=8", "algorithm.minibatch_size=4"),
            f"algorithm.sampling.min_response_tokens={NEW_TOKENS}",
            *(f"algorithm.sampling.max_response_tokens={NEW_TOKENS}", "evaluation.prompts=null"),
            f"run_dir={tmp_path / 'run'}",
        ]
        return parse_config(compose_config(*last_wins([*base, *overrides])))

    return make


ANSWERS = ["task.answer_column=gold", "task.answers=number", "reward=exact_match"]


def run_once(config: Config) -> tuple[list[Episode], list[dict[str, Any]]]:
    """What was said in one iteration and one evaluation."""
    trainer = built(config, reward=LetterShare())
    if config.algorithm.iterations > 0:
        trainer.step(0)
    request = EvalRequest(config.evaluation, config.seed, 1, True)
    metrics = trainer.evaluate(request, lambda *_: None)
    assert metrics or config.algorithm.name == "verifier"
    return list(getattr(trainer, "episodes", [])), list(request.lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kind"),
    [("ppo", "texts"), ("maft", "texts"), *((name, "chats") for name in METHODS)],
)
def test_it_trains_and_is_evaluated(own: ConfigOf, method: str, kind: str) -> None:
    config = own(kind, *ANSWERS, *METHODS[method])
    episodes, lines = run_once(config)
    assert bool(episodes) == (config.algorithm.iterations > 0)
    trained = {episode.prompt.id for episode in episodes}
    assert trained <= {f"{kind}.jsonl:{n}" for n in range(5, 13)}
    assert {line["prompt_id"] for line in lines} == {f"{kind}.jsonl:{n}" for n in range(1, 5)}
    assert {line["answer"] for line in lines} == {"7"}
    # the system message opens every context, whoever speaks, in training and evaluation
    contexts = [turn.context for e in episodes for turn in e.turns if not turn.absent]
    contexts += [
        turn["context"] or line["prompt"]
        for line in lines
        for turn in line["turns"]
        if turn["response"] is not None
    ]
    opening = "<s>[INST] Be kind. [/INST]<s>[INST] " if kind == "chats" else ""
    assert contexts and all(context.startswith(opening) for context in contexts)
    assert all(" and " in context and " So" in context for context in contexts)
    if config.algorithm.holds_debates and kind == "chats" and method != "maft_star":
        assert any(context.count("[INST]") > 2 for context in contexts)


def test_a_verifier_learns_from_whole_chats(own: ConfigOf, monkeypatch) -> None:
    config = own("chats", *ANSWERS, *METHODS["verifier"])
    trainer = built(config)
    asked: list[Context | None] = []
    turns = Policy.turns

    def noted(policy: Policy, questions: list[Asked], *others: Any) -> Any:
        asked.extend(one.context for one in questions)
        return turns(policy, questions, *others)

    monkeypatch.setattr(Policy, "turns", noted)
    # answers of both labels, so that examples are made
    monkeypatch.setattr(PromptsTask, "is_right", lambda self, response, answer: "i" in response)
    collected = trainer.collect(0)
    # three answers to each of eight prompts, and those that are requested
    assert len(asked) > 24
    assert all(isinstance(context, list) and context[0] == SYSTEM for context in asked)
    contexts = [
        trainer.components.bundle.tokenizer.decode(example.context_ids, skip_special_tokens=True)
        for example in collected.examples["verifier"]
    ]
    assert contexts and all(context.startswith("[INST] Be kind.") for context in contexts)


def test_a_finished_runs_agents_are_asked_without_the_data(own: ConfigOf, tmp_path: Path) -> None:
    config = own("texts", *ANSWERS, *MAFT, f"run_dir={tmp_path}")
    leave_run(built(config).agents, config, tmp_path)
    (tmp_path / "texts.jsonl").unlink()
    team = load_team(tmp_path, "cpu")
    said = team.ask("3 and 4?")
    assert {one.agent for one in said} <= {*team.names}
    assert len(said) == config.algorithm.evaluation_agents * config.algorithm.evaluation_turns


def test_a_play_shows_its_agents_messages(own: ConfigOf, tmp_path: Path) -> None:
    """Rendered in the model's template, as they are: a system message, a reply, a question."""
    file = tmp_path / "team.py"
    file.write_text(
        "async def play(prompt, team):\n"
        "    asked = [*prompt.messages]\n"
        "    first = await team.one.say(asked)\n"
        "    asked += [{'role': 'assistant', 'content': first.text}]\n"
        "    asked += [{'role': 'user', 'content': 'Sure?'}]\n"
        "    await team.two.say(asked)\n"
        "    return 1\n"
    )
    words = ["algorithm=team", f"algorithm.play={file}:play", "algorithm.agents=[one,two]"]
    episodes, _ = run_once(own("chats", *words))
    for first, second in (episode.turns for episode in episodes):
        assert first.context.startswith("<s>[INST] Be kind. [/INST]<s>[INST] ")
        heard = f"{first.context}<s>[INST] {first.text} [/INST]<s>[INST] Sure? [/INST]"
        assert second.context == heard
    assert len(episodes) == 8
