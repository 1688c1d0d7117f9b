"""Simulation: test benches, compiled models and trace replay."""
