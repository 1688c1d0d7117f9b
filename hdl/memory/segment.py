"""Memory of one part of a segment: an access reads and sets a single bit.

Every variant has the signature of `SegmentMemory` and behaves identically at its ports in
every cycle.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import memory_latency
from ..parameters import require_integer
from ..pipeline import delayed


class SegmentMemory(wiring.Component):
    """Array of bits with a test-and-set port and a wide clear port.

    One access per cycle. An access returns the bit `latency` cycles after its
    address, with the effect of all earlier accesses, including an access in
    the previous cycle. Reset does not clear the memory; only the clear port
    does.

    A clear belongs to a sweep over the whole memory. During the sweep,
    accesses set no bits and their answers are undefined. Accesses may resume
    in the cycle after the sweep. An access that sets a bit in the cycle before
    the sweep may or may not take effect; the sweep clears the bit.

    Parameters
    ----------
    depth : int
        Number of bits. Power of two.
    clear_bits : int
        Bits zeroed by one cycle of `clear`. Power of two, at most `depth`.
    address_registers : int
        Registers between the ports and the memory; each adds to `latency` in all variants. The
        address of a clear enters before the first register, or after it if there are more than
        two. With more than two registers, the output also has an additional register.
    shared_bits : int
        Highest address bits that neighbouring memories share. They have equal logic for these
        bits, so that synthesis shares it.

    Members
    -------
    address : In(range(depth))
    set : In(1)
        Whether the access sets the bit.
    bit : Out(1)
        The bit before the access, `latency` cycles later.
    clear : In(1)
        Zeroes `clear_bits` bits, starting at ``clear_address * clear_bits``.
    clear_address : In(range(depth // clear_bits))

    Errors: as `require_integer`.
    """

    def __init__(self, *, depth, clear_bits, address_registers=1, shared_bits=0):
        for name, value in (("Depth", depth), ("Clear width", clear_bits)):
            if not isinstance(value, int) or value < 1 or value & (value - 1):
                raise ValueError(f"{name} must be a power of two, not {value!r}")
        if depth < 2:
            raise ValueError(f"Depth must be at least 2, not {depth}")
        if clear_bits > depth:
            raise ValueError(f"Clear width must be at most the depth of {depth}, not {clear_bits}")
        require_integer("Address registers", address_registers, least=1)
        require_integer("Shared bits", shared_bits, least=0)
        self._depth = depth
        self._shared_bits = shared_bits
        self._clear_bits = clear_bits
        self._address_registers = address_registers
        self.latency = memory_latency(bits=depth, clear=clear_bits, registers=address_registers)
        super().__init__(
            {
                "address": In(range(depth)),
                "set": In(1),
                "bit": Out(1),
                "clear": In(1),
                "clear_address": In(range(depth // clear_bits)),
            }
        )

    ANSWER_CYCLES = 2
    """Cycles from an address to its bit, without the selection among block RAMs."""

    def _late(self, m, bit):
        """Return a bit, delayed like the output of the selection among block RAMs."""
        return delayed(m, bit, self.latency - self.ANSWER_CYCLES, "late", reset_less=True)

    @property
    def depth(self):
        """Number of bits."""
        return self._depth

    @property
    def clear_bits(self):
        """Bits zeroed by one cycle of `clear`."""
        return self._clear_bits


class PortableSegmentMemory(SegmentMemory):
    """Portable segment memory: one inferred memory, `words`.

    An access reads its word in one cycle and writes the word back with the bit set in the next. The
    only hazard is the same word in two consecutive cycles. One comparator detects it and uses the
    word that is being written, so the result of a read during a write does not matter.
    """

    def __init__(self, **parameters):
        super().__init__(**parameters)
        width = self._clear_bits
        self.words = memory.Memory(shape=width, depth=self._depth // width, init=[])

    def elaborate(self, platform):
        m = Module()
        width = self._clear_bits
        low = width.bit_length() - 1
        m.submodules.words = words = self.words
        read = words.read_port()
        write = words.write_port()

        address = Signal.like(self.address, reset_less=True)
        setting = Signal()
        repeated = Signal()
        written = Signal(width, reset_less=True)
        current = Signal(width)
        bit = Signal(reset_less=True)
        m.d.comb += [
            read.addr.eq(self.address[low:]),
            current.eq(Mux(repeated, written, self._read(m, read, write))),
            write.en.eq(setting | self.clear),
            write.addr.eq(Mux(self.clear, self.clear_address, address[low:])),
            write.data.eq(Mux(self.clear, 0, current | (setting << address[:low]))),
            self.bit.eq(self._late(m, bit)),
        ]
        m.d.sync += [
            address.eq(self.address),
            setting.eq(self.set),
            repeated.eq(setting & (self.address[low:] == address[low:])),
            written.eq(write.data),
            bit.eq(current.bit_select(address[:low], 1)),
        ]
        return m

    def _read(self, m, read, write):
        """Return the word that was read; undefined if it was being written."""
        return read.data


class RegisteredSegmentMemory(PortableSegmentMemory):
    """Portable segment memory with an output register, which block RAMs provide.

    All variants have the same latency, because all wait for the selection of block RAMs. An access
    reads its word in one cycle and writes the word back two cycles later. Clears use the same path.
    Two comparators find words that are being written.
    """

    ANSWER_CYCLES = 3

    def elaborate(self, platform):
        m = Module()
        low = self._clear_bits.bit_length() - 1
        m.submodules.words = words = self.words
        read = words.read_port()
        write = words.write_port()
        asked = self.address[low:]
        place = Mux(self.clear, self.clear_address, asked)
        number, word, bit = self.address[:low], self._read(m, read, write), Signal(reset_less=True)
        place1, place2, number1, number2, word2 = (
            Signal.like(value, name=name, reset_less=True)
            for name, value in (
                ("place1", asked), ("place2", asked), ("number1", number), ("number2", number),
                ("word2", read.data),
            )
        )  # fmt: skip
        set1, set2, clear1, clear2 = (Signal(name=name) for name in (
            "set1", "set2", "clear1", "clear2"
        ))  # fmt: skip
        # Whether one of the previous two accesses writes the same word.
        met_next, met_last, met_before = (
            Signal(name=name) for name in ("met_next", "met_last", "met_before")
        )
        last, before = (Signal.like(read.data, name=name, reset_less=True)
                        for name in ("last", "before"))  # fmt: skip
        current = Signal.like(read.data)
        m.d.comb += [
            read.addr.eq(asked),
            current.eq(Mux(met_last, last, Mux(met_before, before, word2))),
            write.en.eq(set2 | clear2),
            write.addr.eq(place2),
            write.data.eq(Mux(clear2, 0, current | (set2 << number2))),
            self.bit.eq(self._late(m, bit)),
        ]
        m.d.sync += [
            Cat(place1, number1, set1, clear1).eq(Cat(place, number, self.set, self.clear)),
            Cat(place2, number2, set2, clear2).eq(Cat(place1, number1, set1, clear1)),
            word2.eq(word),
            met_next.eq(write.en & (place2 == asked)),
            met_before.eq(met_next),
            met_last.eq(write.en & (place2 == place1)),
            Cat(last, before).eq(Cat(write.data, last)),
            bit.eq(current.bit_select(number2, 1)),
        ]
        return m
