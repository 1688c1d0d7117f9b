"""Packets: where their layers are, and digests without what changes on the way."""
