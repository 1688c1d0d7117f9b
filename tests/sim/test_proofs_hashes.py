# amaranth: UnusedElaboratable=no
"""Proof that the hash is the golden model's: it holds, and finds hashes that differ in one bit."""

import pytest

from lately.hdl.hash import functions
from lately.sim.proofs.formal import run_proof
from lately.sim.proofs.hashes import PROOFS

(SMALL,) = (proof for proof in PROOFS if proof.name.endswith("keys of 5 bits"))


# `make prove` has it.
@pytest.mark.slow
def test_holds():
    assert run_proof(SMALL).status == "proven"


def last_column(columns):
    return (*columns[:-1], columns[-1] ^ 1 << 63)


def last_constant(constants):
    return (*constants[:-1], constants[-1] ^ 1)


def last_rotation(words):
    *others, ((first, second, third),) = words
    return (*others, ((first, second, (third + 1) % 64),))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("fold_columns", last_column, marks=pytest.mark.slow),
        pytest.param("mix_constants", last_constant, marks=pytest.mark.slow),
        pytest.param("expand_rotations", last_rotation, marks=pytest.mark.slow),
    ],
)
def test_hash_that_differs_in_one_place_is_found_out(name, change, monkeypatch):
    before = getattr(functions, name)
    monkeypatch.setattr(functions, name, lambda *arguments: change(before(*arguments)))
    assert run_proof(SMALL).status == "failed"
