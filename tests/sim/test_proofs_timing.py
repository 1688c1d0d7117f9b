"""Proofs of timing filters, and that a part without one of its cures is found out."""

from functools import partial

import pytest
from cases import daily
from mutants import broken

from lately.hdl.timing import core, part, recent, timing_profile
from lately.hdl.timing.decision_tables import DecidingCore
from lately.hdl.timing.oldest import OldestCell
from lately.hdl.timing.part import TimingPart
from lately.hdl.timing.sweep import PortSweep, Visits, VisitSweep
from lately.hdl.timing.sweep_rules import rest_interval
from lately.hdl.unit import Unit
from lately.sim.proofs import catalogue as proofs
from lately.sim.proofs.formal import Bounded, Proof, Unbounded, run_proof
from lately.sim.proofs.thresholds import TableAnswers
from lately.sim.proofs.timing import (
    OldestOfAll,
    PartAnswers,
    RestAnswers,
    RestSweepInTime,
    SweepInTime,
)

pytestmark = pytest.mark.rtl


# `make prove` has them.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "cell memory, ecp5, 2 of 9 bits",
        "sweep in time",
        "sweep in time, in idle cycles",
        "tables of thresholds",
        "oldest of 4",
    ],
)
def test_holds(name):
    """Ages of cells take longer: all of `python -m campaigns prove`."""
    (proof,) = proofs.select([name])
    assert run_proof(proof).proven
    assert all(run_proof(cover).proven for cover in proof.covers())


def proof_of(build, method):
    record = run_proof(Proof("name", "statement", "design", build, method))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record


def status(build):
    return proof_of(build, Bounded(40)).status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A read comes before a write of another tick.
        ("Mux(recent, since, age)", "Mux(recent, 0, age)"),
        # A read meets the write of the sweep.
        ("port.address, port.sweeps)", "port.address, port.sweeps & 0)"),
        # An operation writes again what is there already.
        ("pending & ~(trusted & zero.all())", "pending"),
    ],
)
def test_part_without_a_cure_is_found_out(old, new):
    assert status(partial(PartAnswers, part=broken(TimingPart, old, new))) == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A read meets the write of an operation.
        ("port.address, port.inserts", "port.address, port.inserts & 0"),
        # A tick between two accesses is missed.
        ("(passed + tick)", "(tick + 0)"),
    ],
)
@pytest.mark.parametrize(("harness", "clocks"), [(PartAnswers, 40), (RestAnswers, 48)])
def test_recent_insertion_that_is_missed_is_found_out(monkeypatch, harness, clocks, old, new):
    defect = broken(recent.recent_insertion, old, new)
    monkeypatch.setattr(part, "recent_insertion", defect)
    assert proof_of(harness, Bounded(clocks)).status == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        2,
        [
            # An operation inserts between the read of the sweep and its write.
            ("self.decides & ~touched & ~self.busy", "self.decides & ~self.busy"),
            ("(touched | same.value) &", "same.value &"),
            # Cells are as reset has left them.
            ('"wipe": Out(1, init=1)', '"wipe": Out(1)'),
        ],
    ),
)
def test_sweep_without_a_cure_is_found_out(old, new):
    name, kind = ("visits", Visits) if "wipe" in old else ("sweep", PortSweep)
    assert status(partial(PartAnswers, **{name: broken(kind, old, new)})) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        1,
        [
            # Expired cells are never written.
            ("decided.wipe | turn & expired & ~repairs", "decided.wipe"),
            # The sweep leaves out a cell while its port is busy, or every other cell.
            ("leaves.eq(self.decides & ~waits)", "leaves.eq(self.decides)"),
            ("self.address + 1", "self.address + 2"),
        ],
    ),
)
def test_sweep_that_leaves_cells_out_is_found_out(old, new):
    record = proof_of(partial(SweepInTime, sweep=broken(PortSweep, old, new)), Unbounded(100))
    assert record.status == "failed"


@pytest.mark.parametrize(
    ("component", "old", "new"),
    daily(
        1,
        [
            # A lap of the sweep alone, without the operations before its last write.
            (rest_interval, "spec.block - BETWEEN - 1)", "spec.block)"),
            # Once all are wiped every other cell is left out, or all while operations come.
            (Visits, "self.cell + 1", "self.cell + Mux(self.wipe, 1, 2)"),
            (Visits, "self.late.eq(left == 0)", "self.late.eq(0)"),
        ],
    ),
)
def test_sweep_in_free_clocks_that_comes_too_late_is_found_out(monkeypatch, component, old, new):
    module = timing_profile if component is rest_interval else core
    monkeypatch.setattr(module, component.__name__, broken(component, old, new))
    assert proof_of(RestSweepInTime, Bounded(100)).status == "failed"


def test_unit_that_does_not_rest_for_its_sweep_is_found_out():
    class Restless(Unit):
        elaborate = broken(Unit, "room & ~core.stall if", "room if").elaborate

    assert proof_of(partial(RestSweepInTime, unit=Restless), Bounded(100)).status == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("component", "old", "new"),
    daily(
        1,
        [
            # Expired cells are never written.
            (VisitSweep, "(decided.wipe | decided.expired)", "decided.wipe"),
            # Operations come before all cells are wiped.
            (Visits, "self.wipe.eq(~self.cell.all())", "self.wipe.eq(0)"),
            (Visits, "Signal(BETWEEN), Signal()", "Signal(1), Signal()"),
        ],
    ),
)
def test_part_swept_in_free_clocks_without_a_cure_is_found_out(component, old, new):
    name = "visits" if component is Visits else "sweep"
    harness = partial(RestAnswers, **{name: broken(component, old, new)})
    assert proof_of(harness, Bounded(48)).status == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    daily(
        1,
        [
            # An entry is loaded while operations ask the bank.
            ("(settling == 0) & ~self.swap", "~self.swap"),
            # An operation before the swap is answered by the table after it.
            ('"swap").at(CONTROL_LAG)', '"swap").at(CONTROL_LAG - 1)'),
        ],
    ),
)
def test_tables_that_are_swapped_too_soon_are_found_out(old, new):
    harness = partial(TableAnswers, deciding=broken(DecidingCore, old, new))
    assert status(harness) == "failed"


def test_miscounted_cells_are_found_out():
    class Miscounting(OldestOfAll):
        def __init__(self, **others):
            super().__init__(**others)
            kind = broken(OldestCell, "Mux(above, a, b)),", "Mux(above, b, a)),")
            self._part = self._oldest = kind(window=5, hashes=3)

    assert status(Miscounting) == "failed"
