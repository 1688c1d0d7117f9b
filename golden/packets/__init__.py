"""Packets: offsets of their layers, and digests that ignore fields that change on the way."""
