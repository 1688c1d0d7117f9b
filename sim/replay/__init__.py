"""Compiled replay: generated hardware in simulation, driven from arrays."""
