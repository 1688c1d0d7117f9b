"""Units: filter cores with input and output streams that support back-pressure."""

from amaranth.hdl import Cat, Module, Shape, Signal, Value, signed, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..golden.hash.siphash import SECRET_BITS
from ..golden.operations import OperationBit
from ..golden.spec.base import require
from .frontend.front import FrontEnd, PlainFrontEnd
from .frontend.ticks import Prescaler, Stamps
from .hash.siphash import Secrets
from .interface import Operation, UnitSignature, is_clear, operation_bits
from .latencies import (
    ACCEPT_LAG,
    CONTROL_LAG,
    GENERATION_LEAD,
    PERIOD_BITS,
    QUEUE_LATENCY,
    SECRET_LEAD,
    SHIFT_PAUSE,
    STAMP_LATENCY,
)
from .memory.map import floorplan_groups
from .monitors import alarm_ports, recovering, watch_results
from .parameters import alternatives
from .pipeline import Pipeline, delayed, registered
from .queue import ResultQueue
from .registers import REGISTERS
from .statistics import count_events

EVENT_PORTS = {"upset": "fault"}  # core port of each event whose port has another name


class BaseUnit(wiring.Component):
    """Base class of units with one or several lanes, which `lately.hdl.build.filter_unit` builds.

    Every operation produces one result, in order. Operations take effect one after another.
    `i.ready` is low under back-pressure, for at most `longest_pause` cycles after a CLEAR or reset,
    and in the cases that `Profile.pauses` lists. No operation is lost.

    Members
    -------
    i, o
        See `lately.hdl.interface.UnitSignature`. With several lanes, `i` accepts beats, and `o`
        returns one result for each beat.

        Ring: the age counts generations. With a time-based window, ``status`` is 1 if the window
        was shortened for this result, 2 if the false-positive rate may exceed its bound, and 0
        otherwise. ``time`` is the tick counter, and ``covered`` is the value of the port `covered`
        before the operation takes effect.

        Dictionary: the window of a request is a number of insertions. A window longer than the
        window of the specification has the same effect as that window; if the window is 0, no
        key is seen. An operation with the bits insert and remove removes the key. The age is the
        number of later insertions, and 0 for the last inserted key. The status is 1 if the window
        exceeds the guaranteed window, so that keys may be missed.

        Timing filter: window and age are numbers of ticks or blocks. A window longer than the
        window of the specification has the same effect as that window. ``age`` is the age of the
        oldest cell of the key, or one more than the longest window if that cell has expired;
        ``oldest`` is the number of cells of this age. Both fields are valid for every operation
        with a key, and undefined for SHIFT and CLEAR. ``time`` is the tick counter, which a CLEAR
        does not change. If the specification has several classes, requests have a ``query_class``
        instead of a window, and a table of thresholds determines ``seen``. A class number of
        ``classes`` or more uses the entries of the highest class. A result is undefined if the
        unit needs a table entry that was never loaded.
    generation : In(generation_bits)
        Ring only. Number of insertions per generation; the guarantees of the specification hold
        for ``spec.generation``. If the number is 0 or 1, every insertion begins a generation, with
        one exception: if the number is 1, the first insertion after a SHIFT or CLEAR does not. A
        change applies from the first generation that begins with an operation accepted at least
        `lately.hdl.latencies.GENERATION_LEAD` cycles later.
    tick, or period : In
        See `UnitOptions`. A tick takes effect between two operations without using a cycle. From
        then on, the ``time`` of results includes the tick.
    tick_lost : Out(1)
        With `tick` only: high for one cycle after a tick is lost. A tick that follows another by
        less than `Profile.min_period` cycles waits, and is lost if
        `lately.hdl.latencies.TICKS_WAITING` ticks are already waiting.
    covered : Out(range(span + 2))
        Ring with a time-based window only: number of ticks, including the current one, whose keys
        are all still reported; ``span + 1`` unless the window is shortened.
    guaranteed : Out
        Dictionary only. Largest window for which results are exact.
    table, swap : In
        If the specification has classes: entries of a table of thresholds, as computed by
        `lately.golden.DecisionTable`, and the command to use the loaded table. A swap applies to
        operations accepted in later cycles. All entries of the first table are 0, so every key is
        seen.
    secret : In(stream.Signature(128))
        With ``hash="siphash"`` only: the secret of the hash, 0 after reset. For several lanes see
        `LaneUnit`.

        Without re-keying, a secret applies from the next CLEAR accepted in the same cycle or
        later, unless another secret replaces it first. `secret.ready` is low from the acceptance
        of a CLEAR until the CLEAR has taken effect.

        With re-keying, a secret applies from the next shift or CLEAR, to the segment that begins
        then; the other segments keep their secrets. It applies to operations accepted at least
        `lately.hdl.latencies.SECRET_LEAD` cycles after the secret. `secret.ready` is low until the
        last segment with an older secret has retired.
    operations, insertions, hits, ... : Out(statistics_bits)
        Counters of `lately.hdl.registers` whose events the unit has. They count results since
        reset, and are exact once the unit has been idle for its own latency plus the latency of an
        `EventCounter`.
    fault : Out(1)
        If the unit checks its state: high for the cycle in which the unit resets itself after an
        illegal state. Operations in flight then produce no result. The unit accepts operations
        again once the memory is clear.
    alarms : Out(16)
        Number of times the unit has reset itself since the last external reset.
    """

    # cycles from a change of the generation length to its first effect on an operation
    GENERATION_LEAD = GENERATION_LEAD

    SHIFT_PAUSE = SHIFT_PAUSE  # cycles for which a SHIFT stalls the input if the spare is clean
    # with re-keying: cycles from a secret's acceptance to the first operation that uses it
    SECRET_LEAD = SECRET_LEAD

    def __init__(self, profile, family, *, core, clock=None, secrets=None):
        self.profile = profile
        self._family = family
        self.core = core  # the core, or one of several cores: the pipeline from key to verdict
        self.clock = clock
        self.secrets = secrets
        super().__init__(
            UnitSignature(
                self._request_fields(),
                self._result_fields(),
                lanes=profile.lanes,
                ports=self._ports(),
            )
        )

    def _request_fields(self):
        profile, options = self.profile, self.profile.options
        others = dict(self.core.signature.request)
        removes = others.pop("remove", None) is not None
        operation = unsigned(len(OperationBit)) if removes else Operation
        fields = {"key": profile.spec.key_bits, "operation": operation, "tag": options.tag_bits}
        if profile.ticks and options.ticks == "time":
            fields["time"] = len(self.clock.time)
        return fields | others

    def _result_fields(self):
        # Same order as in the queue.
        verdict = {name: field.shape for name, field in self.core.verdict.shape()}
        report = {} if self.clock is None else self.clock.report
        fields = verdict | {name: value.shape() for name, value in report.items()}
        for name in self.profile.options.omit:
            known = [field for field in fields if field != "seen"]
            require(name in known, "omit", f"must be {alternatives(known)} for this unit", name)
            del fields[name]
        return fields | {"tag": self.profile.options.tag_bits}

    def _ports(self):
        profile, options, core = self.profile, self.profile.options, self.core.signature
        clock = {} if self.clock is None else self.clock.signature.members
        ports = {}
        if profile.generation_bits:
            ports["generation"] = In(profile.generation_bits, init=profile.spec.generation)
        events = (*core.events, *getattr(self.clock, "EVENTS", ()))
        ports |= {register.name: Out(options.statistics_bits) for register in REGISTERS
                  if register.event and register.event in events}  # fmt: skip
        ports |= {
            name: Out(member.shape) for name, member in core.ports.items() if member.flow is Out
        }
        if "covered" in clock:
            ports["covered"] = Out(clock["covered"].shape)
        if "tick" in clock and options.ticks != "time":
            period = In(PERIOD_BITS, init=options.period)
            ports[options.ticks] = period if options.ticks == "period" else In(1)
        if "tick" in ports:
            ports["tick_lost"] = Out(1)
        ports |= {name: member for name, member in core.ports.items() if member.flow is In}
        if self.secrets is not None:
            ports["secret"] = In(stream.Signature(SECRET_BITS))
        return ports | alarm_ports(options.self_check)

    @property
    def spec(self):
        return self.profile.spec

    @property
    def counters(self):
        """Names of the ports that are counters."""
        members = self.signature.members
        return [
            register.name for register in REGISTERS if register.event and register.name in members
        ]

    @property
    def memory_map(self):
        """`MemoryMap` of the unit: its memories, and the position of each bit."""
        return self._family.memory_map(self.profile)

    @property
    def floorplan_groups(self):
        """Groups of block RAM names. The block RAMs of a group should be placed close together."""
        return floorplan_groups(self.memory_map.memories) if self.profile.lanes > 1 else ()

    @property
    def minimum_generation(self):
        """Minimum number of insertions in a generation that never stalls the input."""
        return self.profile.minimum_generation

    @property
    def longest_pause(self):
        """Maximum number of cycles for which an operation stalls the input."""
        return self.profile.longest_pause

    @property
    def latency(self):
        """Minimum number of cycles from the acceptance of a request to the result."""
        return self.profile.unit_latency


class Unit(BaseUnit):
    """Unit with one lane: a front end, a core and a result queue. See `BaseUnit`.

    The unit accepts one operation per cycle without back-pressure. A result leaves `latency` cycles
    after the acceptance of its operation, or later under back-pressure.
    """

    LAG = ACCEPT_LAG  # cycles until `i.ready` reflects an acceptance, plus one spare cycle

    def __init__(self, profile, family):
        spec, check = profile.spec, profile.options.self_check
        core, clock = family.core(profile), family.clock(profile)
        if profile.generation_bits:
            self.front = FrontEnd(
                generation_bits=profile.generation_bits,
                minimum_generation=profile.minimum_generation,
                clear_words=core.clear_cycles,
                window=clock,
                when_full=spec.when_full,
                check=check,
            )
        else:
            self.front = PlainFrontEnd(clock=clock, check=check)
        self.depth = profile.result_depth
        secrets = None
        if pipelines := core.signature.secrets:
            rings = spec.ring_segments if profile.generation_bits else 1
            secrets = Secrets(pipelines=pipelines, ring_segments=rings)
        super().__init__(profile, family, core=core, clock=clock, secrets=secrets)

    @property
    def latency(self):
        stamped = "time" in self.signature.request.members
        return self.core.latency + QUEUE_LATENCY - 1 + (STAMP_LATENCY if stamped else 0)

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self.core
        m.submodules.front = front = self.front
        omitted = self.profile.options.omit
        verdict = core.verdict.as_value()
        if omitted:
            fields = core.verdict.shape().members
            verdict = Cat(core.verdict[name] for name in fields if name not in omitted)
        m.submodules.queue = queue = ResultQueue(
            depth=self.depth,
            tag_bits=len(self.i.p.tag),
            verdict_bits=len(verdict),
            status_bits=len(self._report),
            copies=self.profile.votes,
            check=self.profile.options.self_check,
        )
        accepted = Signal()
        tag = Signal.like(self.i.p.tag, reset_less=True)
        i = wiring.flipped(self.i) if self.clock is None else self._elaborate_clock(m, queue)
        m.d.sync += [accepted.eq(i.valid & i.ready), tag.eq(i.p.tag)]
        room, free = self._elaborate_room(m, accepted)
        m.d.comb += [
            i.ready.eq(front.i.ready),
            front.i.valid.eq(i.valid),
            front.i.p.eq(_plain_operation(i.p.operation)),
            front.credit.eq(room & ~core.stall if "stall" in core.signature.members else room),
            front.clean.eq(core.clean),
            *([front.generation.eq(self.generation)] if self.profile.generation_bits else []),
            core.control.eq(front.control),
            core.key.eq(i.p.key),
            queue.tag_valid.eq(accepted),
            queue.tag.eq(tag),
            queue.valid_next.eq(core.valid_next),
            queue.verdict.eq(verdict),
            self.o.valid.eq(queue.o.valid),
            self.o.p.eq(queue.o.p),
            queue.o.ready.eq(self.o.ready),
        ]
        self._elaborate_core_ports(m, i)
        if self.secrets is not None:
            self._elaborate_secrets(m)
        events = {event: getattr(core, EVENT_PORTS.get(event, event)) for event in
                  core.signature.events}  # fmt: skip
        count_events(m, self, events)
        if self.profile.options.self_check:
            return recovering(m, self, self._elaborate_check(m, i, accepted, queue, free))
        return m

    @property
    def _report(self):
        omitted, report = self.profile.options.omit, {} if self.clock is None else self.clock.report
        return Cat(value for name, value in report.items() if name not in omitted)

    def _elaborate_clock(self, m, queue):
        """Connect the tick source; return the stream of operations."""
        clock = self.clock
        inputs = [getattr(self.core, name).eq(getattr(self.front, name)) for name in clock.INPUTS]
        if len(self._report):
            valid = registered(m, self.front.control.valid, "status_valid")
            if "covered" in clock.report:
                valid = registered(m, valid, "report_valid")
            inputs += [queue.status_valid.eq(valid), queue.status.eq(self._report)]
        m.d.comb += inputs
        if "covered" in self.signature.members:
            m.d.comb += self.covered.eq(clock.covered)
        count_events(m, self, {event: getattr(clock, event) for event in clock.EVENTS})
        return self._elaborate_ticks(m, clock)

    def _elaborate_ticks(self, m, clock):
        if "time" in self.signature.request.members:
            m.submodules.stamps = stamps = Stamps(
                request=self.signature.request, span=self.spec.span
            )
            wiring.connect(m, wiring.flipped(self.i), stamps.i)
            m.d.comb += [getattr(clock, name).eq(getattr(stamps, name))
                         for name in ("tick", "target", "far")]  # fmt: skip
            m.d.comb += stamps.idle.eq(clock.idle)
            return stamps.o
        if "period" in self.signature.members:
            m.submodules.prescaler = prescaler = Prescaler(
                width=PERIOD_BITS, min_period=self.profile.min_period
            )
            m.d.comb += [prescaler.period.eq(self.period), clock.tick.eq(prescaler.tick)]
        elif "tick" in self.signature.members:
            m.d.comb += [clock.tick.eq(self.tick), self.tick_lost.eq(clock.tick_lost)]
        return wiring.flipped(self.i)

    def _elaborate_core_ports(self, m, i):
        core, pipe = self.core, Pipeline(m)
        lag = getattr(core, "request_lag", 0)
        for name in core.signature.request:
            if name == "remove":
                bits = operation_bits(i.p.operation)
                field = i.valid & i.ready & bits.remove & ~bits.alone
            elif name not in self.signature.request.members:
                continue
            else:
                field = getattr(i.p, name)
            field = pipe.enter(field, name, reset_less=name != "remove")
            m.d.comb += getattr(core, name).eq(field.at(lag).value)
        for name, member in core.signature.ports.items():
            outer, inner = getattr(self, name), getattr(core, name)
            if not member.is_port:
                wiring.connect(m, wiring.flipped(outer), inner)
            else:
                m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)

    def _elaborate_secrets(self, m):
        front, control = self.front, self.front.control
        m.submodules.secrets = secrets = self.secrets
        m.d.comb += [
            secrets.i.valid.eq(self.secret.valid),
            secrets.i.payload.eq(self.secret.payload),
            self.secret.ready.eq(secrets.i.ready),
        ]
        if "adopt" in front.signature.members:
            m.d.comb += [
                secrets.turned.eq(front.turned),
                secrets.cleared.eq(control.clear),
                front.adopt.eq(secrets.adopt),
            ]
        if "clears" in secrets.signature.members:
            operation = _plain_operation(self.i.p.operation)
            m.d.comb += [
                secrets.clears.eq(self.i.valid & self.i.ready & is_clear(operation)),
                # The CLEAR of a reset activates no secret, and has no result.
                secrets.cleared.eq(control.clear & control.valid),
            ]
        for number in range(self.core.signature.secrets):
            name = f"secret{number}"
            m.d.comb += getattr(self.core, name).eq(getattr(secrets, name))

    def _elaborate_room(self, m, entered):
        """Return whether the queue has room for another result, and the number of free entries."""
        left = Signal()
        change = Signal(signed(2))
        # Free entries, minus one and minus the acceptances that are not counted yet.
        free = Signal(
            signed(self.depth.bit_length() + 1), name="free", init=self.depth - 1 - self.LAG
        )
        room = Signal()
        m.d.sync += [
            left.eq(self.o.valid & self.o.ready),
            change.eq(left - entered),
            free.eq(free + change),
            room.eq(free >= 0),
        ]
        return room, free

    def _elaborate_check(self, m, i, accepted, queue, free):
        """Return whether a result was lost or duplicated, and whether any state is illegal."""
        core, front = self.core, self.front
        illegal = queue.illegal | front.illegal
        if "illegal" in core.signature.members:
            illegal = queue.illegal | core.illegal | front.illegal
        wrong = watch_results(
            m,
            i=i,
            accepted=accepted,
            queue=queue,
            free=free,
            lags=(1, 2),
            due=delayed(m, front.control.valid, core.latency - CONTROL_LAG - 1, "due"),
            valid_next=core.valid_next,
        )
        return wrong, illegal


def _plain_operation(operation):
    """Return an operation without the bit `remove`, so that no removal becomes a CLEAR."""
    if len(Value.cast(operation)) == Shape.cast(Operation).width:
        return operation
    bits = operation_bits(operation)
    query, *others = bits.as_value()[:3]
    return Operation(Cat(query & ~(bits.alone & bits.remove), *others))
