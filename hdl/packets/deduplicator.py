"""Frames without those that were seen lately."""

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.errors import SpecificationError
from ...golden.hash.siphash import SECRET_BITS
from ...golden.packets.comparison import DEFAULT_FIELDS, HARDWARE_FIELDS
from ...golden.packets.frame_actions import LONGEST_FRAME, Action
from ...golden.packets.packet_layers import Version
from ..build import filter_unit
from ..interface import Operation
from ..latencies import PERIOD_BITS
from ..pipeline import registered
from ..queue import ResultQueue
from ..registers import Block, counters
from ..statistics import count_events
from .axis_beats import AxisBeat, FrameNarrower, FrameWidener
from .digest_settings import DigestSettings
from .frame_digest import FrameDigest
from .frame_intake import FATES, FrameIntake
from .frame_store import FrameStore
from .frames import kept_bytes

DIGEST_BITS = 64
"""Width of the digest of a frame, which is the filter's key."""

FILTER_PORTS = ("hits", "shortened", "overfilled", "covered", "upsets", "secret")
"""Ports of the filter's unit that are the deduplicator's too, as far as there are any."""


class Deduplicator(wiring.Component):
    """Looks up the digest of each frame in a filter; counts, marks or drops what was seen lately.

    Frames are of Ethernet, from the destination's address on, without preamble and check sequence.
    No frame is cut, merged with another, or overtakes one. A frame waits in a `FrameStore` until
    the filter has answered. It leaves in the order in which it came, or not at all: because it was
    seen lately and `action` is to drop it, or because it was discarded, see `FrameIntake`. Frames
    that are discarded are not asked for, nor remembered.

    Frames of 60 bytes and more are taken and leave without a gap.

    Parameters
    ----------
    spec : Specification
        Of a filter with a span, and keys of 64 bits.
    width : int
        Bits of the streams, as for `AxisBeat`.
    store : int
        Bytes of the `FrameStore`. Power of two.
    frames : int
        Frames that can wait there. Power of two.
    longest : int
        Bytes of a frame at most.
    when_full : str
        As for `FrameIntake`: what a frame does for which there is no room.
    period : int
        Clocks of a tick of the filter, after reset.
    digest : Component, optional
        In place of a `FrameDigest`, with the same ports.
    options
        Of the filter's unit, see `lately.hdl.profile.UnitOptions`; ``ticks`` are "period", the
        default, or "tick".

    Members
    -------
    i, o : In(stream.Signature(AxisBeat(width))), Out(stream.Signature(AxisBeat(width)))
        `user` says of a frame that comes that it is damaged, of one that leaves that it is marked.
    enable : In(1)
        While it is low, no frame begins to be taken. So it is while a change of `fields` or
        `digest_secret` waits for frames that are being digested.
    clear : In(1)
        High for a clock: the filter forgets all frames, between two digests.
    order : Out(1)
        A `clear` has not been performed yet.
    action : In(2)
        `lately.golden.packets.frame_actions.Action`, for frames whose verdict comes. 3 is as COUNT.
    fields : In(5)
        `lately.golden.packets.comparison.Field`, for frames that begin after `DigestSettings`
        has taken it.
    digest_secret : In(stream.Signature(128))
        Likewise the secret of the digest; 0 after reset.
    period, or tick : In
        As of the filter's unit.
    hits, shortened, overfilled, covered, upsets, secret
        As of the filter's unit.
    frames_in, ... : Out(statistics_bits)
        As `lately.golden.packets.frame_deduplicator.FrameCounts`.

    Raises
    ------
    SpecificationError
        If the filter has no span, or other keys, or the hardware cannot hold it.
    TypeError, ValueError
        As of the parts.
    """

    def __init__(
        self,
        spec,
        *,
        width=64,
        store=8192,
        frames=64,
        longest=LONGEST_FRAME,
        when_full="wait",
        period=(1 << PERIOD_BITS) - 1,
        digest=None,
        **options,
    ):
        if not getattr(spec, "timed", False):
            raise SpecificationError("span: must be given for a deduplicator of frames")
        if spec.key_bits != DIGEST_BITS:
            raise SpecificationError(
                f"key_bits: must be {DIGEST_BITS}, those of a digest, not {spec.key_bits}"
            )
        ticks = options.pop("ticks", "period")
        if ticks not in ("tick", "period"):
            raise ValueError(f"Ticks must be tick or period for frames, not {ticks!r}")
        self.spec = spec
        self.unit = filter_unit(spec, tag_bits=1, ticks=ticks, **options)
        chosen = self.unit.profile.options
        self._frames = frames
        self._digest = FrameDigest() if digest is None else digest
        self._intake = FrameIntake(longest=longest, when_full=when_full)
        self._store = FrameStore(
            size=store,
            frames=frames,
            longest=longest,
            memory="ecp5" if chosen.memory.startswith("ecp5") else "portable",
        )
        held = self.unit.signature.members
        members = {name: held[name] for name in FILTER_PORTS if name in held}
        members |= {one.name: Out(chosen.statistics_bits) for one in counters(Block.FRAMES)}
        members |= {"tick": In(1)} if "tick" in held else {"period": In(PERIOD_BITS, init=period)}
        super().__init__(
            {
                "i": In(stream.Signature(AxisBeat(width))),
                "o": Out(stream.Signature(AxisBeat(width))),
                "enable": In(1, init=1),
                "clear": In(1),
                "order": Out(1),
                "action": In(2, init=Action.DROP),
                "fields": In(len(HARDWARE_FIELDS), init=DEFAULT_FIELDS.value),
                "digest_secret": In(stream.Signature(SECRET_BITS)),
            }
            | members
        )

    def elaborate(self, platform):
        m = Module()
        width = len(self.i.p.data)
        m.submodules.widener = widener = FrameWidener(width)
        m.submodules.intake = intake = self._intake
        m.submodules.digest = digest = self._digest
        m.submodules.unit = self.unit
        m.submodules.store = store = self._store
        m.submodules.narrower = narrower = FrameNarrower(width)
        wiring.connect(m, wiring.flipped(self.i), widener.i)
        wiring.connect(m, widener.o, intake.i)
        wiring.connect(m, intake.o, digest.i)
        wiring.connect(m, store.o, narrower.i)
        wiring.connect(m, narrower.o, wiring.flipped(self.o))
        m.d.comb += [
            intake.room.eq(store.room),
            store.write.eq(intake.write),
            store.word.eq(intake.i.p.data),
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
        """Pass on what is set."""
        m.submodules.settings = settings = DigestSettings()
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
        """Ask the filter for the digests of frames that wait, or to forget what it knows."""
        digest, request = self._digest.o, self.unit.i
        # No more frames than the store can hold have been digested and not asked for.
        m.submodules.questions = queue = ResultQueue(
            depth=self._frames, tag_bits=0, verdict_bits=DIGEST_BITS, distributed=True
        )
        with m.If(request.valid & request.ready):
            m.d.sync += self.order.eq(0)
        with m.If(self.clear):
            m.d.sync += self.order.eq(1)
        m.d.comb += [
            digest.ready.eq(1),
            queue.valid_next.eq(digest.valid & ~digest.p.error),
            queue.verdict.eq(registered(m, digest.p.digest, "digested", reset_less=True)),
            request.valid.eq(queue.o.valid | self.order),
            queue.o.ready.eq(request.ready & ~self.order),
            request.p.key.eq(queue.o.p),
            request.p.operation.eq(Mux(self.order, Operation.CLEAR, Operation.CHECK_AND_INSERT)),
            request.p.tag.eq(self.order),
        ]

    def _elaborate_answers(self, m):
        """Tell the store what the filter says of frames."""
        answer = self.unit.o
        m.d.comb += [
            answer.ready.eq(1),
            self._store.verdict.valid.eq(answer.valid & ~answer.p.tag),
            self._store.verdict.seen.eq(answer.p.seen),
        ]

    def _elaborate_counters(self, m):
        intake, digested = self._intake, self._digest.o
        version, known = digested.p.version, digested.valid & ~digested.p.error
        events = {fate: intake.discard & intake.fates[at] for at, fate in enumerate(FATES)}
        for name, one in (("ip4", Version.IP4), ("ip6", Version.IP6), ("other", Version.OTHER)):
            events[name] = known & (version == one)
        events["malformed"] = known & digested.p.malformed
        for name, beats in (("came", intake.i), ("left", self._store.o)):
            moves = beats.valid & beats.ready
            events[name] = moves & beats.p.last
            events[f"{name}_bytes"] = Mux(moves, kept_bytes(beats.p.size), 0)
        # What a register holds is counted, so that counting makes no path longer.
        events = {
            name: registered(m, Cat(event), f"{name}_event") for name, event in events.items()
        }
        count_events(m, self, events)
