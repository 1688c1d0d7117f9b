"""Filters that are rings of segments: age-partitioned, guarded-epoch and time-limited."""
