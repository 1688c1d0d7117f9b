"""Small memories in LUTs: paged memories that are fast at any depth, and delay lines."""

from functools import cache, lru_cache

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import PAGE_WORDS
from ..parameters import require_integer, require_power_of_two
from ..pipeline import Draft, Pipeline
from .protection import copy_names, vote


@lru_cache(maxsize=16)
def address_maps(width):
    """Return permutations of the addresses, each as one XOR mask per bit and an inversion.

    No two permutations have an output bit in common, so synthesis cannot merge their address
    registers.
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
    """Memory divided into pages; two address bits per cycle select among the pages.

    The memory accepts one write and one read per cycle. A read sees all writes from at least two
    cycles earlier. If `far` is set, the read also sees writes from the previous cycle and the same
    cycle. `word` follows `read_address` by `latency` cycles.
    """

    def __init__(
        self,
        *,
        depth,  # number of words, a power of two
        width,  # bits per word
        # `number`, `memories`: index of this memory, and number of memories with the same
        # addresses. Each has its own address registers, so that the memories can be placed far
        # apart.
        number=0,
        memories=1,
        # whether the source of the read addresses is far away on the chip. They then pass three
        # registers instead of one before the pages.
        far=False,
        # number of bits, in all pages together, that share address registers. More bits share
        # registers if there are too few maps.
        share=64,
        copies=1,  # copies of each page, with a majority vote
    ):
        require_power_of_two("Depth", depth, minimum=2)
        require_integer("Width", width, minimum=1)
        require_integer("Memories", memories, minimum=1)
        require_integer("Number", number, maximum=memories - 1)
        require_integer("Share", share, minimum=1)
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
        # With groups of this size, fewer may be enough.
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
        address = read.at(_address_stage(self._far))
        words = []
        for number in range(self._pages):
            ports = self._elaborate_page(m, f"page{group}_{number}", len(value))
            writing = pipeline.register(
                f"writing{group}_{number}",
                lambda write, address, page=number: write & (address[low:] == page),
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
            words.append(vote([read_port.data for _, read_port in ports]))
        word = _selected(pipeline, words, address[low:], group)
        pipeline.leave(word, latency=self.latency)
        return word.value

    def _elaborate_page(self, m, name, width):
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


def _address_stage(far):
    return 1 + 2 * far


def _selected(pipeline, words, page, group):
    # The first selection takes place before a register, which halves the number of registers.
    words = [
        pipeline.enter(word, f"page{group}_{number}", stage=page.stage, reset_less=True, levels=1)
        for number, word in enumerate(words)
    ]
    return pipeline.select(words, page, f"word{group}_").settled()


@cache
def paged_latency(depth, *, far=False):
    """Return the number of cycles from a read address to its word, by building a draft pipeline."""
    pages = -(-depth // PAGE_WORDS)
    pipeline = Pipeline(Draft(), levels=2)
    page = pipeline.enter(Signal(range(pages)), "page", stage=_address_stage(far))
    return _selected(pipeline, [Signal() for _ in range(pages)], page, 0).stage


class DelayLine(wiring.Component):
    """Delays a value by `cycles` cycles; the first `cycles` outputs after reset are undefined."""

    def __init__(self, *, width, cycles):
        require_integer("Width", width, minimum=1)
        require_integer("Cycles", cycles, minimum=2, maximum=PAGE_WORDS + 1)
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
