"""Devices, boards and the way to a bitstream."""
