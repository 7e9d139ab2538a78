class ConfigError(ValueError):
    """A setting that cannot be: one line that names the key, the value and the rule."""
