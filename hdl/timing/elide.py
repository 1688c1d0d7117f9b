"""Part of a timing filter whose memory reads at one port and writes, or sweeps, at the other."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..memory.cells import PortableCellMemory
from ..pipeline import Pipeline, registered
from .part import CellPart, WritePort
from .sweep import Sweep
from .sweep_rules import BETWEEN
from .ticks import TickCount, constant_flags, is_at_least


class ElidePart(CellPart):
    """Cells of one hash function: each holds the stamp of its last insertion.

    One operation per clock reads its cell, and writes the present stamp if it inserts. It does
    not write where the cell has that stamp already: within a tick a cell is written once at most,
    and the sweep has all clocks that remain.

    The sweep gives each cell of an age of `limit` or more a stamp of that age again, before the
    stamp comes round. In time it is if `check_elision` accepts the filter, which also says how far
    apart ticks are.

    Nothing that the memory leaves undefined is used:

    - A read that comes before the write of one of the `BETWEEN` operations before it, or meets
      it, takes that operation's stamp, whose age is known.
    - A read that meets the write of the sweep answers that the cell has expired; or, if that writes
      a cell as it is wrong, with an age of 0, or as the other copies have it.
    - The sweep does not write a cell into which an operation has inserted since it was read;
      a query does not keep it from that.

    After reset and `clear` no operation may come until `clean` is high.

    Parameters
    ----------
    cells, stamp_bits, limit, memory, protect
        As for `CellPart`.

    Members
    -------
    As those of `CellPart`, and:

    clear : In(1)
    clean : Out(1)
    """

    def __init__(self, *, cells, stamp_bits, limit, memory=PortableCellMemory, protect="none"):
        shape = {"cells": cells, "stamp_bits": stamp_bits, "limit": limit}
        self.sweep = Sweep(**shape, protect=protect)
        super().__init__(**shape, memory=memory, protect=protect, clear=In(1), clean=Out(1))

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self.memory
        m.submodules.sweep = sweep = self.sweep
        pipe = Pipeline(m)
        port = WritePort(m, memory)
        address = pipe.enter(self.address, "address", reset_less=True)
        insert, tick = pipe.enter(self.insert, "insert"), pipe.enter(self.tick, "tick")
        now = pipe.enter(self.now, "now", stage=TickCount.NOW)
        stamp = pipe.enter(memory.a_word, "stamp", stage=1 + memory.LATENCY, reset_less=True)
        met = self._elaborate_met(m, pipe, address, insert, tick, port)
        age = pipe.register("age", self._age, now, stamp.at(4), reset_less=True)
        doubt = self._elaborate_doubt(m, pipe, stamp.at(4), port, *met[1:])
        need = self._elaborate_answer(m, pipe, age, insert, *met, doubt)
        swept = registered(m, memory.b_word, "swept", reset_less=True)
        swept_age = registered(m, self._age(now.value, swept), "swept_age", reset_less=True)
        m.d.comb += [
            memory.a_address.eq(address.at(1).value),
            sweep.busy.eq(need.value),
            sweep.age.eq(swept_age),
            sweep.inserted.eq(address.at(5).value),
            sweep.insert.eq(insert.at(5).value),
            sweep.clear.eq(pipe.enter(self.clear, "clear").at(7).value),
            self.clean.eq(sweep.clean),
        ]
        value, whole = self._elaborate_swept(m, port, swept, ~need.value)
        m.d.sync += [
            port.address.eq(Mux(need.value, address.at(7).value, sweep.address)),
            port.value.eq(Mux(need.value, self._word("stamp"), value)),
            port.write.eq(need.value | whole),
            port.inserts.eq(need.value),
            port.sweeps.eq(whole & ~need.value),
        ]
        return m

    def _elaborate_met(self, m, pipe, address, insert, tick, port):
        """Return what is known of the cell but not yet in the memory, of stage 5.

        Whether an operation before inserts into it in this tick; whether one does at all; whether
        the sweep writes it while it is read.
        """
        there = [(address.at(1 + d).value, insert.at(1 + d).value) for d in range(1, BETWEEN)]
        same = [
            self._elaborate_same(pipe, f"same{number}", address, other, flag)
            for number, (other, flag) in enumerate([*there, (port.address, port.inserts)], 1)
        ]
        same = pipe.combine("same", lambda *flags: Cat(flags), *same)
        ticked = Signal(BETWEEN)
        m.d.sync += ticked.eq(Cat(Const(0, 1), ticked[:-1]) | tick.at(2).value.replicate(BETWEEN))
        now = pipe.combine("now", lambda same, ticked: same & ~ticked, same,
                           pipe.enter(ticked, "ticked", stage=3))  # fmt: skip
        fresh, known = (pipe.all_of(name, ~flags, steps=2) for name, flags in
                        (("fresh", now), ("known", same)))  # fmt: skip
        dead = self._elaborate_same(pipe, "dead", address, port.address, port.sweeps)
        return ~fresh, ~known, dead.at(5)

    def _elaborate_answer(self, m, pipe, age, insert, fresh, known, dead, doubt):
        """Drive the answer; return whether the operation has to write, of stage 7."""
        low = len(self.age)
        answer = pipe.register(
            "answer",
            lambda age, fresh, known: Cat(
                Mux(known, ~fresh, age[0]), age[1:low] & ~known.replicate(low - 1)
            ),
            age, fresh, known, reset_less=True,
        )  # fmt: skip
        zero = pipe.register(
            "zero", lambda age: Cat(age[at : at + 4] == 0 for at in range(0, len(age), 4)), age
        )
        past = pipe.register("past", lambda age: constant_flags(age, self._limit), age)
        held = pipe.register("held", lambda known, dead: ~known & ~dead, known, dead)
        open = pipe.register("open", lambda insert, fresh: insert & ~fresh, insert.at(5), fresh)
        need = pipe.register(
            "need",
            lambda open, held, zero: open & ~(held & zero.all()),
            open,
            doubt.vouched(held),
            zero,
        )
        lost = pipe.register("lost", lambda dead, known: dead & ~known, dead, known)
        expired = pipe.register(
            "expired",
            lambda past, held, lost: is_at_least(past) & held | lost,
            past,
            doubt.vouched(held),
            doubt.lost(lost),
        )
        answer = doubt.told(answer, held)
        m.d.comb += [self.age.eq(answer.value), self.expired.eq(expired.value)]
        pipe.leave(answer, expired, need, latency=self.LATENCY)
        return need
