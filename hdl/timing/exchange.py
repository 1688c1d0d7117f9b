"""Part of a timing filter whose operations read a cell and write it in one access of the memory."""

from amaranth.hdl import Const, Module
from amaranth.lib.wiring import In, Out

from ..memory.cells import PortableReadBeforeWriteMemory
from ..memory.parity import sums
from ..pipeline import Pipeline, registered
from .part import CellPart, WritePort
from .sweep import ExchangeSweep
from .ticks import TickCount, constant_flags, is_at_least
from .timing_profile import EXCHANGE_LATENCY


class ExchangePart(CellPart):
    """Cells that one operation per clock reads, and writes in the same access if it inserts.

    So operations do not meet: each finds what those before it wrote. The memory's other port is
    the sweep's alone, which needs no clock of theirs. It gives each cell of an age of `limit` or
    more a stamp of that age again, before the stamp comes round; in time it is if
    `check_exchange` accepts the filter. Ticks may come in every clock.

    Nothing that the memory leaves undefined is used:

    - A read that meets the write of the sweep answers that the cell has expired; or, if that writes
      a cell as it is wrong, with an age of 0, or as the other copies have it.
    - The sweep does not write a cell into which an operation has inserted since it was read, or
      does in the clock of its read or of its write; a query does not keep it from that.

    After reset and `clear` no operation may come until `clean` is high.

    Parameters
    ----------
    cells, stamp_bits, limit
        As for `CellPart`.
    memory : callable
        Builds the memory, a `ReadBeforeWriteMemory`.
    protect : str
        As for `CellPart`.

    Members
    -------
    As those of `CellPart`, and:

    clear : In(1)
    clean : Out(1)
    """

    LATENCY = EXCHANGE_LATENCY

    def __init__(
        self,
        *,
        cells,
        stamp_bits,
        limit,
        memory=PortableReadBeforeWriteMemory,
        protect="none",
    ):
        shape = {"cells": cells, "stamp_bits": stamp_bits, "limit": limit}
        self.sweep = ExchangeSweep(**shape, protect=protect)
        super().__init__(**shape, memory=memory, protect=protect, clear=In(1), clean=Out(1))

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self.memory
        m.submodules.sweep = sweep = self.sweep
        pipe = Pipeline(m)
        port = WritePort(m, memory)
        address = pipe.enter(self.address, "address", reset_less=True)
        insert = pipe.enter(self.insert, "insert")
        # With the operation that has its stamp.
        access = TickCount.NOW
        dead = self._elaborate_same(pipe, "dead", address, port.address, port.sweeps, stage=access)
        self._elaborate_answer(m, pipe, access + memory.LATENCY, dead, port)
        swept_age = self._age(self.now, memory.b_word)
        told = access - sweep.AHEAD
        m.d.comb += [
            memory.a_address.eq(address.at(access).value),
            memory.a_write.eq(insert.at(access).value),
            memory.a_value.eq(self._word("now")),
            sweep.age.eq(registered(m, swept_age, "swept_age", reset_less=True)),
            sweep.inserted.eq(address.at(told).value),
            sweep.insert.eq(insert.at(told).value),
            sweep.clear.eq(pipe.enter(self.clear, "clear").at(access).value),
            self.clean.eq(sweep.clean),
        ]
        value, whole = self._elaborate_swept(m, port, memory.b_word, Const(1))
        m.d.sync += [
            port.address.eq(sweep.address),
            port.value.eq(value),
            port.write.eq(whole),
            port.sweeps.eq(whole),
        ]
        return m

    def _elaborate_answer(self, m, pipe, read, dead, port):
        """Drive the answer from the word that the memory gives at stage `read`."""
        low, limit = len(self.age), self._limit
        stamp = pipe.enter(self.memory.a_word, "stamp", stage=read, reset_less=True)
        own = pipe.enter(self.stamp, "own", stage=TickCount.STAMP, reset_less=True)
        age = pipe.register("age", self._age, own, stamp, reset_less=True)
        young = self._elaborate_young(m, pipe, stamp, dead, port)
        answer = pipe.register(
            "answer",
            lambda age, *young: older(age[:low], young),
            age,
            *young,
            reset_less=True,
        )
        expired = pipe.register(
            "expired",
            lambda age, dead, *young: older(is_at_least(constant_flags(age, limit)) | dead, young),
            age,
            dead,
            *young,
        )
        m.d.comb += [self.age.eq(answer.value), self.expired.eq(expired.value)]
        pipe.leave(answer, expired, latency=self.LATENCY)

    def _elaborate_young(self, m, pipe, word, dead, port):
        """Return, a stage after its word, whether the cell is as young as any; if that can be."""
        if self._voted:
            found = pipe.register(
                "found",
                lambda unlike, dead: unlike.any() & ~dead,
                self._elaborate_unlike(pipe, word.stage),
                dead,
            )
            m.d.comb += self.upset.eq(found.value)
        if not self._checked:
            return []
        added = pipe.register("sums", sums, word)
        renewed = pipe.enter(port.renews, "renews", stage=TickCount.NOW).at(added.stage)
        wrong = pipe.combine(
            "wrong", lambda sums, dead: ~sums.xor() & ~dead, added, dead.at(added.stage)
        )
        m.d.comb += self.upset.eq(wrong.at(self.LATENCY).value)
        return [wrong | renewed & dead.at(added.stage)]


def older(value, young):
    """Return a value, or 0 where a flag of `young` says so, if there is one."""
    return value & ~young[0].replicate(len(value)) if young else value
