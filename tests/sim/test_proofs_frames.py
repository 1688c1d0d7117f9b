"""Proofs of streams of frames, and that broken parts are found out."""

from functools import partial

import pytest
from mutants import broken

from lately.hdl.packets.axis_beats import FrameNarrower, FrameWidener
from lately.hdl.packets.deduplicator import Deduplicator
from lately.hdl.packets.frame_crossing import FrameCrossing
from lately.hdl.packets.frame_intake import FrameIntake
from lately.hdl.packets.frame_store import FrameStore
from lately.hdl.packets.gmii import GmiiReceiver, GmiiTransmitter
from lately.sim.proofs.formal import Bounded, Proof, run_proof
from lately.sim.proofs.frame_flow import PROOFS as FLOW_PROOFS
from lately.sim.proofs.frame_flow import FrameFlow
from lately.sim.proofs.frame_ports import (
    PROOFS,
    CrossedFrames,
    FramePorts,
    IntakeRules,
    NarrowedFrames,
    ReceivedFrames,
    SentFrames,
    WidenedFrames,
)
from lately.sim.proofs.frame_store import PROOFS as STORE_PROOFS
from lately.sim.proofs.frame_store import StoredFrames

pytestmark = pytest.mark.rtl


def failed(build, clocks=40):
    record = run_proof(Proof("broken", "", "", build, Bounded(clocks)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("proof", PROOFS + STORE_PROOFS + FLOW_PROOFS, ids=lambda proof: proof.name)
def test_proven(proof):
    assert run_proof(proof).proven
    assert all(run_proof(cover).proven for cover in proof.covers())


@pytest.mark.slow
@pytest.mark.parametrize("width", [8, 64, 128, 256, 512])
def test_deduplicator_that_takes_back_what_it_offered_is_found_out(width):
    part = broken(
        Deduplicator,
        "wiring.connect(m, narrower.o, wiring.flipped(self.o))",
        "m.d.comb += [self.o.p.eq(narrower.o.p), narrower.o.ready.eq(self.o.ready), "
        "self.o.valid.eq(narrower.o.valid & self.enable)]",
    )
    assert failed(partial(FramePorts, width=width, deduplicator=part), clocks=20)


@pytest.mark.parametrize(
    ("width", "old", "new"),
    [
        (8, "~self.o.valid | self.o.ready", "1"),
        *(
            pytest.param(*change, marks=pytest.mark.slow)
            for change in (
                (8, "self.o.valid.eq(self.i.p.last | place.all())", "self.o.valid.eq(place.all())"),
                (8, "(broken | irregular) & ~self.i.p.last", "irregular & ~self.i.p.last"),
                (64, "gaps.any() | ~(self.i.p.last | keep.all())", "gaps.any()"),
                (64, "~keep[0] | gaps.any()", "~keep[0]"),
                (64, "broken | irregular | self.i.p.user", "broken | irregular"),
            )
        ),
    ],
)
def test_broken_widener_is_found_out(width, old, new):
    widener = broken(FrameWidener, old, new)
    assert failed(partial(WidenedFrames, width=width, widener=widener))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "old", "new"),
    [
        (8, "self.o.p.last.eq(beat.last & ends)", "self.o.p.last.eq(beat.last)"),
        (8, "~self.o.valid | (self.o.ready & ends)", "self.o.ready & ends"),
        (8, "beat.size.eq(beat.size - 1)", "beat.size.eq(0)"),
        (64, "kept_bytes(self.i.p.size)", "kept_bytes(self.i.p.size >> 1)"),
    ],
)
def test_broken_narrower_is_found_out(width, old, new):
    narrower = broken(FrameNarrower, old, new)
    assert failed(partial(NarrowedFrames, width=width, narrower=narrower))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when_full", "ready", "old", "new"),
    [
        ("wait", True, "(self.room | over_before) & ~closed", "~closed"),
        ("drop", True, "lost | ~self.room | skips", "lost | skips"),
        ("drop", True, "lost | ~self.room | skips", "~self.room | skips"),
        ("drop", False, "without |= cuts", "pass"),
        ("drop", False, "cuts | (self.owed & ~self.o.ready)", "cuts"),
        ("drop", False, "~inside & (self.owed | ~self.o.ready)", "~inside & ~self.o.ready"),
    ],
)
def test_broken_intake_is_found_out(when_full, ready, old, new):
    intake = broken(FrameIntake, old, new)
    assert failed(partial(IntakeRules, when_full=when_full, ready=ready, intake=intake))


@pytest.mark.slow
def test_broken_receiver_is_found_out():
    receiver = broken(GmiiReceiver, "full & (taken | ended)", "full & taken")
    assert failed(partial(ReceivedFrames, receiver=receiver))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("with m.Elif(self.i.p.last & enough):", "with m.Elif(self.i.p.last):"),
        ("enough = size >= SHORTEST_FRAME - 1", "enough = size >= SHORTEST_FRAME - 2"),
        ('with m.State("gap"), m.If(left == 0):', 'with m.State("gap"), m.If(left == 1):'),
        ("error.eq(~self.i.valid | damaged)", "error.eq(damaged)"),
    ],
)
def test_broken_transmitter_is_found_out(old, new):
    assert failed(partial(SentFrames, transmitter=broken(GmiiTransmitter, old, new)), clocks=110)


@pytest.mark.slow
def test_broken_crossing_is_found_out():
    offers = "self.o.ready | ~self.o.valid"
    crossing = broken(FrameCrossing, offers, f"{offers} | waits")
    assert failed(partial(CrossedFrames, crossing=crossing))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("store.discard.eq(intake.discard)", "store.discard.eq(0)"),
        (
            "queue.valid_next.eq(digest.valid & ~digest.p.error)",
            "queue.valid_next.eq(digest.valid)",
        ),
        ("self._store.verdict.seen.eq(answer.p.seen)", "self._store.verdict.seen.eq(0)"),
    ],
)
def test_broken_path_is_found_out(old, new):
    part = broken(Deduplicator, old, new)
    assert failed(partial(FrameFlow, deduplicator=part), clocks=16)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Mux(self.discard, begin, after)", "after"),
        ("place.eq(place + reads + frame.beats)", "place.eq(place + reads)"),
        ("drops.eq(seen & (self.action == Action.DROP))", "drops.eq(0)"),
        ("ends.eq(reads & (left == 1))", "ends.eq(reads & (left <= 2))"),
        ("mark.eq(seen & (self.action == Action.MARK))", "mark.eq(seen)"),
        ("beat.size.eq(Mux(last, size, (1 << len(size)) - 1))", "beat.size.eq(size)"),
        ("output.o.ready.eq(self.o.ready)", "output.o.ready.eq(1)"),
    ],
)
def test_broken_store_is_found_out(old, new):
    part = broken(FrameStore, old, new)
    assert failed(partial(StoredFrames, store=part), clocks=14)
