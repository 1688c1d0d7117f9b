"""docs/verification.md is what its data say."""

import json

import make_verification as verification
import pytest

from lately.sim.proofs.catalogue import PROOFS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("PAGE", "PROOFS_DATA", "SOAK_DATA"):
        path = getattr(verification, name)
        monkeypatch.setattr(verification, name, tmp_path / path.name)
        if path.exists():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_page_is_up_to_date():
    assert verification.out_of_date() is None


def test_all_that_is_told_was_proven():
    data = json.loads(verification.PROOFS_DATA.read_text("utf-8"))
    assert {proof["status"] for proof in data["proofs"]} == {"proven"}


def test_runs_had_no_mismatch():
    runs = json.loads(verification.SOAK_DATA.read_text("utf-8"))
    for run in runs.values():
        assert run["operations"] >= 100_000_000
        assert not any(run["mismatches"].values())
        assert all(run["hits_by_age"])
    assert {run["spec"]["family"] for run in runs.values()} == {
        "apbf", "apbbf", "gebf", "blocked-gebf",
    }  # fmt: skip


def test_proof_that_is_not_told(folder):
    data = json.loads(verification.PROOFS_DATA.read_text("utf-8"))
    data["proofs"] = [one for one in data["proofs"] if one["name"] != PROOFS[0].name]
    verification.PROOFS_DATA.write_text(json.dumps(data))
    assert "lacks proofs" in verification.out_of_date()


def test_page_that_is_old(folder):
    verification.PAGE.write_text(verification.page() + "x")
    assert "verification.md is out of date" in verification.out_of_date()
    verification.PAGE.write_text(verification.page())
    assert verification.out_of_date() is None


def test_unproven_is_told(folder):
    data = json.loads(verification.PROOFS_DATA.read_text("utf-8"))
    data["proofs"][0]["status"] = "unknown"
    verification.PROOFS_DATA.write_text(json.dumps(data))
    assert "| unknown |" in verification.page()


def test_proofs_join_those_that_are_there(folder):
    data = json.loads(verification.PROOFS_DATA.read_text("utf-8"))
    newer = dict(data["proofs"][0], seconds=99.0)
    gone = dict(newer, name="gone")
    merged = verification.merged({"versions": {}, "proofs": [gone, newer]})["proofs"]
    assert merged == [newer, *data["proofs"][1:]]
