"""Compiled streams of frames: what is sent and taken, and bits that flip."""

from types import SimpleNamespace

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from lately.golden.packets.frame_actions import Action
from lately.hdl.packets.frames import AxisBeat
from lately.sim.replay.frames import CompiledFrames, FrameSlots, frame_digest
from lately.sim.replay.upset_runs import Upset

pytestmark = pytest.mark.rtl

FRAMES = [b"one beat", b"and a byte", b"\0", b"again: two whole"]


class Through(wiring.Component):
    """Passes frames on a cycle later, marked if the last tick came an odd number of ticks ago."""

    def __init__(self, width):
        self.frame_options = SimpleNamespace(width=width)
        super().__init__(
            {
                "i": In(stream.Signature(AxisBeat(width))),
                "o": Out(stream.Signature(AxisBeat(width, leaves=True))),
                "digest_secret": In(stream.Signature(128)),
                "enable": In(1),
                "clear": In(1),
                "action": In(2),
                "fields": In(5),
                "tick": In(1),
            }
        )

    def elaborate(self, _platform):
        m = Module()
        odd = Signal()
        rest = Signal()
        with m.If(self.tick):
            m.d.sync += odd.eq(~odd)
        # One transfer in two cycles is taken.
        m.d.sync += rest.eq(self.i.valid & ~rest)
        m.d.comb += self.i.ready.eq(~rest & self.enable & (self.action == Action.MARK))
        m.d.sync += [
            self.o.valid.eq(self.i.valid & self.i.ready),
            self.o.p.eq(self.i.p),
            self.o.p.user.eq(odd),
        ]
        return m


def slots(octets):
    """Frames one after the other, a tick after the second, and gaps of three cycles."""
    parts = []
    for number, frame in enumerate(FRAMES):
        words = [frame[at : at + octets] for at in range(0, len(frame), octets)]
        parts += [(word, len(word), int(word is words[-1])) for word in words]
        parts += [(b"", 0, 2 * (number == 1))] + 2 * [(b"", 0, 0)]
    words, sizes, flags = zip(*parts, strict=True)
    table = np.frombuffer(b"".join(word.ljust(octets, b"x") for word in words), np.uint8)
    return FrameSlots(
        table.reshape(-1, octets), np.array(sizes, np.uint8), np.array(flags, np.uint8)
    )


def test_frames_pass():
    with CompiledFrames(Through(64), settle=3, optimisation=0) as unit:
        sent = slots(8)
        left = unit.reference(sent, 60)
        assert left.digests.tolist() == [frame_digest(frame) for frame in FRAMES]
        assert left.marked.tolist() == [False, False, True, True]
        # A beat is taken in the first cycle, and two more of the second frame take two each.
        assert left.cycles.tolist() == [1, 7, 11, 17]
        again = unit.reference(sent, 60)
        assert all(map(np.array_equal, left, again))


def test_bits_of_frames_flip():
    with CompiledFrames(Through(64), settle=3, optimisation=0) as unit:
        due = unit.reference(slots(8), 60)
        at = {element.name: number for number, element in enumerate(unit.upsets.elements)}
        left, healed = unit.inject(Upset(1, at["o__payload"], 0, 0), 60)
        assert left.digests[0] != due.digests[0]
        assert np.array_equal(left.digests[1:], due.digests[1:])
        assert healed
        # Frames that left before an upset are not shown; nothing of the last run stays.
        left, healed = unit.inject(Upset(2, at["odd"], 0, 0), 60)
        assert left.digests.tolist() == due.digests[1:].tolist()
        assert left.marked.tolist() == [True, False, False]
        assert not healed
        left, healed = unit.inject(Upset(12, at["rest"], 0, 0), 60)
        assert left.digests.tolist() == due.digests[3:].tolist()
        assert healed
