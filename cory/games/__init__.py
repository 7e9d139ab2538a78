"""Word games: rules, judges, prompts and scripted players, without any language model.

A new game is a class like `Taboo` of rules.py, a line in its GAMES and in `task.game`
(cory/config/task.py), and its texts in conf/task.
"""
