"""Credits for operations in flight."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import registered


class Credits(wiring.Component):
    """Counts the operations in flight, and reports whether credits for more are available.

    Parameters
    ----------
    limit : int
        Maximum number of operations in flight at which `available` is high.
    check : bool
        Whether the port `left` exists.

    Members
    -------
    spend, refund : In(1)
        An operation enters; an operation leaves.
    available : Out(1)
        Whether at most `limit` operations were in flight three cycles ago.
    left : Out
        `limit` minus the operations in flight two cycles ago. Signed, with two bits more than the
        count needs.

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
