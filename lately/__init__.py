"""Sliding-window membership filters: golden models, hardware, simulation and synthesis."""
