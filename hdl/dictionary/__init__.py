"""The window dictionary as a pipelined unit, with entries that move or never do."""
