"""Proofs of cells in three copies, and that mending one that disturbs operations is found out."""

from functools import partial

import pytest
from mutants import broken

from lately.hdl.dictionary import cell_checks, column
from lately.hdl.timing.elide import ElidePart
from lately.hdl.timing.part import CellPart
from lately.hdl.timing.rest import RestPart
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
    for goal in proof.goals:
        assert run_proof(proof.reaching(goal)).proven


def status(build, clocks=34):
    record = run_proof(Proof("name", "statement", "design", build, Bounded(clocks)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status


MENDS = "mending.copies & renews.replicate(VOTES)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Copies are written that have lost nothing.
        (MENDS, "renews.replicate(VOTES)"),
        # What reads the cell meanwhile takes it for one that has expired.
        ("mending.word, value), sweep.write & ~sweep.renew", "mending.word, value), sweep.write"),
    ],
)
def test_part_that_mends_too_much_is_found_out(old, new):
    changed = {"_elaborate_swept": broken(CellPart, old, new)._elaborate_swept}
    assert status(partial(CopiedPart, part=type("Broken", (ElidePart,), changed))) == "failed"


def test_part_swept_in_free_clocks_that_mends_too_much_is_found_out():
    old = "copies.at(self.LATENCY).value & renews.replicate(VOTES)"
    part = broken(RestPart, old, "renews.replicate(VOTES)")
    assert status(partial(CopiedRest, part=part)) == "failed"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self._mending.copies & mends.replicate(VOTES)", "mends.replicate(VOTES)"),
        ("return writes & ~self._mends", "return writes"),
    ],
)
def test_column_that_mends_too_much_is_found_out(monkeypatch, old, new):
    monkeypatch.setattr(column, "CHECKS", {"ecc": broken(cell_checks.Voted, old, new)})
    assert status(CopiedColumn, 26) == "failed"


def test_column_of_a_ring_that_mends_what_an_entry_takes_is_found_out(monkeypatch):
    voted = broken(cell_checks.Voted, "& ~self._column.write & ~used", "& ~self._column.write")
    monkeypatch.setattr(column, "CHECKS", {"ecc": voted})
    assert status(CopiedRing, 28) == "failed"
