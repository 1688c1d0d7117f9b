"""Wrappers that give a unit standard ports and a register bus."""
