"""Credits for operations under way."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import registered


class Credits(wiring.Component):
    """Counts the operations under way, and tells whether there are credits for more.

    Parameters
    ----------
    limit : int
        Number under way up to which there are credits.

    Members
    -------
    spend, refund : In(1)
        One more is under way; one less.
    available : Out(1)
        Whether at most `limit` were under way three cycles ago.

    Raises
    ------
    ValueError
        If the limit is not a positive integer.
    """

    def __init__(self, *, limit):
        if type(limit) is not int or limit < 1:
            raise ValueError(f"Limit must be an integer of at least 1, not {limit!r}")
        self._limit = limit
        super().__init__({"spend": In(1), "refund": In(1), "available": Out(1)})

    def elaborate(self, platform):
        m = Module()
        change = Signal(signed(2))
        left = Signal(signed(self._limit.bit_length() + 3), init=self._limit)
        m.d.sync += [
            change.eq(registered(m, self.refund, "refunded") - registered(m, self.spend, "spent")),
            left.eq(left + change),
            self.available.eq(left >= 0),
        ]
        return m
