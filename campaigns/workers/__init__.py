"""Calls made by several processes, here or in a cluster."""
