"""Small memories in LUTs that are fast at any depth and width."""

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
    """Return bijective maps of addresses; no two maps share an address bit.

    Different maps have different registers, so synthesis does not merge them. Memories with the
    same addresses can then be placed far apart.

    Returns
    -------
    list of (list of int, int)
        For each mapped address bit: the mask of address bits whose sum it is; and whether all are
        inverted, as 0 or -1. Maps with small masks come first.
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
    """Memory in pages; two address bits per cycle select among the pages.

    One write and one read per cycle. A read returns writes at least two cycles earlier; with `far`,
    also writes in the same cycle. Latency `latency` cycles from `read_address` to `word`.


    Parameters
    ----------
    depth : int
        Words. Power of two.
    width : int
        Bits of a word.
    number, memories : int
        Index and number of the memories with the same addresses. Each memory has separate
        registers for the addresses, so that memories can be placed far apart.
    far : bool
        Whether the source of the read addresses is far away on the chip. They then have three
        registers instead of one before the pages.
    share : int
        Bits of all pages, per position, that share address registers. More bits share registers if
        there are too few maps.
    copies : int
        Copies of each page, with a majority vote.

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
        As for `require_integer`, and if there are more memories than maps.
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
        """Store one group of bits of the words; return these bits of the word that is read."""
        # Each group stores the words in another order.
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
                # The output joins the first choice before a register, which halves the registers.
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
        """Add the copies of a page; return their write and read ports."""
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
