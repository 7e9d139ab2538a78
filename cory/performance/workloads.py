"""The workloads that are benchmarked: iterations of each method."""

import sys

PPO = [
    "algorithm.prompts_per_iteration=64",
    "algorithm.minibatch_size=64",
    "algorithm.epochs=4",
    "algorithm.kl_estimator=full",
    "algorithm.sampling.min_response_tokens=16",
    "algorithm.sampling.max_response_tokens=16",
    "task.min_prompt_tokens=6",
    "task.max_prompt_tokens=6",
]
SMALL = ["scale=small", "init_from=null"]
WORKLOADS = {  # name -> settings; all with models of 0.6 to 2.6 M parameters, but for the last one
    # 64 prompts of 6 tokens, 16 new ones, 4 passes, exact KL
    "ppo": ["algorithm=ppo", *PPO],
    # the same for two agents, of which one sees the other's answer
    "cory": ["algorithm=cory", *PPO],
    # MAPoRL: 64 questions, 2 debaters, 3 rounds, of which the last two learn
    "debate": ["experiment=maporl/gsm8k_maporl_exact", *SMALL],
    # SPAG: 100 games of 4 turns against itself, then one pass over the winners' utterances
    "games": ["experiment=spag/llama2_spag_1", *SMALL, "algorithm.opponents.im=null",
              "algorithm.iterations_per_epoch=1"],
    # 100 debates of 3 agents and 2 rounds; then 3 generation and 3 critic agents are fine-tuned
    "maft": ["experiment=maft/phi3_arithmetic_maft", *SMALL,
             "algorithm.prompts_per_iteration=100"],
    # one optimiser step of PPO on 64 x (8 + 16) tokens, random weights of SmolLM2-135M's shape
    "update": ["algorithm=ppo", *PPO, "algorithm.epochs=1", "task.min_prompt_tokens=8",
               "task.max_prompt_tokens=8"],
}  # fmt: skip

PRECISIONS = {  # both are named: what the settings choose by themselves depends on the processor
    "fp32": ["model.compute_precision=fp32"],
    "mixed": ["model.compute_precision=bf16"],
}


def command(settings: list[str]) -> list[str]:
    """The command of a worker that runs these settings."""
    return [sys.executable, "-m", "cory.performance.workload", *settings]
