"""Packets: offsets of layers, and digests that ignore fields that change on the way."""
