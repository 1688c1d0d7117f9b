"""Export of units, and the flow from a unit to the bitstream of a board."""
