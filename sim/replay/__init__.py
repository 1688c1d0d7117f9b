"""Compiled replay: generated hardware driven from arrays."""
