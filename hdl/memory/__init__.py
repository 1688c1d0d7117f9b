"""Memories of segments and words, one variant per device family."""
