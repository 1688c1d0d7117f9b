"""Captures without the packets that were seen lately."""
