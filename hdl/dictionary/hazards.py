"""Comparison of operations with earlier operations that have not yet written."""

from amaranth.hdl import Cat, Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..pipeline import registered
from .cells import agreeing_pairs
from .dictionary_figures import COMPARISON


class HazardWindow(wiring.Component):
    """Compares each value with the values of the previous cycles.

    Parameters
    ----------
    bits : int
        Width of a value.
    depth : int
        Number of previous cycles.

    Members
    -------
    value : In(bits)
    before : Out
        Item k - 1: the value k cycles earlier.
    same : Out(depth)
        Bit k - 1, `LATENCY` cycles after a value: whether it equals the value k cycles earlier.
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
