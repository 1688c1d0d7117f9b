"""Cores of rings."""
