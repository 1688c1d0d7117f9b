"""Time-decaying cuckoo dictionary."""
