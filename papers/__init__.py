"""Reproduces the tables and figures of the papers."""
