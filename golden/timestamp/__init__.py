"""Filters whose cells hold timestamps, and inference from the ages of cells."""
