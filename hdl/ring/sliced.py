"""The bit-sliced organisation: one word holds the bits of one cell in every segment.

It needs one hash function for all segments, as the guarded-epoch families
have: an operation then reads one word of each part.
"""

from functools import partial

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..latencies import COLUMN_RING_LATENCY
from ..memory.copies import protected
from ..memory.ecp5 import ECP5WordBank
from ..memory.words import PortableWordBank
from ..parameters import require_integer, require_power_of_two
from ..pipeline import Pipeline, delayed, registered
from .ring import illegal_masks
from .separate import StoreSignature, told_upset

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
    check : bool
        As of `Ring`.

    Members
    -------
    insert, shift, clear, adopt : In(1)
        The operation. `clear` excludes the others.
    clean : In(1)
        If it is watched: all sweeps are over.
    set : Out(segments)
        The column that an insertion sets.
    wipe : Out(segments)
        The spare; after a clear all columns, until the next insertion or shift.
    base : Out(range(segments))
        Physical segment that was the youngest when the operation came.
    start : Out(1)
        The operation shifted or cleared.
    illegal : Out(1)
        As of `Ring`.

    Errors: as `require_integer`.
    """

    LATENCY = COLUMN_RING_LATENCY

    def __init__(self, *, segments, check=False):
        require_integer("Segments", segments, least=2)
        self._segments = segments
        self._checks = check
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
            | ({"clean": In(1), "illegal": Out(1)} if check else {})
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
        if self._checks:
            astray = registered(m, ~youngest.bit_select(position, 1), "astray")
            early = (self.shift | (self.insert & everything)) & ~self.clean
            early = registered(m, early, "early")
            masks = illegal_masks(m, youngest, spare, run=1)
            m.d.comb += self.illegal.eq(masks | astray | early)
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
    copies : int
        Of each bank.

    Members
    -------
    access, insert, start, set, wipe
        As for `WordBank`; the masks come `MASK_LAG` clocks after the access too.
    cell : In(range(cells))
    word : Out(columns)
        `latency` clocks after `cell`.
    clean : Out(1)
        All sweeps are over.
    upset : Out(1)
        If there are several copies, with `word`: they differ in it.

    Errors: as `require_integer`.
    """

    MASK_LAG = PortableWordBank.MASK_LAG - 1

    def __init__(self, *, memory, cells, banks, columns, copies=1):
        if memory not in VARIANTS:
            raise ValueError(f"Memory must be one of {', '.join(VARIANTS)}, not {memory!r}")
        require_power_of_two("Cells", cells, least=2)
        require_power_of_two("Banks", banks)
        require_integer("Banks", banks, most=cells // 2)
        require_integer("Columns", columns, least=1)
        self._bank_bits = (banks - 1).bit_length()
        build = partial(VARIANTS[memory], rows=cells // banks, columns=columns)
        self._banks = [protected(build, copies=copies, answers=["word"]) for _ in range(banks)]
        self._copies = copies
        self.latency = 1 + self._banks[0].LATENCY + self._bank_bits
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
            | ({"upset": Out(1)} if copies > 1 else {})
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        cell = pipe.enter(self.cell, "cell", reset_less=True)
        number, row = cell[: self._bank_bits], cell[self._bank_bits :].at(1)
        access, insert = pipe.enter(self.access, "access"), pipe.enter(self.insert, "insert")
        # On the way to banks that lie apart.
        start, set, wipe = (
            delayed(m, value, cycles, name)
            for value, name, cycles in (
                (self.start, "start", 1),
                (self.set, "set", 2),
                (self.wipe, "wipe", 2),
            )
        )
        words = []
        for index, bank in enumerate(self._banks):
            m.submodules[f"bank{index}"] = bank
            come = pipe.drive(
                bank,
                row=row,
                **{
                    name: pipe.register(
                        f"{name}{index}",
                        lambda flag, number, index=index: flag & (number == index),
                        flag,
                        number,
                    )
                    for name, flag in (("access", access), ("insert", insert))
                },
            )
            m.d.comb += [bank.start.eq(start), bank.set.eq(set), bank.wipe.eq(wipe)]
            word = Cat(bank.word, bank.upset) if self._copies > 1 else bank.word
            words.append(pipe.enter(word, f"word{index}", stage=come + bank.LATENCY))
        clean = pipe.enter(Cat(bank.clean for bank in self._banks), "clean", stage=None)
        word = pipe.select(words, number.at(words[0].stage), "word")
        m.d.comb += [self.clean.eq(pipe.all_of("clean", clean).value), self.word.eq(word.value)]
        if self._copies > 1:
            m.d.comb += self.upset.eq(word.value[-1])
        pipe.leave(word, latency=self.latency)
        return m


class SlicedStore(wiring.Component):
    """Store whose segments are columns of common words, for guarded-epoch filters.

    The spare is swept in the cycles in which a bank has no query and no insertion, and so may
    take any time. Whoever shifts must have seen `clean`. Each of the
    banks of a part sweeps a cell per cycle while nothing else happens.

    Parameters
    ----------
    spec : FilterSpec
    profile : HardwareProfile
        Must pass `HardwareProfile.check_buildable` for the bit-sliced organisation.
    memory : str
        Variant of the banks, one of `VARIANTS`.
    hashes : int
        1: segments share their words.

    Members
    -------
    See `StoreSignature`.

    Raises
    ------
    ValueError
        If there is no such variant, or there are more hashes.
    """

    def __init__(self, *, spec, profile, memory="portable", hashes=1):
        if hashes != 1:
            raise ValueError(f"Hashes must be 1, not {hashes!r}")
        self._spec = spec
        self.ring = ColumnRing(segments=spec.segments, check=profile.check)
        self.parts = [
            SlicedPart(
                memory=memory,
                cells=spec.part_bits,
                banks=profile.banks,
                columns=spec.segments,
                copies=profile.copies,
            )
            for _ in range(spec.parts)
        ]
        self.latency = ColumnRing.LATENCY + self.parts[0].latency
        self._upsets = profile.copies > 1
        super().__init__(
            StoreSignature(
                spec=spec, latency=self.latency, upsets=self._upsets, checks=profile.check
            )
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = ring = self.ring
        pipe = Pipeline(m)
        control = pipe.enter(self.control, "control")
        begun = pipe.drive(
            ring, **{name: control[name] for name in ("insert", "shift", "clear", "adopt")}
        )
        begun += ColumnRing.LATENCY
        masks = {
            name: pipe.enter(getattr(ring, name), name, stage=begun).at(begun + SlicedPart.MASK_LAG)
            for name in ("set", "wipe")
        }
        access = (control["query"] | control["insert"]).at(begun)
        insert = control["insert"].at(begun)
        words = []
        for number, part in enumerate(self.parts):
            m.submodules[f"part{number}"] = part
            cell = pipe.enter(self.addresses0[0][number], f"cell{number}", reset_less=True)
            come = pipe.drive(part, access=access, insert=insert, cell=cell.at(begun))
            pipe.drive(part, **masks)
            m.d.comb += part.start.eq(ring.start)
            words.append(pipe.enter(part.word, f"word{number}", stage=come + part.latency))
        clean = pipe.enter(Cat(part.clean for part in self.parts), "clean", stage=None)
        base = pipe.enter(ring.base, "base", stage=begun).at(pipe.stage(*words))
        m.d.comb += [
            self.bits.eq(
                Cat(word.value[segment] for segment in range(self._spec.segments) for word in words)
            ),
            self.base.eq(base.value),
            self.clean.eq(pipe.all_of("clean", clean).value),
        ]
        pipe.leave(base, *words, latency=self.latency)
        if self._upsets:
            found = Cat(part.upset for part in self.parts)
            found = pipe.enter(found, "found", stage=base.stage)
            m.d.comb += self.upset.eq(told_upset(pipe, found, control).value)
        if "illegal" in self.signature.members:
            m.d.comb += [ring.clean.eq(self.clean), self.illegal.eq(ring.illegal)]
        return m
