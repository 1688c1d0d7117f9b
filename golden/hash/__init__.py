"""Keyed hash functions that the golden models and the hardware share."""
