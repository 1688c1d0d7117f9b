"""Measurements of speed and area: units on devices, golden models, replays."""
