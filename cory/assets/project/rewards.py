"""A reward: the share of a response's words that have as many letters as the row asks for."""

import re


def score(completions, letters, **kwargs):
    """completions: the responses; letters: that column of prompts.jsonl, one for each response"""
    scores = []
    for text, wanted in zip(completions, letters, strict=True):
        words = re.findall("[A-Za-z]+", text)
        scores.append(sum(len(word) == wanted for word in words) / max(len(words), 1))
    return scores
