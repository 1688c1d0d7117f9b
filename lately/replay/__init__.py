"""Replay of streams through hardware, golden model and exact oracle."""
