"""How fast the project runs on a machine, and where the time goes.

May import: everything.
"""
