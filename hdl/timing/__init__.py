"""Timing Bloom filters: cells that hold stamps, and a sweep that keeps them from coming round."""
