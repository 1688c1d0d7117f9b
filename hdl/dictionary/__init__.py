"""Window dictionaries as pipelined cores."""
