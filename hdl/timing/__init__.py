"""Timing Bloom filters: cells store time stamps, which a sweep rewrites before they repeat."""
