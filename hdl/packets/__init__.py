"""Frames in hardware: their digests, and the treatment of duplicates."""
