"""Segment memory in the block RAM of Lattice iCE40."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Mux, Signal

from .blocks import BlockSegmentMemory

_WORD_BITS = 16


class ICE40SegmentMemory(BlockSegmentMemory):
    """Variant of SB_RAM40_4K block RAMs.

    The write port's bit mask lets a single bit be set without reading its word; the same port
    clears, a clock after the clear's address could be read. The read port, two bits wide, leaves a
    multiplexer of two.
    """

    VARIANT = "ice40"

    def __init__(self, **parameters):
        super().__init__(**parameters)
        self._width = 2

    def _number(self, address):
        inside, column, row = self._split(address)
        return Cat(Cat(inside, Const(0, 4))[3], column, row)

    def _known(self, pipe, address, set, clear):
        """Beside a bit that the access before has set, its word may just be zeroed."""
        _, repeated = super()._known(pipe, address, set, clear)
        read = self._address_registers
        before, cleared = (value.at(read + 1).value for value in (address, clear))
        low = max(4, self._clear_bits.bit_length() - 1)
        zeroed = pipe.register(
            "zeroed", lambda here: cleared & (here[low:] == before[low:]), address.at(read)
        )
        return lambda bit, repeated, zeroed: (bit | repeated) & ~zeroed, repeated, zeroed

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
            i_WE=enable.value,
            i_WADDR=Cat(written, Const(0, 11))[:11],
            i_MASK=mask.value[:_WORD_BITS],
            i_WDATA=(~clear.at(read + 1).value).replicate(_WORD_BITS),
            o_RDATA=Cat(Signal(3), word[0], Signal(7), word[1], Signal(4)),
        )
