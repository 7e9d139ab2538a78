"""A model behind an OpenAI-compatible endpoint: requests, retries, a cache of replies on disk.

`client` is the only module that imports openai. May import: config, distributed, runs.
"""
