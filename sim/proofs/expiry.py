"""Proofs for time-based windows: segments expire exactly on time, and every loss is reported."""

from functools import partial

from amaranth.hdl import Array, Assume, Cat, Const, Module, Mux, Signal
from amaranth.hdl._ast import AnySeq
from amaranth.lib import memory

from ...golden.ring.rotation import RotationPolicy
from ...golden.spec import APBFSpec
from ...hdl.frontend.ticks import TickSpacing
from ...hdl.frontend.time_window import TimeWindow
from ...hdl.latencies import TICKS_WAITING
from ...hdl.pipeline import delayed, registered
from ...hdl.ring.core import FilterCore, StoreSignature
from ...hdl.ring.ring import RingDetector
from .core import AnyHash
from .formal import Proof, Unbounded
from .harness import Arbitrary, Harness, cycles_since, opened

_GENERATIONS, _SPAN = 2, 3

# Minimum cycles between two shifts; real units need more.
_APART = 8


class OpenMemory(memory.Memory):
    garbles = False  # whether a word reads as arbitrary during its write

    def elaborate(self, platform):
        m = Module()
        (write,), (read,) = self.write_ports, self.read_ports
        self.words = Array(
            Signal(self.shape, name=f"word{at}", reset_less=True) for at in range(self.depth)
        )
        m.d.comb += read.data.eq(self.words[read.addr])
        if self.garbles:
            with m.If(write.en & (write.addr == read.addr)):
                m.d.comb += read.data.eq(AnySeq(len(read.data)))
        with m.If(write.en):
            m.d.sync += self.words[write.addr].eq(write.data)
        return m


def waiting_ticks(m, harness, given, passes, lost):
    """Return the number of waiting ticks; require that each given tick passes once or is lost."""
    waiting = Signal(range(TICKS_WAITING + 1), name="ticks_due")
    # A tick is lost if the maximum number already waits, unless one passes in the same cycle.
    room = passes | (waiting != TICKS_WAITING)
    m.d.sync += waiting.eq(waiting + (given & room) - passes)
    harness.require(
        ~passes | given | (waiting != 0), lost == registered(m, given & ~room, "refused")
    )
    harness.reach("a tick is lost", lost)
    harness.reach("a tick arrives as a tick passes and the maximum number waits",
                  given & passes & (waiting == TICKS_WAITING))  # fmt: skip
    return waiting


class Spaced(Harness):
    PERIOD = 5
    make = staticmethod(partial(TickSpacing, min_period=PERIOD))

    def build(self, m):
        spacing = self._part
        m.submodules.spacing, inner = opened(spacing)
        passes, tick = inner["passes"], spacing.tick
        waiting = waiting_ticks(m, self, spacing.i, passes, spacing.tick_lost)
        last = self.PERIOD - 1
        ready = cycles_since(m, passes, last, init=last) == last
        self.require(
            tick == registered(m, passes, "passed"),
            passes == (ready & (spacing.i | (waiting != 0))),
        )


class Counted(Harness):
    def make(self, *, synchronous_read):
        self._synchronous = synchronous_read
        kind = type("OpenWindow", (TimeWindow,), {"MEMORY": self._open})
        policy = RotationPolicy(
            writes=2, settled=_GENERATIONS, generation=1, span=_SPAN, generation_span=2
        )
        return kind(policy, synchronous_read=synchronous_read)

    def _open(self, **shape):
        self._times = OpenMemory(**shape)
        self._times.garbles = self._synchronous
        return self._times

    def build(self, m):
        part = self._part
        m.submodules.window, self._inner = opened(part)
        apart = Signal(range(_APART + 1))
        m.d.sync += apart.eq(Mux(part.turn, _APART, apart - (apart != 0)))
        m.d.comb += Assume(~part.turn | (apart == 0))
        *ages, retired = self._elaborate_ages(m)
        for number, age in enumerate(ages):
            self.require((part.limit > number) == (age <= _SPAN))
        lost = retired <= _SPAN
        self.require((part.status == 1) == registered(m, lost, "lost"))
        older = [*ages[1:], retired]
        self.require(*(age <= other for age, other in zip(ages, older, strict=True)))
        self._require_counts(ages)
        self._require_times(m, ages)
        self._require_lost(m, lost, retired)
        self._require_ticks(m)
        self.reach("the oldest segment at the end of its span", ages[-1] == _SPAN)
        expires = self._inner["tick_now"] & ~self._inner["turn_before"]
        self.reach("a segment expires before a younger one",
                   expires & (ages[-2] < _SPAN) & (ages[-1] == _SPAN))  # fmt: skip
        self.reach("a segment is lost within its span", lost)

    def _require_ticks(self, m):
        window, passes = self._part, self._inner["_coming"]
        waiting = waiting_ticks(m, self, window.tick, passes, window.tick_lost)
        self.require(
            window.idle == (waiting == 0),
            self._inner["waiting"] == waiting,
            self._inner["tick_now"] == registered(m, passes, "passed"),
        )

    def _elaborate_ages(self, m):
        """Return the age of each generation, youngest first, and of the last retired one."""
        insert, turn, clear, tick = (
            self._inner[name]
            for name in ("insert_before", "turn_before", "clear_before", "tick_now")
        )
        gone = _SPAN + 1
        ages = [Signal(range(gone + 1), init=gone, name=f"age{number}")
                for number in range(_GENERATIONS + 2)]  # fmt: skip
        for number, age in enumerate(ages):
            after = Mux(turn, ages[number - 1], age) if number else Mux(insert, 0, age)
            after = Mux(clear, gone, after)
            m.d.sync += age.eq(Mux(tick & (after != gone), after + 1, after))
        return ages

    # Invariants of the registers, which make the proof inductive.

    def _require_counts(self, ages):
        inner, (youngest, *settled) = self._inner, ages
        now, then = (sum(age <= span for age in settled) for span in (_SPAN, _SPAN - 1))
        remaining, known = inner["remaining"], inner["_known"]
        self.require(
            inner["_young"] == (youngest <= _SPAN),
            inner["_settled"] == now,
            (remaining >= then) & (remaining <= now),
            ~known | (remaining == then),
            ~known | ~inner["settling"].any(),
            ~known | inner["_inserted"] | (youngest > _SPAN)
            | (inner["last_expired"] == (youngest == _SPAN)),
        )  # fmt: skip

    def _require_times(self, m, ages):
        inner, (youngest, *settled) = self._inner, ages
        now, target, settling = (inner[name] for name in ("now", "target_time", "settling"))
        self.require(
            target == (now + 1)[: len(now)],
            (youngest > _SPAN) | ((now - inner["_last"])[: len(now)] == youngest),
        )
        for number, age in enumerate(settled, 1):
            time = self._times.words[self._before(m, number, f"settled{number}")]
            self.require((age > _SPAN) | ((now - time)[: len(now)] == age))
        address = self._before(m, inner["remaining"], "oldest")
        oldest = self._times.words[address]
        until = (target - oldest)[: len(now)]
        none = inner["remaining"] == 0
        read = inner["read_time"] == oldest if self._synchronous else inner["address"] == address
        self.require(
            none | settling[:1].any() | read,
            none | settling[:2].any() | (inner["oldest_time"] == oldest),
            none | settling[:3].any() | (inner["oldest_age"] == until),
            none | settling[:4].any() | (inner["oldest_expired"] == (until > _SPAN)),
            (settling & (settling - 1)) == 0,
        )

    def _before(self, m, shifts, name):
        address = Signal(range(self._times.depth), name=f"{name}_address")
        m.d.comb += address.eq(self._inner["index"] - shifts)
        return address

    def _require_lost(self, m, lost, retired):
        inner = self._inner
        now, shortened = inner["now"], inner["shortened"]
        self.require(
            shortened == lost,
            ~shortened | inner["retired"] | ((now - inner["lost"])[: len(now)] == retired),
            ~shortened | ~inner["_known"] | (inner["lost_expired"] == (retired == _SPAN)),
        )


class AnyBits(Arbitrary):
    latency = 0


class WithinLimit(Harness):
    def make(self, *, run, generations):
        spec = APBFSpec(k=run, l=generations, slice_bits=4, key_bits=4, clear=2, generation=8)
        self._spec = spec
        self._store = AnyBits(StoreSignature(spec=spec, latency=AnyBits.latency))
        return FilterCore(
            hashes=[AnyHash(spec=spec)],
            store=self._store,
            detector=RingDetector(
                segments=spec.segments, parts=spec.parts, run=run, starts=generations + 1
            ),
            clear_cycles=1,
            timed=True,
        )

    def build(self, m):
        m.submodules.core = core = self._part
        spec, store, verdict = self._spec, self._store, core.verdict
        m.d.comb += Assume(store.base < spec.segments)
        segments, starts = range(spec.segments), range(spec.window_generations + 1)
        flags = Cat(store.bits.word_select(at, spec.parts).all() for at in segments)
        matches = Cat(flags, flags).bit_select(store.base, len(segments))
        matches = delayed(m, matches, core.latency - core.addresses_latency, "matches")
        asked = Cat(core.control.query, core.limit)
        asked = delayed(m, asked, core.latency - core.control_lag, "asked")
        query, limit = asked[0], asked[1:]
        # The segments that an insertion writes are all live or all expired.
        counting = Mux(limit == 0, 0, limit + spec.run - 1)
        counted = Cat(matches[at] & (at < counting) for at in range(spec.ring_segments))
        seen, age = Const(0), Const(0)
        for start in reversed(starts):
            whole = counted[start : start + spec.run].all()
            seen, age = seen | whole, Mux(whole, start, age)
        started = delayed(m, Const(1), core.latency, "started")
        seen = seen & query
        self.require(~started | (Cat(verdict.seen, verdict.age) == Cat(seen, Mux(seen, age, 0))))
        oldest = matches[starts[-1] :][: spec.run].all() & query & started
        self.reach("the oldest run is reported", oldest & seen & (age == starts[-1]))
        self.reach("the oldest run has expired", oldest & ~seen & (limit == starts[-1]))


PROOFS = (
    *(
        Proof(
            name=f"window in time{read}",
            statement="A segment is live until exactly one span after the last insertion of its "
            "generation, for any events and gaps. If a live segment is retired, this is reported. "
            f"Each tick advances time once, unless {TICKS_WAITING} ticks already wait; such a tick "
            "is reported as lost.",
            design=f"time-based window, k = 2, l = {_GENERATIONS}, a span of {_SPAN} ticks, at "
            f"least {_APART} cycles between shifts{read}",
            build=partial(Counted, synchronous_read=bool(read)),
            method=Unbounded(900),
        )
        for read in ("", ", times read with the clock")
    ),
    Proof(
        name="spacing of ticks",
        statement="Each tick passes once, as soon as the minimum time since the previous tick has "
        f"passed, unless {TICKS_WAITING} ticks already wait; such a tick is reported as lost.",
        design=f"tick spacing of a timing filter, at least {Spaced.PERIOD} cycles between ticks",
        build=Spaced,
    ),
    *(
        Proof(
            name=f"limit of a window in time, k = {run}, l = {generations}",
            statement="A query returns the youngest run of matches among the live segments, for "
            "any matches and any number of live segments.",
            design=f"core with an age limit, k = {run}, l = {generations}; any stored bits",
            build=partial(WithinLimit, run=run, generations=generations),
        )
        for run, generations in ((1, 11), (4, 8), (6, 6), (11, 1))
    ),
)
