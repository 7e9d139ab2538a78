"""Pure maths on tensors and numbers: credit, advantages, losses, votes, statistics.

No models, no files, no processes.
"""
