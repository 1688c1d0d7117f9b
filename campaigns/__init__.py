"""Measurements and campaigns: units on devices, golden models, replays and attacks."""
