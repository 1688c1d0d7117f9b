"""Small memories in look-up tables, fast at any depth."""

from amaranth.hdl import Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from .stages import selected

PAGE = 16
"""Words that one page holds, as the distributed memory of an ECP5."""


class PagedMemory(wiring.Component):
    """Words in pages, which are selected one binary digit per clock.

    One write and one read per clock. A read sees the writes of earlier clocks
    but the last. Latency `latency` clocks from `read_address` to `word`.

    Parameters
    ----------
    depth : int
        Words. Power of two.
    width : int
        Bits of a word.

    Members
    -------
    write : In(1)
    write_address : In(range(depth))
    value : In(width)
    read_address : In(range(depth))
    word : Out(width)
    """

    def __init__(self, *, depth, width):
        self._page = min(depth, PAGE)
        self._pages = depth // self._page
        self.latency = self._pages.bit_length()
        super().__init__(
            {
                "write": In(1),
                "write_address": In(range(depth)),
                "value": In(width),
                "read_address": In(range(depth)),
                "word": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        low = (self._page - 1).bit_length()
        place = Signal(low, reset_less=True)
        value = Signal.like(self.value, reset_less=True)
        page = Signal(len(self.read_address) - low, reset_less=True)
        m.d.sync += [
            place.eq(self.write_address),
            value.eq(self.value),
            page.eq(self.read_address[low:]),
        ]
        words = []
        for number in range(self._pages):
            words_of_page = memory.Memory(shape=len(self.value), depth=self._page, init=[])
            m.submodules[f"page{number}"] = words_of_page
            write_port = words_of_page.write_port()
            read_port = words_of_page.read_port()
            writing = Signal(name=f"writing{number}")
            m.d.sync += writing.eq(self.write & (self.write_address[low:] == number))
            m.d.comb += [
                write_port.en.eq(writing),
                write_port.addr.eq(place),
                write_port.data.eq(value),
                read_port.addr.eq(self.read_address),
            ]
            words.append(read_port.data)
        m.d.comb += self.word.eq(selected(m, words, page, "word"))
        return m
