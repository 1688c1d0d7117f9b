"""Segment memory in the block RAM of Lattice iCE40."""

from amaranth.hdl import Array, Cat, ClockSignal, Const, Instance, Module, Mux, Signal

from ..profile import BLOCK_CLEAR_BITS as _WORD_BITS
from .map import BLOCK_KINDS, BlockGrid
from .segment import SegmentMemory


class ICE40SegmentMemory(SegmentMemory):
    """Variant of explicit SB_RAM40_4K block RAMs, 4,096 bits each.

    The block's bit mask lets a single bit be set without reading its word,
    and its read port, two bits wide, leaves a multiplexer of two. An access
    reads in one clock and sets in the next; one comparator covers the same
    bit in two clocks running, whose read meets the write. That the other bits
    of a word can be read while one of them is written is assumed.
    """

    def elaborate(self, platform):
        m = Module()
        columns, rows, low = BlockGrid.of(
            depth=self._depth, clear_bits=self._clear_bits, block_bits=BLOCK_KINDS["ice40"].bits
        )
        column_bits = columns.bit_length() - 1

        # A bit that the previous clock asked to set is written in this one.
        previous = Signal.like(self.address, reset_less=True)
        setting = Signal()
        repeated = Signal(reset_less=True)
        m.d.sync += [
            previous.eq(self.address),
            setting.eq(self.set),
            repeated.eq(setting & (self.address == previous)),
        ]

        def split(address):
            """Separate an address into place within a block, column and row."""
            column = address[low : low + column_bits]
            inside = Cat(address[:low], address[low + column_bits :])
            return inside[:12], column, inside[12:]

        inside, column, row = split(self.address)
        write_inside, write_column, write_row = split(previous)
        word = (self.clear_address << low >> 4) if low < 4 else self.clear_address
        clear_word, clear_row = word[:8], word[8:]
        written = Mux(self.clear, clear_word, write_inside[4:])
        mask = Mux(self.clear, 0, ~(Const(1, _WORD_BITS) << write_inside[:4])[:_WORD_BITS])

        pairs = []
        for row_index in range(rows):
            for column_index in range(columns):
                pair = Signal(2)
                chosen = setting & (write_column == column_index) & (write_row == row_index)
                enable = Mux(self.clear, clear_row == row_index, chosen)
                m.submodules[f"block{row_index}_{column_index}"] = _block(
                    address=inside, pair=pair, enable=enable, written=written, mask=mask,
                    value=~self.clear,
                )  # fmt: skip
                pairs.append(pair)
        # What the output of the blocks is selected by, one clock after the address.
        selected = Signal(len(column) + len(row), reset_less=True)
        half = Signal(reset_less=True)
        bit = Signal(reset_less=True)
        m.d.sync += [
            selected.eq(Cat(column, row)),
            half.eq(Cat(inside, Const(0, 4))[3]),
            bit.eq(Array(pairs)[selected].bit_select(half, 1) | repeated),
        ]
        m.d.comb += self.bit.eq(self._late(m, bit))
        return m


def _block(*, address, pair, enable, written, mask, value):
    """Instantiate one SB_RAM40_4K: 2,048 pairs to read, masked words of 16 to write."""
    inside = Cat(address, Const(0, 12))[:12]
    # In this mode a word's halves answer side by side, and three high address bits choose the
    # bit within both.
    return Instance(
        "SB_RAM40_4K",
        p_READ_MODE=3,
        p_WRITE_MODE=0,
        i_RCLK=ClockSignal(),
        i_RCLKE=1,
        i_RE=1,
        i_RADDR=Cat(inside[4:], inside[:3]),
        i_WCLK=ClockSignal(),
        i_WCLKE=1,
        i_WE=enable,
        i_WADDR=Cat(written, Const(0, 11))[:11],
        i_MASK=mask,
        i_WDATA=value.replicate(_WORD_BITS),
        o_RDATA=Cat(Signal(3), pair[0], Signal(7), pair[1], Signal(4)),
    )
