"""Studies: points that are measured apart, kept, concluded and drawn."""
