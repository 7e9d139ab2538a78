"""Public reasoning benchmarks, run by lm-evaluation-harness on the agents of a finished run.

`harness` is the only module that imports lm_eval. May import: config, models, runs.
"""
