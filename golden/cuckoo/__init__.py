"""Window dictionary: a variant of the time-decaying cuckoo dictionary."""
