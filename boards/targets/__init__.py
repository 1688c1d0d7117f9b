"""Boards with bitstreams, and the top level around a link."""
