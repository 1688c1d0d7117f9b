"""Filters as units: streams in and out, nothing lost under back-pressure."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring

from ..golden.errors import SpecificationError
from ..golden.hash.siphash import SECRET_BITS
from ..golden.spec.base import require
from .frontend.front import FrontEnd
from .frontend.prescaler import Prescaler
from .frontend.request_times import Stamps
from .frontend.time_window import TimeWindow
from .hash.secrets import Secrets
from .interface import UnitSignature, is_clear
from .latencies import (
    ACCEPT_LAG,
    CONTROL_LAG,
    DEFAULT_LEVELS,
    PERIOD_BITS,
    TICKS,
    result_places,
)
from .memory.map import STRICT, memory_map
from .monitors import alarm_ports, recovering, watch_results
from .parameters import require_integer
from .pipeline import delayed, registered
from .profile import HardwareProfile
from .queue import ResultQueue
from .registers import Holder, counters
from .ring.core import ring_core
from .statistics import count_events


class FilterUnit(wiring.Component):
    """A sliding-window filter.

    The unit accepts one operation per cycle for as long as its results are taken, also through
    shifts and for any sequence of keys. Every operation gives one
    result, in order, `latency` cycles after its acceptance if the results before it have been
    taken. Operations take effect one after another.

    `i.ready` falls while results wait to be taken, after a CLEAR, after reset,
    after a SHIFT for `SHIFT_PAUSE` cycles or until the segment that retired last
    has been cleared, and after every operation while `generation` is below
    `minimum_generation`. No operation is lost.

    Parameters
    ----------
    spec : FilterSpec
        What to build; must pass `HardwareProfile.check_buildable`.
    tag_bits : int
        Width of the tag.
    statistics_bits : int
        Width of the counters, which wrap around. 0 leaves them out.
    memory : str
        Variant of the segment memories, one of `lately.hdl.memory.variants.VARIANTS`.
    levels : int
        Levels of look-up tables between two registers: fewer for a fast clock, more for a small
        unit of low latency. See `lately.hdl.target_clocks.levels`.
    ticks : str
        Where the ticks of a window in time come from, one of `lately.hdl.latencies.TICKS`:
        "tick", a port that is high for a cycle for each; "period", a counter of the clocks that
        the port of this name says; "time", the field of this name of each request, see
        `lately.hdl.frontend.request_times.Stamps`. Ticks of a port must be `least_period` cycles
        apart; of those that are closer, up to `lately.hdl.latencies.TICKS_WAITING` wait.
    time_bits : int, optional
        Width of the tick counter, and of the ``time`` of requests and results; by default and at
        least what `lately.hdl.latencies.stamp_bits` says.
    tells_covered : bool
        Whether results of a window in time have the field ``covered``.
    protect : str
        What an upset of a memory may cost, one of `lately.hdl.latencies.PROTECTIONS`: "none" for
        anything; "parity" for false positives, as there are two copies of each memory and what is
        set in either counts; "ecc" for nothing, if it is alone in its bit until that is cleared,
        as there are three and most of them count.
    check : bool
        Whether the unit watches its own state: the masks of the ring, that the spare is clean when
        it turns, the places of results and the count of those that are left, that each operation
        comes in once and through the core, and that the input opens again. It resets itself where
        one of these is wrong.
    core : Component, optional
        Core with a `CoreSignature`, in place of that of the specification.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`. With a window in time, ``status`` is 1 where the
        window of the answer was shortened, 2 where its false-positive rate may exceed its bound,
        and 0 otherwise; ``time`` is the tick counter; ``covered`` is what the port of this name was
        at the operation, before its effects.
    tick, or period : In
        With a window in time only: see `ticks`. A tick takes effect between two operations, takes
        no cycle of theirs, and is told by the ``time`` of their results.
    covered : Out(range(span + 2))
        With a window in time only: ticks, the present one included, of which every key is still
        reported; ``span + 1`` unless the window is shortened.
    generation : In(generation_bits)
        Insertions in a generation; the promises of the specification hold for
        ``spec.generation``. With 0 every insertion begins a generation, as with 1, and so does the
        first one after a SHIFT or CLEAR, where with 1 it does not. A change applies from the first
        generation on that begins, by a shift, a clear or reset, with an operation accepted at least
        `GENERATION_LEAD` cycles later.
    secret : In(stream.Signature(128))
        With ``hash="siphash"`` only: the secret of the hash, 0 after reset.
        Without re-keying, a secret applies from the next CLEAR on that is accepted in the same
        cycle or later, unless another comes before; `secret.ready` is low from the acceptance of a
        CLEAR until that has taken effect. With re-keying, it applies from the next shift or CLEAR
        on to the segment that begins then, and the other segments keep theirs; `secret.ready` is
        low until the last segment with an older secret has retired. It then applies to operations
        accepted at least `SECRET_LEAD` cycles later.
    operations, ... : Out(statistics_bits)
        The counters of `lately.hdl.registers` that units hold: events since reset, counted as
        the results leave the core. They are exact once the unit has been idle for its own
        latency and that of an `EventCounter`.
    fault : Out(1)
        If it watches its state: high for the clock in which the unit resets itself, as its state is
        such as no operations bring about. Operations under way then have no result; the unit is as
        after reset, and its input opens once the memory is clear.
    alarms : Out(16)
        How often it has done so since it was reset from outside.
    upsets : Out(statistics_bits)
        With protection only: clocks in which an operation read what copies of a memory differ in.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    TypeError
        If a width is not an integer.
    ValueError
        If a width is negative, or there is no such protection.
    """

    families = ("apbf", "apbbf", "gebf", "blocked-gebf")

    GENERATION_LEAD = FrontEnd.LEAD
    """Cycles from a change of the generation length to the first operation it applies to."""

    SHIFT_PAUSE = FrontEnd.SHIFT_PAUSE
    """Cycles for which a SHIFT keeps the input closed if the spare is clean."""

    SECRET_LEAD = Secrets.LEAD
    """Cycles from a secret's acceptance to that of the first operation it applies to, with
    re-keying."""

    PAUSE = FrontEnd.PAUSE
    """Most cycles for which a SHIFT or CLEAR keeps the input closed after clearing."""

    LAG = ACCEPT_LAG
    """Cycles from an acceptance until `i.ready` depends on it, and one to spare."""

    def __init__(
        self,
        spec,
        *,
        tag_bits=8,
        statistics_bits=32,
        memory="portable",
        levels=DEFAULT_LEVELS,
        ticks="tick",
        time_bits=None,
        tells_covered=False,
        protect="none",
        check=False,
        core=None,
    ):
        self._profile = HardwareProfile(
            spec,
            memory=memory,
            levels=levels,
            protect=protect,
            check=check,
        )
        self._check_kind(spec)
        self._spec = spec
        self._memory = memory
        if core is None:
            core = ring_core(spec, memory=memory, profile=self._profile)
        self._core = core
        require_integer("Statistics bits", statistics_bits)
        self.generation_bits = spec.generation.bit_length() + 1
        self._tells = tells_covered
        require(spec.timed or not tells_covered, "tells_covered", "must be False without a span",
                tells_covered)  # fmt: skip
        self._window = self._make_window(ticks, time_bits) if spec.timed else None
        self._front = FrontEnd(
            generation_bits=self.generation_bits,
            minimum_generation=self._profile.minimum_generation,
            clear_words=self._core.clear_cycles,
            window=self._window,
            when_full=spec.when_full,
            check=check,
        )
        self._secrets = None
        if secrets := self._core.signature.secrets:
            self._secrets = Secrets(pipelines=secrets, ring_segments=spec.ring_segments)
        super().__init__(
            UnitSignature.from_spec(
                spec,
                tag_bits=tag_bits,
                generation_bits=self.generation_bits,
                generation=spec.generation,
                secret_bits=SECRET_BITS if secrets else 0,
                counters={one.name: statistics_bits for one in self._counters()},
                ticks=ticks,
                time_bits=time_bits,
                tells_covered=tells_covered,
                others=alarm_ports(check),
            )
        )

    def _check_kind(self, spec):
        if spec.family not in self.families:
            raise SpecificationError(
                f"family: must be {' or '.join(self.families)} for {type(self).__name__}, "
                f"not {spec.family!r}"
            )
        if spec.lanes > 1:
            raise SpecificationError(
                f"lanes: must be 1 for {type(self).__name__}, not {spec.lanes}"
            )

    def _counters(self):
        held = counters(Holder.UNIT) + (counters(Holder.WINDOW) if self._spec.timed else [])
        return held + (counters(Holder.PROTECTION) if self._profile.protect != "none" else [])

    def _make_window(self, ticks, time_bits):
        spec = self._spec
        if ticks not in TICKS:
            raise ValueError(f"Ticks must be {' or '.join(TICKS)}, not {ticks!r}")
        self._ticks = ticks
        return TimeWindow(
            run=spec.run,
            generations=spec.window_generations,
            span=spec.span,
            generation_span=spec.generation_span,
            time_bits=time_bits,
            stamped=ticks == "time",
            tells=self._tells,
            copies=self._profile.votes,
            synchronous_read=self._memory.removesuffix(STRICT) == "ice40",
        )

    @property
    def spec(self):
        """Specification of the unit."""
        return self._spec

    @property
    def memory_map(self):
        """Memories of the unit, and where each bit lies in them: a `MemoryMap`."""
        return memory_map(
            self._spec,
            memory=self._memory,
            protect=self._profile.protect,
        )

    @property
    def profile(self):
        """Figures of what was built."""
        return self._profile

    @property
    def minimum_generation(self):
        """Shortest generation at which operations are not accepted one at a time."""
        return self._profile.minimum_generation

    @property
    def longest_pause(self):
        """Most cycles for which a SHIFT or CLEAR, or the spare, keeps the input closed."""
        return self._profile.longest_pause

    @property
    def latency(self):
        """Cycles from the acceptance of an operation to its result on an idle output."""
        stamped = self._window is not None and self._ticks == "time"
        return self._latency + (Stamps.LATENCY if stamped else 0)

    @property
    def _latency(self):
        """Cycles from when an operation comes through the gate to its result."""
        return self._core.latency + ResultQueue.LATENCY - 1

    def elaborate(self, platform):
        m = Module()
        core = self._core
        m.submodules.core = core
        m.submodules.front = front = self._front
        m.submodules.queue = queue = ResultQueue(
            depth=self._depth,
            tag_bits=len(self.i.p.tag),
            verdict_bits=len(core.verdict.as_value()),
            status_bits=0 if self._window is None else len(self._told),
            copies=self._profile.votes,
            check=self._profile.check,
        )
        accepted = Signal()
        tag = Signal.like(self.i.p.tag, reset_less=True)
        i = wiring.flipped(self.i) if self._window is None else self._elaborate_window(m, queue)
        m.d.sync += [accepted.eq(i.valid & i.ready), tag.eq(i.p.tag)]
        room, places = self._elaborate_room(m, accepted)
        m.d.comb += [
            i.ready.eq(front.i.ready),
            front.i.valid.eq(i.valid),
            front.i.p.eq(i.p.operation),
            front.credit.eq(room),
            front.clean.eq(core.clean),
            front.generation.eq(self.generation),
            core.control.eq(front.control),
            core.key.eq(i.p.key),
            queue.tag_valid.eq(accepted),
            queue.tag.eq(tag),
            queue.valid_next.eq(core.valid_next),
            queue.verdict.eq(core.verdict),
            self.o.valid.eq(queue.o.valid),
            self.o.p.eq(queue.o.p),
            queue.o.ready.eq(self.o.ready),
        ]
        if self._secrets is not None:
            self._elaborate_secrets(m)
        events = {one.event: getattr(core, one.event) for one in counters(Holder.UNIT)}
        count_events(m, self, events)
        if self._profile.protect != "none":
            count_events(m, self, {"upset": core.fault}, holder=Holder.PROTECTION)
        if self._profile.check:
            return recovering(m, self, self._elaborate_check(m, i, accepted, queue, places))
        return m

    @property
    def _told(self):
        """What results have of the window, from the lowest bits on."""
        window = self._window
        return window.told.as_value() if self._tells else Cat(window.status, window.time)

    def _elaborate_window(self, m, queue):
        """Let time go on; return the stream of operations."""
        front, window = self._front, self._window
        told = registered(m, front.control.valid, "status_valid")
        told = registered(m, told, "told_valid") if self._tells else told
        m.d.comb += [
            self._core.limit.eq(front.limit),
            queue.status_valid.eq(told),
            queue.status.eq(self._told),
            self.covered.eq(window.covered),
        ]
        events = {one.event: getattr(window, one.event) for one in counters(Holder.WINDOW)}
        count_events(m, self, events, holder=Holder.WINDOW)
        if self._ticks == "time":
            m.submodules.stamps = stamps = Stamps(
                request=self.signature.request, span=self._spec.span
            )
            wiring.connect(m, wiring.flipped(self.i), stamps.i)
            m.d.comb += [getattr(window, name).eq(getattr(stamps, name))
                         for name in ("tick", "target", "far")]  # fmt: skip
            m.d.comb += stamps.idle.eq(window.idle)
            return stamps.o
        if self._ticks == "period":
            m.submodules.prescaler = prescaler = Prescaler(
                width=PERIOD_BITS, least=self._profile.least_period
            )
            m.d.comb += [prescaler.period.eq(self.period), window.tick.eq(prescaler.tick)]
        else:
            m.d.comb += window.tick.eq(self.tick)
        return wiring.flipped(self.i)

    def _elaborate_secrets(self, m):
        control = self._front.control
        m.submodules.secrets = secrets = self._secrets
        m.d.comb += [
            secrets.i.valid.eq(self.secret.valid),
            secrets.i.payload.eq(self.secret.payload),
            self.secret.ready.eq(secrets.i.ready),
            secrets.turned.eq(self._front.turned),
            secrets.cleared.eq(control.clear),
            self._front.adopt.eq(secrets.adopt),
        ]
        if not self._spec.rekey:
            m.d.comb += [
                secrets.clears.eq(self.i.valid & self.i.ready & is_clear(self.i.p.operation)),
                # That of the reset brings in none, and has no result.
                secrets.cleared.eq(control.clear & control.valid),
            ]
        for number in range(self._core.signature.secrets):
            name = f"secret{number}"
            m.d.comb += getattr(self._core, name).eq(getattr(secrets, name))

    @property
    def _depth(self):
        """Most results that may be under way."""
        return result_places(self._latency, lag=self.LAG)

    def _elaborate_room(self, m, entered):
        """Return whether there are places for all results that may be asked for; and how many."""
        left = Signal()
        change = Signal(signed(2))
        # Places left, less one and less what the count does not know of yet.
        places = Signal(signed(self._depth.bit_length() + 1), init=self._depth - 1 - self.LAG)
        room = Signal()
        m.d.sync += [
            left.eq(self.o.valid & self.o.ready),
            change.eq(left - entered),
            places.eq(places + change),
            room.eq(places >= 0),
        ]
        return room, places

    def _elaborate_check(self, m, i, accepted, queue, places):
        """Watch ring, front end, places of results, and that no result is lost or comes twice.

        Returns values that tell of it.
        """
        core = self._core
        return watch_results(
            m,
            i=i,
            accepted=accepted,
            queue=queue,
            places=places,
            lags=(1, 2),
            due=delayed(m, self._front.control.valid, core.latency - CONTROL_LAG - 1, "due"),
            valid_next=core.valid_next,
            illegal=queue.illegal | core.illegal | self._front.illegal,
        )


class APBF(FilterUnit):
    """Age-Partitioned Bloom Filter: one slice per segment, a hash function per slice."""

    families = ("apbf",)


class APBBF(FilterUnit):
    """Age-Partitioned Blocked Bloom Filter: one block per key and segment."""

    families = ("apbbf",)


class GEBF(FilterUnit):
    """Guarded Epoch Bloom Filter: a Bloom filter per epoch, one hash function for all."""

    families = ("gebf",)


class BlockedGEBF(FilterUnit):
    """Blocked Guarded Epoch Bloom Filter: one block per key, the same in every epoch."""

    families = ("blocked-gebf",)
