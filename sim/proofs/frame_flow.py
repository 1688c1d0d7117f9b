"""Proofs for a whole deduplicator: frames leave once and in order, and counters are correct."""

from functools import partial

from amaranth.hdl import Assume, Cat, Const, Module, Mux, ResetSignal, Signal
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import wiring

from ...golden.packets.frame_actions import Action
from ...hdl.memory.cells import CellMemory, PortableCellMemory
from ...hdl.packets.deduplicator import Deduplicator
from ...hdl.packets.frames import kept_bytes
from .formal import Bounded, Proof
from .frame_ports import FRAMES_SPEC, digest_signature
from .harness import Harness, constant, cycles_since
from .results import kept_while_waiting

WIDTH = 512
_STORE, _FRAMES, _LONGEST = 512, 4, 128
_NUMBER_BITS, _INDEX_BITS = 4, 2
_KEPT = _NUMBER_BITS + _INDEX_BITS  # bits of a transfer that identify it
_WAITING = 4  # maximum frames in the digest or the filter at once
_QUIET = 5  # idle cycles after which the counters are final


class FirstBits(CellMemory):
    def elaborate(self, platform):
        m = Module()
        m.submodules.kept = kept = PortableCellMemory(depth=self._depth, width=_KEPT)
        others = AnySeq(self._width - _KEPT)
        m.d.comb += [
            kept.a_address.eq(self.a_address),
            kept.b_address.eq(self.b_address),
            kept.write.eq(self.write),
            kept.value.eq(self.value[:_KEPT]),
            self.a_word.eq(Cat(kept.a_word, others)),
        ]
        return m


class Paced(wiring.Component):
    """Stand-in for a digest or filter: returns arbitrary results, in order, after any delay.

    `ends(i)` returns whether an input has a result. `kept(i, o)` returns a bit of an input, and the
    result bit that must have the same value.
    """

    def __init__(self, signature, ends, kept):
        self._ends, self._kept = ends, kept
        super().__init__(signature)

    def elaborate(self, platform):
        m = Module()
        bits, count = Signal(_WAITING), Signal(range(_WAITING + 1))
        comes = self.i.valid & self.i.ready & self._ends(self.i.p)
        goes = self.o.valid & self.o.ready
        came, comes_back = self._kept(self.i.p, self.o.p)
        m.d.comb += [
            self.i.ready.eq(AnySeq(1) & (count != _WAITING)),
            self.o.valid.eq(AnySeq(1) & (count != 0)),
            self.o.p.eq(AnySeq(len(self.o.p.as_value()))),
            comes_back.eq(bits[0]),
        ]
        position = count - goes
        kept = Mux(goes, bits >> 1, bits)
        m.d.sync += [
            count.eq(position + comes),
            bits.eq(Mux(comes, kept | (came << position[:2]), kept)),
        ]
        return m


class FollowedFrame:
    """Follows one arbitrary frame, identified by its number; the frame must satisfy `rules`."""

    def __init__(self, m, harness, name):
        part, intake = harness.part_, harness.intake
        self.number = constant(m, _NUMBER_BITS, f"{name}_number")
        flag = partial(Signal, 1)
        self.kept, self.judged, self.seen, self.left, self.inside = (
            flag(name=f"{name}_{state}") for state in ("kept", "judged", "seen", "left", "inside")
        )
        beats, size = Signal(_INDEX_BITS), Signal(6)
        at, ordinal = Signal(_INDEX_BITS), Signal(_NUMBER_BITS)
        came = intake.i.p.data[:_NUMBER_BITS] == self.number
        with m.If(intake.keep & came):
            m.d.sync += [
                self.kept.eq(1),
                ordinal.eq(harness.kept),
                beats.eq(intake.record.beats),
                size.eq(intake.record.size),
            ]
        with m.If(harness.answer.valid & self.kept & (harness.judged == ordinal)):
            m.d.sync += [self.judged.eq(1), self.seen.eq(harness.answer.p.seen)]
        o = part.o
        self.here = o.valid & (o.p.data[:_NUMBER_BITS] == self.number)
        leaves = self.here & o.ready
        with m.If(leaves):
            m.d.sync += [
                at.eq(at + 1), self.inside.eq(~o.p.last), self.left.eq(self.left | o.p.last)
            ]  # fmt: skip
        self.dropped = self.judged & self.seen & (part.action == Action.DROP)
        index = o.p.data[_NUMBER_BITS:][:_INDEX_BITS]
        self.rules = [
            # It leaves at most once, unchanged, and only if it was kept and not dropped.
            ~self.here | (self.kept & self.judged & ~self.dropped & ~self.left & (index == at)),
            ~self.here | (o.p.last == (at == beats - 1)),
            ~(self.here & o.p.last) | (o.p.keep == kept_bytes(size)),
            ~self.here | (o.p.user == (self.seen & (part.action == Action.MARK))),
            # Frames do not interleave.
            ~(o.valid & self.inside) | self.here,
        ]


class FrameFlow(Harness):
    def __init__(self, *, on_overflow="wait"):
        self.part_ = part = Deduplicator(
            FRAMES_SPEC,
            width=WIDTH,
            buffer=_STORE,
            frames=_FRAMES,
            max_frame=_LONGEST,
            on_overflow=on_overflow,
            tready=on_overflow == "wait",
            statistics_bits=6,
            digest=Paced(
                digest_signature(WIDTH),
                lambda beat: beat.last,
                lambda i, o: (i.error, o.error),
            ),
        )
        part.unit = Paced(part.unit.signature, lambda _: Const(1), lambda i, o: (i.tag, o.tag))
        store = part._store
        store.ring = FirstBits(depth=_STORE // (WIDTH // 8), width=WIDTH)
        self.intake, self.answer = part._intake, part.unit.o
        super().__init__()

    def build(self, m):
        m.submodules.deduplicator = self.part_
        self.kept, self.judged = Signal(_NUMBER_BITS), Signal(_NUMBER_BITS)
        m.d.sync += [
            self.kept.eq(self.kept + self.intake.keep),
            self.judged.eq(self.judged + self.answer.valid),
        ]
        came = self._drive(m)
        first, second = FollowedFrame(m, self, "first"), FollowedFrame(m, self, "second")
        m.d.comb += Assume(first.number < second.number)
        self.require(
            *first.rules,
            *second.rules,
            # A kept frame is neither lost nor overtaken.
            ~(second.here & first.kept) | first.left | first.dropped,
            ~(second.here & first.inside),
        )
        self._count(m, came)
        self.reach("two frames leave", first.left & second.left)

    def _drive(self, m):
        part, number, index = self.part_, Signal(_NUMBER_BITS), Signal(_INDEX_BITS)
        i, size = part.i, Signal(6)
        taken = i.valid & i.ready
        m.d.comb += [
            i.valid.eq(AnySeq(1)),
            i.p.last.eq(AnySeq(1)),
            i.p.user.eq(AnySeq(1)),
            size.eq(AnySeq(6)),
            i.p.keep.eq(Mux(i.p.last, kept_bytes(size), -1)),
            i.p.data.eq(Cat(number, index)),
            part.o.ready.eq(AnySeq(1)),
            part.enable.eq(1),
            part.action.eq(AnyConst(2)),
            Assume(kept_while_waiting(m, i)),
            Assume(~number.all()),
            Assume(~ResetSignal()),
        ]
        with m.If(taken):
            m.d.sync += index.eq(Mux(i.p.last, 0, index + ~index.all()))
        m.d.sync += number.eq(number + (taken & i.p.last))
        return taken & i.p.last

    def _count(self, m, came):
        part = self.part_
        leaves = part.o.valid & part.o.ready & part.o.p.last
        drops = self.answer.valid & self.answer.p.seen & (part.action == Action.DROP)
        count = {name: Signal(6, name=f"count_{name}") for name in ("came", "left", "dropped")}
        for (_, signal), event in zip(count.items(), (came, leaves, drops), strict=True):
            m.d.sync += signal.eq(signal + event)
        moves = part.i.valid | self.intake.i.valid | part.o.valid | drops
        settled = cycles_since(m, moves, _QUIET) == _QUIET
        lost = part.frames_errored + part.frames_oversize + part.frames_no_room
        self.require(
            ~settled | (part.frames_in == count["came"]),
            ~settled | (part.frames_out == count["left"]),
            ~settled | (self.kept + lost == part.frames_in)[:1],
        )
        rests = self.kept != (count["left"] + count["dropped"])[:_NUMBER_BITS]
        self.require(
            ~settled | rests | (part.frames_in == (part.frames_out + count["dropped"] + lost)[:6])
        )
        self.reach("all frames have left", settled & ~rests & (part.frames_out == 2))


PROOFS = tuple(
    Proof(
        name=f"frames of {WIDTH} bits, {policy} when full",
        statement="Of any two frames, each leaves at most once, whole and with the right bytes. "
        "They leave in order and never interleave. The counters are correct: each frame has left, "
        "was dropped or was discarded.",
        design=f"deduplicator with streams of {WIDTH} bits, room for {_STORE} bytes, and frames of "
        f"at most {_LONGEST} bytes; input {'with' if policy == 'wait' else 'without'} TREADY; any "
        "digest, filter, source and receiver",
        build=partial(FrameFlow, on_overflow=policy),
        method=Bounded(16),
    )
    for policy in ("wait", "drop")
)
