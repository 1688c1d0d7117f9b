"""Memories in the block RAM of Lattice ECP5."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal

from .blocks import DualPortSegmentMemory
from .cells import CellMemory
from .map import BLOCK_KINDS, cell_columns


class ECP5SegmentMemory(DualPortSegmentMemory):
    """Segment memory of DP16KD block RAMs in NORMAL mode.

    Words use the block's output register, which synthesis does not infer. The register removes the
    clock-to-output time of the memory from the path.
    """

    VARIANT = "ecp5"
    READ_CYCLES = 2

    def _instance(self, *, word_address, word, clear, bit_address, set):
        # Bytes have nine bits; single bits never use the ninth. In wide words the lowest address
        # bits enable bytes.
        enable = {8: Const(1, 3), 16: Const(3, 4)}.get(
            len(word), Const(0, len(word).bit_length() - 1)
        )
        outputs = word if len(word) < 16 else Cat(word[:8], Signal(), word[8:])
        return _instance(
            Cat(enable, word_address), bit_address,
            widths=(len(word) * 9 // 8, 1),
            i_WEA=clear, i_WEB=set, i_DIB0=1,
            **{f"o_DOA{index}": bit for index, bit in enumerate(outputs)},
        )  # fmt: skip


class ECP5CellMemory(CellMemory):
    """Cell memory of DP16KD block RAMs in NORMAL mode; each block holds some bits of all words.

    No multiplexer follows the block RAMs. Both ports use the output register of the block.

    Raises
    ------
    ValueError
        If there are more words than a block can hold.
    """

    def __init__(self, *, depth, width):
        super().__init__(depth=depth, width=width)
        most = BLOCK_KINDS["ecp5"].bits
        if depth > most:
            raise ValueError(f"Depth must be at most {most} for ecp5, not {depth}")

    def elaborate(self, platform):
        m = Module()
        bits = cell_columns(self._depth)
        # For words of bytes, the lowest address bits are byte enables.
        low = Const({18: 3, 9: 1}.get(bits, 0), (bits - 1).bit_length() - (bits > 8))
        for at in range(0, self._width, bits):
            ports = {f"i_DIB{index}": bit for index, bit in enumerate(self.value[at : at + bits])}
            for port, word in (("A", self.a_word), ("B", self.b_word)):
                part = word[at : at + bits]
                ports |= {f"o_DO{port}{index}": bit for index, bit in enumerate(part)}
            m.submodules[f"block{at // bits}"] = _instance(
                Cat(low, self.a_address),
                Cat(low, self.b_address),
                widths=(bits, bits),
                registered="AB",
                i_WEA=0,
                i_WEB=self.write,
                **ports,
            )
        return m


def _instance(a, b, *, widths, registered="A", **connected):
    """Instantiate one DP16KD with output registers on some ports; unconnected inputs are 0."""
    a, b = (Cat(address, Const(0, 14))[:14] for address in (a, b))
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
        **{f"p_REGMODE_{port}": "OUTREG" if port in registered else "NOREG" for port in "AB"},
        p_WRITEMODE_A="NORMAL",
        p_WRITEMODE_B="NORMAL",
        p_RESETMODE="SYNC",
        p_GSR="DISABLED",
        p_CSDECODE_A="0b000",
        p_CSDECODE_B="0b000",
        **ports,
    )
