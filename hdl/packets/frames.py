"""Frames inside the hardware, eight bytes at a time."""

from amaranth.hdl import Cat
from amaranth.lib import data

BEAT_BYTES = 8
"""Bytes of a beat at most."""


class FrameBeat(data.StructLayout):
    """Beat of a frame.

    Its members: `data`, up to 8 bytes, the first lowest; `size`, the bytes of the beat less one,
    which is 7 but for the last beat; `last`; and `error`, which with `last` says that the frame is
    damaged, and must be neither remembered nor sent on. A frame has a byte at least. Bytes past
    the size may be anything.
    """

    def __init__(self):
        super().__init__({"data": 8 * BEAT_BYTES, "size": range(BEAT_BYTES), "last": 1, "error": 1})


def kept_bytes(size):
    """Return a bit for each byte of a beat: whether it is one of the ``size + 1`` lowest."""
    return Cat(1, *(size >= at for at in range(1, BEAT_BYTES)))
