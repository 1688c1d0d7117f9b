"""Keyed hash functions, the same in golden and hardware."""
