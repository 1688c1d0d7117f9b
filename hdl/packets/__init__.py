"""Frames in hardware: digests, and removal of duplicates."""
