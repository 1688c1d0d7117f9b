"""Sweep over the cells of a column: erases expired cells, and repairs upset cells."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..memory.cells import CellMemory
from ..pipeline import delayed, registered
from .cells import agreeing_pairs, distance_within
from .dictionary_figures import BEHIND_ROWS, SWEEP_BACKLOG


class Sweep(wiring.Component):
    """Reads a row after each `tick`, and writes its cell if the cell has expired or is upset.

    The sweep reads and writes in cycles in which the port is free. An operation that writes the
    cell in between cancels the write of the sweep. A cell has expired if its insertion is more than
    the window ago; no later operation can report it.

    Parameters
    ----------
    spec : WindowDictionarySpec
    cell : Cell

    Members
    -------
    tick : In(1)
        One more row is due.
    number : In
        Number of a current insertion, modulo 2**T.
    busy : In(1)
        An operation writes.
    hold : In(1)
        No row is started.
    coming_row : In
        Row of the operation that writes two cycles later, if one writes.
    word : In(cell)
        Word of the port.
    wrong, lost : In(1)
        From the `lately.hdl.memory.protection.Repair` of the cell that was read.
    row : Out
        Row that the sweep reads or writes.
    read : Out(1)
        The word of the row is at the port.
    active : Out(1)
        A row is in progress, or is started.
    writes : Out(1)
        The sweep writes the row unless the port is busy: it erases the cell, or `repairs` it.
    repairs : Out(1)
    upset : Out(1)
        The cell was upset.
    behind, late, overdue : Out(1)
        At least `BEHIND_ROWS`, `SWEEP_BACKLOG`, or twice `SWEEP_BACKLOG` rows are due.
    """

    def __init__(self, *, spec, cell):
        self._spec = spec
        row = range(spec.rows)
        inputs = {"tick": 1, "number": spec.timestamp_bits, "busy": 1, "hold": 1}
        inputs |= {"coming_row": row, "word": cell, "wrong": 1, "lost": 1}
        outputs = {"row": row, "read": 1, "active": 1, "writes": 1, "repairs": 1, "upset": 1}
        outputs |= dict.fromkeys(("behind", "late", "overdue"), 1)
        super().__init__(
            {name: In(shape) for name, shape in inputs.items()}
            | {name: Out(shape) for name, shape in outputs.items()}
        )

    def elaborate(self, platform):
        m = Module()
        # Bit k: the row was started k + 1 cycles ago. The last bit waits for the port.
        flight = Signal(CellMemory.LATENCY + 3)
        start, done, ready = Signal(), Signal(), Signal()
        expired, pending = self._elaborate_expired(m), Signal()
        m.d.comb += [
            start.eq(ready & ~self.busy & ~self.hold),
            self.active.eq(start | flight.any()),
            self.read.eq(flight[CellMemory.LATENCY - 1]),
            self.writes.eq(flight[-1] & pending & ~self._elaborate_cancelled(m, start)),
            self.upset.eq(flight[-2] & self.wrong),
            done.eq(flight[-1] & (~self.writes | ~self.busy)),
        ]
        due = Signal(range(4 * SWEEP_BACKLOG))
        m.d.sync += [
            flight.eq(Mux(flight[-1] & ~done, flight, Cat(start, flight))),
            # No row is started while another is in progress.
            ready.eq((due != 0) & ~start & ~flight.any()),
            due.eq(due + self.tick - flight[-2]),
            self.behind.eq(due >= BEHIND_ROWS),
            self.late.eq(due >= SWEEP_BACKLOG),
            self.overdue.eq(due >= 2 * SWEEP_BACKLOG),
        ]
        with m.If(flight[-2]):
            m.d.sync += [
                pending.eq(expired | self.wrong),
                self.repairs.eq(self.wrong & ~expired),
            ]
        with m.If(done):
            m.d.sync += self.row.eq(self.row + Const(1))
        return m

    def _elaborate_expired(self, m):
        """Return whether the cell that was read two cycles ago has expired."""
        cell = self.word
        used = delayed(m, cell.used, 2, "swept_used")
        # Separate registers, to limit the fan-out.
        number = registered(m, self.number, "sweep_number", reset_less=True)
        _, young = distance_within(m, cell.time, number, self._spec.window)
        return used & ~young & ~self.lost

    def _elaborate_cancelled(self, m, start):
        """Return whether an operation has written the cell since its read."""
        pairs = registered(m, agreeing_pairs(self.coming_row, self.row), "coming")
        # For two cycles after a change of the row this refers to the old row; none is in flight.
        meets, cancelled = registered(m, pairs.all(), "meets"), Signal()
        m.d.sync += cancelled.eq((cancelled | (self.busy & meets)) & ~start)
        return cancelled
