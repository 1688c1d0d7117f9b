"""The bit-sliced organisation: one word holds the bits of one cell in every segment.

It needs one hash function for all segments, as the guarded-epoch families
have: an operation then reads one word of each part.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..memory.ecp5 import ECP5WordBank
from ..memory.words import PortableWordBank
from ..profile import FAN_IN, RING_LATENCY, ceil_log
from .core import FilterCore

VARIANTS = {"portable": PortableWordBank, "ecp5": ECP5WordBank}
"""Variants of the banks, by name."""


class ColumnRing(wiring.Component):
    """Selects the columns that an operation sets and those that are wiped.

    As `Ring`, of which it has the positions, the latency and the order of
    events; but that a column is wiped is told all the time, and when that is
    done is for the banks to know.

    Parameters
    ----------
    segments : int
        Columns, the spare included.

    Members
    -------
    insert, shift, clear, adopt : In(1)
        The operation. `clear` excludes the others.
    set : Out(segments)
        The column that an insertion sets.
    wipe : Out(segments)
        The spare; after a clear all columns, until the next insertion or shift.
    base : Out(range(segments))
        Physical segment that was the youngest when the operation came.
    start : Out(1)
        The operation shifted or cleared.
    """

    LATENCY = RING_LATENCY

    def __init__(self, *, segments):
        self._segments = segments
        super().__init__(
            {
                "insert": In(1),
                "shift": In(1),
                "clear": In(1),
                "adopt": In(1),
                "set": Out(segments),
                "wipe": Out(segments),
                "base": Out(range(segments)),
                "start": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        segments = self._segments
        youngest = Signal(segments, init=1)
        spare = Signal(segments, init=1 << (segments - 1))
        everything = Signal()
        position = Signal(range(segments))
        before = Signal.like(position)
        started = Signal()
        m.d.sync += [
            self.set.eq(youngest),
            self.wipe.eq(spare | everything.replicate(segments)),
            before.eq(position),
            self.base.eq(before),
            started.eq(self.shift | self.clear),
            self.start.eq(started),
        ]
        with m.If(self.insert | self.shift):
            m.d.sync += everything.eq(0)
        with m.If(self.shift):
            m.d.sync += [
                youngest.eq(youngest.rotate_right(1)),
                spare.eq(spare.rotate_right(1)),
                position.eq(Mux(position == 0, segments - 1, position - 1)),
            ]
        with m.If(self.clear):
            m.d.sync += [
                youngest.eq(youngest.init),
                spare.eq(spare.init),
                position.eq(0),
                everything.eq(1),
            ]
        return m


class SlicedPart(wiring.Component):
    """One part of all segments: banks of words, of which an operation accesses one.

    The banks that it does not access sweep meanwhile.

    Parameters
    ----------
    memory : str
        Variant of the banks, one of `VARIANTS`.
    cells : int
        Words. Power of two.
    banks : int
        Power of two, at most half of `cells`.
    columns : int
        Bits of a word.

    Members
    -------
    access, insert, start, set, wipe
        As for `WordBank`; the masks come `MASK_LAG` clocks after the access too.
    cell : In(range(cells))
    word : Out(columns)
        `latency` clocks after `cell`.
    clean : Out(1)
        All sweeps are over.
    """

    MASK_LAG = PortableWordBank.MASK_LAG - 1

    def __init__(self, *, memory, cells, banks, columns):
        self._bank_bits = (banks - 1).bit_length()
        self._banks = [VARIANTS[memory](rows=cells // banks, columns=columns) for _ in range(banks)]
        self.latency = 1 + PortableWordBank.LATENCY + self._bank_bits
        self.clean_latency = 1 + 1 + ceil_log(FAN_IN, banks)
        """Clocks from `start` to the fall of `clean`."""
        super().__init__(
            {
                "access": In(1),
                "insert": In(1),
                "cell": In(range(cells)),
                "start": In(1),
                "set": In(columns),
                "wipe": In(columns),
                "word": Out(columns),
                "clean": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        number, row = self.cell[: self._bank_bits], self.cell[self._bank_bits :]
        row_register = Signal(len(row), reset_less=True)
        m.d.sync += row_register.eq(row)
        registers = self._banks[0].registers
        start = registers(m, self.start, 1)
        set = registers(m, self.set, 2)
        wipe = registers(m, self.wipe, 2)
        for index, bank in enumerate(self._banks):
            m.submodules[f"bank{index}"] = bank
            access = Signal(name=f"access{index}")
            insert = Signal(name=f"insert{index}")
            m.d.sync += [
                access.eq(self.access & (number == index)),
                insert.eq(self.insert & (number == index)),
            ]
            m.d.comb += [
                bank.access.eq(access),
                bank.insert.eq(insert),
                bank.row.eq(row_register),
                bank.start.eq(start),
                bank.set.eq(set),
                bank.wipe.eq(wipe),
            ]
        m.d.comb += [
            self.clean.eq(all_of(m, [bank.clean for bank in self._banks])),
            self.word.eq(self._elaborate_selection(m, number)),
        ]
        return m

    def _elaborate_selection(self, m, number):
        """Select the bank by one binary digit per clock."""
        for stage in range(1 + PortableWordBank.LATENCY):
            late = Signal.like(number, name=f"number{stage}", reset_less=True)
            m.d.sync += late.eq(number)
            number = late
        words = [bank.word for bank in self._banks]
        for stage in range(self._bank_bits):
            selected = []
            for index in range(0, len(words), 2):
                word = Signal.like(words[0], name=f"word{stage}_{index}", reset_less=True)
                m.d.sync += word.eq(Mux(number[0], words[index + 1], words[index]))
                selected.append(word)
            rest = Signal(len(number) - 1, name=f"rest{stage}", reset_less=True)
            m.d.sync += rest.eq(number[1:])
            words, number = selected, rest
        return words[0]


class SlicedCore(FilterCore):
    """Pipeline of a guarded-epoch filter whose segments are columns of common words.

    The contract is that of `FilterCore`, but for the spare: it is swept in the
    clocks in which a bank has no query and no insertion, and so may take any time.
    Whoever shifts must have seen `clean`. `spec.clear` is the number of banks of
    a part: so many cells are swept per clock while nothing else happens.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification, its segments have hash
        functions of their own, or there is no such variant of the memory.
    """

    ORGANISATION = "bit-sliced"

    def _build_memories(self):
        spec = self._spec
        self._ring = ColumnRing(segments=spec.segments)
        self._parts = [
            SlicedPart(
                memory=self._memory,
                cells=spec.part_bits,
                banks=spec.clear,
                columns=spec.segments,
            )
            for _ in range(spec.parts)
        ]
        self.clear_clocks = self._profile.spare_lag
        return self._parts[0].latency

    def _elaborate_segments(self, m, control):
        ring = self._ring
        access = self._delay(m, control.query | control.insert, ColumnRing.LATENCY, "access")
        insert = self._delay(m, control.insert, ColumnRing.LATENCY, "insert")
        set = self._delay(m, ring.set, SlicedPart.MASK_LAG, "set")
        wipe = self._delay(m, ring.wipe, SlicedPart.MASK_LAG, "wipe")
        indices = self._hashes[0].indices(0)
        block, cells = indices[: -self._spec.parts], indices[-self._spec.parts :]
        for number, (part, cell) in enumerate(zip(self._parts, cells, strict=True)):
            m.submodules[f"part{number}"] = part
            m.d.comb += [
                part.access.eq(access),
                part.insert.eq(insert),
                part.cell.eq(
                    self._delay(m, Cat(cell, *block), ColumnRing.LATENCY, f"cell{number}")
                ),
                part.start.eq(ring.start),
                part.set.eq(set),
                part.wipe.eq(wipe),
            ]
        m.d.comb += self.clean.eq(all_of(m, [part.clean for part in self._parts]))
        return Cat(
            part.word[segment] for segment in range(self._spec.segments) for part in self._parts
        )


def all_of(m, flags):
    """Return whether all flags are set, ``ceil_log(FAN_IN, len(flags))`` clocks later.

    Parameters
    ----------
    m : Module
        That the registers go to.
    flags : list of Value
    """
    while len(flags) > 1:
        groups = [flags[at : at + FAN_IN] for at in range(0, len(flags), FAN_IN)]
        registered = Signal(len(groups))
        m.d.sync += registered.eq(Cat(Cat(group).all() for group in groups))
        flags = list(registered)
    return flags[0]
