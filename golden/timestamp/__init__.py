"""Filters of cells that hold timestamps, and inference from their ages."""
