"""What axes and headings say of a metric, in pictures of runs."""

# metric without its last part -> words; of the metrics that are looked at most
AXES = {
    "objective/score": "task reward",
    "objective/kl": "KL to the reference (nats)",
    "objective/combined": "combined reward (reward - $\\eta$ KL)",
    "eval/score": "held-out reward",
    "eval/vote": "held-out: majority right",
    "eval/win_rate": "held-out win rate",
}
