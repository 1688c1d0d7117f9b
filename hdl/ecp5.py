"""Segment memory in the block RAM of Lattice ECP5."""

from amaranth.hdl import Array, Cat, ClockSignal, Const, Instance, Module, Signal

from .segment import SegmentMemory

_ROW_BITS = 1 << 14
_CLEAR_BITS = 16


class ECP5SegmentMemory(SegmentMemory):
    """Variant of explicit DP16KD block RAMs.

    Port A, one bit wide, reads and sets in the same clock (READBEFOREWRITE)
    and gives the bit through the block's output register, which no synthesis
    infers and which takes the clock-to-output time of the memory off the
    path. Port B, 16 bits wide, clears. There is no hazard and no logic around
    the memory, unless it is deeper than one block.

    Columns of blocks share a clear address, so that wider clears are
    possible; rows are selected after the output register.
    """

    def elaborate(self, platform):
        m = Module()
        columns = max(1, self._clear_bits // _CLEAR_BITS)
        rows = max(1, self._depth // columns // _ROW_BITS)
        low = min(self._clear_bits, _CLEAR_BITS).bit_length() - 1
        column_bits = columns.bit_length() - 1
        column = self.address[low : low + column_bits]
        address = Cat(self.address[:low], self.address[low + column_bits :])
        inside, row = address[:14], address[14:]
        # Narrow clears take the whole 16-bit word that they lie in: the sweep covers it anyway.
        spare = max(0, 4 - low)
        word = (self.clear_address << low >> 4) if spare else self.clear_address
        clear_inside, clear_row = word[:10], word[10:]

        bits = []
        for row_index in range(rows):
            for column_index in range(columns):
                chosen = Signal()
                bit = Signal()
                m.d.comb += chosen.eq((column == column_index) & (row == row_index))
                m.submodules[f"block{row_index}_{column_index}"] = _block(
                    address=inside,
                    set=self.set & chosen,
                    bit=bit,
                    clear=self.clear & (clear_row == row_index),
                    clear_address=clear_inside,
                )
                bits.append(bit)
        if len(bits) == 1:
            m.d.comb += self.bit.eq(bits[0])
            return m
        selected = Cat(column, row)
        for stage in range(self.LATENCY):
            registered = Signal(len(selected), name=f"selected{stage}", reset_less=True)
            m.d.sync += registered.eq(selected)
            selected = registered
        m.d.comb += self.bit.eq(Array(bits)[selected])
        return m


def _block(*, address, set, bit, clear, clear_address):
    """Instantiate one DP16KD: 16,384 single bits on port A, words of 16 on port B."""
    a = Cat(address, Const(0, 14))[:14]
    # In a word of 18 the two lowest address bits enable the two bytes.
    b = Cat(Const(0b11, 2), Const(0, 2), clear_address, Const(0, 10))[:14]
    ports = {f"i_ADA{index}": a[index] for index in range(14)}
    ports |= {f"i_ADB{index}": b[index] for index in range(14)}
    ports |= {f"i_DI{port}{index}": 0 for port in "AB" for index in range(18)}
    ports |= {f"i_CS{port}{index}": 0 for port in "AB" for index in range(3)}
    for port in "AB":
        ports |= {f"i_CLK{port}": ClockSignal(), f"i_CE{port}": 1, f"i_OCE{port}": 1}
        ports[f"i_RST{port}"] = 0
    ports |= {"i_DIA0": set, "i_WEA": set, "o_DOA0": bit, "i_WEB": clear}
    return Instance(
        "DP16KD",
        p_DATA_WIDTH_A=1,
        p_DATA_WIDTH_B=18,
        p_REGMODE_A="OUTREG",
        p_REGMODE_B="NOREG",
        p_WRITEMODE_A="READBEFOREWRITE",
        p_WRITEMODE_B="NORMAL",
        p_RESETMODE="SYNC",
        p_GSR="DISABLED",
        p_CSDECODE_A="0b000",
        p_CSDECODE_B="0b000",
        **ports,
    )
