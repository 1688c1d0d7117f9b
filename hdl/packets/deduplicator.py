"""Deduplicator of Ethernet frames, and wrappers with a bus or with flat ports."""

from amaranth.hdl import Cat, Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.errors import SpecificationError
from ...golden.hash.siphash import SECRET_BITS
from ...golden.packets.comparison import DEFAULT_FIELDS, HARDWARE_FIELDS
from ...golden.packets.frame_actions import Action
from ...golden.packets.packet_layers import Version
from ..build import filter_unit
from ..bus.controlled import Controlled
from ..bus.flat import AxisUnit, FlatUnit
from ..interface import Operation
from ..latencies import PERIOD_BITS
from ..parameters import require_integer
from ..pipeline import registered
from ..queue import ResultQueue, StreamRegister
from ..registers import Block, counters
from ..statistics import count_events
from .frame_digest import MAX_UNDER_WAY, DigestSettings, FrameDigest
from .frame_store import FATES, FrameIntake, FrameStore
from .frames import AxisBeat, FrameNarrower, FrameOptions, FrameWidener, kept_bytes

DIGEST_BITS = 64  # width of a frame digest, which serves as the filter's key
# Maximum depth of a digest queue in LUT memory; deeper queues use a block RAM.
MAX_DISTRIBUTED = 64

# ports of the filter unit that the deduplicator passes through, where they exist
FILTER_PORTS = ("hits", "shortened", "overfilled", "covered", "upsets", "secret")


class Deduplicator(wiring.Component):
    """Looks up the digest of each frame in a filter; counts, marks or drops duplicates.

    Ethernet frames start at the destination address, without preamble or frame check sequence.
    Frames are never cut, merged or reordered. A frame waits in a `FrameStore` for its verdict. All
    frames leave in order of arrival, except for duplicates that `action` drops, and for frames that
    a `FrameIntake` discards. A discarded frame is neither looked up nor recorded. Frames of at
    least 60 bytes enter and leave without gaps.

    `period` is the reset value of the port with this name. `table_bits` must be 4 or 5; 4 takes
    fewer LUTs from 128 bits on if a LUT memory has only 16 words. `digest` is a component to use
    instead of a `FrameDigest`. The other options are those of `FrameOptions` and of the filter unit
    (`lately.hdl.profile.UnitOptions`). The filter must be a ring with a span and 64-bit keys.
    """

    def __init__(
        self, spec, *, period=(1 << PERIOD_BITS) - 1, table_bits=5, digest=None, **options
    ):
        _check_filter(spec)
        self.frame_options = frames = FrameOptions.taken_from(options)
        ticks = options.pop("ticks", "period")
        if ticks not in ("tick", "period"):
            raise ValueError(f"ticks: must be 'tick' or 'period' for a deduplicator, not {ticks!r}")
        require_integer("Period", period, minimum=1, maximum=(1 << PERIOD_BITS) - 1)
        self.spec = spec
        self.unit = filter_unit(spec, tag_bits=1, ticks=ticks, **options)
        chosen = self.unit.profile.options
        ecp5 = chosen.memory.startswith("ecp5")
        self._passes = frames.longest_forwarded > frames.max_frame
        if digest is None:
            digest = FrameDigest(frames.beat, table_bits=table_bits, inner=frames.inner)
        self._digest = digest
        self._intake = FrameIntake(
            max_frame=frames.max_frame,
            max_kept=frames.longest_forwarded if frames.on_oversize == "pass" else None,
            on_overflow=frames.on_overflow,
            ready=frames.tready,
            width=frames.beat,
        )
        self._store = FrameStore(
            size=frames.buffer,
            frames=frames.frames,
            longest=frames.longest_forwarded,
            memory="ecp5" if ecp5 else "portable",
            width=frames.beat,
            side=frames.side.bits,
        )
        ports = self.unit.signature.members
        members = {name: ports[name] for name in FILTER_PORTS if name in ports}
        members |= {counter.name: Out(chosen.statistics_bits) for counter in counters(Block.FRAMES)}
        members |= {"tick": In(1)} if "tick" in ports else {"period": In(PERIOD_BITS, init=period)}
        incoming = AxisBeat(frames.width, frames.side)
        super().__init__(
            {
                "i": In(stream.Signature(incoming, always_ready=not frames.tready)),
                "o": Out(stream.Signature(AxisBeat(frames.width, frames.side, leaves=True))),
                # While low, no new frame is accepted. New frames also wait until a change of
                # `fields` or `digest_secret` takes effect, after the digests of earlier frames.
                "enable": In(1, init=1),
                "clear": In(1),  # a one-cycle pulse makes the filter forget all frames
                "order": Out(1),  # a `clear` is pending
                "action": In(2, init=Action.DROP),  # for frames as their verdicts arrive
                "fields": In(len(HARDWARE_FIELDS), init=DEFAULT_FIELDS.value),  # compared fields
                "digest_secret": In(stream.Signature(SECRET_BITS)),  # takes effect like `fields`
            }
            | members
        )

    def elaborate(self, platform):
        m = Module()
        frames = self.frame_options
        m.submodules.widener = widener = FrameWidener(
            frames.width, frames.side, ready=frames.tready
        )
        m.submodules.intake = intake = self._intake
        m.submodules.digest = digest = self._digest
        m.submodules.unit = self.unit
        m.submodules.store = store = self._store
        m.submodules.narrower = narrower = FrameNarrower(frames.width, frames.side)
        wiring.connect(m, wiring.flipped(self.i), widener.i)
        wiring.connect(m, widener.o, intake.i)
        wiring.connect(m, intake.o, digest.i)
        wiring.connect(m, store.o, narrower.i)
        wiring.connect(m, narrower.o, wiring.flipped(self.o))
        word = intake.i.p.data
        m.d.comb += [
            intake.room.eq(store.room),
            store.write.eq(intake.write),
            store.word.eq(Cat(word, widener.beside) if frames.side.bits else word),
            store.keep.eq(intake.keep),
            store.discard.eq(intake.discard),
            store.record.eq(intake.record),
            store.action.eq(self.action),
        ]
        self._elaborate_settings(m)
        self._elaborate_questions(m)
        self._elaborate_answers(m)
        self._elaborate_counters(m)
        return m

    def _elaborate_settings(self, m):
        # Wide frames may begin in every cycle, so more digests are in progress at once.
        max_under_way = MAX_UNDER_WAY * (1 if self.frame_options.beat == 64 else 4)
        m.submodules.settings = settings = DigestSettings(max_under_way)
        wiring.connect(m, wiring.flipped(self.digest_secret), settings.secret)
        digest, intake = self._digest, self._intake
        m.d.comb += [
            settings.fields.eq(self.fields),
            settings.begins.eq(intake.begins),
            settings.ends.eq(digest.o.valid & digest.o.ready),
            digest.fields.eq(settings.steady_fields),
            digest.secret.eq(settings.steady_secret),
            intake.enable.eq(self.enable & settings.open),
        ]
        unit, members = self.unit, self.signature.members
        m.d.comb += unit.generation.eq(self.spec.generation)
        for name in ("tick", "period", "secret"):
            if name not in members:
                continue
            if not members[name].is_port:
                wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(unit, name))
            else:
                m.d.comb += getattr(unit, name).eq(getattr(self, name))
        for name in ("hits", "shortened", "overfilled", "covered", "upsets"):
            if name in members:
                m.d.comb += getattr(self, name).eq(getattr(unit, name))

    def _elaborate_questions(self, m):
        digest, request = self._digest.o, self.unit.i
        # The store limits how many frames are digested but not yet looked up.
        depth, operation = self.frame_options.frames, Operation.CHECK_AND_INSERT
        m.submodules.questions = queue = ResultQueue(
            depth=depth,
            tag_bits=int(self._passes),
            verdict_bits=DIGEST_BITS,
            distributed=depth <= MAX_DISTRIBUTED,
        )
        question = queue.o
        if depth > MAX_DISTRIBUTED:
            m.submodules.question = stage = StreamRegister(queue.o.p.shape())
            wiring.connect(m, queue.o, stage.i)
            question = stage.o
        if self._passes:
            # An oversize frame passes through the filter as NONE, to keep the order.
            m.d.comb += [queue.tag_valid.eq(self._intake.keep), queue.tag.eq(self._intake.passes)]
            operation = Mux(question.p[-1], Operation.NONE, operation)
        with m.If(request.valid & request.ready):
            m.d.sync += self.order.eq(0)
        with m.If(self.clear):
            m.d.sync += self.order.eq(1)
        m.d.comb += [
            digest.ready.eq(1),
            queue.valid_next.eq(digest.valid & ~digest.p.error),
            queue.verdict.eq(registered(m, digest.p.digest, "digested", reset_less=True)),
            request.valid.eq(question.valid | self.order),
            question.ready.eq(request.ready & ~self.order),
            request.p.key.eq(question.p[:DIGEST_BITS] if self._passes else question.p),
            request.p.operation.eq(Mux(self.order, Operation.CLEAR, operation)),
            request.p.tag.eq(self.order),
        ]

    def _elaborate_answers(self, m):
        answer = self.unit.o
        m.d.comb += [
            answer.ready.eq(1),
            self._store.verdict.valid.eq(answer.valid & ~answer.p.tag),
            self._store.verdict.seen.eq(answer.p.seen),
        ]

    def _elaborate_counters(self, m):
        intake, digested = self._intake, self._digest.o
        version, known = digested.p.version, digested.valid & ~digested.p.error
        events = {fate: intake.discard & intake.fates[number] for number, fate in enumerate(FATES)}
        if self._passes:
            events["oversize"] = intake.keep & intake.passes
        for name in ("ip4", "ip6", "other"):
            events[name] = known & (version == Version[name.upper()])
        events["malformed"] = known & digested.p.malformed
        for name, beats in (("came", intake.i), ("left", self._store.o)):
            moves = beats.valid & beats.ready
            events[name] = moves & beats.p.last
            size = beats.p.size
            # A wide beat adds its byte count; a 64-bit beat counts one event per byte.
            events[f"{name}_bytes"] = Mux(
                moves, kept_bytes(size) if len(size) == 3 else (size + 1)[: len(size) + 1], 0
            )
        # Events are registered before they are counted, to keep timing paths short.
        events = {
            name: registered(m, Cat(event), f"{name}_event") for name, event in events.items()
        }
        wide = self.frame_options.beat > 64
        count_events(m, self, events, amounts=("came_bytes", "left_bytes") if wide else ())


def _check_filter(spec):
    for met, rule in (
        (getattr(spec, "timed", False), "span: must be given for a frame deduplicator"),
        (hasattr(spec, "generation"),
         f"family: must be a ring for a frame deduplicator, not {spec.family}"),
        (spec.key_bits == DIGEST_BITS,
         f"key_bits: must be {DIGEST_BITS}, the width of a digest, not {spec.key_bits}"),
    ):  # fmt: skip
        if not met:
            raise SpecificationError(f"{rule}; `lately plan --wrap frames-64` finds a filter")


# fields of a transfer, in the order of their ports
PARTS = ("data", "last", "user", "keep", "id", "dest")


class ControlledDeduplicator(Controlled):
    """Deduplicator whose settings and counters are registers on a bus."""

    ELSEWHERE = ("clear", "order")

    def __init__(self, unit, *, bus, version):
        streams = {name: unit.signature.members[name] for name in ("i", "o")}
        super().__init__(
            unit,
            lambda others: wiring.Signature(streams | others),
            bus=bus,
            spec=unit.spec,
            version=version,
            tag_bits=0,
        )

    def elaborate(self, platform):
        m = Module()
        self._elaborate_bus(m)
        bank = self._bank
        waits = Signal()
        due = self._elaborate_lead(m, bank.control_clear, waits)
        m.d.comb += [self.unit.clear.eq(due), bank.status_order.eq(waits | self.unit.order)]
        with m.If(due):
            m.d.sync += waits.eq(0)
        wiring.connect(m, wiring.flipped(self.i), self.unit.i)
        wiring.connect(m, self.unit.o, wiring.flipped(self.o))
        return m


class AxisFrames(AxisUnit):
    """Deduplicator with an AXI4-Stream input and output of frames.

    Each TREADY is independent of TVALID and of the other TREADY in the same cycle. The bad bit of
    TUSER, together with TLAST, marks an incoming frame as damaged. At the output, the mark bit is
    high for a duplicate if `action` is MARK. 8-bit streams have no TKEEP.
    """

    def __init__(self, unit):
        # The frame streams pack no fields into a port.
        self.requests, self.results = [], []
        self._ready = not unit.signature.members["i"].signature.always_ready
        self._parts, members = {}, {}
        for prefix, payload, there, back in (
            ("s_axis_t", unit.i.p, In, Out), ("m_axis_t", unit.o.p, Out, In)
        ):  # fmt: skip
            widths = {part: len(getattr(payload, part)) for part in self._order(payload)}
            self._parts[prefix] = list(widths)
            members |= {f"{prefix}{part}": there(width) for part, width in widths.items()}
            members |= {f"{prefix}valid": there(1)}
            if self._ready or there is Out:
                members |= {f"{prefix}ready": back(1)}
        FlatUnit.__init__(self, unit, members)

    @staticmethod
    def _order(payload):
        """Return the names of the fields that have ports, in port order."""
        bits = {name: Shape.cast(shape).width for name, shape in payload.shape().members.items()}
        # TKEEP of a one-byte transfer is always 1 and has no port.
        return [name for name in PARTS if bits.get(name, 0) > (name == "keep")]

    def _elaborate_streams(self, m):
        unit = self.unit
        m.d.comb += [
            unit.i.p.keep.eq(-1),
            unit.i.valid.eq(self.s_axis_tvalid),
            *([self.s_axis_tready.eq(unit.i.ready)] if self._ready else []),
            self.m_axis_tvalid.eq(unit.o.valid),
            unit.o.ready.eq(self.m_axis_tready),
        ]
        for part in PARTS:
            for prefix, inner, inward in (("s_axis_t", unit.i, True), ("m_axis_t", unit.o, False)):
                if part in self._parts[prefix]:
                    pair = getattr(inner.p, part), getattr(self, f"{prefix}{part}")
                    target, source = pair if inward else reversed(pair)
                    m.d.comb += target.eq(source)
