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
    check : bool
        Whether there is `left`.

    Members
    -------
    spend, refund : In(1)
        One more is under way; one less.
    available : Out(1)
        Whether at most `limit` were under way three cycles ago.
    left : Out
        `limit` less those under way: spent two cycles before, or refunded. Signed; what it counts
        has two bits less.

    Raises
    ------
    ValueError
        If the limit is not an integer of at least 0.
    """

    def __init__(self, *, limit, check=False):
        if type(limit) is not int or limit < 0:
            raise ValueError(f"Limit must be an integer of at least 0, not {limit!r}")
        self._limit = limit
        self._shape = signed(limit.bit_length() + 3)
        super().__init__(
            {"spend": In(1), "refund": In(1), "available": Out(1)}
            | ({"left": Out(self._shape, init=limit)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        change = Signal(signed(2))
        left = Signal(self._shape, init=self._limit)
        m.d.sync += [
            change.eq(registered(m, self.refund, "refunded") - registered(m, self.spend, "spent")),
            left.eq(left + change),
            self.available.eq(left >= 0),
        ]
        if "left" in self.signature.members:
            m.d.comb += self.left.eq(left)
        return m
