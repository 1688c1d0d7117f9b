"""Small memories in look-up tables, fast at any depth and width."""

from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from .stages import registered, selected

PAGE = 16
"""Words that one page holds, as the distributed memory of an ECP5."""


class PagedMemory(wiring.Component):
    """Words in pages, which are selected one binary digit per clock.

    One write and one read per clock. A read sees the writes of all earlier
    clocks. Latency `latency` clocks from `read_address` to `word`.

    Parameters
    ----------
    depth : int
        Words. Power of two.
    width : int
        Bits of a word.
    number : int
        Which of several memories with the same addresses: each has registers of its own for
        them, so that they may lie apart.

    Members
    -------
    write : In(1)
    write_address : In(range(depth))
    value : In(width)
    read_address : In(range(depth))
    word : Out(width)
    """

    GROUP = 16
    """Bits of a word, at most, that share registers for addresses."""

    def __init__(self, *, depth, width, number=0):
        self._width = width
        self._depth = depth
        self._number = number
        self._page = min(depth, PAGE)
        self._pages = depth // self._page
        self._groups = -(-width // self.GROUP)
        self.latency = 1 + self._pages.bit_length()
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
        size = -(-self._width // self._groups)
        for group in range(self._groups):
            part = slice(group * size, min((group + 1) * size, self._width))
            m.d.comb += self.word[part].eq(self._elaborate_group(m, group, self.value[part]))
        return m

    def _elaborate_group(self, m, group, value):
        """Store a part of the words; return that of the word that is read."""
        # Each group has the words in another order, lest synthesis finds its registers to be
        # those of the others. The factor is odd, so that no two orders are the same.
        order = (self._number * self._groups + group) * 0x13 % self._depth
        low = (self._page - 1).bit_length()
        write_address = self.write_address ^ order
        place = registered(m, write_address[:low], f"place{group}", reset_less=True)
        value = registered(m, value, f"value{group}", reset_less=True)
        read_address = registered(m, self.read_address ^ order, f"read{group}", reset_less=True)
        page = registered(m, read_address[low:], f"page_of{group}", reset_less=True)
        words = []
        for number in range(self._pages):
            words_of_page = memory.Memory(shape=len(value), depth=self._page, init=[])
            m.submodules[f"page{group}_{number}"] = words_of_page
            write_port = words_of_page.write_port()
            read_port = words_of_page.read_port()
            writing = self.write & (write_address[low:] == number)
            m.d.comb += [
                write_port.en.eq(registered(m, writing, f"writing{group}_{number}")),
                write_port.addr.eq(place),
                write_port.data.eq(value),
                read_port.addr.eq(read_address),
            ]
            words.append(read_port.data)
        return selected(m, words, page, f"word{group}_")
