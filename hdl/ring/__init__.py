"""Ring cores."""
