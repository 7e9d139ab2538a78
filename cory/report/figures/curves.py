"""The three panels of training curves that always come together (Ma et al., figs. 3, 4, 6-10)."""

PANELS = {
    "objective/score": "task reward (score)",
    "objective/kl": "KL divergence to the reference (nats)",
    "objective/combined": "combined reward (score - $\\eta$ KL)",
}
