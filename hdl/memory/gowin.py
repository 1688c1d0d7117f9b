"""Segment memory in the block RAM of Gowin GW1N and GW2A."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Signal

from .blocks import DualPortSegmentMemory


class GowinSegmentMemory(DualPortSegmentMemory):
    """Segment memory of DPB block RAMs; no port reads and writes in the same cycle.

    The output register of the block supports only words of 32 bits and is not used.
    """

    VARIANT = "gowin"

    def _instance(self, *, word_address, word, clear, bit_address, set):
        # In a word of 16 bits the two lowest address bits enable the two bytes.
        lowest = Const(0b11 if len(word) == 16 else 0, len(word).bit_length() - 1)
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
