"""Packets: positions of their layers, and digests without fields that change on the way."""
