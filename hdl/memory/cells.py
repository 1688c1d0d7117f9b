"""Memory of the cells of one column of a dictionary.

Every variant has the signature of `CellMemory` and the same behaviour at its
ports, clock for clock, as far as that is defined.
"""

from abc import ABC, abstractmethod

from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..parameters import require_integer, require_power_of_two


class CellMemory(wiring.Component, ABC):
    """Words with two ports: one reads, the other reads or writes, each in every clock.

    Latency `LATENCY` clocks from a row to its word. What a port reads of a row
    that the other writes in the same clock is undefined, and so is what the
    second port reads in a clock in which it writes. Nothing is reset.

    Parameters
    ----------
    rows : int
        Words. Power of two.
    width : int
        Bits of a word.

    Members
    -------
    row : In(range(rows))
        Row of the first port.
    word : Out(width)
        `LATENCY` clocks after `row`.
    other_row : In(range(rows))
        Row of the second port.
    write : In(1)
        Whether `written` goes there, seen by the first port from the next clock on.
    written : In(width)
    other_word : Out(width)
        `LATENCY` clocks after `other_row`.

    Errors: as `require_integer` and `require_power_of_two`.
    """

    LATENCY = 2

    def __init__(self, *, rows, width):
        require_power_of_two("Rows", rows, least=2)
        require_integer("Width", width, least=1)
        self._rows = rows
        self._width = width
        super().__init__(
            {
                "row": In(range(rows)),
                "word": Out(width),
                "other_row": In(range(rows)),
                "write": In(1),
                "written": In(width),
                "other_word": Out(width),
            }
        )

    @abstractmethod
    def elaborate(self, platform):
        """Return the module of the variant."""


class PortableCellMemory(CellMemory):
    """Variant for simulation and any device: a plain memory of two read ports."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=self._width, depth=self._rows, init=[])
        write_port = words.write_port()
        m.d.comb += [
            write_port.addr.eq(self.other_row),
            write_port.en.eq(self.write),
            write_port.data.eq(self.written),
        ]
        for row, word in ((self.row, self.word), (self.other_row, self.other_word)):
            read_port = words.read_port()
            m.d.comb += read_port.addr.eq(row)
            m.d.sync += word.eq(read_port.data)
        return m
