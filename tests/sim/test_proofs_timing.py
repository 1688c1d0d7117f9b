"""Proofs of timing filters, and that a part without one of its cures is found out."""

from functools import partial

import pytest
from mutants import broken

from lately.hdl.timing import core
from lately.hdl.timing.decision_tables import DecidingCore
from lately.hdl.timing.elide import ElidePart
from lately.hdl.timing.oldest import OldestCell
from lately.hdl.timing.rest import RestPart, RestSweep
from lately.hdl.timing.sweep import Sweep
from lately.hdl.timing.sweep_rules import rest_interval
from lately.hdl.timing.unit import CountedTimingUnit
from lately.hdl.unit_shell import UnitShell
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
        "sweep in time, in free clocks",
        "tables of thresholds",
        "oldest of 4",
    ],
)
def test_holds(name):
    """Ages of cells take longer: all of `python -m campaigns prove`."""
    (proof,) = proofs.select([name])
    assert run_proof(proof).proven
    for goal in proof.goals:
        assert run_proof(proof.reaching(goal)).proven


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
        # A read meets the write of an operation, or comes before one of another tick.
        ("(port.address, port.inserts)", "(port.address, Const(0))"),
        ("same & ~ticked", "same"),
        # It meets that of the sweep.
        ("port.sweeps)", "Const(0))"),
        # What is there already is written again.
        ("open & ~(held & zero.all())", "open"),
    ],
)
def test_part_without_a_cure_is_found_out(old, new):
    assert status(partial(PartAnswers, part=broken(ElidePart, old, new))) == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # An insertion comes while the cell is in hand.
        ("expired & ~touched", "expired"),
        ("(touched | same) &", "same &"),
        # Cells are as reset has left them.
        ("wiping = Signal(init=1)", "wiping = Signal()"),
    ],
)
def test_sweep_without_a_cure_is_found_out(old, new):
    class Broken(ElidePart):
        def __init__(self, *, cells, stamp_bits, limit, **others):
            super().__init__(cells=cells, stamp_bits=stamp_bits, limit=limit, **others)
            self.sweep = broken(Sweep, old, new)(cells=cells, limit=limit, stamp_bits=stamp_bits)

    assert status(partial(PartAnswers, part=Broken)) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Expired cells are never written.
        ("self.write.eq(wiping | at[self.DECIDE] & restamps)", "self.write.eq(wiping)"),
        # A cell is left out where its port is busy.
        ("wiping | at[self.NEXT]", "wiping | at[self.NEXT] & ~self.busy"),
    ],
)
def test_sweep_that_leaves_cells_out_is_found_out(old, new):
    record = proof_of(partial(SweepInTime, sweep=broken(Sweep, old, new)), Unbounded(100))
    assert record.status == "failed"


@pytest.mark.parametrize(
    ("component", "old", "new"),
    [
        # A lap of the sweep alone, without the operations before its last write.
        (rest_interval, "spec.block - BETWEEN - 1)", "spec.block)"),
        # Once all are wiped every other cell is left out, or all while operations come.
        (RestSweep, "self.swept + 1", "self.swept + Mux(self.wipe, 1, 2)"),
        (RestSweep, "self.late.eq(left == 0)", "self.late.eq(0)"),
    ],
)
def test_sweep_in_free_clocks_that_comes_too_late_is_found_out(monkeypatch, component, old, new):
    monkeypatch.setattr(core, component.__name__, broken(component, old, new))
    assert proof_of(RestSweepInTime, Bounded(100)).status == "failed"


def test_unit_that_does_not_rest_for_its_sweep_is_found_out():
    class Restless(CountedTimingUnit):
        elaborate = broken(UnitShell, "available & ~core.late", "available").elaborate

    assert proof_of(partial(RestSweepInTime, unit=Restless), Bounded(100)).status == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("component", "old", "new"),
    [
        # An operation before is overlooked, or the ticks since.
        (RestPart, "range(1, BETWEEN + 1)", "range(1, BETWEEN)"),
        (RestPart, "before + tick.at(2).value", "before"),
        # Expired cells are never written.
        (RestPart, "sweep & (expired.value | wipe)", "sweep & wipe"),
        # Operations come before all cells are wiped.
        (RestSweep, "self.wipe.eq(~self.swept.all())", "self.wipe.eq(0)"),
        (RestSweep, "settling = Signal(BETWEEN + 1)", "settling = Signal(1)"),
    ],
)
def test_part_swept_in_free_clocks_without_a_cure_is_found_out(component, old, new):
    name = "sweep" if component is RestSweep else "part"
    harness = partial(RestAnswers, **{name: broken(component, old, new)})
    assert proof_of(harness, Bounded(48)).status == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # An entry is loaded while operations ask the bank.
        ("(settling == 0) & ~self.swap", "~self.swap"),
        # An operation before the swap is answered by the table after it.
        ('"swap").at(CONTROL_LAG)', '"swap").at(CONTROL_LAG - 1)'),
    ],
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
