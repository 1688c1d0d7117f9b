"""A window dictionary as a unit: streams in and out, nothing lost under back-pressure."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring

from ...golden.hash.siphash import SECRET_BITS
from ..control import Control
from ..frontend.gate import Gate
from ..hash.secrets import Secrets
from ..interface import Operation, UnitSignature, operation_bits
from ..lanes.credits import Credits
from ..latencies import ACCEPT_LAG, CONTROL_LAG, DEFAULT_LEVELS, result_places
from ..parameters import require_integer
from ..pipeline import Pipeline
from ..queue import ResultQueue
from ..statistics import EventCounter
from .core import DictionaryCore
from .dictionary_figures import check_buildable

COUNTERS = {"operations": "valid", "insertions": "insert", "hits": "hit", "lost": "lost"}
"""Counters of a unit, with the events that they count."""


class DictionaryUnit(wiring.Component):
    """A dictionary of digests with an exact window, bit for bit `lately.golden.WindowDictionary`.

    The unit accepts one operation per clock for as long as its results are taken, whatever the
    keys are, as long as the sweep finds clocks in which no operation writes a column: where
    every insertion writes the same one, the input rests one clock in a few. Every operation
    gives one result, in order, `latency` clocks after its acceptance if the results before it
    have been taken.

    `i.ready` also falls after a CLEAR and after reset, for as many clocks as there are rows and
    some more. SHIFT does nothing.

    Parameters
    ----------
    spec : WindowDictionarySpec
        What to build; must pass `lately.hdl.dictionary.dictionary_figures.check_buildable`.
    tag_bits : int
        Width of the tag.
    statistics_bits : int
        Width of the counters, which wrap around.
    memory, levels
        As for `DictionaryCore`.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`. The window of a request counts insertions, at
        most that of the specification; with 0 nothing is seen. An operation with the bits
        insert and remove removes. The age counts insertions, 0 for the last one. The status is
        1 if keys of the window may be missed, as it is longer than the guaranteed one.
    guaranteed : Out
        Largest window for which answers are exact.
    secret : In(stream.Signature(128))
        With ``hash="siphash"`` only: the secret of the hash, 0 after reset. It applies from the
        next CLEAR on that is accepted at least `Secrets.LEAD` clocks later.
    operations, insertions, hits, lost : Out(statistics_bits)
        Events since reset; entries that were given up.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    TypeError
        If a width is not an integer.
    ValueError
        If a width is out of its range, or there is no such memory.
    """

    def __init__(
        self, spec, *, tag_bits=8, statistics_bits=32, memory="portable", levels=DEFAULT_LEVELS
    ):
        check_buildable(spec, memory=memory)
        require_integer("Statistics bits", statistics_bits, least=1)
        self._core = DictionaryCore(spec=spec, memory=memory, levels=levels)
        self._keyed = spec.hash == "siphash"
        bits = spec.window.bit_length()
        super().__init__(
            UnitSignature(
                key_bits=spec.key_bits,
                tag_bits=tag_bits,
                generations=spec.window,
                window_bits=bits,
                status_bits=1,
                removes=True,
                secret_bits=SECRET_BITS if self._keyed else 0,
                counters=dict.fromkeys(COUNTERS, statistics_bits) | {"guaranteed": bits},
            )
        )

    @property
    def latency(self):
        """Clocks from the acceptance of an operation to its result on an idle output."""
        return self._core.latency + ResultQueue.LATENCY - 1

    def elaborate(self, platform):
        m = Module()
        depth = result_places(self.latency, lag=ACCEPT_LAG)
        m.submodules.core = core = self._core
        m.submodules.gate = gate = Gate(start=Secrets.LEAD + 2)
        m.submodules.credits = credits = Credits(limit=depth - 1 - ACCEPT_LAG)
        m.submodules.queue = queue = ResultQueue(
            depth=depth,
            tag_bits=len(self.i.p.tag),
            verdict_bits=len(core.verdict.as_value()),
        )
        accepted = Signal()
        tag = Signal.like(self.i.p.tag, reset_less=True)
        m.d.sync += [accepted.eq(self.i.valid & self.i.ready), tag.eq(self.i.p.tag)]
        bits = operation_bits(self.i.p.operation)
        pipe = Pipeline(m)
        remove = pipe.enter(self.i.valid & self.i.ready & bits.remove & ~bits.alone, "remove")
        window = pipe.enter(self.i.p.window, "window", reset_less=True)
        m.d.comb += [
            self.i.ready.eq(gate.i.ready),
            gate.i.valid.eq(self.i.valid),
            gate.i.p.eq(Operation(bits.as_value()[:3])),
            gate.credit.eq(credits.available & ~core.late),
            gate.clean.eq(core.clean),
            credits.spend.eq(accepted),
            credits.refund.eq(self.o.valid & self.o.ready),
            core.key.eq(self.i.p.key),
            core.remove.eq(remove.at(CONTROL_LAG).value),
            core.window.eq(window.at(CONTROL_LAG).value),
            queue.tag_valid.eq(accepted),
            queue.tag.eq(tag),
            queue.valid_next.eq(core.valid_next),
            queue.verdict.eq(core.verdict),
            self.o.valid.eq(queue.o.valid),
            self.o.p.eq(queue.o.p),
            queue.o.ready.eq(self.o.ready),
            self.guaranteed.eq(core.guaranteed),
        ]
        self._elaborate_control(m, gate)
        for name, event in COUNTERS.items():
            m.submodules[name] = counter = EventCounter(width=len(getattr(self, name)))
            m.d.comb += [
                counter.event.eq(getattr(core, event)),
                getattr(self, name).eq(counter.count),
            ]
        return m

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
            wiring.connect(m, secrets.i, wiring.flipped(self.secret))
            m.d.comb += [
                secrets.cleared.eq(control.clear),
                self._core.secret.eq(secrets.secret0),
            ]
