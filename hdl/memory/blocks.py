"""Segment memories of explicit block RAMs: the part that all vendors share."""

from abc import ABC, abstractmethod
from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from ..latencies import BLOCK_CLEAR_BITS, FAN_IN
from ..pipeline import Pipeline
from .map import BLOCK_KINDS, BlockGrid
from .segment import SegmentMemory


class BlockSegmentMemory(SegmentMemory):
    """Segment memory of explicit block RAMs: one port reads a word, another port sets a bit later.

    If two successive cycles access the same bit, the read coincides with the write. A comparator
    detects this and reports the bit as set, so the result of such a read does not matter. The
    block RAM must return the other bits of the word correctly during a write.

    A clear uses the path of the addresses. Memories whose addresses agree in some bits have the
    same logic for these bits, so that synthesis shares it.

    Parameters
    ----------
    parameters
        As for `SegmentMemory`.
    """

    VARIANT: str
    READ_CYCLES = 1
    """Cycles from the address at a block to its word."""
    STRICT = False
    """Whether no result depends on a word while another port writes a bit of the word."""

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
        # As after the previous access.
        same = None
        if not self.STRICT:
            same = self._same_bit(pipe, address, self._setting(pipe, set, clear))
        bit = self._select(pipe, bits, address, same).at(self.latency)
        m.d.comb += self.bit.eq(bit.value)
        pipe.leave(bit, latency=self.latency)
        return m

    def _split(self, address):
        """Separate an address into place within a block, column, and row."""
        columns, _, low = self._grid
        high = low + columns.bit_length() - 1
        inside = Cat(address[:low], address[high:])
        return inside[: self._inside_bits], address[low:high], inside[self._inside_bits :]

    def _digits(self, address):
        """Separate an address into the selection of a bit in a word, and the rest."""
        low = self._width.bit_length() - 1
        return address[:low], address[low:]

    def _number(self, address):
        """Return the number of the selected bit among the words of all blocks."""
        _, column, row = self._split(address)
        return Cat(self._digits(address)[0], column, row)

    def _known(self, m, pipe, words, address, setting, clear):
        """Return the words after the previous access, except for the bit that is compared."""
        return self._kept(m, pipe, words, address, setting) if self.STRICT else words

    def _setting(self, pipe, set, clear):
        """Return whether a bit is set, one cycle behind the address at the memory."""
        return set.at(self._address_registers + 1)

    def _kept(self, m, pipe, words, address, setting):
        """Return the words; a word that was read during a write is replaced by the previous one."""
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
        """Return joined flags of the address bits that equal those in the previous access."""
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
        own = -(-(len(address) - self._shared_bits) // 2)
        # As many flags as the LUT that selects the bit has free inputs.
        kept = 2 if own == 2 and self._shared_bits else 1

        def join(pairs):
            pairs.append(setting.value)
            flags = pairs[:own] + _all_of_four(pairs[own:]) if kept == 2 else _all_of_four(pairs)
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
        """Return the selected bit, after the remaining stages of the latency.

        The result is also set if all flags `same` are set, unless `same` is None.
        """
        stage = pipe.stage(*values)
        number = pipe.combine("number", self._number, address.at(stage))
        for clocks in range(self.latency - self._far - stage, 0, -1):
            count = -(-len(number) // clocks)
            digits, number = number[:count], number[count:]
            # If there are several digits, the last digit selects between halves of which one is
            # zero, in two LUTs. A multiplexer would become a reset, which registers share.
            for digit in range(min(count, max(1, count - 1))):
                values = [
                    pipe.combine("bit", Mux, digits[digit], one, zero)
                    for zero, one in zip(values[::2], values[1::2], strict=True)
                ]
            if count > 1:
                values = [
                    pipe.combine("bit", partial(_masked, index % 2), digits[count - 1], value)
                    for index, value in enumerate(values)
                ]
            elif clocks == 1:
                values, same = [_or_all(pipe, *values, same)], None
            # The highest remaining digit is such a reset, if another digit remains for selection.
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


def _masked(own, digit, value):
    """Return a value, or 0 if a digit differs from the expected one."""
    return value & (digit == own)


def _stored(pipe, name, values, highest):
    """Return registered values; a digit resets the half that it does not select."""
    stored = []
    for index, value in enumerate(values):
        upper = index >= len(values) // 2
        source = (lambda value: value, value)
        if highest is not None:
            source = (lambda digit, value, own=upper: Mux(digit == own, value, 0), highest, value)
        stored.append(pipe.register(f"{name}_{index}", *source, reset_less=True))
    return stored


def _or_all(pipe, value, flags):
    """Return whether a value, or every flag, is set; the value alone if there are no flags."""
    if flags is None:
        return value
    return value | pipe.combine("all", lambda flags: flags.all(), flags.at(value.stage))


def _all_of_four(flags):
    """Return one flag for each group of four flags: whether the whole group is set."""
    return [Cat(flags[at : at + FAN_IN]).all() for at in range(0, len(flags), FAN_IN)]


class DualPortSegmentMemory(BlockSegmentMemory, ABC):
    """Segment memory of true dual-port block RAMs: port A reads or clears, port B sets bits.

    A clear blocks all writes of single bits, also in words that it has already cleared. So the
    ports never write the same bit.
    """

    def _setting(self, pipe, set, clear):
        clearing = clear.at(self._address_registers - 1).value
        # As a reset, which uses no LUT.
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
        """Instantiate a block."""
