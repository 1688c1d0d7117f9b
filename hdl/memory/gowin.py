"""Segment memory in the block RAM of Gowin GW1N and GW2A."""

from amaranth.hdl import Array, Cat, ClockSignal, Const, Instance, Module, Mux, Signal

from ..profile import BLOCK_CLEAR_BITS as _WORD_BITS
from .map import BLOCK_KINDS, BlockGrid
from .segment import SegmentMemory


class GowinSegmentMemory(SegmentMemory):
    """Variant of explicit DPB block RAMs, 16,384 bits each.

    No port of these parts reads and writes in one clock. Port A, as wide as
    the clear up to 16 bits, reads the word of an access and zeroes words; port
    B, one bit wide, sets the bit in the clock after. One comparator covers the
    same bit in two clocks running, whose read meets the write. That the other
    bits of a word can be read while one of them is written is assumed.

    The block's output register works with words of 32 bits only; the bit is
    registered behind the multiplexer that selects it.
    """

    def elaborate(self, platform):
        m = Module()
        width = min(self._clear_bits, _WORD_BITS)
        columns, rows, low = BlockGrid.of(
            depth=self._depth, clear_bits=self._clear_bits, block_bits=BLOCK_KINDS["gowin"].bits
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
            return inside[:14], column, inside[14:]

        inside, column, row = split(self.address)
        set_inside, set_column, set_row = split(previous)
        clear_word, clear_row = self.clear_address[: 14 - low], self.clear_address[14 - low :]

        words = []
        for row_index in range(rows):
            for column_index in range(columns):
                word = Signal(width)
                chosen = (set_column == column_index) & (set_row == row_index)
                m.submodules[f"block{row_index}_{column_index}"] = _block(
                    word_address=Mux(self.clear, clear_word, inside[low:]),
                    word=word,
                    clear=self.clear & (clear_row == row_index),
                    bit_address=set_inside,
                    # The sweep may have passed the bit already.
                    set=setting & chosen & ~self.clear,
                )
                words.append(word)
        # What the output of the blocks is selected by, one clock after the address.
        selected = Signal(len(column) + len(row), reset_less=True)
        bit = Signal(reset_less=True)
        m.d.sync += [
            selected.eq(Cat(column, row)),
            bit.eq(Array(words)[selected].bit_select(set_inside[:low], 1) | repeated),
        ]
        m.d.comb += self.bit.eq(self._late(m, bit))
        return m


def _block(*, word_address, word, clear, bit_address, set):
    """Instantiate one DPB: words on port A, read or zeroed, and 16,384 bits to set on port B."""
    low = len(word).bit_length() - 1
    # In a word of 16 the two lowest address bits enable the two bytes.
    lowest = Const(0b11, low) if len(word) == _WORD_BITS else Const(0, low)
    return Instance(
        "DPB",
        p_BIT_WIDTH_0=len(word),
        p_BIT_WIDTH_1=1,
        p_READ_MODE0=Const(0, 1),
        p_READ_MODE1=Const(0, 1),
        p_WRITE_MODE0=Const(0, 2),
        p_WRITE_MODE1=Const(0, 2),
        p_BLK_SEL_0=Const(0, 3),
        p_BLK_SEL_1=Const(0, 3),
        p_RESET_MODE="SYNC",
        i_CLKA=ClockSignal(),
        i_CEA=1,
        i_OCEA=1,
        i_RESETA=0,
        i_BLKSELA=Const(0, 3),
        i_WREA=clear,
        i_ADA=Cat(lowest, word_address, Const(0, 14))[:14],
        i_DIA=Const(0, 16),
        o_DOA=Cat(word, Signal(16 - len(word))),
        i_CLKB=ClockSignal(),
        i_CEB=1,
        i_OCEB=1,
        i_RESETB=0,
        i_BLKSELB=Const(0, 3),
        i_WREB=set,
        i_ADB=Cat(bit_address, Const(0, 14))[:14],
        i_DIB=Const(1, 16),
    )
