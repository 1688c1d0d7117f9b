"""Proofs of the hardware."""
