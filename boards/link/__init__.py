"""Serial link between a board and its host."""
