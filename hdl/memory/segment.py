"""Memories for one part of a segment: an access reads and sets a single bit."""

from abc import ABC, abstractmethod
from functools import partial

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import BLOCK_CLEAR_BITS
from ..parameters import require_integer
from ..pipeline import FAN_IN, Pipeline, delayed
from .ecp5 import dp16kd
from .map import BLOCK_KINDS, STRICT, BlockGrid, memory_latency


class SegmentMemory(wiring.Component):
    """Array of bits with a test-and-set port and a wide clear port.

    The memory accepts one access per cycle. An access returns the bit `latency` cycles after its
    address. The bit reflects all earlier accesses, even an access in the previous cycle, but not
    the `set` of this access. Only the clear port clears the memory; reset does not.

    A clear belongs to a sweep over the whole memory. During the sweep, accesses set no bits and
    their results are undefined. Accesses may resume in the cycle after the sweep. An access that
    sets a bit in the cycle before the sweep may or may not take effect; the sweep clears the bit.

    Parameters
    ----------
    depth : int
        Number of bits, a power of two and at least 2.
    clear_bits : int
        Number of bits that `clear` zeroes in one cycle, a power of two and at most `depth`.
    address_registers : int
        Number of registers between the ports and the memory, at least 1. Each register adds a cycle
        to `latency` in all variants. If there are at most two, the address of a clear enters before
        the first register. If there are more, it enters after the first register, and the output
        has an additional register.
    shared_bits : int
        Number of high address bits that neighbouring memories have in common; synthesis shares the
        logic for these bits.

    Raises
    ------
    TypeError
        If `address_registers` or `shared_bits` is not an integer.
    ValueError
        If a parameter is out of range.
    """

    def __init__(self, *, depth, clear_bits, address_registers=1, shared_bits=0):
        for name, value in (("Depth", depth), ("Clear width", clear_bits)):
            if not isinstance(value, int) or value < 1 or value & (value - 1):
                raise ValueError(f"{name} must be a power of two, not {value!r}")
        if depth < 2:
            raise ValueError(f"Depth must be at least 2, not {depth}")
        if clear_bits > depth:
            raise ValueError(f"Clear width must be at most the depth of {depth}, not {clear_bits}")
        require_integer("Address registers", address_registers, minimum=1)
        require_integer("Shared bits", shared_bits, minimum=0)
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

    ANSWER_CYCLES = 2  # cycles from an address to its bit, without the selection among block RAMs

    def _late(self, m, bit):
        """Return a bit, delayed to match the output of the block RAM multiplexer."""
        return delayed(m, bit, self.latency - self.ANSWER_CYCLES, "late", reset_less=True)

    @property
    def depth(self):
        return self._depth

    @property
    def clear_bits(self):
        return self._clear_bits


class PortableSegmentMemory(SegmentMemory):
    """Portable segment memory: one inferred memory, `words`.

    An access reads its word in one cycle and writes the word back with the bit set in the next. If
    the next access uses the same word, it takes the word that is being written, so the result of a
    read during a write does not matter.
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
        """Return the word that was read, which is undefined if it was written in the same cycle."""
        return read.data


class RegisteredSegmentMemory(PortableSegmentMemory):
    """Portable segment memory with an output register, which block RAMs provide.

    An access reads its word in one cycle and writes the word back two cycles later. Clears use the
    same path. Two comparators find words that are being written.
    """

    ANSWER_CYCLES = 3

    def elaborate(self, platform):
        m = Module()
        low = self._clear_bits.bit_length() - 1
        m.submodules.words = words = self.words
        read = words.read_port()
        write = words.write_port()
        asked = self.address[low:]
        word_address = Mux(self.clear, self.clear_address, asked)
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
            Cat(place1, number1, set1, clear1).eq(Cat(word_address, number, self.set, self.clear)),
            Cat(place2, number2, set2, clear2).eq(Cat(place1, number1, set1, clear1)),
            word2.eq(word),
            met_next.eq(write.en & (place2 == asked)),
            met_before.eq(met_next),
            met_last.eq(write.en & (place2 == place1)),
            Cat(last, before).eq(Cat(write.data, last)),
            bit.eq(current.bit_select(number2, 1)),
        ]
        return m


class BlockSegmentMemory(SegmentMemory):
    """Segment memory of explicit block RAMs: one port reads a word, then another port sets a bit.

    If two successive cycles access the same bit, the read coincides with the write. A comparator
    reports the bit as set, so the result of such a read does not matter. The block RAM must return
    the other bits of the word correctly during a write. Clears use the address path.
    """

    VARIANT: str
    READ_CYCLES = 1  # cycles from the address at a block to its word
    # whether no result depends on a word while another port writes a bit of the word
    STRICT = False

    def __init__(self, **parameters):
        super().__init__(**parameters)
        kind = BLOCK_KINDS[self.VARIANT]
        self._grid = BlockGrid.of(
            depth=self._depth, clear_bits=self._clear_bits, block_bits=kind.bits
        )
        self._inside_bits = kind.bits.bit_length() - 1
        self._width = min(self._clear_bits, BLOCK_CLEAR_BITS)
        self._far = self._address_registers > 2

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        swept = self._clear_bits.bit_length() - 1
        set, clear = pipe.enter(self.set, "set"), pipe.enter(self.clear, "clear")
        accessed, sweeping = (
            pipe.enter(value, name, reset_less=True).at(int(self._far))
            for value, name in ((self.address, "accessed"), (self.clear_address, "sweeping"))
        )
        address = pipe.combine(
            "address",
            lambda accessed, sweeping, clear: Cat(
                accessed[:swept], Mux(clear, sweeping, accessed[swept:])
            ),
            accessed,
            sweeping,
            clear.at(int(self._far)),
        )
        read = self._address_registers
        words = []
        for row in range(self._grid.rows):
            for column in range(self._grid.columns):
                name = f"{row}_{column}"
                word = Signal(self._width, name=f"word{name}")
                m.submodules[f"block{name}"] = self._block(
                    pipe, address, set, clear, row=row, column=column, word=word
                )
                words.append(pipe.enter(word, f"word{name}", stage=read + self.READ_CYCLES))
        words = self._known(m, pipe, words, address, self._setting(pipe, set, clear), clear)
        bits = [word[bit] for word in words for bit in range(self._width)]
        # Set if the previous access, which is not written yet, sets the same bit.
        same = None
        if not self.STRICT:
            same = self._same_bit(pipe, address, self._setting(pipe, set, clear))
        bit = self._select(pipe, bits, address, same).at(self.latency)
        m.d.comb += self.bit.eq(bit.value)
        pipe.leave(bit, latency=self.latency)
        return m

    def _split(self, address):
        """Split an address into the position within a block, the column and the row."""
        columns, _, low = self._grid
        high = low + columns.bit_length() - 1
        inside = Cat(address[:low], address[high:])
        return inside[: self._inside_bits], address[low:high], inside[self._inside_bits :]

    def _digits(self, address):
        """Split an address into the number of a bit in its word, and the rest."""
        low = self._width.bit_length() - 1
        return address[:low], address[low:]

    def _number(self, address):
        """Return the index of the accessed bit among the bits that all blocks return."""
        _, column, row = self._split(address)
        return Cat(self._digits(address)[0], column, row)

    def _known(self, m, pipe, words, address, setting, clear):
        """Return the words with the effect of the previous access.

        The bit that the previous access set may still be missing, unless the memory is `STRICT`.
        """
        return self._kept(m, pipe, words, address, setting) if self.STRICT else words

    def _setting(self, pipe, set, clear):
        return set.at(self._address_registers + 1)

    def _kept(self, m, pipe, words, address, setting):
        """Where a word was read during its write, use the old value with the new bit set."""
        repeated = self._same_word(pipe, address, setting)
        added = 1 << self._digits(address.at(repeated.stage + 1).value)[0]
        known = []
        for index, word in enumerate(words):
            kept = Signal(self._width, name=f"kept{index}", reset_less=True)
            word = pipe.combine(
                "known", lambda word, met, kept=kept: Mux(met, kept | added, word), word, repeated
            )
            m.d.sync += kept.eq(word.value)
            known.append(word)
        return known

    def _agreeing(self, pipe, address, part, join):
        """Compare a part of this address with the previous address, two bits at a time.

        `join` converts the results of the comparisons to the flags that are returned.
        """
        before = address.at(self._address_registers + 1).value

        def compare(address):
            here, there = part(address), part(before)
            pairs = [here[at : at + 2] == there[at : at + 2] for at in range(0, len(here), 2)]
            return Cat(join(pairs or [Const(1)]))

        return pipe.combine("same", compare, address.at(self._address_registers))

    def _same_word(self, pipe, address, setting):
        """Return whether the previous access sets a bit of the same word."""

        def join(pairs):
            # The reset of the register uses no input of a LUT.
            return *pairs[:-1], Mux(setting.value, pairs[-1], 0)

        flags = self._agreeing(pipe, address, lambda address: self._digits(address)[1], join)
        flags = flags.at(flags.stage + self.READ_CYCLES - 1)
        return pipe.register("repeated", lambda flags: flags.all(), flags)

    def _same_bit(self, pipe, address, setting):
        """Return flags that are all set if the previous access sets the same bit."""
        count = -(-(len(address) - self._shared_bits) // 2)
        # As many flags as the LUT that selects the bit has free inputs.
        kept = 2 if count == 2 and self._shared_bits else 1

        def join(pairs):
            pairs.append(setting.value)
            flags = (
                pairs[:count] + _all_of_four(pairs[count:]) if kept == 2 else _all_of_four(pairs)
            )
            # Flags that reset the others are stored inverted.
            return *flags[:kept], *(~flag for flag in flags[kept:])

        flags = self._agreeing(pipe, address, lambda address: address, join)
        flags = flags.at(flags.stage + 1)

        def remaining(flags):
            others = flags[kept:]
            return Cat(
                Mux(Cat(others[at::kept]).any(), 0, flag) for at, flag in enumerate(flags[:kept])
            )

        return pipe.register("repeated", remaining, flags)

    def _select(self, pipe, values, address, same):
        """Return the selected bit, which is also set if all of the `same` flags are set."""
        stage = pipe.stage(*values)
        number = pipe.combine("number", self._number, address.at(stage))
        for clocks in range(self.latency - self._far - stage, 0, -1):
            count = -(-len(number) // clocks)
            digits, number = number[:count], number[count:]
            # If there are several digits, the last digit selects between halves of which one is
            # zero, in two LUTs. A multiplexer would become a reset, which registers share.
            for digit in range(min(count, max(1, count - 1))):
                values = [
                    pipe.combine("bit", Mux, digits[digit], high, low)
                    for low, high in zip(values[::2], values[1::2], strict=True)
                ]
            if count > 1:
                values = [
                    pipe.combine("bit", partial(_masked, index % 2), digits[count - 1], value)
                    for index, value in enumerate(values)
                ]
            elif clocks == 1:
                values, same = [_or_all(pipe, *values, same)], None
            # The highest remaining digit becomes a reset, if another digit remains for selection.
            reset = clocks > 1 and len(number) > 1
            highest = number[len(number) - 1] if reset else None
            values = _stored(pipe, f"bit{clocks}", values, highest)
            if count > 1:
                values = [a | b for a, b in zip(values[::2], values[1::2], strict=True)]
            if reset:
                half = len(values) // 2
                number = number[:-1]
                values = [a | b for a, b in zip(values[:half], values[half:], strict=True)]
            number = number.at(values[0].stage)
        return _or_all(pipe, values[0], same)


def _masked(expected, digit, value):
    return value & (digit == expected)


def _stored(pipe, name, values, highest):
    """Register the values; reset the half of them that the digit `highest` does not select."""
    stored = []
    for index, value in enumerate(values):
        upper = index >= len(values) // 2
        source = (lambda value: value, value)
        if highest is not None:
            source = (lambda digit, value, half=upper: Mux(digit == half, value, 0), highest, value)
        stored.append(pipe.register(f"{name}_{index}", *source, reset_less=True))
    return stored


def _or_all(pipe, value, flags):
    """Return `value` ORed with the AND of all `flags`; if `flags` is None, return `value`."""
    if flags is None:
        return value
    return value | pipe.combine("all", lambda flags: flags.all(), flags.at(value.stage))


def _all_of_four(flags):
    return [Cat(flags[at : at + FAN_IN]).all() for at in range(0, len(flags), FAN_IN)]


class DualPortSegmentMemory(BlockSegmentMemory, ABC):
    """Segment memory of true dual-port block RAMs: port A reads or clears, port B sets bits.

    A clear blocks all writes of single bits, so the ports never write the same bit.
    """

    def _setting(self, pipe, set, clear):
        clearing = clear.at(self._address_registers - 1).value
        # `clearing` becomes a reset, which uses no LUT.
        return pipe.register(
            "setting", lambda set: Mux(clearing, 0, set), set.at(self._address_registers)
        )

    def _block(self, pipe, address, set, clear, *, row, column, word):
        read = self._address_registers
        low = self._width.bit_length() - 1

        def chosen(address):
            _, in_column, in_row = self._split(address)
            return in_row == row, in_column == column

        name = f"{row}_{column}"
        zeroes = pipe.combine(
            f"clear{name}",
            lambda clear, address: clear & chosen(address)[0],
            clear.at(read - 1),
            address.at(read - 1),
        ).at(read)
        clearing = clear.at(read - 1).value
        sets = pipe.register(
            f"set{name}",
            lambda set, address: Mux(clearing, 0, set & Cat(chosen(address)).all()),
            set.at(read),
            address.at(read),
        )
        return self._instance(
            word_address=self._split(address.at(read).value)[0][low:],
            word=word,
            clear=zeroes.value,
            bit_address=self._split(address.at(read + 1).value)[0],
            set=sets.value,
        )

    @abstractmethod
    def _instance(self, *, word_address, word, clear, bit_address, set):
        """Instantiate a block RAM."""


class ECP5SegmentMemory(DualPortSegmentMemory):
    """Segment memory of DP16KD block RAMs in NORMAL mode."""

    VARIANT = "ecp5"
    READ_CYCLES = 2  # uses the output register of the block, which synthesis does not infer

    def _instance(self, *, word_address, word, clear, bit_address, set):
        # Bytes have nine bits; single bits never use the ninth. In wide words the lowest address
        # bits enable bytes.
        enable = {8: Const(1, 3), 16: Const(3, 4)}.get(
            len(word), Const(0, len(word).bit_length() - 1)
        )
        outputs = word if len(word) < 16 else Cat(word[:8], Signal(), word[8:])
        return dp16kd(
            Cat(enable, word_address), bit_address,
            widths=(len(word) * 9 // 8, 1),
            i_WEA=clear, i_WEB=set, i_DIB0=1,
            **{f"o_DOA{index}": bit for index, bit in enumerate(outputs)},
        )  # fmt: skip


class GowinSegmentMemory(DualPortSegmentMemory):
    """Segment memory of DPB block RAMs; no port reads and writes in the same cycle."""

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


_WORD_BITS = 16


class ICE40SegmentMemory(BlockSegmentMemory):
    """Segment memory of SB_RAM40_4K block RAMs.

    The bit mask of the write port sets a single bit without a read of its word. The same port
    clears words, one cycle after the address of the clear. The read port is two bits wide, so a
    2-to-1 multiplexer follows.
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
        """Return the words with the effect of the previous access and of a clear in that cycle."""
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


# segment memory components, by variant name
VARIANTS = {
    "portable": PortableSegmentMemory,
    "portable-registered": RegisteredSegmentMemory,
    "ecp5": ECP5SegmentMemory,
    "ice40": ICE40SegmentMemory,
    "gowin": GowinSegmentMemory,
}

VARIANTS |= {
    f"{name}{STRICT}": type(
        f"Strict{variant.__name__}",
        (variant,),
        {
            "__module__": __name__,
            "STRICT": True,
            "__doc__": f"`{variant.__name__}` that never uses a word while another port writes it.",
        },
    )
    for name, variant in VARIANTS.items()
    if name in BLOCK_KINDS
}


def segment_memory(variant, **parameters):
    if variant not in VARIANTS:
        raise ValueError(f"Memory must be one of {', '.join(VARIANTS)}, not {variant!r}")
    return VARIANTS[variant](**parameters)
