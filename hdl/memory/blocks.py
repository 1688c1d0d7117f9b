"""Segment memories of explicit block RAMs: what those of all vendors share."""

from abc import ABC, abstractmethod

from amaranth.hdl import Cat, Module, Mux, Signal

from ..latencies import BLOCK_CLEAR_BITS
from ..pipeline import Pipeline
from .map import BLOCK_KINDS, BlockGrid
from .segment import SegmentMemory


class BlockSegmentMemory(SegmentMemory):
    """Variant of explicit block RAMs: one port reads a word, another sets a bit in the next clock.

    A comparator finds the same bit in two clocks running, whose read meets the write, and answers
    that it is set: what a read of a bit gives while another port writes it does not matter. That
    the other bits of a word can be read meanwhile is assumed.

    A clear goes the way of the addresses. Memories whose addresses agree in some bits have the
    same logic for these, so that synthesis shares it.

    Parameters
    ----------
    parameters
        As for `SegmentMemory`.
    """

    VARIANT: str
    READ_CYCLES = 1
    """From the address at a block to its word."""
    STRICT = False
    """Whether nothing depends on any bit of a word while another port writes a bit of it."""

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
        words = self._known(m, pipe, words, address, set, clear)
        bits = [word[bit] for word in words for bit in range(self._width)]
        bit = self._select(pipe, bits, address)
        if not self.STRICT:
            # As the access before has left it.
            bit = bit | self._repeated(pipe, address, set, lambda address: address).at(bit.stage)
        if self._far:
            bit = bit.at(self.latency)
        m.d.comb += self.bit.eq(bit.value)
        pipe.leave(bit, latency=self.latency)
        return m

    def _split(self, address):
        """Separate an address into place within a block, column and row."""
        columns, _, low = self._grid
        high = low + columns.bit_length() - 1
        inside = Cat(address[:low], address[high:])
        return inside[: self._inside_bits], address[low:high], inside[self._inside_bits :]

    def _digits(self, address):
        """Separate an address into what selects a bit of a block's word, and the rest."""
        low = self._width.bit_length() - 1
        return address[:low], address[low:]

    def _number(self, address):
        """Return which bit of the words of all blocks an address selects."""
        _, column, row = self._split(address)
        return Cat(self._digits(address)[0], column, row)

    def _known(self, m, pipe, words, address, set, clear):
        """Return the words as the access before has left them, but for the bit that is compared."""
        return self._kept(m, pipe, words, address, set) if self.STRICT else words

    def _kept(self, m, pipe, words, address, set):
        """Return the words, of which one that met a write is that of the access before."""
        repeated = self._repeated(pipe, address, set, lambda address: self._digits(address)[1])
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

    def _repeated(self, pipe, address, set, part):
        """Return whether the access before sets a bit and agrees in a part of the address."""
        before, setting = (value.at(self._address_registers + 1).value for value in (address, set))

        def compare(address):
            here, there = part(address), part(before)
            pairs = [here[at : at + 2] == there[at : at + 2] for at in range(0, len(here), 2)]
            # A reset of the register takes no input of a table.
            return Cat(Mux(setting, pairs.pop() if pairs else 1, 0), *reversed(pairs))

        same = pipe.combine("same", compare, address.at(self._address_registers))
        if self.READ_CYCLES > 1 or not self.STRICT:
            same = same.at(same.stage + 1)
        return pipe.register("repeated", lambda same: same.all(), same)

    def _select(self, pipe, values, address):
        """Return one of the bits, after as many stages as the latency leaves."""
        stage = pipe.stage(*values)
        number = pipe.combine("number", self._number, address.at(stage))
        for clocks in range(self.latency - self._far - stage, 0, -1):
            count = -(-len(number) // clocks)
            digits, number = number[:count], number[count:]
            # Where there are several digits, the last chooses what is not zeroed: two tables of
            # four inputs. As a multiplexer it would become a reset, which registers must share.
            for digit in range(min(count, max(1, count - 1))):
                values = [
                    pipe.combine("bit", lambda digits, a, b, at=digit: Mux(digits[at], b, a),
                                 digits, *pair)
                    for pair in zip(values[::2], values[1::2], strict=True)
                ]  # fmt: skip
            values = [
                pipe.register(
                    f"bit{clocks}_{index}",
                    lambda digits, value, own=index % 2, several=count > 1: (
                        value & (digits[-1] == own) if several else value
                    ),
                    digits,
                    value,
                    reset_less=True,
                )
                for index, value in enumerate(values)
            ]
            if count > 1:
                values = [a | b for a, b in zip(values[::2], values[1::2], strict=True)]
            number = number.at(values[0].stage)
        return values[0]


class DualPortSegmentMemory(BlockSegmentMemory, ABC):
    """Variant of true dual-port blocks: port A, as wide as the clear, reads or zeroes; B sets bits.

    Nothing is set in the clock of a clear, which may have passed the bit already: the ports never
    write the same bit.
    """

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
            lambda set, address: set & ~clearing & Cat(chosen(address)).all(),
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
