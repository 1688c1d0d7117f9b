"""Sweeps of timing filters, which rewrite expired cells before their stamps repeat."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..latencies import CELL_LATENCY
from ..pipeline import Pipeline, registered
from .sweep_rules import BETWEEN

SAME_LATENCY = 2  # latency of `same_address`, in cycles


def same_address(pipe, name, address, other, flag):
    """Return whether two addresses are equal and `flag` is set, `SAME_LATENCY` stages later."""
    pairs = pipe.register(
        f"{name}_pairs",
        lambda here: Cat(
            flag, (here[at : at + 2] == other[at : at + 2] for at in range(0, len(here), 2))
        ),
        address,
    )
    return pipe.register(name, lambda pairs: pairs.all(), pairs)


def constant_flags(value, minimum):
    """Compare `value` with `minimum`, four bits at a time.

    Each digit of four bits yields two flags: whether it is larger, and whether it is equal.
    """
    flags = []
    for low in range(0, len(value), 4):
        digit, limit = value[low : low + 4], minimum >> low & 15
        above = Const(0xFFFF << limit + 1 & 0xFFFF, 16).bit_select(digit, 1)
        flags += [above, digit == limit]
    return Cat(flags)


def joined_flags(flags):
    """Combine the `constant_flags` of neighbouring digits into flags of digits twice as wide."""
    joined = []
    for low in range(0, len(flags), 4):
        above, same = flags[low], flags[low + 1]
        if low + 2 < len(flags):
            above, same = flags[low + 2] | flags[low + 3] & above, flags[low + 3] & same
        joined += [above, same]
    return Cat(joined)


def reaches_limit(flags):
    """Return whether the `constant_flags` of a value show that it is at least the minimum."""
    result = Const(1)
    for low in range(0, len(flags), 2):
        above, same = flags[low], flags[low + 1]
        result = above | same & result
    return result


class SweepSignature(wiring.Signature):
    def __init__(self, *, cells, stamp_bits):
        address = range(cells)
        flags = ("insert", "due", "visit", "wipe", "expired", "upset")
        decided = data.StructLayout({"address": address, **dict.fromkeys(flags, 1)})
        writes = {"address": address, "inserts": 1, "sweeps": 1, "repairs": 1}
        super().__init__(
            {
                # the access whose answer is known. ``due``: its insertion must write, because the
                # cell does not hold the current stamp.
                "decided": In(decided),
                # an operation that is decided some cycles later
                "soon": In(data.StructLayout({"address": address, "insert": 1})),
                # `clean`: all cells are wiped. `wrong`: the cell that the sweep read last is upset.
                # `lost`: the content of this cell is unknown.
                **dict.fromkeys(("clean", "wrong", "lost"), In(1)),
                # The current stamp, and the stamp of the word at port B.
                **dict.fromkeys(("now", "stamp"), In(stamp_bits)),
                "read": Out(1),  # the word of port B belongs to the sweep's cell
                # Write of the part in the next cycle: an operation ``inserts``, the sweep restamps
                # an expired cell (``sweeps``), or the sweep ``repairs`` a wrong cell.
                "writes": Out(data.StructLayout(writes)),
            }
        )


class VisitSweep(wiring.Component):
    """Sweep in idle cycles: each visit reads a cell, and rewrites it if it has expired.

    One port of the memory only reads and the other port only writes, and the writes occur in the
    order of the reads. Ticks may arrive in every cycle.
    """

    PORT = "a"  # port at which the sweep reads
    MAX_TICKS = BETWEEN  # maximum number of ticks during the accesses between a read and its write

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

    A cell takes `lately.hdl.timing.sweep_rules.CELL_CLOCKS` cycles, plus one cycle for each write
    by an operation. Operations write a cell at most once per tick, and all other cycles are free
    for the sweep. The sweep does not write a cell if an operation has inserted into the cell since
    the read.
    """

    PORT = "b"  # port at which the sweep reads
    MAX_TICKS = 1  # maximum number of ticks during the accesses between a read and its write

    def __init__(self, *, cells, stamp_bits, limit):
        self._limit = limit
        # The sweep is about to read (`asks`); it has its result (`decides`), and then whether the
        # cell has expired or is wrong (`restamps`), and whether an operation has inserted into the
        # cell since the read (`touched`). `busy`: an operation uses the port.
        probes = ("asks", "decides", "restamps", "touched", "busy")
        super().__init__(
            {
                **SweepSignature(cells=cells, stamp_bits=stamp_bits).members,
                "address": Out(range(cells)),  # cell that the sweep has read or is about to read
                **dict.fromkeys(probes, Out(1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        decided, writes = self.decided, self.writes
        asks, leaves = Signal(init=1), Signal()
        reads = pipe.enter(asks & ~self.busy & self.clean, "reads")
        is_read, expired = self._elaborate_read(m, pipe, reads)
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
            self.decides.eq((is_read | waits) & self.clean),
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
        """Return whether a cell was read and, one cycle later, whether the cell has expired."""
        bits = len(self.now)
        # The address comes from a register.
        word = 1 + CELL_LATENCY
        m.d.comb += self.read.eq(reads.at(word).value)
        stamp = pipe.enter(self.stamp, "stamp", stage=word, reset_less=True, levels=1).settled()
        now = pipe.enter(self.now, "now", stage=None)
        age = pipe.register("age", lambda now, stamp: (now - stamp)[:bits], now, stamp,
                            reset_less=True)  # fmt: skip
        past = pipe.register("past", lambda age: constant_flags(age, self._limit), age)
        is_read = reads.at(past.stage).value
        return is_read, registered(m, reaches_limit(past.value), "expired", enable=is_read)

    def _elaborate_touched(self, m, begins):
        """Return whether an operation inserts into the cell between the sweep's read and write."""
        pipe = Pipeline(m)
        address = pipe.enter(self.soon.address, "soon")
        same = same_address(pipe, "same", address, self.address, self.soon.insert)
        touched = Signal()
        m.d.sync += touched.eq((touched | same.value) & ~begins)
        return touched


class Visits(wiring.Component):
    """Issues the visits of the sweep: in idle cycles, to the same cell of every part.

    After reset and after `clear`, the visits wipe all cells, one cell per cycle.
    """

    def __init__(self, *, cells, interval=0):
        self._interval = interval
        super().__init__(
            {
                "free": In(1),  # the cycle has no operation
                "clear": In(1),
                "visit": Out(1),
                "wipe": Out(1, init=1),
                # for `lately.hdl.timing.part.TimingPart`, in the same cycle
                "cell": Out(range(cells)),
                "clean": Out(1),  # all cells are wiped, and no write of a cell is pending
                # high once per `interval` cycles: a cycle without an operation must follow
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
            # Not computed from the carry of the addition, which arrives late.
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
