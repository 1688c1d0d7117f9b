"""The serial link between a board and its host."""
