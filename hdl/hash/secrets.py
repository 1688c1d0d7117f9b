"""Secrets of a keyed hash, loaded at run time without loss of the window."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.hash.siphash import SECRET_BITS
from ..latencies import SECRET_LEAD
from ..parameters import require_integer
from .siphash import SipHash


class Secrets(wiring.Component):
    """Holds the secrets of the hash pipelines, and selects the turn that adopts a new secret.

    A new secret waits while the current secret stays in use. With re-keying, the next turn of the
    ring adopts the new secret. The pipeline of the old secret is free again when all its segments
    have left the ring; no other secret is accepted until then. Without re-keying there is one
    pipeline. A clear adopts the secret that was pending at its acceptance, once the pipeline is
    empty. No secret is accepted while a clear is in progress.

    Parameters
    ----------
    pipelines : int
        2 with re-keying, 1 without.
    ring_segments : int
        Segments in the ring.

    Members
    -------
    i : In(stream.Signature(128))
        A secret. Without re-keying, it replaces a pending secret.
    clears : In(1)
        Without re-keying only: a clear is accepted; `cleared` follows. A secret accepted in the
        same cycle as the clear takes effect if `cleared` follows at least `LEAD + 3` cycles later.
    turned, cleared : In(1)
        An operation turns or clears the ring; it read `adopt` in the previous cycle.
    waits : Out(1)
        Whether a secret is pending.
    adopt : Out(1)
        Whether a turn adopts a pending secret.
    secret0, secret1 : Out(128)
        Secret of each pipeline.

    Errors: as `require_integer`.
    """

    LEAD = SECRET_LEAD
    """Cycles from the acceptance of a secret to the first operation that uses the secret."""

    def __init__(self, *, pipelines, ring_segments):
        require_integer("Pipelines", pipelines, least=1, most=2)
        require_integer("Ring segments", ring_segments, least=1)
        self._pipelines = pipelines
        self._ring_segments = ring_segments
        super().__init__(
            {
                "i": In(stream.Signature(SECRET_BITS)),
                "turned": In(1),
                "cleared": In(1),
                "waits": Out(1),
                "adopt": Out(1),
            }
            | ({"clears": In(1)} if pipelines == 1 else {})
            | {f"secret{number}": Out(SECRET_BITS) for number in range(pipelines)}
        )

    def elaborate(self, platform):
        m = Module()
        waits = self.waits
        # The secret must reach the pipeline before its first key.
        known = Signal(self.LEAD + 1)
        told = Signal()
        coming_in = Signal()
        taken = self.i.valid & self.i.ready
        m.d.comb += [
            self.adopt.eq(known[-1]),
            coming_in.eq(told & (self.turned if self._pipelines == 2 else self.cleared)),
        ]
        m.d.sync += told.eq(self.adopt)
        with m.If(coming_in):
            m.d.sync += [waits.eq(0), known.eq(0)]
        with m.Else():
            m.d.sync += known.eq(known << 1 | waits)
        with m.If(taken):
            m.d.sync += waits.eq(1)
        if self._pipelines == 2:
            self._elaborate_pair(m, taken, waits, coming_in)
        else:
            self._elaborate_single(m, taken, coming_in)
        return m

    def _elaborate_single(self, m, taken, coming_in):
        """Keep the last secret until a clear; a clear activates no secret that arrived after it."""
        waiting = Signal(SECRET_BITS)
        # One clear, and three that wait.
        clears = Signal(range(5))
        m.d.comb += self.i.ready.eq(clears == 0)
        m.d.sync += clears.eq(clears + self.clears - self.cleared)
        with m.If(taken):
            m.d.sync += waiting.eq(self.i.payload)
        with m.If(coming_in):
            m.d.sync += self.secret0.eq(waiting)

    def _elaborate_pair(self, m, taken, waits, coming_in):
        """Load the pipeline that is not in use; count the segments that still need it."""
        current = Signal()
        older = Signal(range(self._ring_segments))
        # For some cycles, keys in flight still use the secret that will be replaced.
        settled = Signal(SipHash.HOLD + 2)
        with m.If(taken):
            m.d.sync += Array([self.secret1, self.secret0])[current].eq(self.i.payload)
        with m.If(coming_in):
            m.d.sync += [current.eq(~current), older.eq(self._ring_segments - 1)]
        with m.Elif(self.turned & (older != 0)):
            m.d.sync += older.eq(older - 1)
        with m.If(self.cleared):
            m.d.sync += older.eq(0)
        free = Signal()
        m.d.comb += free.eq(~waits & ~taken & (older == 0))
        m.d.sync += settled.eq(settled << 1 | free)
        with m.If(~free):
            m.d.sync += settled.eq(0)
        m.d.comb += self.i.ready.eq(settled[-1])
