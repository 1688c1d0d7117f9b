"""Small memories in LUTs, fast at any depth and width."""

from functools import lru_cache

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import PAGE_WORDS, paged_latency
from ..parameters import require_integer, require_power_of_two
from ..pipeline import Pipeline
from .copies import copy_names, vote


@lru_cache(maxsize=16)
def address_maps(width):
    """Return one-to-one maps of addresses to addresses; no two have a bit in common.

    The registers of different maps differ, so that synthesis does not merge them. Memories with
    the same addresses can then be placed far apart.

    Returns
    -------
    list of (list of int, int)
        For each bit of the mapped address the bits that it is the sum of, as a
        mask; and whether all are inverted, as 0 or -1. First those of few bits each.
    """
    unused = sorted(range(1, 1 << width), key=lambda mask: (mask.bit_count(), mask))
    maps = []
    while True:
        rows, reduced = [], []
        for mask in unused:
            rest = mask
            for earlier in reduced:
                rest = min(rest, rest ^ earlier)
            if rest:
                rows.append(mask)
                reduced.append(rest)
            if len(rows) == width:
                break
        if len(rows) < width:
            return maps
        unused = [mask for mask in unused if mask not in rows]
        maps += [(rows, 0), (rows, -1)]


class PagedMemory(wiring.Component):
    """Memory in pages, among which two address bits select per cycle.

    One write and one read per cycle. A read returns writes that precede it by at least two cycles;
    with `far`, also writes of its own cycle. Latency `latency` cycles from `read_address` to
    `word`.

    Parameters
    ----------
    depth : int
        Words. Power of two.
    width : int
        Bits of a word.
    number, memories : int
        Which of how many memories with the same addresses: each has registers of its own for
        them, so that they may lie apart.
    far : bool
        Whether reads come from afar: their addresses have three registers on the way to the
        pages, where others have one.
    share : int
        Bits of all pages, for each place, that share registers for addresses. More do where
        there are too few maps.
    copies : int
        Of each page, of which a read takes what most have.

    Members
    -------
    write : In(1)
    write_address : In(range(depth))
    value : In(width)
    read_address : In(range(depth))
    word : Out(width)

    Raises
    ------
    TypeError, ValueError
        As `require_integer`, and if there are more memories than maps.
    """

    def __init__(self, *, depth, width, number=0, memories=1, far=False, share=64, copies=1):
        require_power_of_two("Depth", depth, least=2)
        require_integer("Width", width, least=1)
        require_integer("Memories", memories, least=1)
        require_integer("Number", number, most=memories - 1)
        require_integer("Share", share, least=1)
        self._far = far
        self._copies = copies
        self._width = width
        self._depth = depth
        self._page = min(depth, PAGE_WORDS)
        self._pages = depth // self._page
        maps = address_maps((depth - 1).bit_length())
        if memories > len(maps):
            raise ValueError(
                f"Memories must be at most {len(maps)} for a depth of {depth}, not {memories}"
            )
        groups = min(-(-width * self._pages // share), len(maps) // memories)
        self._size = -(-width // groups)
        # Full groups may be fewer.
        self._groups = -(-width // self._size)
        self._maps = maps[number * groups :]
        self.latency = paged_latency(depth, far=far)
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
        for group in range(self._groups):
            part = slice(group * self._size, min((group + 1) * self._size, self._width))
            m.d.comb += self.word[part].eq(self._elaborate_group(m, group, self.value[part]))
        return m

    def _elaborate_group(self, m, group, value):
        """Store a part of the words; return that of the word that is read."""
        # Each group has the words in another order.
        low = (self._page - 1).bit_length()
        pipeline = Pipeline(m, levels=2)
        write, written, read = (
            pipeline.enter(value, f"{name}{group}", reset_less=name != "write")
            for name, value in (
                ("write", self.write),
                ("written", self._elaborate_map(self.write_address, *self._maps[group])),
                ("read", self._elaborate_map(self.read_address, *self._maps[group])),
            )
        )
        value = pipeline.enter(value, f"value{group}", reset_less=True).at(2).value
        address = read.at(1 + 2 * self._far)
        words = []
        for number in range(self._pages):
            ports = self._elaborate_page(m, f"page{group}_{number}", len(value))
            writing = pipeline.register(
                f"writing{group}_{number}",
                lambda write, address, own=number: write & (address[low:] == own),
                write.at(1),
                written.at(1),
            )
            for write_port, read_port in ports:
                m.d.comb += [
                    write_port.en.eq(writing.value),
                    write_port.addr.eq(written.at(2).value[:low]),
                    write_port.data.eq(value),
                    read_port.addr.eq(address.value[:low]),
                ]
            words.append(
                # What is read joins the first choice ahead of a register: half as many of those.
                pipeline.enter(
                    vote([read_port.data for _, read_port in ports]),
                    f"page{group}_{number}",
                    stage=address.stage,
                    reset_less=True,
                    levels=1,
                )
            )
        word = pipeline.select(words, address[low:], f"word{group}_").settled()
        pipeline.leave(word, latency=self.latency)
        return word.value

    def _elaborate_page(self, m, name, width):
        """Add the copies of a page; return the ports of each, to write and to read."""
        pages = [memory.Memory(shape=width, depth=self._page, init=[])
                 for _ in range(self._copies)]  # fmt: skip
        ports = []
        for page, copy in zip(pages, copy_names(pages), strict=True):
            m.submodules[f"{name}_{copy}" if self._copies > 1 else name] = page
            write_port = page.write_port()
            read_port = page.read_port(domain="comb")
            ports.append((write_port, read_port))
        return ports

    def _elaborate_map(self, address, rows, inverted):
        return Cat((address & mask).xor() for mask in rows) ^ (inverted & self._depth - 1)
