"""The window dictionary as a pipelined unit, with or without moves of entries."""
