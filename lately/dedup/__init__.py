"""Removal of duplicate packets from captures."""
