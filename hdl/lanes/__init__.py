"""Units that take several keys per cycle."""
