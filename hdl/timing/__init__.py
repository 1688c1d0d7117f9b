"""Timing Bloom filters: cells with time stamps, and a sweep that prevents wrap-around."""
