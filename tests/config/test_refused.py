"""Every bound of a setting, and what does not go together: refused in lines of key, value, rule.

A row: what is typed (several are parted by ` ; `), and a part of each line that refuses it.
"""

import copy
import re
from functools import cache

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from cory.config import ConfigError, parse_config
from cory.config.base import OF_TRL, flat, meant, typed
from cory.config.sweep_files import LOADER
from tests.support.commands import last_wins
from tests.support.composing import compose_config, parsed

SUMS = ["task=arithmetic", "reward=exact_match", "algorithm=maporl"]
BASES = {
    "quickstart": [],
    "gpu1": ["hardware=gpu1"],
    "maporl": SUMS,
    "pair": [*SUMS, "+model@members.agent_1.model=tiny_2x", "algorithm.param_sharing=per_agent"],
    "maft": ["experiment=maft/phi3_arithmetic_maft"],
    "team_members": [
        *("algorithm=team", "algorithm.play=a.py:play", "algorithm.agents=[one,two,x]"),
        *("algorithm.fixed={two: start}", "members.one.sampling.top_k=1"),
        *("+endpoint@algorithm.endpoint=openai", "algorithm.endpoint.model=wise"),
    ],
    "member_of_one": ["algorithm=ppo", "members.agent_0.kl_coef=1"],
    "maft_of_texts": [
        *("experiment=maft/maft", "task=prompts", "task.path=x", "task.held_out_share=0.5"),
        *("algorithm.labels=reward", "reward=python", "reward.function=a.py:score"),
    ],
    "endpoint": [
        "experiment=maft/phi3_arithmetic_maft",
        *("algorithm.iterations=0", "algorithm.policies=single"),
        *("+endpoint@algorithm.endpoint=openai", "algorithm.endpoint.model=wise"),
    ],
    "maporl_of_texts": ["algorithm=maporl"],
    "verifier": ["experiment=maporl/verifier_gsm8k"],
    "spag": ["experiment=spag/llama2_spag_1"],
    "other_reward": ["experiment=spag/llama2_spag_1", "reward=sentiment"],
    "other_task": ["reward=game_outcome"],
    "prompts": ["task=prompts", "task.path=x", "task.held_out_share=0.5", "reward=sentiment"],
    "prompts_alone": ["task=prompts", "task.path=x", "task.held_out_share=0.5"],
    "sft": ["algorithm=sft", "task=prompts", "task.path=x", "task.held_out_share=0.5"],
    "sum": ["reward=sum"],
    "team": ["algorithm=team", "algorithm.play=a.py:play", "algorithm.agents=[one,two]"],
    "sum_of_games": ["reward=sum", "+reward@reward.parts.one=game_outcome"],
    "members": ["algorithm=cory", "members.agent_1.learning_rate=1e-5"],
}
# base -> what is typed, and after it the lines that refuse it. Each setting's own bound is in
# docs/settings.md, which is written from the types (tests/scripts/test_programs.py): here each kind
# of bound is broken once
REFUSED = {
    "quickstart": """
model.reference=init_from -> needs init_from, got null
algorithm.clip_range=abc -> Input should be a valid number
algorithm.clip_range=0 -> Input should be greater than 0
evaluation.k=[one] -> evaluation.k.0=one: Input should be a valid integer
hardware.rendezvous=':29500' -> String should match pattern
keep_best_mode=best -> Input should be 'max' or 'min'
keep_best=eval/score/agent_0 -> needs evaluate_every above 0
model.template.date=tomorrow -> must be a date such as 26 Jul 2024
algorithm.name=x -> algorithm.name=x: must be one of cory, debate_sft, grpo, imitation, maft
algorithm.advantages=group -> algorithm.samples_per_prompt=1: must be at least 2 with
algorithm.critic=central ; algorithm.advantages=batch -> needs algorithm.advantages=gae, got batch
algorithm.critic_template='{prompt}' -> must contain {said}
algorithm.minibatch_size=128 -> must divide a policy's 64 turns per iteration
hardware.microbatch_size=64 ; algorithm.prompts_per_iteration=96 ; algorithm.minibatch_size=96
    -> algorithm.minibatch_size=96: must be a multiple of hardware.microbatch_size=64
algorithm.samples_per_prompt=5 -> algorithm.prompts_per_iteration=64: must be a
algorithm.group_baseline=true
    -> algorithm.samples_per_prompt=1: must be at least 2 with algorithm.grou
    -> needs algorithm.advantages=batch, got gae
algorithm.sampling.max_response_tokens=3 -> must not be below min_response_tokens=4
model.compute_precision=fp16 -> does not go with precision=fp32: set both alike, or
task.only_column=label ; task.only=[1] -> task.only=[1]: needs task.source=path or hub, got package
task.max_prompt_tokens=1 -> must not be below task.min_prompt_tokens=2
task.observer_template='{answers}{query}{x}' -> must not contain {x}
task.observer_template='{answers}' -> must contain {query}
evaluation.k=[1,2] -> must not exceed evaluation.samples=1
evaluation.k=[1,2] ; evaluation.samples=2 -> needs a task with answers (task.answer_column)
hardware.processes=128
    -> 128 processes are more than algorithm.prompts_per_iteration=64
    -> algorithm.minibatch_size=64: must be a multiple of the number of proc
hardware.offload_parameters=true ; hardware.zero_stage=2
    -> needs hardware.zero_stage=3, got 2
    -> needs hardware.offload_optimizer=tru
hardware.nodes=2 -> needs hardware.rendezvous=host:port, which all nodes reach
hardware.sampler=vllm
    -> model.sharing=copies: hardware.sampler=vllm needs adapter=lora for several agents
hardware.server.address=localhost:80 -> must be http://host:port of a server, without a path
hardware.server.gpus='0' -> needs hardware.device=cuda, got cpu
hardware.sampler=vllm ; model.sharing=adapters ; model.adapter.rank=513
    -> model.adapter.rank=513: must be at most 512 with hardware.sampler=vllm
algorithm.credit=meen -> must be one of all, mean, later, counterfactual, resampled, or <f
model.compute_precision=tf32
    -> needs a GPU: hardware.device=cpu computes float32 products exactly
    -> reward.compute_precision=fp32: must be tf32, as model.compute_precision: it h
model.dropout=true -> needs an algorithm whose updates compare
algorithm.kl_horizon=12 ; algorithm.kl_controller=adaptive
    -> must be above a fifth of the 64 turns of a policy in
algorithm.collective_reward=false ; algorithm.credit=mean -> needs algorithm.credit=all, got mean
algorithm.kl_loss=full ; algorithm.kl_in=loss ; model.sharing=adapters ; hardware.zero_stage=3
    -> needs hardware.zero_stage of at most 2, or model.sharing=copies: shared weights
algorithm.max_mean_ratio=2 ; hardware.microbatch_size=32
    -> algorithm.max_mean_ratio=2.0: needs whole minibatches
""",
    "gpu1": """
hardware.server.address=http://a:1 ; hardware.server.gpus='0'
    -> hardware.server.gpus=0: is of a server that the run starts
model.precision=fp16 ; model.compute_precision=fp16 -> is for models that do not learn
parallel_runs=2 -> needs hardware.device=cpu and hardware.nodes=1
""",
    "maporl": """
algorithm.prompts.grades=[a]
    -> algorithm.prompts.grade_bounds=[0.3,0.6,0.8]: must be one fewer than grades (1)
algorithm.guards.min_tokens=2000 -> must not exceed sampling.max_response_tokens=
algorithm.train_turns=[] -> must name a turn; null trains all
algorithm.train_turns=[3,2] -> must name turns from 1 to turns=3, each once and in order
algorithm.agents=3 ; algorithm.evaluation_agents=2 ; algorithm.consensus=0.5
    -> algorithm.consensus=0.5: must be above 1/evaluation_agents, which a si
algorithm.verifier_feedback=true
    -> needs model.chat=true, got false
    -> needs reward=verifier, got exact_match
""",
    "pair": """
hardware.server.address=http://a:1 ; hardware.sampler=vllm ; model.sharing=adapters
    -> serves one model, and the run has 2
    -> members.agent_1.model.sharing=copies: hardware.sampler=vllm needs adapter=lora
algorithm.param_sharing=per_turn
    -> members.agent_1={...}: algorithm=maporl has the agents turn_1, turn_2, turn_3
algorithm.param_sharing=shared
    -> members.agent_1={...}: needs several agents that are models here; algorithm=maporl has agent_
members.agent_1.model.chat=true ; evaluation.probes_of_team=[swapped]
    -> evaluation.probes_of_team=[swapped]: cannot swap agents of which some chat
members.agent_1.model.rollout_dropout=true ; hardware.gradient_checkpointing=true
    -> members.agent_1.model.rollout_dropout=true: needs hardware.gradient_checkpointing=false, got
members.agent_1.model.adapter.rank=0 -> Input should be greater than or equal to 1
members.agent_1.model.compute_precision=fp16
    -> members.agent_1.model.compute_precision=fp16: does not go with precision=fp32: set both
algorithm.verifier_feedback=true
    -> needs model.chat=true, got false
    -> needs reward=verifier, got exact_match
    -> needs members.agent_1.model.chat=true, got false
members.agent_0.model.path=asset:tiny_math -> model=tiny: is nobody's: every agent that learns
""",
    "maft": """
algorithm.select=correct
    -> needs algorithm.agents=1, got 3
    -> needs algorithm.turns=1, got 2
model.chat=false -> algorithm.summary=true: needs model.chat=true: others do not
algorithm.start=base ; init_from=runs/x -> init_from=runs/x: would be forgotten:
algorithm.turns=1 -> must be at least 2 with algorithm.policies=specialised, for
members.critic_0.kl_coef=0.5 -> would be ignored: algorithm=maft has no algorithm.kl_coef
members.single.learning_rate=1
    -> members.single={...}: algorithm=maft has the agents generation_0, generation_1, gener
""",
    "maft_of_texts": """
algorithm.diversity.nll_others=true -> algorithm.diversity={...}: needs a task with answers
algorithm.labels=vote -> needs reward=exact_match, got python
""",
    "endpoint": """
algorithm.endpoint.base_url='https://h/v1?key=x' -> algorithm.endpoint.base_url: must be http:// or
algorithm.endpoint.base_url='http://[h/v1' -> algorithm.endpoint.base_url: is no address (Invalid
algorithm.endpoint.base_url=https://h/chat/completions -> algorithm.endpoint.base_url: must end
algorithm.endpoint.base_url='http://h/v1' -> algorithm.endpoint.base_url: would send the key without
algorithm.iterations=1 -> algorithm.endpoint={...}: needs algorithm.iterations=0 and algorithm.pol
algorithm.diversity.nll_others=true -> needs algorithm.endpoint=null, got {...}
keep_best=eval/vote/turn_1 ; evaluate_every=1 -> keep_best=eval/vote/turn_1: needs agents
model.system=Hi -> model.system=Hi: is not for a model behind an endpoint
model.template.enable_thinking=false -> model.template.enable_thinking=false: is not for a model
""",
    "maporl_of_texts": """
algorithm.alpha=[1.0,1.0] -> algorithm.alpha=[1.0,1.0]: needs a task with answers
algorithm.beta=[0.0,1.0] -> algorithm.beta=[0.0,1.0]: needs a task with answers
algorithm.consensus=1.0 -> needs a task with answers
""",
    "verifier": """
evaluation.greedy=true -> algorithm=verifier: needs evaluation.greedy=false, got true
algorithm.temperatures=[1.5,1.3] -> must rise
algorithm.max_tokens=9 -> of question and answer, must be above task.max_prompt_tokens=
""",
    "spag": """
model.reference=init_from ; init_from=x ; algorithm.opponents.start=null
    -> model.reference=init_from: would be ignored: spag reads no
algorithm.opponents.agent_0=start -> algorithm.opponents: must not name agent_0, the
algorithm.opponents.last=x ; hardware.sampler=vllm
    -> model.sharing=copies: hardware.sampler=vllm needs adapter=lora for several agents
algorithm.games=script -> must be self_play, scripted, endpoint, none, or a file, a
algorithm.games=endpoint ; algorithm.endpoint=null -> algorithm.endpoint=null: must be
algorithm.games=none ; algorithm.instructions.per_iteration=0
    -> needs algorithm.instructions.per_iteration above 0 to lear
algorithm.games=a.jsonl ; algorithm.iterations_per_epoch=1 -> is one set of games;
evaluation.team=true -> algorithm=spag: needs evaluation.team=false, got true
evaluation.probes_of_team=[muted]
    -> evaluation.probes_of_team=[muted]: needs algorithm=cory or team or maporl, got spag
reward.broken_rules=lose ; task.game=guess_my_city -> needs opponents: in task=taboo both
task.texts.layout='{history} {instruction} ' -> must not end in white space
task.game=chess -> Input should be 'taboo', 'twenty_questions' or 'guess_my_city'
""",
    "other_reward": """
seed=0 -> reward=sentiment: must be game_outcome for games, as with task=taboo and
""",
    "other_task": """
seed=0
    -> task=imdb: must be taboo,
    -> algorithm=cory: must be imitation or spag
""",
    "prompts": """
task.held_out_share=null -> task.test_split=null: needs task.held_out_share, got null
task.prompt_template='{prompt} in {}' -> must not contain {}; double braces that are meant
task.prompt_template='{story} {prompt}' ; task.observer_template='{prompt} {answers}'
    -> task.observer_template={prompt} {answers}: must have {query}: task.prompt_template has not
task.test_split=test -> task.held_out_share=0.5: needs task.test_split=null, got test
""",
    "sft": """
seed=1 -> algorithm=sft: needs answers to learn (task.answer_column); task=prompts has none
task.answer_column=a ; evaluation.probes=[hi] -> evaluation.probes=[hi]: needs a reward: without one
task.answer_column=prompt -> must not be task.prompt_column: agents would read
task.answer_column=a ; task.answers=unread ; evaluation.k=[2] ; evaluation.samples=2
    -> evaluation.k=[2]: needs a task with answers
task.answer_column=a ; model.reference=init_from ; init_from=x
    -> model.reference=init_from: would be ignored: sft reads no
""",
    "prompts_alone": """
seed=0 -> reward=returned: task=prompts has no reward of its own; choose one: reward=python rewar
""",
    "sum": """
seed=0 -> reward.parts: must not be empty: +reward@reward.parts.<name>=<option> adds one
""",
    "team": """
algorithm.policies=joint -> Input should be 'separate' or 'shared'
    -> algorithm.policies=joint: Input should be a valid dictionary
algorithm.agents=[one,one] -> must not name one twice
algorithm.critic=central ; algorithm.agents=[one] -> reads what several agents say, and there is one
algorithm.agents=[team,one] -> must not name team
algorithm.agents=[observer,one] -> must not name observer
algorithm.agents=[task,one] -> must not name task
algorithm.policies={one: two} ; algorithm.fixed={two: start}
    -> algorithm.policies: must not name two
algorithm.turn_discount=0.9 -> needs algorithm.credit=discounted, got own
algorithm.policies={one: a,two: observer_2} -> algorithm.policies: must not name observer_2
algorithm.fixed={three: start} -> algorithm.fixed: names three, not among algorithm.agents
algorithm.fixed={one: start,two: start} -> algorithm.fixed: names all agents: nobody learns
algorithm.policies={one: a} -> algorithm.policies: must name the agents that learn, each once; look
algorithm.fixed={one: endpoint} -> algorithm.endpoint=null: must be given where one speaks
algorithm.fixed={two: pool} ; model.sharing=adapters ; hardware.zero_stage=3
    -> algorithm.fixed: needs hardware.zero_stage of at most 2
algorithm.fixed={two: pool} ; hardware.sampler=vllm -> algorithm.fixed: a pool needs
algorithm.fixed={two: outputs/run} ; hardware.sampler=vllm
    -> model.sharing=copies: hardware.sampler=vllm needs adapter=lora for several agents
algorithm.credit=all -> must be one of own, sum, mean, later, discounted, counterfactual, resampled
algorithm.credit=resampled ; algorithm.agents=[one] -> shares a reward out between agents, and there
algorithm.play=team.py -> must be <file>.py:<function>
""",
    "sum_of_games": """
seed=0 -> reward.parts.one.name=game_outcome: cannot be a part of a sum
""",
    "members": """
members.agnet_0.kl_coef=1
    -> members.agnet_0={...}: algorithm=cory has the agents agent_0, agent_1; did you mean agent_0?
members.agent_0.model=tiny_2x -> Input should be a valid dictionary or instance of ModelConfig
members.agent_0.learning_rate=0 -> Input should be greater than 0
members.agent_0.sampling.top_p=2 -> members.agent_0.sampling.top_p=2: Input should be less than or
members.agent_0.model.adapter.rank=4
    -> members.agent_0.model.adapter={...}: would be ignored: needs model.sharing=adapters
hardware.sampler=vllm ; model.sharing=adapters ; members.agent_1.model.adapter.rank=513
    -> members.agent_1.model.adapter.rank=513: must be at most 512 with hardware.sampler=vllm
members.agent_0.sampling.min_response_tokens=99
    -> members.agent_0.sampling.max_response_tokens=16: must not be below min_response_tokens=99
""",
    "member_of_one": """
seed=0
    -> members.agent_0={...}: needs several agents that are models here; algorithm=ppo has agent_0 a
""",
    "team_members": """
members.two.learning_rate=1e-5
    -> members.two.learning_rate=1e-05: would be ignored: algorithm.fixed says that it never learns
algorithm.fixed={one: endpoint} -> members.one={...}: would be ignored: algorithm.endpoint says how
""",
}
NAMED = re.compile(r"[\w.]+(=.*?)?: ")  # a rule with its key


def rows_of(text: str) -> list[list[str]]:
    """What is typed, and the lines that refuse it: all that follow ` -> `."""
    rows = re.split(r"\n(?! )", text.strip("\n"))
    return [[part.strip("\n") for part in re.split(r"\n? *-> ", row)] for row in rows]


ROWS = [(base, *row) for base, text in REFUSED.items() for row in rows_of(text)]


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
    (line,) = refusal("members", "members.agent_0.lr=1")
    assert line.endswith("did you mean members.agent_0.learning_rate?")
    words = "algorithm.clip_range=5 ; hardware.microbatch_size=0 ; wandb.mode=x ; seed=abc"
    assert sorted(refusal("quickstart", words)) == [
        "algorithm.clip_range=5: Input should be less than 1",
        "hardware.microbatch_size=0: Input should be greater than or equal to 1",
        "seed=abc: Input should be a valid integer",
        "wandb.mode=x: Input should be 'disabled', 'offline' or 'online'",
    ]


@pytest.mark.parametrize(
    ("key", "ours"),
    [
        ("learning_rat", "algorithm.learning_rate"),
        ("sampling.top_k", "algorithm.sampling.top_k"),
        ("modl", "model"),
        *OF_TRL.items(),
        *((f"algorithm.{name}", ours) for name, ours in OF_TRL.items()),
    ],
)
def test_a_key_of_nobodys_or_of_trl_gets_a_suggestion(key: str, ours: str) -> None:
    """`reward_funcs` is of reward=python, and `beta` is MAPoRL's own."""
    known = [*flat(composed("quickstart")), "reward.function"]
    assert ours == "model" or ours in known
    assert meant(key, known) == f"; did you mean {ours}?"


def test_a_key_is_looked_for_inside_its_group_before_other_groups() -> None:
    known = ["model.system", "members.a.kl_coef", "members.a.model.system"]
    assert meant("members.a.system", known) == "; did you mean members.a.model.system?"


def test_a_microbatch_is_never_larger_than_its_minibatch() -> None:
    sizes = ("algorithm.prompts_per_iteration=96", "algorithm.minibatch_size=48")
    assert parsed(*sizes, "hardware.microbatch_size=64").algorithm.minibatch_size == 48


@pytest.mark.parametrize("mistake", ["key_variable=sk-123", "base_url=https://me:sk-123@host/v1"])
def test_secrets_are_not_printed(mistake: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed("reward=judge", "reward.endpoint.model=x", f"reward.endpoint.{mistake}")
    key = mistake.partition("=")[0]
    assert str(refused.value).startswith(f"reward.endpoint.{key}: must ")
    assert "sk-123" not in str(refused.value)


def test_neither_what_is_refused_nor_something_unlike_it_is_suggested() -> None:
    with pytest.raises(ConfigError) as refused:
        parsed("experiment=spag/llama2_im", "algorithm=grpo")
    rule = "is not a setting of algorithm=grpo"
    names = [f"algorithm.{name} {rule}" for name in ("endpoint", "opponents")]
    assert str(refused.value).splitlines() == names
