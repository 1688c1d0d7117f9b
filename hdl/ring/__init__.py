"""Cores that are a ring of segments."""
