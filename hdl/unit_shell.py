"""What units of one lane have around a core that is no ring: streams, and nothing is lost."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring

from ..golden.hash.siphash import SECRET_BITS
from .control import Control
from .frontend.gate import Gate
from .hash.secrets import Secrets
from .interface import Operation, UnitSignature, is_clear, operation_bits
from .lanes.credits import Credits
from .latencies import ACCEPT_LAG, CONTROL_LAG, SPARE_SETTLE, ceil_log
from .monitors import alarm_ports, recovering, watch_results
from .parameters import require_integer
from .pipeline import delayed
from .queue import ResultQueue
from .statistics import EventCounter


class UnitShell(wiring.Component):
    """Base of units: a gate, credits, a queue of results, tags, counters and secrets.

    Every operation gives one result, in order, `latency` clocks after its acceptance if the
    results before it have been taken. Operations take effect one after another. `i.ready` falls
    while results wait to be taken, while the core asks for a rest, after reset, and after a CLEAR
    until the core is clean. SHIFT does nothing.

    A unit gives a core what else it asks for in `_elaborate_core`.

    Parameters
    ----------
    core : Component
        With a `lately.hdl.control.PlainCoreSignature`, and its `latency`.
    tag_bits : int
        Width of the tag.
    statistics_bits : int
        Width of the counters, which wrap around.
    outputs : mapping of str to int
        Further outputs of the unit, with their widths.
    copies : int
        Of the results that wait, as for `lately.hdl.queue.ResultQueue`.
    check : bool
        Whether the unit watches its own state: the places of results and the count of those that
        are left, that each operation comes in once and through the core, and that the input opens
        again. It resets itself where one of these is wrong.
    signature
        Further parameters of `UnitSignature`.

    Members
    -------
    As those of `UnitSignature`, with an output for each of `COUNTERS`.
    fault, alarms : Out
        If it watches its state: as of `lately.hdl.unit.FilterUnit`.

    Errors: as `require_integer`.
    """

    COUNTERS: Mapping[str, str] = {"operations": "valid", "insertions": "insert", "hits": "hit"}
    """Counters of the unit, with the ports of the core that they count."""

    def __init__(
        self,
        core,
        *,
        tag_bits,
        statistics_bits,
        outputs=None,
        copies=1,
        check=False,
        **signature,
    ):
        require_integer("Statistics bits", statistics_bits, least=1)
        self._core = core
        self._copies = copies
        self._checks = check
        self._keyed = "secret" in core.signature.members
        super().__init__(
            UnitSignature(
                key_bits=len(core.key),
                tag_bits=tag_bits,
                secret_bits=SECRET_BITS if self._keyed else 0,
                counters=dict.fromkeys(self.COUNTERS, statistics_bits) | (outputs or {}),
                others=alarm_ports(check),
                **signature,
            )
        )

    @property
    def latency(self):
        """Clocks from the acceptance of an operation to its result on an idle output."""
        return self._core.latency + ResultQueue.LATENCY - 1

    def elaborate(self, platform):
        m = Module()
        # While results are taken, no more are under way than the latency has clocks.
        depth = 1 << ceil_log(2, self.latency + ACCEPT_LAG + 1)
        m.submodules.core = core = self._core
        m.submodules.gate = gate = Gate(start=SPARE_SETTLE + 1, check=self._checks)
        m.submodules.credits = credits = Credits(limit=depth - 1 - ACCEPT_LAG, check=self._checks)
        accepted = Signal()
        m.d.sync += accepted.eq(self.i.valid & self.i.ready)
        m.d.comb += [
            self.i.ready.eq(gate.i.ready),
            gate.i.valid.eq(self.i.valid),
            gate.i.p.eq(Operation(self._elaborate_operation())),
            gate.credit.eq(credits.available & ~core.late),
            gate.clean.eq(core.clean),
            credits.spend.eq(accepted),
            credits.refund.eq(self.o.valid & self.o.ready),
            core.key.eq(self.i.p.key),
        ]
        control = self._elaborate_control(m, gate)
        beside = self._elaborate_core(m, control)
        queue = self._elaborate_queue(m, depth, accepted, control, beside)
        for name, event in self.COUNTERS.items():
            m.submodules[name] = counter = EventCounter(width=len(getattr(self, name)))
            m.d.comb += [
                counter.event.eq(getattr(core, event)),
                getattr(self, name).eq(counter.count),
            ]
        if self._checks:
            wrongs = watch_results(
                m,
                i=self.i,
                accepted=accepted,
                queue=queue,
                places=credits.left,
                lags=(2, 2),
                due=delayed(m, control.valid, core.latency - CONTROL_LAG - 1, "due"),
                valid_next=core.valid_next,
                illegal=queue.illegal | gate.illegal,
            )
            return recovering(m, self, wrongs)
        return m

    def _elaborate_operation(self):
        """Return the operation without the bit for removals, with which none is a CLEAR."""
        bits = operation_bits(self.i.p.operation)
        query, *others = bits.as_value()[:3]
        if "remove" in bits.shape().members:
            query = query & ~(bits.alone & bits.remove)
        return Cat(query, *others)

    def _elaborate_core(self, m, control):
        """Drive what else the core asks for; return what results have beside their verdicts.

        That is valid in the clock after `control`, the control of the core, which a unit may add
        to: its ``shift`` is not driven yet.
        """
        return Const(0, 0)

    def _elaborate_control(self, m, gate):
        control = Signal(Control)
        m.d.sync += [
            control.valid.eq(gate.valid),
            control.query.eq(gate.query),
            control.insert.eq(gate.insert),
            control.clear.eq(gate.clears),
        ]
        m.d.comb += self._core.control.eq(control)
        if self._keyed:
            m.submodules.secrets = secrets = Secrets(pipelines=1, ring_segments=1)
            wiring.connect(m, wiring.flipped(self.secret), secrets.i)
            m.d.comb += [
                secrets.clears.eq(self.i.valid & self.i.ready & is_clear(gate.i.p)),
                # That of the reset brings in none, and has no result.
                secrets.cleared.eq(control.clear & control.valid),
                self._core.secret.eq(secrets.secret0),
            ]
        return control

    def _elaborate_queue(self, m, depth, accepted, control, beside):
        core, tag = self._core, Signal.like(self.i.p.tag, reset_less=True)
        m.submodules.queue = queue = ResultQueue(
            depth=depth,
            tag_bits=len(tag),
            verdict_bits=len(core.verdict.as_value()),
            status_bits=len(beside),
            copies=self._copies,
            check=self._checks,
        )
        m.d.sync += tag.eq(self.i.p.tag)
        m.d.comb += [
            queue.tag_valid.eq(accepted),
            queue.tag.eq(tag),
            queue.valid_next.eq(core.valid_next),
            queue.verdict.eq(core.verdict),
            self.o.valid.eq(queue.o.valid),
            self.o.p.eq(queue.o.p),
            queue.o.ready.eq(self.o.ready),
        ]
        if len(beside):
            told = Signal()
            m.d.sync += told.eq(control.valid)
            m.d.comb += [queue.status_valid.eq(told), queue.status.eq(beside)]
        return queue
