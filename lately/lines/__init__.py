"""Streams of lines without their repeats."""
