"""Actions on duplicate frames, and limits of the frame deduplicator."""

from enum import IntEnum

LONGEST_FRAME = 2000  # default maximum frame length in bytes: IEEE 802.3 with all tags
MAX_BYTES = (1 << 17) - 1  # highest possible maximum: 17-bit byte counters in hardware


class Action(IntEnum):
    COUNT = 0  # count it, and forward it like any other frame
    MARK = 1  # forward it with a mark
    DROP = 2  # drop it


WIDTHS = (8, 64, 128, 256, 512)  # widths of a frame stream in hardware, in bits
# what to do with a frame above the maximum length: discard it, or forward it unrecorded
ON_OVERSIZE = ("drop", "pass")
# free beats and frames that the frame buffer in hardware needs because its fill count is delayed
ROOM_LAG = 3


def beat_bytes(width: int) -> int:
    return max(width, 64) // 8


def default_buffer(width: int) -> int:
    """Return the default size of a frame buffer in bytes: at least 512 beats of the stream."""
    return max(8192, 512 * beat_bytes(width))


def longest_buffered(buffer: int, width: int) -> int:
    """Return the maximum frame length at which two frames fit into a buffer."""
    size = beat_bytes(width)
    return min((buffer // size - ROOM_LAG) // 2 * size, MAX_BYTES)
