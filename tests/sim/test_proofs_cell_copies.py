"""Proofs of cells in three copies, and that mending one that disturbs operations is found out."""

from functools import partial

import pytest
from mutants import broken

from lately.hdl.dictionary import column
from lately.hdl.dictionary.column import Column
from lately.hdl.memory import protection
from lately.sim.proofs import catalogue as proofs
from lately.sim.proofs import cell_copies
from lately.sim.proofs.cell_copies import (
    CopiedColumn,
    CopiedPart,
    CopiedRest,
    CopiedRing,
)
from lately.sim.proofs.formal import Bounded, Proof, run_proof

pytestmark = [pytest.mark.rtl, pytest.mark.slow]


@pytest.mark.parametrize("proof", cell_copies.PROOFS, ids=lambda proof: proof.name)
def test_holds(proof):
    assert proof in proofs.PROOFS
    assert run_proof(proof).proven
    assert all(run_proof(cover).proven for cover in proof.covers())


def status(build, clocks=34):
    record = run_proof(Proof("name", "statement", "design", build, Bounded(clocks)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status


@pytest.mark.parametrize("harness", [CopiedPart, CopiedRest])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Copies are written that have lost nothing.
        ("self._copies & repairs.replicate(len(self._copies))", "repairs.replicate(VOTES)"),
        # An operation that reads the cell meanwhile takes it for an expired one.
        ("return Const(0)\n\n\nCELL_PROTECTIONS", "return repairs\n\n\nCELL_PROTECTIONS"),
    ],
)
def test_part_that_repairs_too_much_is_found_out(monkeypatch, harness, old, new):
    repair = broken(protection.Repair, old, new)
    monkeypatch.setattr(protection, "Repair", repair)
    assert status(harness, 40) == "failed"


def test_column_that_mends_copies_without_an_upset_is_found_out(monkeypatch):
    copies = "self._copies & repairs.replicate(len(self._copies))"
    kind = broken(protection.Triplication, copies, "repairs.replicate(len(self._copies))")
    monkeypatch.setattr(column, "CELL_PROTECTIONS", {"tmr": kind()})
    assert status(CopiedColumn, 26) == "failed"


@pytest.mark.parametrize(
    ("build", "clocks", "old", "new"),
    [
        # The copies that are right are written, too.
        (CopiedColumn, 26, "(sweeps & ~sweep.repairs) |", "sweeps |"),
        # The word of the copies is written where an entry is.
        (CopiedRing, 28, "sweep.repairs & ~write & ~visits", "sweep.repairs & ~write"),
    ],
)
def test_column_that_mends_too_much_is_found_out(build, clocks, old, new):
    assert status(partial(build, column=broken(Column, old, new)), clocks) == "failed"
