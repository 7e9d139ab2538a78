"""Trainers: how agents learn from what they said. They never inherit from one another."""
