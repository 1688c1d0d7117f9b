"""Replay streams through the hardware, the golden model and an exact oracle."""
