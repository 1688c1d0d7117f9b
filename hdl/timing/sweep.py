"""Sweeps of timing filters: they rewrite expired cells before the stamps repeat."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..memory.cells import CellMemory
from ..pipeline import Pipeline, registered
from .recent import same_address
from .sweep_rules import BETWEEN
from .ticks import constant_flags, is_at_least


class SweepSignature(wiring.Signature):
    """Ports of the sweep of a part.

    Parameters
    ----------
    cells, stamp_bits : int
        As for `lately.hdl.timing.part.TimingPart`.

    Members
    -------
    decided : In(StructLayout)
        The access whose answer is known. ``due``: its insertion must write, because the cell does
        not hold the current stamp.
    soon : In(StructLayout)
        An operation that is decided some cycles later.
    clean : In(1)
        All cells are wiped.
    now, stamp : In(stamp_bits)
        The current stamp; the word of port B.
    wrong, lost : In(1)
        The cell that the sweep read last is upset; its content is lost.
    read : Out(1)
        The word of port B belongs to the sweep's cell.
    writes : Out(StructLayout)
        Write of the part in the next cycle: for an operation that ``inserts``, for the sweep if the
        cell has expired (``sweeps``), or for the sweep if the cell is wrong.
    """

    def __init__(self, *, cells, stamp_bits):
        address = range(cells)
        flags = ("insert", "due", "visit", "wipe", "expired", "upset")
        decided = data.StructLayout({"address": address, **dict.fromkeys(flags, 1)})
        writes = {"address": address, "inserts": 1, "sweeps": 1, "repairs": 1}
        super().__init__(
            {
                "decided": In(decided),
                "soon": In(data.StructLayout({"address": address, "insert": 1})),
                **dict.fromkeys(("clean", "wrong", "lost"), In(1)),
                **dict.fromkeys(("now", "stamp"), In(stamp_bits)),
                "read": Out(1),
                "writes": Out(data.StructLayout(writes)),
            }
        )


class VisitSweep(wiring.Component):
    """Sweep in idle cycles: each visit reads a cell, and rewrites it if it has expired.

    One port of the memory only reads and the other port only writes, and writes keep the order of
    their reads. Ticks may arrive in every cycle.

    Parameters
    ----------
    cells, stamp_bits, limit
        As for `lately.hdl.timing.part.TimingPart`.

    Members
    -------
    See `SweepSignature`.
    """

    PORT = "a"
    """Port at which the sweep reads."""
    MOST_TICKS = BETWEEN
    """Maximum number of ticks during the accesses between a read and its write."""

    def __init__(self, *, cells, stamp_bits, limit):
        super().__init__(SweepSignature(cells=cells, stamp_bits=stamp_bits))

    def elaborate(self, platform):
        m = Module()
        decided, writes = self.decided, self.writes
        m.d.comb += [
            writes.address.eq(decided.address),
            writes.inserts.eq(decided.insert),
            writes.sweeps.eq(decided.visit & (decided.wipe | decided.expired)),
            writes.repairs.eq(decided.visit & ~decided.wipe & ~decided.expired & decided.upset),
        ]
        return m


class PortSweep(wiring.Component):
    """Sweep at the write port: reads one cell after another, and rewrites expired cells.

    A cell takes `lately.hdl.timing.sweep_rules.CELL_CLOCKS` cycles, plus each cycle in which an
    operation uses the port. An operation uses the port only if its insertion is ``due``. So
    operations write a cell at most once per tick, and the sweep has all other cycles. The sweep
    does not write a cell if an operation has inserted into it since the read. A query does not
    delay the sweep.

    Parameters
    ----------
    cells, stamp_bits, limit
        As for `lately.hdl.timing.part.TimingPart`.

    Members
    -------
    See `SweepSignature`, and:

    address : Out(range(cells))
        Cell that the sweep has read or is about to read.
    asks, decides : Out(1)
        The sweep is about to read; the sweep has its result.
    restamps, touched : Out(1)
        With `decides`: the cell has expired or is wrong; an operation has since inserted into it.
    busy : Out(1)
        An operation uses the port.
    """

    PORT = "b"
    """Port at which the sweep reads."""
    MOST_TICKS = 1
    """Maximum number of ticks during the accesses between a read and its write."""

    def __init__(self, *, cells, stamp_bits, limit):
        self._limit = limit
        probes = ("asks", "decides", "restamps", "touched", "busy")
        super().__init__(
            {
                **SweepSignature(cells=cells, stamp_bits=stamp_bits).members,
                "address": Out(range(cells)),
                **dict.fromkeys(probes, Out(1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        decided, writes = self.decided, self.writes
        asks, leaves = Signal(init=1), Signal()
        reads = pipe.enter(asks & ~self.busy & self.clean, "reads")
        found, expired = self._elaborate_read(m, pipe, reads)
        settles = registered(m, leaves, "settles")
        touched = self._elaborate_touched(m, asks | settles)
        repairs = self.wrong & (self.lost | ~expired)
        turn = self.decides & ~touched & ~self.busy
        m.d.comb += [
            self.busy.eq(decided.due),
            self.asks.eq(asks),
            self.restamps.eq(expired | repairs),
            self.touched.eq(touched),
            # While cells are wiped, the sweep neither reads nor decides.
            writes.address.eq(Mux(decided.due | decided.wipe, decided.address, self.address)),
            writes.inserts.eq(decided.due),
            writes.sweeps.eq(decided.wipe | turn & expired & ~repairs),
            writes.repairs.eq(turn & repairs),
        ]
        waits = self.decides & self.busy & self.restamps & ~touched
        m.d.sync += [
            self.decides.eq((found | waits) & self.clean),
            leaves.eq(self.decides & ~waits),
        ]
        with m.If(reads.value):
            m.d.sync += asks.eq(0)
        with m.If(settles | ~self.clean):
            m.d.sync += asks.eq(1)
        with m.If(leaves):
            m.d.sync += self.address.eq(self.address + 1)
        return m

    def _elaborate_read(self, m, pipe, reads):
        """Return whether the cell is decided in the next cycle, and then whether it has expired."""
        bits = len(self.now)
        # The address comes from a register.
        word = 1 + CellMemory.LATENCY
        m.d.comb += self.read.eq(reads.at(word).value)
        stamp = pipe.enter(self.stamp, "stamp", stage=word, reset_less=True, levels=1).settled()
        now = pipe.enter(self.now, "now", stage=None)
        age = pipe.register("age", lambda now, stamp: (now - stamp)[:bits], now, stamp,
                            reset_less=True)  # fmt: skip
        past = pipe.register("past", lambda age: constant_flags(age, self._limit), age)
        found = reads.at(past.stage).value
        return found, registered(m, is_at_least(past.value), "expired", enable=found)

    def _elaborate_touched(self, m, begins):
        """Return whether an operation inserts into the cell between its read and its write."""
        pipe = Pipeline(m)
        address = pipe.enter(self.soon.address, "soon")
        same = same_address(pipe, "same", address, self.address, self.soon.insert)
        touched = Signal()
        m.d.sync += touched.eq((touched | same.value) & ~begins)
        return touched


class Visits(wiring.Component):
    """Issues the visits of the sweep in idle cycles, to one cell of every part.

    After reset and `clear`, visits wipe all cells, one per cycle.

    Parameters
    ----------
    cells : int
        Power of two.
    interval : int
        If not 0, every cycle without an operation is a visit, and the sweep needs one such cycle
        in every `interval` cycles.

    Members
    -------
    free : In(1)
        There is no operation.
    clear : In(1)
    visit, wipe : Out(1)
    cell : Out(range(cells))
        For `lately.hdl.timing.part.TimingPart`, in the same cycle.
    clean : Out(1)
        All cells are wiped, and no write of a cell is pending.
    late : Out(1)
        High once per `interval` cycles: a cycle without an operation must follow.
    """

    def __init__(self, *, cells, interval=0):
        self._interval = interval
        super().__init__(
            {
                "free": In(1),
                "clear": In(1),
                "visit": Out(1),
                "wipe": Out(1, init=1),
                "cell": Out(range(cells)),
                "clean": Out(1),
                "late": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # A protection would report cells whose write is pending as upset.
        settling, settled = Signal(BETWEEN), Signal()
        m.d.comb += [
            self.visit.eq(self.wipe | (self.free & settled if self._interval else 0)),
            self.clean.eq(~self.wipe & settled),
        ]
        m.d.sync += [
            settling.eq(Cat(self.wipe, settling)),
            settled.eq(~Cat(self.wipe, settling).any()),
        ]
        with m.If(self.visit):
            m.d.sync += self.cell.eq(self.cell + 1)
        with m.If(self.wipe):
            # Not the carry of this sum, which arrives late.
            m.d.sync += self.wipe.eq(~self.cell.all())
        with m.If(self.clear):
            m.d.sync += [self.wipe.eq(1), self.cell.eq(0)]
        if self._interval:
            left = Signal(range(self._interval), init=self._interval - 1)
            m.d.sync += [
                left.eq(Mux(left == 0, self._interval - 1, left - 1)),
                self.late.eq(left == 0),
            ]
        return m
