"""A column of a dictionary: its cells, what they tell of a digest, and the sweep over them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..memory.cells import CellMemory
from ..pipeline import delayed, registered
from .cell_checks import CHECKS
from .dictionary_figures import LATE_ROWS


class Column(wiring.Component):
    """Cells that one port reads for operations and another writes for them, or sweeps.

    The sweep looks at a row after each `tick`, in a clock in which no operation
    writes, and erases its cell in another if that has expired for all
    operations to come: more than the window ago. An operation that writes the
    cell meanwhile calls that off. A cell that is read in the very clock in which it
    is erased or written, when the memory promises nothing, is taken for empty: its
    user knows what operations write.

    With "parity" a cell that was found upset is neither a match nor free, and `doubted`, until the
    sweep makes it one of an unknown digest, and that has expired. With "ecc" the memory is one of
    three copies, and the sweep writes one anew that differs from the other two, which answer
    whoever reads the cell meanwhile. An operation that writes the cell calls that off, too.

    Parameters
    ----------
    spec : WindowDictionarySpec
    memory : CellMemory
    side : int
        0 or 1: columns of one side share registers of what all are told.
    protect : str
        One of `lately.hdl.latencies.PROTECTIONS`.
    further
        Further members.

    Members
    -------
    row, next_row : In
        Of the operation that reads, and of the one that reads in the next clock.
    rest, number : In
        Of the operation whose row came `CellMemory.LATENCY` clocks ago: the rest of
        its digest, and the number of its insertion, modulo 2**T.
    match : Out(1)
        Whether the cell holds its digest, not expired; `LATENCY` clocks after `row`.
    free : Out(1)
        Whether the cell is empty, or expired when the operation has been inserted; likewise.
    distance : Out
        Number less that of the cell; likewise.
    write, write_row, written : In
        What an operation writes.
    coming_row : In
        Row of the operation that writes two clocks later, if one does.
    same_row : In(1)
        With `row`: whether it is the `write_row` of the operation that writes, if one does.
    tick : In(1)
        A row more is due to be swept.
    late, overdue : Out(1)
        `LATE_ROWS` rows are due, or more; twice as many.
    doubted : Out(1)
        With parity, with `match`: the cell may hold the digest.
    upset, swept_upset : Out(1)
        If protected: with `match`, the cell was found upset; the sweep has found one to be so.
    """

    LATENCY = CellMemory.LATENCY + 2

    def __init__(self, *, spec, memory, side=0, protect="none", **further):
        self._spec = spec
        self.checks = CHECKS[protect](self, spec)
        self._side = side
        self.memory = memory
        # Whether the sweep has a row in hand, or takes one.
        self._sweeping = None
        # Rows to be swept.
        self._due = Signal(range(4 * LATE_ROWS), name="due")
        time, row = spec.timestamp_bits, range(spec.rows)
        super().__init__(
            {
                "row": In(row),
                "next_row": In(row),
                "rest": In(spec.rest_bits),
                "number": In(time),
                "match": Out(1),
                "free": Out(1),
                "distance": Out(time),
                "write": In(1),
                "same_row": In(1),
                "write_row": In(row),
                "coming_row": In(row),
                "written": In(self.checks.cell),
                "tick": In(1),
                "late": Out(1),
                "overdue": Out(1),
            }
            | self.checks.PORTS
            | further
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self.memory
        swept = Signal(range(self._spec.rows))
        writes = self._elaborate_sweep(m, swept)
        erase = self.checks.elaborate_erasure(m, writes)
        m.d.comb += memory.a_address.eq(self.row)
        self._elaborate_port(m, swept, writes, erase)
        written = registered(m, self.write & self.same_row, "meets_written")
        erased = registered(m, erase & ~self.write, "erased")
        same = registered(m, agreeing_pairs(self.next_row, swept), "meets_swept")
        swept = erased & registered(m, same.all(), "met_swept")
        met = registered(m, written | swept, "met")
        self.checks.elaborate_read(m, met, swept)
        self._elaborate_answer(m, met)
        return m

    def _elaborate_port(self, m, swept, writes, erase):
        """Let operations write, or the sweep read, and write or erase."""
        memory, written = self.memory, self.written.as_value()
        m.d.comb += [
            memory.b_address.eq(Mux(self.write, self.write_row, swept)),
            memory.write.eq(self.write | erase),
            # Of a cell that is erased the rest does not matter.
            memory.value.eq(
                self.checks.value(written[0] & self.write, written[1:], writes & ~self.write)
            ),
        ]

    def _may_start(self):
        """Return whether the sweep may read."""
        return ~self.write

    def _elaborate_answer(self, m, met):
        window = self._spec.window
        cell = data.View(self.checks.cell, self.memory.a_word)
        used, same = Signal(), Signal(-(-len(self.rest) // 2), reset_less=True)
        held, still_used = Signal(), Signal()
        windows = (window, window - 1)
        distance, young, younger = self._elaborate_age(m, cell.time, self.number, *windows)
        m.d.comb += [
            self.distance.eq(distance),
            self.match.eq(self.checks.vouched(held & young)),
            self.free.eq(self.checks.vouched(~(still_used & younger))),
        ]
        m.d.sync += [
            used.eq(cell.used & ~met),
            same.eq(agreeing_pairs(cell.rest, self.rest)),
            held.eq(used & same.all()),
            still_used.eq(used),
        ]

    def _elaborate_age(self, m, time, number, *windows):
        """Return two clocks later the distance of a cell, and whether it is at most each window.

        What a block RAM gives needs most of the first clock. So no time is compared with a
        distance: it is in a window if it is neither past the number nor before the window's
        first, or, if numbers come round in between, not both.
        """
        bits = len(time)
        firsts = [self._copied(m, (number - window)[: bits + 1], "first") for window in windows]
        time = registered(m, time, "time", reset_less=True)
        number = self._copied(m, number, "own_number")
        distance = registered(m, (number - time)[: bits + 1], "distance", reset_less=True)
        flags = []
        for first in firsts:
            before = registered(m, time < first[:bits], "before", reset_less=True)
            turned = registered(m, first[bits], "turned", reset_less=True)
            flags.append(Mux(distance[bits], turned & ~before, turned | ~before))
        return distance[:bits], *flags

    def _copied(self, m, value, name):
        """Return a value, registered, and not in a register that columns afar have, too."""
        # Synthesis merges registers unless they begin with other values.
        init = (1 << len(value)) - 1 if self._side else 0
        register = Signal(len(value), name=name, init=init, reset_less=True)
        m.d.sync += register.eq(value)
        return register

    def _elaborate_sweep(self, m, swept):
        """Return whether the cell in the row `swept` is written if no operation writes."""
        due = self._due
        # Read, and so many clocks later.
        flight = Signal(self.memory.LATENCY + 3)
        start, done, erase, ready = Signal(), Signal(), Signal(), Signal()
        meets, touched = Signal(), Signal()
        cell = data.View(self.checks.cell, self.memory.b_word)
        expired = Signal()
        self.checks.elaborate_sweep(m, flight[self.memory.LATENCY - 1])
        used = delayed(m, cell.used, 2, "swept_used")
        # Of another register, as many would look at one.
        number = registered(m, self.number, "sweep_number", reset_less=True)
        _, young = self._elaborate_age(m, cell.time, number, self._spec.window)
        self._sweeping = start | flight.any()
        m.d.comb += [
            start.eq(ready & self._may_start()),
            done.eq(flight[-1] & (~erase | ~self.write)),
            erase.eq(flight[-1] & expired & ~touched),
        ]
        m.d.sync += [
            # A row that is not read yet: while one is in hand, no other is begun.
            ready.eq((due != 0) & ~start & ~flight.any()),
            due.eq(due + self.tick - flight[-2]),
            self.late.eq(due >= LATE_ROWS),
            self.overdue.eq(due >= 2 * LATE_ROWS),
            flight.eq(Mux(flight[-1] & ~done, flight, Cat(start, flight))),
            # Of the row before for two clocks after that has changed: then nothing is under way.
            meets.eq(registered(m, agreeing_pairs(self.coming_row, swept), "coming").all()),
            touched.eq((touched | (self.write & meets)) & ~start),
        ]
        with m.If(flight[-2]):
            self.checks.judge(m, expired, used, young)
        with m.If(done):
            m.d.sync += swept.eq(swept + Const(1))
        return erase


def agreeing_pairs(one, other):
    """Return whether two values agree in each pair of bits: one level of look-up tables.

    Parameters
    ----------
    one, other : Value
    """
    return Cat(one[low : low + 2] == other[low : low + 2] for low in range(0, len(one), 2))
