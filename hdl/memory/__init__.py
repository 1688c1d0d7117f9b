"""Memories of segments and words, with variants for device families."""
