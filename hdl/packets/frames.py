"""Frames inside the hardware, beat by beat."""

from amaranth.hdl import Cat
from amaranth.lib import data

BEAT_BYTES = 8
"""Bytes of a beat at most, unless another width is given."""


class FrameBeat(data.StructLayout):
    """Beat of a frame.

    Its members: `data`, the first byte lowest; `size`, the bytes of the beat less one, which is
    the highest number except in the last beat; `last`; and `error`, which with `last` says that
    the frame is damaged, and must be neither remembered nor sent on. A frame has a byte at least.
    Bytes past the size may be anything.

    Parameters
    ----------
    width : int
        Bits of `data`: 8 times a power of two.
    """

    def __init__(self, width=8 * BEAT_BYTES):
        super().__init__({"data": width, "size": range(width // 8), "last": 1, "error": 1})


def kept_bytes(size):
    """Return a bit for each byte of a beat: whether it is one of the ``size + 1`` lowest."""
    return Cat(1, *(size >= at for at in range(1, 1 << len(size))))
