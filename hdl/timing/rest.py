"""Part of a timing filter that is swept in clocks without an operation."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..latencies import VOTES
from ..memory.cells import PortableCellMemory
from ..memory.copies import deviating
from ..pipeline import Pipeline, registered
from .part import CellPart, WritePort
from .sweep_rules import BETWEEN
from .ticks import TickCount, constant_flags, is_at_least, joined_flags


class RestPart(CellPart):
    """Cells that one operation per clock reads and writes, or the sweep does, as one of its own.

    The sweep reads a cell where an operation would, and if it has expired gives it a stamp of age
    `limit` again where an operation would write. So one port of the memory only reads, the other
    only writes, and all writes are in the order of their reads. In time the sweep is if
    `check_rest` accepts the filter.

    A read that comes before the write of one of the `BETWEEN` operations before it, or meets it,
    takes that operation's stamp: its age are the ticks since. A read that meets the write of the
    sweep answers that the cell has expired; or, if that writes a cell as it is wrong, with an age
    of 0, or as the other copies have it. Nothing else of what the memory leaves undefined is used.
    Ticks may come in every clock.

    Parameters
    ----------
    cells, stamp_bits, limit, memory, protect
        As for `CellPart`.

    Members
    -------
    As those of `CellPart`, and:

    sweep : In(1)
        There is no operation, and the cell `swept` is.
    wipe : In(1)
        With it: the cell gets a stamp of age `limit`, whatever it is.
    swept : In(range(cells))
    """

    def __init__(self, *, cells, stamp_bits, limit, memory=PortableCellMemory, protect="none"):
        shape = {"cells": cells, "stamp_bits": stamp_bits, "limit": limit}
        ports = {"sweep": In(1), "wipe": In(1), "swept": In(range(cells))}
        super().__init__(**shape, memory=memory, protect=protect, **ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self.memory
        pipe = Pipeline(m)
        port = WritePort(m, memory)
        address = pipe.enter(Mux(self.sweep, self.swept, self.address), "address", reset_less=True)
        flags = {name: pipe.enter(getattr(self, name), name)
                 for name in ("insert", "sweep", "wipe", "tick")}  # fmt: skip
        now = pipe.enter(self.now, "now", stage=TickCount.NOW)
        stamp = pipe.enter(memory.a_word, "stamp", stage=1 + memory.LATENCY, reset_less=True)
        age = pipe.register("age", self._age, now, stamp.at(4), reset_less=True)
        known, since = self._elaborate_known(m, pipe, address, flags["insert"], flags["tick"])
        dead = self._elaborate_same(pipe, "dead", address, port.address, port.sweeps).at(5)
        doubt = self._elaborate_doubt(m, pipe, stamp.at(4), port, known, dead)
        expired = self._elaborate_answer(m, pipe, age, known, since, dead, doubt)
        insert, sweep, wipe = (flags[name].at(self.LATENCY).value
                               for name in ("insert", "sweep", "wipe"))  # fmt: skip
        sweeps = Signal()
        restamp, restamps = self._word("restamp"), sweep
        if self._voted:
            restamp = self._elaborate_mending(m, pipe, stamp, sweep & ~wipe & ~expired.value)
        if self._checked:
            renews = sweep & ~wipe & self.upset
            restamps = sweep & ~renews
            expired = pipe.combine("due", lambda expired: expired | self.upset, expired)
            m.d.comb += self.renewed.eq(renews)
            m.d.sync += port.renews.eq(renews)
        m.d.comb += [
            memory.a_address.eq(address.at(1).value),
            sweeps.eq(sweep & (expired.value | wipe)),
        ]
        m.d.sync += [
            port.address.eq(address.at(self.LATENCY).value),
            port.value.eq(Mux(restamps, restamp, self._word("stamp"))),
            port.write.eq(insert | sweeps),
            port.sweeps.eq(sweeps),
        ]
        return m

    def _elaborate_mending(self, m, pipe, word, young):
        """Have a copy written that differs; return what is written for a sweep of a cell.

        Parameters
        ----------
        m : Module
        pipe : Pipeline
        word : Staged
            Of the cell.
        young : Value
            Whether the sweep takes it and finds it not expired, at stage `LATENCY`.
        """
        unlike = self._elaborate_unlike(pipe, word.stage)
        half = len(unlike) // 2
        copies = pipe.register(
            "deviating", lambda unlike: deviating(unlike[:half], unlike[half:]), unlike
        )
        renews = young & self.upset
        mends = registered(m, copies.at(self.LATENCY).value & renews.replicate(VOTES), "mends")
        m.d.comb += [self.renewed.eq(renews), self.memory.mend.eq(mends)]
        return Mux(young, word.at(self.LATENCY).value, self._word("restamp"))

    def _elaborate_known(self, m, pipe, address, insert, tick):
        """Return, of stage 5, whether an operation before inserts, and the ticks since the last."""
        same, passed, before = [], [], 0
        for distance in range(1, BETWEEN + 1):
            there, flag = address.at(1 + distance).value, insert.at(1 + distance).value
            same.append(self._elaborate_same(pipe, f"same{distance}", address, there, flag))
            # Those of the operation itself, and of what came between.
            ticks = Signal(range(BETWEEN + 1), name=f"passed{distance}")
            m.d.sync += ticks.eq(before + tick.at(2).value)
            before = ticks
            passed.append(pipe.enter(ticks, f"passed{distance}", stage=3, reset_less=True))
        for number in (2, len(same)):
            groups = range(0, len(same), number)
            passed = [self._elaborate_last(pipe, same[at : at + number], passed[at : at + number])
                      for at in groups]  # fmt: skip
            same = [pipe.register(f"known{number}_{at}", lambda *flags: Cat(flags).any(),
                                  *same[at : at + number]) for at in groups]  # fmt: skip
        return same[0], passed[0]

    def _elaborate_last(self, pipe, same, passed):
        """Return a clock later the ticks since the last of some operations that insert."""

        def chosen(*values):
            flags, ticks = values[: len(same)], values[len(same) :]
            result = ticks[-1]
            for flag, one in list(zip(flags, ticks, strict=True))[-2::-1]:
                result = Mux(flag, one, result)
            return result

        return pipe.register("since", chosen, *same, *passed, reset_less=True)

    def _elaborate_answer(self, m, pipe, age, known, since, dead, doubt):
        """Drive the answer; return whether the cell has expired."""
        low, limit = len(self.age), self._limit
        answer = pipe.register(
            "answer",
            lambda age, known, since: Mux(known, since, age)[:low],
            age, known, since, reset_less=True,
        )  # fmt: skip
        # The order of registers is part of what is recorded of units.
        answer.at(self.LATENCY)
        past = pipe.register("past", lambda age: joined_flags(constant_flags(age, limit)), age)
        held = pipe.register("held", lambda known, dead: ~known & ~dead, known, dead)
        lost = pipe.register(
            "lost", lambda dead, known, since: Mux(known, since >= limit, dead), dead, known, since
        )
        expired = pipe.register(
            "expired",
            lambda past, held, lost: is_at_least(past) & held | lost,
            past,
            doubt.vouched(held),
            doubt.lost(lost),
        )
        answer = doubt.told(answer, held)
        m.d.comb += [self.age.eq(answer.value), self.expired.eq(expired.value)]
        pipe.leave(answer, expired, latency=self.LATENCY)
        return expired


class RestSweep(wiring.Component):
    """Takes one cell after the other in hand, in clocks without an operation.

    After reset and `clear` all cells are wiped, one per clock.

    Parameters
    ----------
    cells : int
        Power of two.
    interval : int
        Clocks of which the sweep takes one, for its pace.
    waits : bool
        Whether it reads no cell before all wiped ones are written. It must if cells are protected,
        as it would find those upset that were never written.

    Members
    -------
    free : In(1)
        There is no operation.
    clear : In(1)
    sweep, wipe, swept : Out
        For `RestPart`, in the same clock.
    clean : Out(1)
        Whether all cells were wiped, and none is still to be written.
    late : Out(1)
        For one clock in `interval`: one without an operation is to come.
    """

    def __init__(self, *, cells, interval, waits=False):
        self._cells = cells
        self._waits = waits
        self._interval = interval
        super().__init__(
            {
                "free": In(1),
                "clear": In(1),
                "sweep": Out(1),
                "wipe": Out(1, init=1),
                "swept": Out(range(cells)),
                "clean": Out(1),
                "late": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Wiped cells are written by the time that an operation comes.
        settling = Signal(BETWEEN + 1)
        free = self.free & ~settling.any() if self._waits else self.free
        m.d.comb += [
            self.sweep.eq(free | self.wipe),
            self.clean.eq(~self.wipe & ~settling.any()),
        ]
        m.d.sync += settling.eq(Cat(self.wipe, settling))
        with m.If(self.sweep):
            m.d.sync += self.swept.eq(self.swept + 1)
        with m.If(self.wipe):
            # Not the carry of that sum, which comes late.
            m.d.sync += self.wipe.eq(~self.swept.all())
        with m.If(self.clear):
            m.d.sync += [self.wipe.eq(1), self.swept.eq(0)]
        left = Signal(range(self._interval), init=self._interval - 1)
        m.d.sync += [
            left.eq(Mux(left == 0, self._interval - 1, left - 1)),
            self.late.eq(left == 0),
        ]
        return m
