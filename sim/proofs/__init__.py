"""Formal proofs of the hardware."""
