"""Filters that are a ring of segments: age-partitioned, guarded-epoch, time-limited."""
