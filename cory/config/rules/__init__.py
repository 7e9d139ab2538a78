"""Rules about settings that no group can check by itself."""
