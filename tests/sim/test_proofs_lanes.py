"""Proofs of units of several lanes, and that broken ones are found out."""

from functools import partial

import pytest
from mutants import broken

from lately.hdl.lanes.dispatcher import Dispatcher
from lately.hdl.lanes.distributor import Distributor
from lately.sim.proofs.formal import Bounded, Proof, run_proof
from lately.sim.proofs.lanes import Shares, Turns

pytestmark = pytest.mark.rtl


def status_of(build, method):
    record = run_proof(Proof("broken", "", "", build, method))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("self.PLACES - 2", "self.PLACES - 1", id="a place that is not free"),
        pytest.param("read + pops", "read + 1", id="beats are left out"),
        pytest.param("share.there & pops.replicate(self._shards)", "share.there", id="doubled"),
        pytest.param("room & ~more[-1]", "room", id="beats that are not there"),
        pytest.param("m.d.sync += room.eq(Cat(credits).all())", "pass", id="none ever leaves"),
        pytest.param("enable=share.items[shard][lane]", "enable=goes & 0", id="an old state"),
    ],
)
def test_broken_distributor_fails(old, new):
    distributor = broken(Distributor, old, new)
    assert status_of(partial(Shares, distributor=distributor), Bounded(18)) == "failed"


def test_broken_dispatcher_fails():
    """Shards without an operation of the beat do not turn."""
    dispatcher = broken(Dispatcher, "turn.any() | cross", "turn.any()")
    assert status_of(partial(Turns, dispatcher=dispatcher), Bounded(30)) == "failed"
