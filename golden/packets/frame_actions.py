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


WIDTHS = (8, 64, 128, 256, 512)
"""Bits of a transfer of frames in hardware."""

OVERSIZE = ("drop", "pass")
"""Rules for a frame above the maximum: it is discarded, or it leaves and is not recorded."""

ROOM_LAG = 3
"""Beats and frames of the hardware's store that stay free, as its count of places is late."""


def beat_bytes(width: int) -> int:
    """Return the bytes of a beat inside the hardware, if transfers have a `width` in bits."""
    return max(width, 64) // 8


def default_store(width: int) -> int:
    """Return the bytes of the store for a `width` unless others are given: 512 beats at least."""
    return max(8192, 512 * beat_bytes(width))


def longest_stored(store: int, width: int) -> int:
    """Return the bytes of the longest frame of which a store of `store` bytes holds two."""
    size = beat_bytes(width)
    return (store // size - ROOM_LAG) // 2 * size
