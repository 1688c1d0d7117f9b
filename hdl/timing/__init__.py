"""Timing Bloom filters: cells with time stamps, and a sweep before stamps repeat."""
