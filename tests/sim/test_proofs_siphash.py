# amaranth: UnusedElaboratable=no
"""Proof that SipHash is the golden model's: it holds, and a hash that differs is found out."""

from dataclasses import replace
from functools import partial

import pytest
from amaranth.hdl import Cat
from mutants import broken

from lately.golden import preset
from lately.hdl.hash import key
from lately.hdl.hash.siphash import SipHash
from lately.sim.proofs import siphash
from lately.sim.proofs.formal import Bounded, Proof, Unrolled, run_proof

SUMS, *HASHES = siphash.PROOFS
SMALL = replace(preset("siphash-default"), key_bits=5)


def status(build, method):
    record = run_proof(Proof("name", "statement", "design", build, method))
    print(record.status, f"{record.seconds:.1f} s")
    return record.status


def small():
    """Return what comes of the hash of keys of 5 bits."""
    # A search for a counterexample alone, as hashes that differ have no equal places.
    method = Bounded(siphash.clocks(SMALL))
    return status(partial(siphash.KeyedHashIsGolden, spec=SMALL), method)


def test_sums_hold():
    assert run_proof(SUMS).status == "proven"


def without_a_carry(first, second):
    low, cut = siphash.BOUNDS[1], len(first)
    return Cat((first[:low] + second[:low])[:low], (first[low:cut] + second[low:cut]))


def test_sum_without_a_carry_is_found_out():
    assert status(partial(siphash.SumsOfDigits, total=without_a_carry), Unrolled(1)) == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("proof", HASHES, ids=lambda proof: proof.name)
def test_holds(proof):
    assert run_proof(proof).status == "proven"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A rotation by one bit less.
        ("ops.rotate(v[3], 16)", "ops.rotate(v[3], 15)"),
        # A carry that is lost between digits.
        ("carry = digit[high - low :]", "carry = []"),
        # The constant before the last rounds, and the length on top of the last word.
        ("ops.constant(FINAL)", "ops.constant(FINAL ^ 1)"),
        ("length_word(self._key_bits)", "length_word(self._key_bits + 8)"),
    ],
)
def test_hash_that_differs_in_one_place_is_found_out(old, new, monkeypatch):
    monkeypatch.setattr(key, "SipHash", broken(SipHash, old, new))
    assert small() == "failed"
