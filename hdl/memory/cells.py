"""Memories for the cells of timing filters and dictionaries."""

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import CELL_LATENCY
from ..parameters import require_integer, require_power_of_two
from .ecp5 import dp16kd
from .map import BLOCK_KINDS, cell_columns


class CellMemory(wiring.Component):
    """Memory with two ports: in each cycle, port A reads, and port B reads or writes.

    A word arrives `LATENCY` cycles after its address and reflects all writes in earlier cycles. The
    word at port A is undefined if port B writes the same address in the same cycle. The word at
    port B is undefined if port B writes. The initial contents are undefined.
    """

    LATENCY = CELL_LATENCY

    def __init__(self, *, depth, width):
        require_power_of_two("Depth", depth, minimum=2)
        require_integer("Width", width, minimum=1)
        self._depth = depth
        self._width = width
        address = range(depth)
        super().__init__(
            {
                "a_address": In(address),
                "a_word": Out(width),
                "b_address": In(address),
                "b_word": Out(width),
                "write": In(1),  # whether port B writes
                "value": In(width),
            }
        )


class PortableCellMemory(CellMemory):
    """Portable cell memory: one memory that synthesis tools infer."""

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
        """Return the word that was read, which is undefined if it was written in the same cycle."""
        return read.data


class ECP5CellMemory(CellMemory):
    """Cell memory of DP16KD block RAMs, each of which holds some bits of every word."""

    def __init__(self, *, depth, width):
        super().__init__(depth=depth, width=width)
        limit = BLOCK_KINDS["ecp5"].bits
        if depth > limit:
            raise ValueError(f"Depth must be at most {limit} for ecp5, not {depth}")

    def elaborate(self, platform):
        m = Module()
        bits = cell_columns(self._depth)
        # If words consist of bytes, the lowest address bits are byte enables.
        low = Const({18: 3, 9: 1}.get(bits, 0), (bits - 1).bit_length() - (bits > 8))
        for at in range(0, self._width, bits):
            ports = {f"i_DIB{index}": bit for index, bit in enumerate(self.value[at : at + bits])}
            for port, word in (("A", self.a_word), ("B", self.b_word)):
                part = word[at : at + bits]
                ports |= {f"o_DO{port}{index}": bit for index, bit in enumerate(part)}
            m.submodules[f"block{at // bits}"] = dp16kd(
                Cat(low, self.a_address),
                Cat(low, self.b_address),
                widths=(bits, bits),
                registered="AB",
                i_WEA=0,
                i_WEB=self.write,
                **ports,
            )
        return m


# cell memory classes, by variant
CELL_MEMORIES = {"portable": PortableCellMemory, "ecp5": ECP5CellMemory}


def cell_memory(variant, *, depth, width):
    kind = CELL_MEMORIES.get(variant, variant)
    if isinstance(kind, str):
        raise ValueError(f"Memory must be one of {', '.join(CELL_MEMORIES)}, not {variant!r}")
    return kind(depth=depth, width=width)
