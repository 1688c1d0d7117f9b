"""Proofs of units of several lanes, and that broken ones are found out."""

from functools import partial

import pytest
from cases import daily
from mutants import broken

from lately.hdl.lanes.collector import Collector
from lately.hdl.lanes.dispatcher import Dispatcher
from lately.hdl.lanes.distributor import Distributor
from lately.sim.proofs.answers import AnswerPlaces, Answers
from lately.sim.proofs.formal import Bounded, Proof, run_proof
from lately.sim.proofs.lanes import Shares, Turns

pytestmark = pytest.mark.rtl


def status_of(build, method):
    record = run_proof(Proof("broken", "", "", build, method))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status


@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        2,
        [
            pytest.param(
                "self.PLACES - 2",
                "self.PLACES - 1",
                id="a place that is not free",
                marks=pytest.mark.slow,
            ),
            pytest.param("with m.If(pops):", "with m.If(1):", id="beats are left out"),
            pytest.param("share.there & pops.replicate(self._shards)", "share.there", id="doubled"),
            pytest.param("room & ~more[-1]", "room", id="beats that are not there"),
            pytest.param("m.d.sync += room.eq(Cat(credits).all())", "pass", id="none ever leaves"),
            pytest.param("self.hashed, self.states", "self.arrived, self.states", id="late states"),
            pytest.param("enable=share.items[shard][lane]", "enable=goes & 0", id="an old state"),
        ],
    ),
)
def test_broken_distributor_fails(old, new):
    distributor = broken(Distributor, old, new)
    assert status_of(partial(Shares, distributor=distributor), Bounded(19)) == "failed"


@pytest.mark.slow
def test_broken_dispatcher_fails():
    """Shards without an operation of the beat do not turn."""
    dispatcher = broken(Dispatcher, "turn.any() | cross", "turn.any()")
    assert status_of(partial(Turns, dispatcher=dispatcher), Bounded(30)) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        1,
        [
            pytest.param("alive[-1] & flag & ~fails", "alive[-1] & ~fails", id="too soon"),
            pytest.param("there, *done,", "*done,", id="a beat that is not there"),
            pytest.param(
                "Mux(fails, back[2:], next_high)",
                "next_high",
                id="does not go back",
                marks=pytest.mark.slow,
            ),
            pytest.param(" & ~fails.replicate(len(alive))", "", id="beats behind one that fails"),
            pytest.param("at=shard * self._lanes + lane", "at=lane", id="another shard"),
            pytest.param("lanes, lane=lane: lanes[lane]", "lanes: lanes[0]", id="another lane"),
            pytest.param("read_address.eq(beat)", "read_address.eq(beat + 1)", id="another beat"),
            pytest.param("stage + self._results_latency", "stage + 1", id="an old verdict"),
            pytest.param("b[3] & b[2]", "b[3]", id="a borrow too many", marks=pytest.mark.slow),
            pytest.param("lane.seen & came for", "lane.seen for", id="hits of no answer"),
            pytest.param("goes.eq(available &", "goes.eq(0 &", id="none ever comes"),
        ],
    ),
)
def test_broken_collector_fails(old, new):
    collector = broken(Collector, old, new)
    assert status_of(partial(Answers, collector=collector), Bounded(35)) == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        1,
        [
            pytest.param("goes.eq(available &", "goes.eq(", id="without credits"),
            pytest.param("UNDER_WAY = 7", "UNDER_WAY = 5", id="too many credits"),
        ],
    ),
)
def test_broken_collector_overflows(old, new):
    """A unit with too few places for the answers of its beats loses one."""
    collector = broken(Collector, old, new)
    assert status_of(partial(AnswerPlaces, collector=collector), Bounded(60)) == "failed"
