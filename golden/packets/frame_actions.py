"""What a deduplicator of frames does with duplicates."""

from enum import IntEnum

LONGEST_FRAME = 2000
"""Bytes of a frame at most, unless others are asked for: those of IEEE 802.3 with all tags."""


class Action(IntEnum):
    """What is done to a frame that was seen lately."""

    COUNT = 0
    """It is counted, and leaves like any other."""
    MARK = 1
    """It leaves with a mark."""
    DROP = 2
    """It does not leave."""
