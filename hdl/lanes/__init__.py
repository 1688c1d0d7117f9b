"""Units that accept several keys per cycle."""
