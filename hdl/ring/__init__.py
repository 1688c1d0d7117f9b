"""Ring filters as pipelined cores."""
