"""Actions of a frame deduplicator on duplicates."""

from enum import IntEnum

LONGEST_FRAME = 2000  # default maximum of bytes per frame: IEEE 802.3 with all tags
MAX_BYTES = (1 << 17) - 1  # highest maximum: the hardware counts the places of a frame in 17 bits


class Action(IntEnum):
    """Action on a duplicate frame."""

    COUNT = 0  # the frame is counted and forwarded like any other
    MARK = 1  # the frame is forwarded with a mark
    DROP = 2  # the frame is dropped


WIDTHS = (8, 64, 128, 256, 512)  # bits of a transfer of frames in hardware
# rules for a frame above the maximum: it is discarded, or forwarded without a record
OVERSIZE = ("drop", "pass")
# beats and frames of the hardware's store that stay free, as its count of places is delayed
ROOM_LAG = 3


def beat_bytes(width: int) -> int:
    """Return the bytes of a beat inside the hardware, for transfers of `width` bits."""
    return max(width, 64) // 8


def default_store(width: int) -> int:
    """Return the default size of the store in bytes for a `width`: at least 512 beats."""
    return max(8192, 512 * beat_bytes(width))


def longest_stored(store: int, width: int) -> int:
    """Return the bytes of the longest frame of which two fit into a store of `store` bytes."""
    size = beat_bytes(width)
    return min((store // size - ROOM_LAG) // 2 * size, MAX_BYTES)
