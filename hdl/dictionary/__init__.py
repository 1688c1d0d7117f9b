"""The window dictionary as a pipelined unit, whose entries never move."""
