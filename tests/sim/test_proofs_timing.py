"""Proofs of timing filters, and that a part without one of its cures is found out."""

from functools import partial

import pytest
from mutants import broken

from lately.hdl.timing.elide import ElidePart
from lately.hdl.timing.oldest import OldestCell
from lately.hdl.timing.sweep import Sweep
from lately.sim.proofs import catalogue as proofs
from lately.sim.proofs.formal import Bounded, Proof, run_proof
from lately.sim.proofs.timing import OldestOfAll, PartAnswers

pytestmark = pytest.mark.rtl


@pytest.mark.parametrize("name", ["cell memory, ecp5", "oldest of 4"])
def test_holds(name):
    """Ages of cells take longer: all of `lately prove`."""
    (proof,) = proofs.select([name])
    assert run_proof(proof).proven
    for goal in proof.goals:
        assert run_proof(proof.reaching(goal)).proven


def status(build):
    record = run_proof(Proof("name", "statement", "design", build, Bounded(40)))
    print(record.status, record.depth, f"{record.seconds:.1f} s")
    return record.status


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
        def __init__(self, *, cells, stamp_bits, limit, memory):
            super().__init__(cells=cells, stamp_bits=stamp_bits, limit=limit, memory=memory)
            self.sweep = broken(Sweep, old, new)(cells=cells, limit=limit, stamp_bits=stamp_bits)

    assert status(partial(PartAnswers, part=Broken)) == "failed"


def test_miscounted_cells_are_found_out():
    class Miscounting(OldestOfAll):
        def __init__(self, **others):
            super().__init__(**others)
            kind = broken(OldestCell, "Mux(above, a, b)),", "Mux(above, b, a)),")
            self._part = self._oldest = kind(window=5, hashes=3)

    assert status(Miscounting) == "failed"
