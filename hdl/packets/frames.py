"""Frames inside the hardware, beat by beat."""

from amaranth.hdl import Cat
from amaranth.lib import data

BEAT_BYTES = 8
"""Default bytes of a beat."""


class FrameBeat(data.StructLayout):
    """Beat of a frame.

    Members: `data`, the first byte lowest; `size`, the number of bytes less one, at its maximum
    except in the last beat; `last`; and `error`. With `last`, `error` means that the frame is
    damaged, and must be neither recorded nor forwarded. A frame has at least one byte. Bytes above
    the size are undefined.

    Parameters
    ----------
    width : int
        Bits of `data`: 8 times a power of two.
    """

    def __init__(self, width=8 * BEAT_BYTES):
        super().__init__({"data": width, "size": range(width // 8), "last": 1, "error": 1})


def kept_bytes(size):
    """Return a bit for each byte of a beat; the bits of the ``size + 1`` lowest bytes are set."""
    return Cat(1, *(size >= at for at in range(1, 1 << len(size))))
