"""Packet captures: reading and writing, keys from packet headers, and simulated taps."""
