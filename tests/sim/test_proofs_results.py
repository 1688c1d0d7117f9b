"""Proofs that results come in order, and that broken hardware is found out."""

from functools import partial

import pytest
from cases import daily
from mutants import broken

from lately.hdl import unit as unit_module
from lately.hdl.frontend import front
from lately.hdl.frontend.gate import Gate
from lately.hdl.queue import ResultQueue
from lately.hdl.unit import Unit
from lately.sim.proofs.formal import Bounded, Induction, Proof, run_proof
from lately.sim.proofs.results import PROOFS, QueueOrder, SmallUnit, UnitOrder, UnitPlaces

pytestmark = pytest.mark.rtl


def status_of(build, method):
    record = run_proof(Proof("broken", "", "", build, method))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status


@pytest.mark.parametrize("name", ["result queue", "places"])
def test_proven(name):
    """The rest takes longer: all of `python -m campaigns prove`."""
    (proof,) = (proof for proof in PROOFS if proof.name == name)
    record = run_proof(proof)
    print(f"{proof.name}: {record.status}, {proof.method}, {record.seconds:.1f} s")
    assert record.proven


@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        2,
        [
            pytest.param("read.eq(after)", "read.eq(after + 1)", id="reads every other place"),
            pytest.param(
                "Mux(loaded, another, stored)", "stored", id="loads what the last load took"
            ),
            pytest.param("empty | self.o.ready", "self.o.ready", id="waits for the taker"),
            pytest.param("read_port.en.eq(taken)", "read_port.en.eq(1)", id="does not stand still"),
            pytest.param("came.eq(self.valid_next)", "came.eq(0)", id="no verdict is stored"),
            pytest.param("written != after", "written != read", id="another is always there"),
            pytest.param(
                "stored.eq(written != read)", "stored.eq(written > read)", id="only until it wraps"
            ),
        ],
    ),
)
def test_broken_queue_fails(old, new):
    queue = broken(ResultQueue, old, new)
    build = partial(QueueOrder, depth=4, queue=queue, inside=False)
    assert status_of(build, Bounded(30)) == "failed"


class Hasty(SmallUnit):
    LAG = 5


class TooHasty(SmallUnit):
    LAG = 4


class Lossy(SmallUnit):
    LAG = 2


@pytest.mark.slow
def test_one_clock_of_lag_is_to_spare():
    assert status_of(partial(UnitPlaces, depth=16, unit=Hasty), Induction(6)) == "proven"
    build = partial(UnitPlaces, depth=16, unit=TooHasty, inside=False)
    assert status_of(build, Bounded(80)) == "failed"


def test_results_are_lost_where_far_too_many_enter():
    # What is in the registers of the queue has left its place, which hides smaller excesses here.
    build = partial(UnitOrder, depth=8, unit=Lossy, inside=False)
    assert status_of(build, Bounded(60)) == "failed"


def test_queue_holds_no_more_than_its_depth():
    build = partial(QueueOrder, depth=8, places=9, inside=False)
    assert status_of(build, Bounded(30)) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        1,
        [
            pytest.param("left - entered", "-entered", id="no place comes back"),
            pytest.param(
                "left.eq(self.o.valid & self.o.ready)", "left.eq(self.o.ready)", id="more do"
            ),
            pytest.param("places >= 0", "places >= -1", id="one more place"),
        ],
    ),
)
def test_broken_room_fails(old, new):
    class Broken(SmallUnit):
        _elaborate_room = broken(Unit, old, new)._elaborate_room

    build = partial(UnitPlaces, depth=8, unit=Broken, inside=False)
    assert status_of(build, Bounded(60)) == "failed"


@pytest.mark.parametrize(
    ("component", "old", "new"),
    daily(
        2,
        [
            pytest.param(ResultQueue, "read.eq(after)", "read.eq(after + 1)", id="queue"),
            pytest.param(
                Gate,
                "alone.eq(ready & (single | (self.i.valid & held)))",
                "alone.eq(ready & single)",
                id="a shift is not held",
            ),
            pytest.param(
                Gate,
                "allowed & ~alone & ~(self.i.valid & ready & held)",
                "allowed & ~alone",
                id="another enters behind a shift",
            ),
            pytest.param(
                Gate, "go & held & ~silent", "go & held", id="a result of the clear after reset"
            ),
            pytest.param(
                Gate,
                "closed.eq(alone | (closed & ~reopen))",
                "closed.eq(alone)",
                id="the gate opens by itself",
            ),
        ],
    ),
)
def test_broken_unit_fails(monkeypatch, component, old, new):
    user = front if component is Gate else unit_module
    monkeypatch.setattr(user, component.__name__, broken(component, old, new))
    assert status_of(partial(UnitOrder, depth=8, inside=False), Bounded(60)) == "failed"


@pytest.mark.slow
def test_shorter_pause_is_not_kept():
    class Impatient(SmallUnit):
        longest_pause = 15

    build = partial(UnitOrder, depth=8, unit=Impatient, pauses=True, inside=False)
    assert status_of(build, Bounded(60)) == "failed"
