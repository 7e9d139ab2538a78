"""Who speaks, seeing what: single turns, debates, games, and the prompts around them.

May import: models, tasks, games, endpoint, runs and everything below.
"""
