"""How much memory a run needs, estimated from its settings before anything is loaded.

May import: config, functional, models, rewards.
"""
