"""Frames in hardware: their digests, and what is done to duplicates."""
