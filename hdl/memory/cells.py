"""Memory of whole cells: in every cycle one port reads, and the other port reads or writes.

Every variant has the signature of `CellMemory`. Except for undefined words, all variants behave
identically at their ports in every cycle.
"""

from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer, require_power_of_two


class CellMemory(wiring.Component):
    """Memory of words: in each cycle port A reads, and port B reads or writes.

    A word arrives `LATENCY` cycles after its address, with all writes of earlier cycles. The word
    at port A is undefined if port B writes the same address in the same cycle. The word at port B
    is undefined if port B writes. The initial contents are undefined.

    Parameters
    ----------
    depth : int
        Words. Power of two.
    width : int
        Bits of a word.

    Members
    -------
    a_address, b_address : In(range(depth))
    a_word, b_word : Out(width)
    write : In(1)
        Whether port B writes.
    value : In(width)

    Errors: as `require_power_of_two`.
    """

    LATENCY = 2

    def __init__(self, *, depth, width):
        require_power_of_two("Depth", depth, least=2)
        require_integer("Width", width, least=1)
        self._depth = depth
        self._width = width
        address = range(depth)
        super().__init__(
            {
                "a_address": In(address),
                "a_word": Out(width),
                "b_address": In(address),
                "b_word": Out(width),
                "write": In(1),
                "value": In(width),
            }
        )


class PortableCellMemory(CellMemory):
    """Portable cell memory: one inferred memory, `words`."""

    def __init__(self, *, depth, width):
        super().__init__(depth=depth, width=width)
        self.words = memory.Memory(shape=width, depth=depth, init=[])

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = self.words
        write = words.write_port()
        m.d.comb += [
            write.addr.eq(self.b_address),
            write.data.eq(self.value),
            write.en.eq(self.write),
        ]
        for address, word in ((self.a_address, self.a_word), (self.b_address, self.b_word)):
            read = words.read_port()
            m.d.comb += read.addr.eq(address)
            m.d.sync += word.eq(self._read(m, read, write))
        return m

    def _read(self, m, read, write):
        """Return the word that was read; it is undefined if it was written in the same cycle."""
        return read.data
