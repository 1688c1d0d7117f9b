"""Devices, boards, and the flow to a bitstream."""
