"""Values of operations compared with those of the operations ahead, which have not written yet."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import registered
from .cells import agreeing_pairs
from .dictionary_figures import COMPARISON


class HazardWindow(wiring.Component):
    """Compares the value of each cycle with those of the cycles before.

    Parameters
    ----------
    bits : int
        Width of a value.
    depth : int
        Cycles.

    Members
    -------
    value : In(bits)
    before : Out
        Item k - 1: the value of k cycles before.
    same : Out(depth)
        Bit k - 1, `LATENCY` cycles after the value: whether it equals the value of k cycles before.
    """

    LATENCY = COMPARISON

    def __init__(self, *, bits, depth):
        self._depth = depth
        super().__init__(
            {
                "value": In(bits),
                "before": Out(data.ArrayLayout(bits, depth)),
                "same": Out(depth),
            }
        )

    def elaborate(self, platform):
        m = Module()
        before, same = self.value, []
        for distance in range(1, self._depth + 1):
            before = registered(m, before, f"before{distance}", reset_less=True)
            m.d.comb += self.before[distance - 1].eq(before)
            pairs = agreeing_pairs(self.value, before)
            pairs = registered(m, pairs, f"pairs{distance}", reset_less=True)
            same.append(registered(m, pairs.all(), f"same{distance}", reset_less=True))
        m.d.comb += self.same.eq(Cat(same))
        return m
