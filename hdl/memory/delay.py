"""Delay lines in LUT memory instead of registers."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import PAGE_WORDS
from ..parameters import require_integer


class DelayLine(wiring.Component):
    """Delays a value by `cycles` cycles in a small circular memory.

    After reset the first values are undefined.

    Parameters
    ----------
    width, cycles : int
        `width` at least 1; `cycles` from 2 to `PAGE_WORDS` + 1.

    Members
    -------
    i : In(width)
    o : Out(width)

    Errors: as `require_integer`.
    """

    def __init__(self, *, width, cycles):
        require_integer("Width", width, least=1)
        require_integer("Cycles", cycles, least=2, most=PAGE_WORDS + 1)
        self._depth = cycles - 1
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=len(self.i), depth=self._depth, init=[])
        write, read = words.write_port(), words.read_port(domain="comb")
        at = Signal(range(self._depth))
        m.d.comb += [
            write.addr.eq(at),
            write.data.eq(self.i),
            write.en.eq(1),
            read.addr.eq(at),
        ]
        m.d.sync += [at.eq(Mux(at == self._depth - 1, 0, at + 1)), self.o.eq(read.data)]
        return m
