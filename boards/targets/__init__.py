"""Boards for which bitstreams can be built, and their top level."""
