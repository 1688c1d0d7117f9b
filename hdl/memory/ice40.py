"""Segment memory in the block RAM of Lattice iCE40."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Mux, Signal

from .blocks import BlockSegmentMemory

_WORD_BITS = 16


class ICE40SegmentMemory(BlockSegmentMemory):
    """Segment memory of SB_RAM40_4K block RAMs.

    The bit mask of the write port sets a single bit without a read of its word. The same port
    clears, one cycle after the address of the clear. The read port is two bits wide, so a 2-to-1
    multiplexer follows.
    """

    VARIANT = "ice40"

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self._width = _WORD_BITS if self.STRICT else 2

    def _digits(self, address):
        address = Cat(address, Const(0, 4 - min(4, len(address))))
        if self.STRICT:
            return address[:4], address[4:]
        return address[3:4], Cat(address[:3], address[4:])

    def _known(self, m, pipe, words, address, setting, clear):
        """Return the words; unlike the base, the previous access may also have zeroed a word."""
        read = self._address_registers
        before, cleared = (value.at(read + 1).value for value in (address, clear))
        low = max(4, self._clear_bits.bit_length() - 1)
        zeroed = pipe.register(
            "zeroed", lambda here: cleared & (here[low:] == before[low:]), address.at(read)
        )
        words = [
            pipe.combine("word", lambda word, zeroed: Mux(zeroed, 0, word), word, zeroed)
            for word in words
        ]
        return super()._known(m, pipe, words, address, setting, clear)

    def _block(self, pipe, address, set, clear, *, row, column, word):
        read = self._address_registers
        set, clear, address = (value.at(read) for value in (set, clear, address))

        def enabled(set, clear, address):
            _, in_column, in_row = self._split(address)
            return (clear | set & (in_column == column)) & (in_row == row)

        enable = pipe.register(f"enable{row}_{column}", enabled, set, clear, address)
        mask = pipe.register(
            "mask",
            lambda clear, address: Mux(clear, 0, ~(Const(1, _WORD_BITS) << address[:4])),
            clear,
            address,
            reset_less=True,
        )
        inside = Cat(self._split(address.value)[0], Const(0, 12))[:12]
        written = self._split(address.at(read + 1).value)[0][4:]
        # If pairs are read, the halves of a word answer in parallel, and three high address bits
        # select the bit in both.
        pair = Cat(Signal(3), word[0], Signal(7), word[1], Signal(4))
        return Instance(
            "SB_RAM40_4K",
            p_READ_MODE=0 if self.STRICT else 3,
            p_WRITE_MODE=0,
            i_RCLK=ClockSignal(),
            i_RCLKE=1,
            i_RE=1,
            i_RADDR=Cat(inside[4:], inside[:3]),
            i_WCLK=ClockSignal(),
            i_WCLKE=1,
            i_WE=enable.value,
            i_WADDR=Cat(written, Const(0, 11))[:11],
            i_MASK=mask.value[:_WORD_BITS],
            i_WDATA=(~clear.at(read + 1).value).replicate(_WORD_BITS),
            o_RDATA=word if self.STRICT else pair,
        )
