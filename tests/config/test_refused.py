"""Every bound of a setting, and what does not go together: refused in lines of key, value, rule.

A row: what is typed (several are parted by ` ; `), and a part of each line that refuses it.
"""

from __future__ import annotations

import copy
import re
from functools import cache

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from cory.config import ConfigError, parse_config
from cory.config.errors import OF_TRL, flat, meant, typed
from cory.config.names import LOADER
from tests.support.commands import last_wins
from tests.support.composing import compose_config, parsed

SUMS = ["experiment=quickstart", "task=arithmetic", "reward=exact_match", "algorithm=maporl"]
PAIR = [*SUMS, "+model@partner=tiny_2x", "algorithm.param_sharing=per_agent"]
BASES = {
    "quickstart": [],
    "gpu1": ["hardware=gpu1"],
    "maporl": SUMS,
    "pair": PAIR,
    "split_pair": [*PAIR, "hardware=gpu4_zero2"],
    "maft": ["experiment=maft/phi3_arithmetic_maft"],
    "endpoint": [
        "experiment=maft/phi3_arithmetic_maft",
        *("algorithm.iterations=0", "algorithm.policies=single"),
        *("+endpoint@algorithm.endpoint=openai", "algorithm.endpoint.model=wise"),
    ],
    "maporl_of_texts": ["algorithm=maporl"],
    "verifier": ["experiment=maporl/verifier_gsm8k"],
    "spag": ["experiment=spag/llama2_spag_1"],
    "both_win": ["experiment=spag/llama2_spag_1", "task=twenty_questions"],
    "other_reward": ["experiment=spag/llama2_spag_1", "reward=sentiment"],
    "other_algorithm": ["task=taboo", "reward=game_outcome"],
    "other_task": ["reward=game_outcome"],
    "prompts": ["task=prompts", "task.path=x", "task.held_out_share=0.5"],
    "math": ["experiment=maft/phi3_math_maft"],
    "tinygsm": ["experiment=maporl/gsm8k_maporl"],
    "partner_of_cory": ["+model@partner=tiny_2x"],
    "ppo": ["algorithm=ppo"],
    "scored_maft": ["experiment=maft/phi3_arithmetic_maft", "reward=sentiment"],
    "scored_verifier": ["experiment=maporl/verifier_gsm8k", "reward=sentiment"],
}
# base -> rule -> what breaks it. Each setting's own bound is in docs/settings.md, which is written
# from the types (tests/scripts/test_settings.py): here each kind of bound is broken once or twice
BOUNDS = {
    "quickstart": {
        "must be a valid number": "algorithm.clip_range=abc",
        "must be a valid integer": "algorithm.epochs=1.5 seed=1.5",
        "must be a valid boolean": "algorithm.whiten_advantages=maybe evaluation.greedy=often",
        "must be greater than 0": "algorithm.clip_range=0 algorithm.clip_range_high=0",
        "must be less than 1": "algorithm.clip_range=1 model.value_dropout=1",
        "must be at least 0": "algorithm.kl_coef=-0.1 evaluate_every=-1",
        "must be at most 1": "algorithm.gamma=1.1 algorithm.sampling.top_p=1.5",
        "must be at least 1": "algorithm.epochs=0 evaluation.prompts=0",
        "must have at least 1 item": "evaluation.k=[] model.adapter.targets=[]",
        "must be at most 1000000": "algorithm.iterations=1000001 algorithm.epochs=1000001",
        "must match pattern": "trackio=a#b hardware.rendezvous='here' hardware.rendezvous=':29500'",
    },
    "maporl": {
        "must name turns from 1 to turns=3, each once and in order": (
            "algorithm.train_turns=[4] algorithm.train_turns=[3,2] algorithm.train_turns=[0,1]"
        ),
    },
    "maft": {
        "must contain {others}": "algorithm.prompts.follow_up=x algorithm.prompts.summarise=x",
        "must contain {number}": "algorithm.prompts.generation_id=x algorithm.prompts.critic_id=x",
    },
    "spag": {
        "must contain {instruction}": (
            "algorithm.instructions.template=x algorithm.instructions.input_template='{input}'"
        ),
        "must have at least 2 items": "task.collected_turns=[8] task.scripted.answers=[maybe]",
    },
}
# base -> what is typed, and after it the lines that refuse it
REFUSED = {
    "quickstart": """
algorithm.sampling=3 -> must be a valid dictionary or
algorithm.name=x -> must be one of cory, grpo, imitation, maft, maporl, ppo, rloo, sft,
task.name=x -> must be one of anli, arithmetic, gsm8k, guess_my_city, imdb, math, mml
reward.name=x -> must be one of classifier, exact_match, game_outcome, judge, python, r
algorithm.learning_rate=-1e-5 -> algorithm.learning_rate=-1e-05: must be greater than 0
algorithm.advantages=group -> algorithm.samples_per_prompt=1: must be at least 2 with
algorithm.advantages=leave_one_out -> algorithm.samples_per_prompt=1: must be at least
algorithm.minibatch_size=128 -> must divide a policy's 64 turns per iteration
hardware.microbatch_size=64 ; algorithm.prompts_per_iteration=96 ; algorithm.minibatch_size=96
    -> algorithm.minibatch_size=96: must be a multiple of hardware.microbatch_size=64
algorithm.samples_per_prompt=5 -> algorithm.prompts_per_iteration=64: must be a
algorithm.group_baseline=true
    -> needs algorithm.advantages=batch, got gae
    -> algorithm.samples_per_prompt=1: must be at least 2 with algorithm.grou
algorithm.ratio=response -> needs algorithm.loss_average=responses, got tokens
algorithm.sampling.max_response_tokens=3 -> must not be below min_response_tokens=4
model.precision=fp8
    -> must be fp32, bf16 or fp16
    -> model.compute_precision=fp8: must be fp32, tf32, bf16 or fp16
model.compute_precision=fp16 -> does not go with precision=fp32: set both alike, or
task.max_prompt_tokens=1 -> must not be below task.min_prompt_tokens=2
task.observer_template='{answers}{query}{x}' -> must not contain {x}
task.observer_template='{query:{w}} {answers}' -> must not contain {w}
evaluation.k=[1,2] -> must not exceed evaluation.samples=1
evaluation.k=[1,1] -> must not name anything twice
evaluation.probes=[a,' '] -> number 2 must not be empty
evaluation.probes=[a,b,a] -> must not name anything twice
model.quantisation=nf4 -> needs model.sharing=adapters, got copies
hardware.processes=128
    -> 128 processes are more than algorithm.prompts_per_iteration=64
    -> algorithm.minibatch_size=64: must be a multiple of the number of proc
hardware.processes=3 -> algorithm.minibatch_size=64: must be a multiple of the number
hardware.processes=2 ; hardware.microbatch_size=5
    -> algorithm.minibatch_size=64: must be a multiple of hardware.microbatch_size=5 times
hardware.offload_optimizer=true -> needs hardware.zero_stage=1, 2 or 3, got 0
hardware.offload_parameters=true ; hardware.zero_stage=2
    -> needs hardware.zero_stage=3, got 2
    -> needs hardware.offload_optimizer=tru
hardware.offload_parameters=true ; hardware.zero_stage=3 -> needs hardware.offload_optimizer=tru
hardware.nodes=2 -> needs hardware.rendezvous=host:port, which all nodes reach
model.precision=fp16
    -> needs hardware.device=cuda, got cpu
    -> needs hardware.zero_stage=1, 2 or 3, got 0
parallel_runs=2 ; hardware.nodes=2 ; hardware.rendezvous=a:1
    -> needs hardware.device=cpu and hardware.nodes=1
algorithm.final_share=0.1 -> needs algorithm.schedule=linear or cosine, got constant
algorithm.optimizer=adamw_8bit -> needs hardware.device=cuda, got cpu
parallel_runs=2 ; objective=x -> must be 1 with objective
algorithm.loss_average_turns=5 -> algorithm.minibatch_size=64: must be a multiple of
algorithm.credit=mean ; algorithm.collective_reward=false
    -> needs algorithm.collective_reward=true, got false
algorithm.kl_loss=full -> needs algorithm.kl_in=loss, got reward
algorithm.kl_in=loss ; algorithm.kl_loss=k1 -> algorithm.kl_loss=k1: must be k3 or full
algorithm.loss_average_turns=2 ; algorithm.loss_average=constant
    -> needs algorithm.loss_average=tokens, got constant
algorithm.advantages=batch ; algorithm.value_learning_rate=0.1
    -> algorithm.value_learning_rate=0.1: needs algorithm.advantages=gae
evaluation.k=[1,2] ; evaluation.samples=2 -> needs a task with
model.compute_precision=tf32
    -> needs a GPU: hardware.device=cpu computes float32 products exactly
    -> reward.compute_precision=fp32: must be tf32, as model.compute_precision: it h
model.precision=bf16 ; model.compute_precision=fp32
    -> model.compute_precision=fp32: does not go with precision=bf16
model.precision=bf16 ; model.compute_precision=tf32
    -> model.compute_precision=tf32: does not go with precision=bf16
model.dropout=true -> needs an algorithm whose updates compare
model.special_tokens_in_text=true ; model.chat=true -> needs model.chat=false, got true
partner=null ; fidelity=official_spag
    -> fidelity=official_spag: needs algorithm=imitation or spag, got cory
algorithm.max_mean_ratio=2 ; hardware.microbatch_size=32
    -> algorithm.max_mean_ratio=2.0: needs whole minibatches
algorithm.kl_estimator=k4 -> must be full, k1, k2 or k3
algorithm.kl_controller=adaptive ; algorithm.kl_horizon=12
    -> algorithm.kl_horizon=12: must be above a fifth of the 64 turns
algorithm.agents=1 -> must be at least 2
task.observer_template='{answers}' -> must contain {query}
task.observer_template='{query}' -> must contain {answers}
task.answer_template='{query}' -> must contain {response}
hardware.zero_stage=4 -> must be 0, 1, 2 or 3
seed=18446744073709551616 -> must be less than 9223372036854775808
keep_best_mode=best -> must be
evaluation.k=[one] -> number 1 must be a valid integer
run_dir='' -> must not be empty
""",
    "gpu1": """
model.precision=fp16 -> needs hardware.zero_stage=1, 2 or 3, got 0
parallel_runs=2 -> needs hardware.device=cpu and hardware.nodes=1
""",
    "maporl": """
algorithm.train_turns=[] -> must name a turn; null trains all
algorithm.agents=3 ; algorithm.evaluation_agents=2 ; algorithm.consensus=0.5
    -> algorithm.consensus=0.5: must be above 1/evaluation_agents, which a si
algorithm.guards.min_tokens=301
    -> exceeds algorithm.sampling.max_response_tokens=300: all would be penalised
algorithm.param_sharing=shared ; algorithm.alternation={first: 2, every: 3}
    -> algorithm.alternation: needs algorithm.param_sharing=per_turn or per_turn_agent, got
algorithm.verifier_feedback=true ; model.chat=true -> needs reward=verifier, got
algorithm.verifier_feedback=true
    -> needs model.chat=true, got false
    -> needs reward=verifier, got exact_match
algorithm.minibatch_size=48 -> must divide a policy's 128 turns
algorithm.kl_controller=adaptive ; algorithm.kl_horizon=25
    -> algorithm.kl_horizon=25: must be above a fifth of the 128 turns
algorithm.consensus=0.5 -> must be above 1/agents, which a single answer of 2 is
algorithm.train_turns=2 -> must be a valid list
algorithm.prompts.grade_bounds=[0.5] -> must be one fewer than grades (4)
algorithm.prompts.other='{number}' -> must contain {response}
""",
    "pair": """
algorithm.param_sharing=per_turn
    -> partner=tiny_2x: needs algorithm.param_sharing=per_agent or per_turn_agent, got per_
partner.quantisation=nf4 -> needs partner.sharing=adapters, got
model.value_init=foo ; partner.value_init=foo
    -> must be uniform or zero
    -> partner.value_init=foo: must be uniform or zero
partner.rollout_dropout=true ; hardware.gradient_checkpointing=true
    -> needs hardware.gradient_checkpointing=fa
algorithm.verifier_feedback=true ; model.chat=true
    -> needs partner.chat=true, got false
    -> needs reward=verifier, got exact_match
algorithm.agents=1 -> must be at least 2 with a partner
""",
    "split_pair": """
algorithm.kl_loss=full ; algorithm.kl_in=loss ; hardware.zero_stage=3 ; partner.sharing=adapters
    -> needs hardware.zero_stage of at most 2, or par
""",
    "maft": """
algorithm.select=correct
    -> needs algorithm.agents=1, got 3
    -> needs algorithm.turns=1, got 2
algorithm.prompts.follow_up_alone='{x}' -> must not contain {x}
evaluation.team=false -> algorithm=maft: needs evaluation.team=true, got false
evaluation.samples=2 -> algorithm=maft: needs evaluation.samples=1, got 2
evaluation.greedy=true -> algorithm=maft: needs evaluation.greedy=false, got true
evaluation.probes=[a] -> algorithm=maft: needs evaluation.probes=[], got [a]
algorithm.sampling.min_response_tokens=1 -> must equal max_response_tokens=2048 with
model.chat=false -> algorithm.summary=true: needs model.chat=true: others do not follow
algorithm.diversity.kl_to_base=true -> needs algorithm.diversity.scorer, got null
algorithm.prompts.chats_only=true ; model.chat=false ; algorithm.summary=false
    -> needs model.chat=true: others see none of these
algorithm.start=base ; init_from=runs/x -> init_from=runs/x: would be forgotten:
algorithm.labels=answer ; algorithm.select=correct ; \
algorithm.agents=1 ; algorithm.turns=1 ; algorithm.policies=single
    -> algorithm.select=correct: needs algorithm.labels=vote, got answer
algorithm.turns=1 -> must be at least 2 with algorithm.policies=specialised, for
algorithm.prompts.follow_up_summary=x -> must contain {summary}
evaluation.split=train -> algorithm=maft: needs evaluation.split=test, got train
""",
    "endpoint": """
algorithm.endpoint.key_variable=sk-x -> algorithm.endpoint.key_variable: must name an environment
algorithm.endpoint.base_url=api.openai.com/v1 -> algorithm.endpoint.base_url: must be http:// or
algorithm.endpoint.base_url='https://host:x/v1' -> algorithm.endpoint.base_url: must be http:// or
algorithm.endpoint.base_url='https://h/v1?key=x' -> algorithm.endpoint.base_url: must be http:// or
algorithm.endpoint.base_url='https://h/v1/chat/completions' -> algorithm.endpoint.base_url: must end
algorithm.endpoint.model=' ' -> must not be empty
algorithm.iterations=1 -> algorithm.endpoint: needs algorithm.iterations=0, got 1
algorithm.policies=generation -> algorithm.endpoint: needs algorithm.policies=single,
algorithm.diversity.nll_others=true -> needs algorithm.endpoint=null, got {...}
algorithm.diversity.kl_to_base=true ; algorithm.diversity.scorer=asset:tiny
    -> needs algorithm.endpoint=null, got {...}
""",
    "maporl_of_texts": """
algorithm.alpha=[1.0,1.0] -> algorithm.bonus_from=ground_truth: needs a task with
algorithm.consensus=1.0 -> needs a task with answers
""",
    "verifier": """
algorithm.requests=true ; model.chat=false -> needs model.chat=true, got false
algorithm.requests=true ; algorithm.balance=false -> needs algorithm.balance=true, got
evaluation.greedy=true -> algorithm=verifier: needs evaluation.greedy=false, got true
evaluation.probes=[a] -> algorithm=verifier: needs evaluation.probes=[], got [a]
evaluation.k=[1,2] ; evaluation.samples=2 -> algorithm=verifier: needs evaluation.k=[1], got [1,2]
algorithm.max_tokens=24 -> of question and answer, must be above
algorithm.temperatures=[1.5,1.3] -> must rise
""",
    "spag": """
algorithm.opponents.agent_0=start -> algorithm.opponents: must not name agent_0, the
algorithm.opponents.itself=null ; algorithm.opponents.scripted=null ; \
algorithm.opponents.endpoint=null ; algorithm.opponents.im=null
    -> algorithm.opponents: must name somebody: all of them are null
algorithm.games=script -> must be self_play, scripted, endpoint, none, or a file, a
algorithm.games=endpoint ; algorithm.endpoint=null -> algorithm.endpoint=null: must be
algorithm.games=none ; algorithm.instructions.per_iteration=0
    -> needs algorithm.instructions.per_iteration above 0 to lear
algorithm.games=a.jsonl ; algorithm.iterations_per_epoch=1 -> is one set of games;
algorithm.kl_in_advantage=true ; algorithm.kl_estimator=k3
    -> needs algorithm.kl_estimator=weighted, got k3
algorithm.iterations=3 ; algorithm.iterations_per_epoch=2 -> must be a multiple of
algorithm.collect_only=true ; algorithm.iterations_per_epoch=1
    -> needs algorithm.iterations=1, got 50
algorithm.collect_only=true ; algorithm.games=none ; \
algorithm.iterations=1 ; algorithm.iterations_per_epoch=null
    -> needs algorithm.games=self_play, scripted or endpoint,
algorithm.instructions.source=hub ; algorithm.instructions.path=null
    -> needs algorithm.instructions.path, got null
algorithm.sampling.min_response_tokens=3 -> must equal max_response_tokens=256 with
algorithm.test_greedy=true ; evaluation.samples=2 -> needs evaluation.samples=1, got 2
evaluation.greedy=true -> algorithm=spag: needs evaluation.greedy=false, got true
evaluation.team=true
    -> algorithm=spag: needs evaluation.team=false, got true
    -> needs several agents; algorithm=spag has one
task.game=chess ; reward.broken_rules=lose -> must be one of
task.source=path ; task.path=null -> needs task.path, got null
task.source=list -> needs task.words, got null
task.test_words=null ; task.test_path=null -> needs task.test_path, got null
task.texts.layout='{history}{instruction} ' -> must not end in white space: a response
task.texts.opening=' ' -> must not be empty
task.collected_turns=[8,3] -> must rise
""",
    "both_win": """
reward.broken_rules=lose -> needs opponents: in task.game=twenty_questions both win or
""",
    "other_reward": """
seed=0 -> reward=sentiment: must be game_outcome for games, as with task=taboo and
""",
    "other_algorithm": """
seed=0 -> algorithm=cory: must be imitation or spag for games, as with task=taboo and
""",
    "other_task": """
seed=0
    -> task=imdb: must be taboo,
    -> algorithm=cory: must be imitation or spag
""",
    "prompts": """
task.held_out_share=null -> task.test_split=null: needs task.held_out_share, got null
task.test_split=test -> task.held_out_share=0.5: needs task.test_split=null, got test
""",
    "tinygsm": """
task.source=generated ; task.kinds=[sum] ; task.train_problems=9 ; task.test_problems=9
    -> task.programs: needs task.source=path or hub, got generated
""",
    "partner_of_cory": """
seed=0 -> partner=tiny_2x: needs algorithm=maporl
""",
    "ppo": """
evaluation.team=true -> needs several agents; algorithm=ppo has one
""",
    "scored_maft": """
seed=0 -> algorithm=maft: needs reward=exact_match, got sentiment
""",
    "scored_verifier": """
seed=0 -> algorithm=verifier: needs reward=exact_match, got sentiment
""",
}
NAMED = re.compile(r"[\w.]+(=.*?)?: ")  # a rule with its key


def rows_of(text: str) -> list[list[str]]:
    """What is typed, and the lines that refuse it: all that follow ` -> `."""
    rows = re.split(r"\n(?! )", text.strip("\n"))
    return [[part.strip("\n") for part in re.split(r"\n? *-> ", row)] for row in rows]


ROWS = [
    *((base, *row) for base, text in REFUSED.items() for row in rows_of(text)),
    ("quickstart", f"wandb.tags=[a,{'t' * 65}]", "number 2 must match pattern"),
    ("quickstart", f"wandb.group={'g' * 129}", "must match pattern"),
    *(
        (base, words, rule)
        for base, rules in BOUNDS.items()
        for rule, several in rules.items()
        for words in several.split()
    ),
]


@cache
def composed(base: str) -> DictConfig:
    return compose_config(*last_wins(BASES[base]))


def refusal(base: str, words: str) -> list[str]:
    """The lines with which settings are refused."""
    cfg = copy.deepcopy(composed(base))
    OmegaConf.set_struct(cfg, False)
    cfg.merge_with_dotlist(words.split(" ; "))
    with pytest.raises(ConfigError) as refused:
        parse_config(cfg)
    return str(refused.value).splitlines()


@pytest.mark.parametrize(("base", "words", "rules"), [(row[0], row[1], row[2:]) for row in ROWS])
def test_what_is_refused(base: str, words: str, rules: tuple[str, ...]) -> None:
    """A rule without a key is about the word that was typed, and follows its value."""
    lines = refusal(base, words)
    assert len(lines) == len(rules), lines
    key, _, value = words.split(" ; ")[0].partition("=")
    word = f"{key}={typed(yaml.load(value, LOADER))}"
    for line, rule in zip(lines, rules, strict=True):
        assert line.startswith(rule if NAMED.match(rule) else f"{word}: {rule}"), lines


def test_all_mistakes_are_told_together() -> None:
    words = "algorithm.clip_range=5 ; hardware.microbatch_size=0 ; wandb.mode=x ; seed=abc"
    assert sorted(refusal("quickstart", words)) == [
        "algorithm.clip_range=5: must be less than 1",
        "hardware.microbatch_size=0: must be at least 1",
        "seed=abc: must be a valid integer",
        "wandb.mode=x: must be disabled, offline or online",
    ]


@pytest.mark.parametrize("name", OF_TRL)
def test_names_of_trl_get_ours(name: str) -> None:
    """`reward_funcs` is of reward=python, and `beta` is MAPoRL's own."""
    known = [*flat(composed("quickstart")), "reward.function"]
    assert OF_TRL[name] in known
    assert meant(name, known) == f"; did you mean {OF_TRL[name]}?"
    assert meant(f"algorithm.{name}", known) == f"; did you mean {OF_TRL[name]}?"


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("algorithm.clip_rang", "algorithm.clip_range"),
        ("learning_rate", "algorithm.learning_rate"),
        ("learning_rat", "algorithm.learning_rate"),
        ("sampling.top_k", "algorithm.sampling.top_k"),
        ("algorithm.sampling.topk", "algorithm.sampling.top_k"),
        ("modl", "model"),
    ],
)
def test_a_misspelt_key_gets_a_suggestion(key: str, ours: str) -> None:
    assert meant(key, flat(composed("quickstart"))) == f"; did you mean {ours}?"
    if key.startswith("algorithm."):
        (line,) = refusal("quickstart", f"{key}=1")
        assert line == f"{key} is not a setting; did you mean {ours}?"


def test_a_setting_without_a_value() -> None:
    cfg = copy.deepcopy(composed("quickstart"))
    cfg.algorithm.clip_range = "???"
    with pytest.raises(ConfigError, match=r"^algorithm\.clip_range: no value given$"):
        parse_config(cfg)


def test_a_microbatch_is_never_larger_than_its_minibatch() -> None:
    sizes = ("algorithm.prompts_per_iteration=96", "algorithm.minibatch_size=48")
    assert parsed(*sizes, "hardware.microbatch_size=64").algorithm.minibatch_size == 48


def test_a_kl_controller_that_can_take_no_more_than_all_of_the_coefficient_is_taken() -> None:
    """A step takes 0.2 * turns / horizon of it away at most: all of it at a fifth."""
    adaptive, fixed = "algorithm.kl_controller=adaptive", "algorithm.kl_controller=fixed"
    assert parsed(adaptive, "algorithm.kl_horizon=13").algorithm.kl_horizon == 13
    assert parsed(fixed, "algorithm.kl_horizon=12").algorithm.kl_horizon == 12


@pytest.mark.parametrize("mistake", ["key_variable=sk-123", "base_url=https://me:sk-123@host/v1"])
def test_secrets_are_not_printed(mistake: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed("reward=judge", "reward.endpoint.model=x", f"reward.endpoint.{mistake}")
    key = mistake.partition("=")[0]
    assert str(refused.value).startswith(f"reward.endpoint.{key}: must ")
    assert "sk-123" not in str(refused.value)
