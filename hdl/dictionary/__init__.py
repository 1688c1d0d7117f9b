"""Window dictionaries as pipelined units, with or without moves of entries."""
