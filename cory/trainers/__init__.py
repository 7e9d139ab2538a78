"""Trainers: PPO, supervised and offline. They never inherit from one another."""
