"""Amaranth components: the filters as pipelined units."""
