"""Proofs for frame components: their streams obey the stream rules, and no frame is damaged.

A netlist test shows that no output depends combinationally on an input.
"""

from functools import partial

from amaranth.hdl import Assume, Cat, DomainRenamer, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from ...golden.packets.frame_actions import WIDTHS, beat_bytes
from ...golden.spec import GEBFSpec
from ...hdl.packets.deduplicator import Deduplicator
from ...hdl.packets.frame_digest import FrameDigest
from ...hdl.packets.frame_store import FrameIntake, beats_of
from ...hdl.packets.frames import BEAT_BYTES, FrameBeat, FrameNarrower, FrameWidener
from ...hdl.packets.gmii import (
    CHECK_BYTES,
    GAP_BYTES,
    PREAMBLE_BYTES,
    RECEIVING,
    SHORTEST_FRAME,
    FrameCrossing,
    GmiiReceiver,
    GmiiTransmitter,
)
from ...hdl.pipeline import delayed
from .formal import Bounded, Induction, Proof
from .harness import Arbitrary, Harness, constant, cycles_since, latched, opened, set_free
from .results import kept_while_waiting

FRAMES_SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
_FRAMES, _LONGEST = 4, 16
_STORE_BEATS, _LONGEST_BEATS = 8, 2
_MIN_RUN = PREAMBLE_BYTES + 1 + SHORTEST_FRAME + CHECK_BYTES
_QUIET = 3  # maximum cycles from the last byte of a frame to the receiver's last output


def digest_signature(width):
    members = FrameDigest().signature.members
    return wiring.Signature({**members, "i": In(stream.Signature(FrameBeat(width)))})


class FramePorts(Harness):
    def __init__(self, *, width, **options):
        beat = beat_bytes(width)
        self._deduplicator = Deduplicator(
            FRAMES_SPEC,
            width=width,
            buffer=_STORE_BEATS * beat,
            frames=_FRAMES,
            max_frame=_LONGEST_BEATS * beat,
            digest=Arbitrary(digest_signature(8 * beat)),
            **options,
        )
        self._deduplicator.unit = Arbitrary(self._deduplicator.unit.signature)
        super().__init__()

    def build(self, m):
        m.submodules.deduplicator = part = self._deduplicator
        set_free(m, part, In)
        o, keep = part.o, part.o.p.keep
        whole = [~keep[at] | keep[at - 1] for at in range(1, len(keep))]
        # Check one arbitrary bit of the payload; checking all bits takes the solver ten times as
        # long.
        payload = Value.cast(o.p)
        bit = payload.bit_select(constant(m, range(len(payload))), 1)
        waits = delayed(m, o.valid & ~o.ready, 1, "waits")
        self.require(
            ~waits | (o.valid & (bit == delayed(m, bit, 1, "before"))),
            ~o.valid | (keep[0] & Cat(whole).all()),
        )
        self.reach("a frame leaves after waiting", kept_after_waiting(m, o) & o.p.last)


def kept_after_waiting(m, o):
    """Return whether a transfer is accepted after it has waited for at least one cycle."""
    waited = Signal(name="waited")
    m.d.sync += waited.eq(o.valid & ~o.ready)
    return waited & o.valid & o.ready


def full_but_last(beats):
    return ~beats.valid | beats.p.last | beats.p.size.all()


class WidenedFrames(Harness):
    make = FrameWidener

    def build(self, m):
        m.submodules.widener = part = self._part
        taken = part.i.valid & part.i.ready
        inside, broken = Signal(), Signal()
        keep, last = part.i.p.keep, part.i.p.last
        gaps = [keep[at] & ~keep[at - 1] for at in range(1, len(keep))]
        wrong = ~keep[0] | Cat(gaps).any() | (~last & ~keep.all())
        ends = delayed(m, taken & last, 1, "ends")
        with m.If(taken):
            m.d.sync += [inside.eq(~last), broken.eq((broken & inside) | wrong)]
        error = delayed(m, taken & last & part.i.p.user, 1, "error") | broken
        beat = part.o.p
        self.require(
            kept_while_waiting(m, part.o),
            full_but_last(part.o),
            ~(part.o.valid & beat.error) | beat.last,
            ~ends | (part.o.valid & beat.last & (beat.error == error)),
        )
        self.reach("a damaged frame waits", part.o.valid & beat.error & ~part.o.ready)


class IntakeRules(Harness):
    def __init__(self, *, on_overflow, ready):
        self._waits, self._ready = on_overflow == "wait", ready
        self._intake = FrameIntake(max_frame=_LONGEST + 4, on_overflow=on_overflow, ready=ready)
        super().__init__()

    def build(self, m):
        m.submodules.intake = part = self._intake
        set_free(m, part, In)
        taken, ends = part.i.valid & part.i.ready, part.i.p.last
        leaves, longest = part.o.valid & part.o.ready, beats_of(_LONGEST + 4)
        # Number of beats of this frame that the digest has received.
        digested = Signal(range(longest + 2))
        with m.If(leaves):
            m.d.sync += digested.eq(Mux(part.o.p.last, 0, digested + (digested <= longest)))
        written = Signal(range(longest + 2))
        count = written + part.write
        m.d.sync += written.eq(Mux(part.keep | part.discard, 0, count))
        m.d.comb += Assume(full_but_last(part.i))
        size = BEAT_BYTES * (part.record.beats - 1) + part.record.size + 1
        self.require(
            (part.keep | part.discard) == (taken & ends),
            ~(part.keep & part.discard),
            ~part.write | (taken & part.room),
            ~part.keep | (part.write & (part.record.beats == count)),
            ~part.keep | ((part.record.size == part.i.p.size) & (size <= _LONGEST + 4)),
            # Exactly the kept frames are digested whole and undamaged.
            part.keep == (leaves & part.o.p.last & ~part.o.p.error),
            ~part.keep | (digested + 1 == part.record.beats),
            part.begins == (leaves & (digested == 0)),
            ~(part.discard & part.o.valid) | part.o.p.error,
            count <= longest,
        )
        if self._waits:
            self.require(~part.discard | ~part.fates[2], ~taken | part.o.valid)
        else:
            if self._ready:
                self.require(part.i.ready | ~part.o.ready)
            else:
                self.reach("a frame that lost a beat ends later", part.o.valid & ~part.i.valid)
            self.reach("a frame without room is discarded", part.discard & part.fates[2])
        self.reach("the longest frame is kept", part.keep & (size == _LONGEST + 4))
        self.reach("a frame that is too long is discarded", part.discard & part.fates[1])


class NarrowedFrames(Harness):
    make = FrameNarrower

    def build(self, m):
        m.submodules.narrower = part = self._part
        i, o = part.i, part.o
        m.d.comb += Assume(kept_while_waiting(m, i) & full_but_last(i))
        came, leaves = i.valid & i.ready, o.valid & o.ready
        # Bytes of accepted beats that have not left yet.
        full = 1 << len(i.p.size)
        left = Signal(range(full + 1))
        there = Mux(came, i.p.size + 1, 0)
        gone = sum(o.p.keep[at] & leaves for at in range(len(o.p.keep)))
        owes = Signal()
        m.d.sync += [
            left.eq(left + there - gone),
            owes.eq(owes ^ (came & i.p.last) ^ (leaves & o.p.last)),
        ]
        self.require(
            kept_while_waiting(m, o),
            ~o.valid | o.p.last | o.p.keep.all(),
            gone <= left + there,
            left + there - gone <= full,
            # A frame ends once, with its last byte, before the next beat is accepted.
            ~(came & owes) | (leaves & o.p.last),
            ~(leaves & o.p.last) | owes | (came & i.p.last),
            ~owes | (left != 0),
            # A transfer is offered without waiting for `ready`.
            o.valid | ~delayed(m, i.valid & ~o.valid, 1, "offered"),
        )
        self.reach("a frame ends after waiting", kept_after_waiting(m, o) & o.p.last)


class ReceivedFrames(Harness):
    def build(self, m):
        part = GmiiReceiver()
        m.submodules.receiver, signals = opened(part)
        set_free(m, part, In, but=[part.o.ready])
        beat, comes = part.o.p, part.o.valid
        inside, size = Signal(), Signal(range(SHORTEST_FRAME + 1))
        quiet = cycles_since(m, part.valid, _QUIET)
        with m.If(comes):
            m.d.sync += [
                inside.eq(~beat.last),
                size.eq(Mux(beat.last, 0, size + (size != SHORTEST_FRAME))),
            ]
        self.require(
            ~comes | beat.keep.all(),
            ~(comes & beat.user) | beat.last,
            # Every frame that starts also ends. An undamaged frame has at least the minimum length.
            (quiet != _QUIET) | ~(inside | comes),
            ~(comes & beat.last & ~beat.user) | (size >= SHORTEST_FRAME - 1),
            # Invariant that implies this.
            signals["size"] == Mux(comes & ~beat.last & (size != SHORTEST_FRAME), size + 1, size),
        )
        self.reach("a damaged frame ends", comes & beat.user & inside)


class SentFrames(Harness):
    make = GmiiTransmitter

    def build(self, m):
        m.submodules.transmitter = part = self._part
        i = part.i
        inside, was, damaged = Signal(), Signal(), Signal()
        with m.If(i.valid & i.ready):
            m.d.sync += inside.eq(~i.p.last)
        paused = latched(m, inside & ~i.valid, "paused")
        m.d.sync += [was.eq(part.valid), damaged.eq(part.valid & (damaged | part.error))]
        run = cycles_since(m, ~part.valid, _MIN_RUN)
        gap = cycles_since(m, part.valid, GAP_BYTES, init=GAP_BYTES)
        self.require(
            ~inside | i.ready,
            part.valid | ~part.error,
            part.valid | ~was | damaged | (run == _MIN_RUN),
            ~part.valid | was | (gap == GAP_BYTES),
        )
        ended = was & ~part.valid
        self.reach("a whole frame has been sent", ended & ~damaged)
        self.reach("a frame whose bytes stop arriving is ended", ended & damaged & paused)


class CrossedFrames(Harness):
    def build(self, m):
        crossing = FrameCrossing(domain=RECEIVING, depth=4)
        m.submodules.crossing = DomainRenamer({RECEIVING: "sync"})(crossing)
        set_free(m, crossing, In)
        m.d.comb += Assume(crossing.i.p.keep == 1)
        self.require(kept_while_waiting(m, crossing.o))
        self.reach("a byte leaves after waiting", kept_after_waiting(m, crossing.o))


PROOFS = (
    *(
        Proof(
            name=f"frames of {width} bits",
            statement="A transfer does not change until accepted. TKEEP selects at least one byte, "
            "and the selected bytes are contiguous from the lowest.",
            design=f"deduplicator with streams of {width} bits, policy {policy!r} when full, "
            f"input {'with' if ready else 'without'} TREADY; any digest, filter, source and "
            "receiver",
            build=partial(FramePorts, width=width, on_overflow=policy, tready=ready),
            method=Induction(1),
        )
        for width, policy, ready in (
            (8, "drop", True),
            (64, "wait", True),
            (128, "wait", True),
            (256, "drop", True),
            (512, "drop", False),
        )
    ),
    *(
        Proof(
            name=f"frames widened from {width} bits",
            statement="All beats of a frame except the last are full. A beat does not change until "
            "accepted. Each TLAST ends exactly one frame. The frame is marked as damaged exactly "
            "if TUSER is high in its last transfer or TKEEP violates the stream rules.",
            design="widener, any source and any receiver",
            build=partial(WidenedFrames, width=width),
        )
        for width in WIDTHS
    ),
    *(
        Proof(
            name=f"frames kept, {policy} when full" + ("" if ready else ", without TREADY"),
            statement="At its end, each frame is either kept or discarded. A kept frame was "
            "undamaged, and it was completely digested and written to free space. Its record has "
            "the right length, which is at most the maximum. A discarded frame is digested as "
            "damaged, or not at all. " + policy_rule,
            design=f"intake, frames of at most {_LONGEST + 4} bytes; any source, receiver and free "
            "space",
            build=partial(IntakeRules, on_overflow=policy, ready=ready),
        )
        for policy, ready, policy_rule in (
            ("wait", True, "No frame is discarded for lack of space."),
            ("drop", True, "No frame waits for space."),
            ("drop", False, "A frame that has lost a beat is discarded."),
        )
    ),
    *(
        Proof(
            name=f"frames narrowed to {width} bits",
            statement="No byte is lost or added. Each frame has one last transfer, and all other "
            "transfers are full. A transfer is offered without waiting for TREADY, and does not "
            "change until accepted.",
            design="narrower; any source whose beats are full except the last of each frame, any "
            "receiver",
            build=partial(NarrowedFrames, width=width),
        )
        for width in WIDTHS
    ),
    Proof(
        name="frames received",
        statement="Each frame that begins also ends. A frame that is not marked as damaged has at "
        f"least {SHORTEST_FRAME} bytes.",
        design="GMII receiver, any signals on the line",
        build=ReceivedFrames,
    ),
    Proof(
        name="frames sent",
        statement="After the first byte of a frame, the transmitter is ready in every cycle. On "
        f"the line, a frame has at least {_MIN_RUN} bytes from preamble to check sequence, or is "
        f"marked with an error. At least {GAP_BYTES} idle cycles separate frames.",
        design="GMII transmitter, any source",
        build=SentFrames,
        method=Bounded(160),
    ),
    Proof(
        name="frames to another clock",
        statement="A byte does not change until accepted.",
        design="clock crossing for 4 bytes, with one clock on both sides; any source and any "
        "receiver",
        build=CrossedFrames,
    ),
)
