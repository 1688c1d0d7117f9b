"""The pages of docs/verification are what their data say."""

import json

import pytest

from campaigns import soak
from campaigns.pages import blocks, tables
from lately.sim.proofs.catalogue import PROOFS, with_goals


@pytest.fixture
def proofs():
    return blocks.load("proofs")


def test_all_that_is_told_was_proven(proofs):
    assert {proof["status"] for proof in proofs} == {"proven"}


def test_runs_had_no_mismatch():
    runs = blocks.records("soak")
    assert {run.point["case"] for run in runs} <= {*soak.CASES}
    for run in runs:
        assert run.result["operations"] >= 100_000_000
        assert not any(run.result["mismatches"].values())
    assert {run.point["spec"]["family"] for run in runs} == {
        "apbf", "apbbf", "gebf", "blocked-gebf", "window-dictionary", "timed-timing",
        "partitioned-timing",
    }  # fmt: skip


def test_proof_that_is_not_told(proofs):
    others = [proof for proof in proofs if proof["name"] != PROOFS[0].name]
    with pytest.raises(ValueError, match=f"lacks {PROOFS[0].name}$"):
        tables.proofs_table(others)


def test_unproven_is_told(proofs):
    proofs[0]["status"] = "unknown"
    assert "| unknown |" in tables.proofs_table(proofs)


def test_proofs_join_those_that_are_there(proofs, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "RESULTS", tmp_path)
    # The covers of all proofs take ten seconds to find.
    some = PROOFS[:2]
    monkeypatch.setattr(tables, "PROOFS", some)
    names = [proof.name for proof in with_goals(some)]
    proofs = [proof for proof in proofs if proof["name"] in names]
    blocks.save("proofs", proofs)
    newer = dict(proofs[0], seconds=99.0)
    versions = newer.pop("versions")
    path = tmp_path / "new.json"
    path.write_text(json.dumps({"versions": versions, "proofs": [dict(newer, name="gone"), newer]}))
    tables.take_proofs([path])
    assert blocks.load("proofs") == [newer | {"versions": versions}, *proofs[1:]]
