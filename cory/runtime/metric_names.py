"""The names of docs/metrics.md that a run logs, but times: for settings that name a metric.

A test compares them with the page. <k>, <role>, <part> and <name> stand for what they do there;
most names are logged with what they are about behind them, such as `/agent_0`.
"""

import re

from cory.config import Config, PPOConfig, nearest, require
from cory.config.options import ALGORITHMS

NAMES = """
objective/score objective/score_std reward/<part> objective/credit objective/kl objective/kl_k1
objective/kl_k3 objective/kl_coef objective/combined objective/entropy objective/sampler_gap
objective/sampler_gap_p99 objective/sampler_gap_max rollout/response_tokens
rollout/context_tokens rollout/eos_share rollout/truncated_share rollout/distinct_1
rollout/distinct_2 rollout/equal_groups ppo/loss/policy ppo/loss/value ppo/loss/kl
ppo/policy/approxkl ppo/policy/clipfrac ppo/policy/ratio ppo/policy/passed_over
ppo/gradient_norm ppo/skipped_steps ppo/learning_rate ppo/value/clipfrac
ppo/value/explained_variance ppo/value/mean ppo/returns/mean role transfer/gain
transfer/copy_rate eval/score eval/reward/<part> eval/pass_at_<k> eval/pass_at_<k>_low
eval/pass_at_<k>_high eval/any_of_<k> eval/any_of_<k>_low eval/any_of_<k>_high eval/greedy
eval/greedy_low eval/greedy_high debate/right debate/bonus debate/penalised debate/shortened
debate/ended_early eval/vote eval/vote_low eval/vote_high eval/right eval/greedy_vote
eval/greedy_vote_low eval/greedy_vote_high eval/greedy_right eval/flow_rr eval/flow_rw
eval/flow_wr eval/flow_ww eval/revision_wr_w eval/revision_wr_r eval/revision_rw_r
eval/revision_rw_w eval/influence_wr_w eval/influence_wr_r eval/influence_rw_r
eval/influence_rw_w verifier/loss verifier/accuracy verifier/gradient_norm
verifier/skipped_steps verifier/learning_rate verifier/examples verifier/idle
verifier/right_share verifier/temperature verifier/questions_kept verifier/requested
verifier/requests_kept supervised/loss supervised/gradient_norm supervised/skipped_steps
supervised/learning_rate supervised/examples supervised/idle supervised/score
supervised/kept_score eval/vote_se eval/single eval/single_se eval/consensus_diversity
eval/dissimilarity eval/dissimilarity_problems eval/kl_diversity eval/kl_base eval/nll_others
eval/endpoint_requests eval/endpoint_tokens debate/pseudo_right debate/labelled debate/consensus
supervised/corrected supervised/kept eval/verifier_accuracy eval/verifier_auc game/games
game/<role>_wins game/ties game/invalid game/turns game/utterance_tokens game/empty_share
game/weight_<role> game/learnt game/too_long game/endpoint_requests game/endpoint_tokens
offline/loss offline/ratio offline/kl offline/push offline/clipfrac offline/nll_game
offline/nll_sft offline/gradient_norm offline/skipped_steps offline/learning_rate
offline/examples eval/win_rate eval/win_rate_se eval/win_rate_<role> eval/win_rate_<role>_se
eval/wins_<role> eval/ties eval/solved eval/invalid eval/game_turns eval/game_turns_se
eval/utterance_tokens eval/utterance_tokens_se eval/empty_share eval/empty_share_se
rollout/response_limit reward/logged/<name> reward/requests reward/tokens reward/unreadable
""".split()  # noqa: SIM905  a line each would fill three pages
IN_A_SUM = "reward/<part>/logged/<name>"  # what the page says of sums above their rows
PLACEHOLDERS = {"<k>": r"\d+", "<role>": "[a-z_]+", "<part>": r"[\w-]+", "<name>": ".+"}


def require_metric(key: str, metric: str) -> None:
    """Refuse what no run logs as a metric; key: the setting that names it."""
    families = dict.fromkeys(name.partition("/")[0] for name in NAMES)
    patterns = [re.escape(name) for name in (*NAMES, IN_A_SUM)]
    for placeholder, meaning in PLACEHOLDERS.items():
        patterns = [pattern.replace(placeholder, meaning) for pattern in patterns]
    if re.fullmatch(rf"({'|'.join(patterns)})(/[\w-]+)?", metric):
        return
    head, _, about = metric.rpartition("/")
    near = nearest(head, NAMES)  # `; did you mean <name>?`
    near = near.replace("?", f"/{about}?") if near else nearest(metric, NAMES)
    require(
        False,
        f"{key}={metric} is no metric of docs/metrics.md (families: {', '.join(families)}){near}",
    )


def require_objective(config: Config) -> None:
    """Refuse an objective that the run cannot log, so that no first run is made in vain.

    An algorithm of a user's own package may have other metrics.
    """
    algorithm, metric = config.algorithm, config.objective
    if metric is None or algorithm.name not in ALGORITHMS:
        return
    require_metric("objective", metric)
    agent = re.fullmatch(r"agent_(\d+)", metric.rpartition("/")[2])
    if agent and isinstance(algorithm, PPOConfig) and not algorithm.holds_debates:
        agents = algorithm.policy_count()
        require(
            int(agent[1]) < agents,
            f"objective={metric}: algorithm={algorithm.name} has "
            f"{'the one agent agent_0' if agents == 1 else f'agent_0 to agent_{agents - 1}'}",
        )
