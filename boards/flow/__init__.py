"""The flow from a unit to a bitstream: devices, synthesis, placement and routing."""
