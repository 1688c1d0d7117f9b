"""Memories in the block RAM of Lattice ECP5."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal

from ..pipeline import Pipeline, duplicate_registers
from ..profile import WORD_ROWS, output_registers
from .map import BANK_COLUMNS, BLOCK_KINDS, BlockGrid
from .segment import SegmentMemory
from .words import WordBank

_BLOCK_LATENCY = 2
"""Cycles of a block RAM with its output register."""


class ECP5SegmentMemory(SegmentMemory):
    """Variant of explicit DP16KD block RAMs.

    Port A, one bit wide, reads and sets in the same clock (READBEFOREWRITE)
    and gives the bit through the block's output register, which no synthesis
    infers and which takes the clock-to-output time of the memory off the
    path. Port B, 16 bits wide, clears. There is no hazard and no logic around
    the memory, unless it is deeper than one block.

    Where a part is deeper than one block, or is cleared in wider words, what
    goes to the blocks is registered once more, and the block is selected
    after the output registers, one binary digit per clock. Columns of blocks
    share a clear address.
    """

    def elaborate(self, platform):
        m = Module()
        columns, rows, low = BlockGrid.of(
            depth=self._depth, clear_bits=self._clear_bits, block_bits=BLOCK_KINDS["ecp5"].bits
        )
        column_bits = columns.bit_length() - 1
        column = self.address[low : low + column_bits]
        address = Cat(self.address[:low], self.address[low + column_bits :])
        inside, row = address[:14], address[14:]
        # Narrow clears take the whole 16-bit word that they lie in: the sweep covers it anyway.
        spare = max(0, 4 - low)
        word = (self.clear_address << low >> 4) if spare else self.clear_address
        clear_inside, clear_row = word[:10], word[10:]
        # The last are the block's own, on the way to it and beside it. A part of several blocks
        # takes more.
        blocks = columns * rows
        own = output_registers(self._address_registers)
        shared = self._address_registers - own + (0 if blocks == 1 else 2)

        def lead(value, name, cycles):
            """Return a value some cycles later, from flip-flops of the memory's own."""
            copies = duplicate_registers(m, value, name, copies=1, cycles=cycles, flip_flop="ecp5")
            return copies[0]

        set, column, row, clear, clear_row, inside, clear_inside = (
            lead(value, f"shared{index}_", shared)
            for index, value in enumerate(
                (self.set, column, row, self.clear, clear_row, inside, clear_inside)
            )
        )
        pipe = Pipeline(m)
        bits = []
        for row_index in range(rows):
            for column_index in range(columns):
                name = f"{row_index}_{column_index}"
                chosen = (column == column_index) & (row == row_index)
                bit = Signal(name=f"bit{name}")
                m.submodules[f"block{name}"] = _block(
                    address=lead(inside, f"address{name}_", own),
                    set=lead(set & chosen, f"set{name}_", own),
                    bit=bit,
                    clear=lead(clear & (clear_row == row_index), f"clear{name}_", own),
                    clear_address=lead(clear_inside, f"clear_address{name}_", own),
                )
                read = shared + own + _BLOCK_LATENCY
                bits.append(pipe.enter(bit, f"bit{name}", stage=read, reset_less=True))
        if blocks > 1:
            bits = [bit.at(bit.stage + 1) for bit in bits]
        number = pipe.enter(Cat(column, row), "number", stage=shared, reset_less=True)
        bit = pipe.select(bits, number.at(pipe.stage(*bits)), "selected")
        bit = bit.at(bit.stage + output_registers(self._address_registers))
        m.d.comb += self.bit.eq(bit.value)
        pipe.leave(bit, latency=self.latency)
        return m


class ECP5WordBank(WordBank):
    """Variant of explicit DP16KD block RAMs: port A reads 18 columns, port B writes them.

    The word comes through the block's output register. Masks come from
    registers of the part's own.

    Raises
    ------
    ValueError
        If there are more rows than a block has in words of 18 bits.
    """

    ROWS = WORD_ROWS["ecp5"]
    COLUMNS = BANK_COLUMNS
    FLIP_FLOP = "ecp5"

    def __init__(self, *, rows, columns):
        super().__init__(rows=rows, columns=columns)
        if rows > self.ROWS:
            raise ValueError(f"Rows must be at most {self.ROWS} for ecp5, not {rows}")

    def _elaborate_memory(self, m, *, read_row, word, write_row, write, written):
        for low in range(0, self._columns, self.COLUMNS):
            m.submodules[f"block{low // self.COLUMNS}"] = _word_block(
                read_row=read_row,
                word=word[low : low + self.COLUMNS],
                write_row=write_row,
                write=write,
                written=written[low : low + self.COLUMNS],
            )


def _block(*, address, set, bit, clear, clear_address):
    """Instantiate one DP16KD: 16,384 single bits on port A, words of 16 on port B."""
    a = Cat(address, Const(0, 14))[:14]
    # In a word of 18 the two lowest address bits enable the two bytes.
    b = Cat(Const(0b11, 2), Const(0, 2), clear_address, Const(0, 10))[:14]
    return _instance(
        a, b, widths=(1, 18), mode="READBEFOREWRITE",
        i_DIA0=set, i_WEA=set, o_DOA0=bit, i_WEB=clear,
    )  # fmt: skip


def _word_block(*, read_row, word, write_row, write, written):
    """Instantiate one DP16KD: 1,024 words of 18 bits, read on port A, written on port B."""
    a, b = (
        Cat(Const(enable, 4), row, Const(0, 10))[:14]
        for enable, row in ((0, read_row), (0b11, write_row))
    )
    ports = {f"i_DIB{index}": bit for index, bit in enumerate(written)}
    ports |= {f"o_DOA{index}": bit for index, bit in enumerate(word)}
    return _instance(a, b, widths=(18, 18), mode="NORMAL", i_WEA=0, i_WEB=write, **ports)


def _instance(a, b, *, widths, mode, **connected):
    """Instantiate one DP16KD with output register on port A; unconnected inputs are 0."""
    ports = {f"i_ADA{index}": a[index] for index in range(14)}
    ports |= {f"i_ADB{index}": b[index] for index in range(14)}
    ports |= {f"i_DI{port}{index}": 0 for port in "AB" for index in range(18)}
    ports |= {f"i_CS{port}{index}": 0 for port in "AB" for index in range(3)}
    for port in "AB":
        ports |= {f"i_CLK{port}": ClockSignal(), f"i_CE{port}": 1, f"i_OCE{port}": 1}
        ports[f"i_RST{port}"] = 0
    ports |= connected
    return Instance(
        "DP16KD",
        p_DATA_WIDTH_A=widths[0],
        p_DATA_WIDTH_B=widths[1],
        p_REGMODE_A="OUTREG",
        p_REGMODE_B="NOREG",
        p_WRITEMODE_A=mode,
        p_WRITEMODE_B="NORMAL",
        p_RESETMODE="SYNC",
        p_GSR="DISABLED",
        p_CSDECODE_A="0b000",
        p_CSDECODE_B="0b000",
        **ports,
    )
