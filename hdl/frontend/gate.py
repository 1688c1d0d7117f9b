"""Gate of a unit: it decides when each operation enters."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..interface import Operation, operation_bits
from ..latencies import SPARE_SETTLE
from ..parameters import require_integer
from ..pipeline import delayed, registered


class Serializer(wiring.Component):
    """Holds operations that must wait, and reports when the gate may open again.

    Such an operation enters alone, and the gate closes behind it. A SHIFT or CLEAR is held until
    the spare is clean and then released. After a CLEAR, and after every operation in short
    generations, the gate stays closed until the spare is clean again.

    After reset the component releases a CLEAR without a result.

    Parameters
    ----------
    start : int
        Cycles from reset to the first CLEAR.
    check : bool
        Whether the port `opens` exists.

    Members
    -------
    arrive : In(1)
        The gate closes. If high in two consecutive cycles, the second one determines the operation.
    accepted, operation : In
        With `arrive`: whether an operation entered last, and which.
    one_at_a_time : In(1)
        Whether operations enter one at a time.
    clean : In(1)
        Whether the spare is clean.
    fill : Out(1)
        High while an operation that shifts or clears the ring is held.
    clears : Out(1)
        Whether the held operation clears. Stable from `fill` to the next arrival.
    release : Out(1)
        The held operation takes effect, two cycles later.
    result : Out(1)
        With `release`: a result is due.
    turn : Out(1)
        With `release`: the operation shifts or clears the ring.
    open : Out(1)
        Pulse: the gate may open.
    opens : Out(1)
        With `check` only: a pulse of `open` is pending, or waits for the spare.

    Errors: as `require_integer`.
    """

    SETTLE = SPARE_SETTLE
    """Cycles until earlier operations have affected `clean`."""

    def __init__(self, *, start, check=False):
        require_integer("Start", start, least=1)
        self._start = start
        super().__init__(
            {
                "arrive": In(1),
                "accepted": In(1),
                "operation": In(Operation),
                "one_at_a_time": In(1),
                "clean": In(1),
                "fill": Out(1),
                "clears": Out(1, init=1),
                "release": Out(1),
                "result": Out(1),
                "turn": Out(1),
                "open": Out(1),
            }
            | ({"opens": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        bits = operation_bits(self.operation)
        held = Signal(init=1)
        silent = Signal(init=1)
        turning = Signal(init=1)
        settled = Signal()
        settling = Signal(self.SETTLE)
        starting = Signal(self._start, init=1 << (self._start - 1))
        go = Signal()
        rests = Signal()
        m.d.sync += [
            starting.eq(starting >> 1),
            # A clear, and any held operation in short generations, keeps the gate closed until the
            # spare is clean.
            rests.eq(held & (self.clears | self.one_at_a_time)),
            settling.eq(
                Cat(
                    self.arrive | starting[0] | (go & rests),
                    settling & ~self.arrive.replicate(self.SETTLE),
                )
            ),
            settled.eq((settled | settling[-1]) & ~go),
            # A clear need not wait for the spare, because it restarts the clearing.
            go.eq(settled & (self.clean | (held & self.clears)) & ~go),
            self.release.eq(go & held),
            self.turn.eq(go & held & turning),
            self.result.eq(go & held & ~silent),
            self.open.eq(go & ~rests),
            self.fill.eq(held & turning),
        ]
        if "opens" in self.signature.members:
            m.d.comb += self.opens.eq(starting.any() | settling.any() | settled | go | self.open)
        with m.If(self.arrive):
            m.d.sync += [
                held.eq(self.accepted & bits.alone),
                # SHIFT has neither low bit, CLEAR has one; no other operation turns the ring.
                turning.eq(~bits.insert),
                self.clears.eq(bits.query & ~bits.insert),
            ]
        with m.Elif(go):
            m.d.sync += [held.eq(0), silent.eq(0)]
        return m


class Gate(wiring.Component):
    """Admits operations while there are credits; some operations enter one at a time.

    The gate is the same for all families. Accepted operations never stall the pipeline: an
    operation that may have to wait closes the gate behind itself, and a `Serializer` holds it.

    Latency `LATENCY` cycles from acceptance to the outputs, except for operations that wait.

    Parameters
    ----------
    start : int
        Cycles from reset to the first CLEAR.
    check : bool
        Whether the gate checks that each operation leaves once and the gate opens again.

    Members
    -------
    i : In(stream.Signature(Operation))
    credit : In(1)
        Whether operations may be accepted two cycles later.
    one_at_a_time : In(1)
        Whether every operation must enter alone.
    clean : In(1)
        Whether the spare is clean.
    fill : Out(1)
        High while a held operation shifts or clears the ring.
    valid, query, insert : Out(1)
        The operation: a result is due, it is a query, it is an insertion.
    event : Out(1)
        The operation inserts, or shifts or clears the ring.
    clears : Out(1)
        The operation is a clear.
    illegal : Out(1)
        With `check` only: in the previous cycle an operation was lost or duplicated, or the gate
        was closed and could not open.
    """

    LATENCY = 2

    def __init__(self, *, start, check=False):
        self._serializer = Serializer(start=start, check=check)
        super().__init__(
            {
                "i": In(stream.Signature(Operation)),
                "credit": In(1),
                "one_at_a_time": In(1),
                "clean": In(1),
                "fill": Out(1),
                "valid": Out(1),
                "query": Out(1),
                "insert": Out(1),
                "event": Out(1),
                "clears": Out(1),
            }
            | ({"illegal": Out(1)} if check else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.serializer = serializer = self._serializer
        accepted, operation, alone, closed = self._elaborate_acceptance(m, serializer.open)
        bits = operation_bits(operation)
        flows = accepted & ~bits.alone
        m.d.sync += [
            self.valid.eq(flows | serializer.result),
            self.query.eq(flows & bits.query),
            self.insert.eq(flows & bits.insert),
            self.event.eq((flows & bits.insert) | serializer.turn),
            self.clears.eq(serializer.turn & serializer.clears),
        ]
        m.d.comb += [
            serializer.arrive.eq(alone),
            serializer.accepted.eq(accepted),
            serializer.operation.eq(operation),
            serializer.one_at_a_time.eq(self.one_at_a_time),
            serializer.clean.eq(self.clean),
            self.fill.eq(serializer.fill),
        ]
        if "illegal" in self.signature.members:
            self._elaborate_check(m, closed, alone)
        return m

    def _elaborate_check(self, m, closed, alone):
        """Check that each operation leaves once, also after a wait, and the gate opens."""
        serializer = self._serializer
        # Operations that have entered and not left: at most 2.
        inside = Signal(2)
        m.d.sync += inside.eq(inside + (self.i.valid & self.i.ready) - self.valid)
        # A held operation leaves when the gate opens; no other operation can be inside so soon.
        left = delayed(m, serializer.open, 2, "opened") & inside.any()
        # Otherwise only operations of the last two cycles are inside.
        entered = [self.i.valid & self.i.ready]
        was_closed = [closed]
        for clock in range(self.LATENCY):
            entered.append(registered(m, entered[-1], f"entered{clock}"))
            was_closed.append(registered(m, was_closed[-1], f"was_closed{clock}"))
        late = ~Cat(was_closed).any() & (inside != sum(entered[1:]))
        stuck = closed & ~alone & ~serializer.opens
        m.d.comb += self.illegal.eq(registered(m, Cat(left, late, stuck), "apart").any())

    def _elaborate_acceptance(self, m, reopen):
        """Return whether and which operation was accepted; the gate closes; the gate is closed."""
        ready = Signal()
        allowed = Signal()
        closed = Signal(init=1)
        accepted = Signal()
        alone = Signal()
        operation = Signal(Operation)
        held = operation_bits(self.i.p).alone
        single = self.one_at_a_time
        m.d.comb += self.i.ready.eq(ready)
        m.d.sync += [
            ready.eq(allowed & ~alone & ~(self.i.valid & ready & held)),
            # One at a time, the gate opens for one cycle, with or without an operation.
            allowed.eq(self.credit & ~alone & ~closed & ~(single & (allowed | ready))),
            alone.eq(ready & (single | (self.i.valid & held))),
            closed.eq(alone | (closed & ~reopen)),
            accepted.eq(self.i.valid & ready),
            operation.eq(self.i.p),
        ]
        # When short generations begin, the gate may be open for two cycles. That is soon enough.
        return accepted, operation, alone, closed
