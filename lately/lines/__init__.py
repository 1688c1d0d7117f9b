"""Remove repeated lines from streams."""
