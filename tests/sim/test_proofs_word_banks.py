"""Proofs of banks of words, and that a bank with a defect is found out."""

from functools import partial

import pytest
from mutants import broken

from lately.hdl.memory.words import PortableWordBank
from lately.sim.proofs import catalogue as proofs
from lately.sim.proofs.formal import Bounded, Proof, run_proof
from lately.sim.proofs.word_banks import CLOCKS, BankAnswers

pytestmark = pytest.mark.rtl


# `make prove` has them.
@pytest.mark.slow
@pytest.mark.parametrize("variant", ["portable", "ecp5"])
def test_holds(variant):
    """Banks of more rows take longer: all of `lately prove`."""
    (proof,) = proofs.select([f"words of banks, {variant}, 2 rows"])
    assert run_proof(proof).proven
    for goal in proof.goals:
        assert run_proof(proof.reaching(goal)).proven


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A pass takes no word from one of the four before it.
        ("again.value", "Const(0)"),
        ("second.eq(same[1])", "second.eq(0)"),
        ("Mux(same[2], written,", "Mux(Const(0), written,"),
        ("before & same[3].replicate(width)", "0"),
        # It takes that of the memory, which is being written.
        ("unchanged.eq(~same[1:].any())", "unchanged.eq(1)"),
        # The sweep writes nothing, or passes rows over while operations come.
        ('pipe.enter(self.clean, "clean")', 'pipe.enter(Const(1), "clean")'),
        ("~self.access & ~self.clean):\n            m.d.sync += lower", "~self.clean):\n"
         "            m.d.sync += lower"),
    ],
)  # fmt: skip
def test_bank_with_a_defect_is_found_out(old, new):
    build = partial(BankAnswers, bank=broken(PortableWordBank, old, new), rows=4)
    assert run_proof(Proof("name", "statement", "design", build, Bounded(CLOCKS))).status == (
        "failed"
    )
