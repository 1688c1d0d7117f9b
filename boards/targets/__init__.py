"""Boards that bitstreams are built for, and the top level around a link."""
