"""docs/verification.md is what its data say."""

import json

import pytest

from campaigns.endurance import CASES
from campaigns.pages import blocks, verification
from campaigns.run_record import SOAKS
from lately.sim.proofs.catalogue import PROOFS


@pytest.fixture
def proofs():
    return blocks.load(verification.PROOFS_DATA)


def test_all_that_is_told_was_proven(proofs):
    assert {proof["status"] for proof in proofs["proofs"]} == {"proven"}


def test_runs_had_no_mismatch():
    runs = SOAKS.load(blocks.RESULTS / verification.SOAK_DATA)
    assert {run["case"] for run in runs.values()} <= {case.name for case in CASES}
    for run in runs.values():
        assert run["operations"] >= 100_000_000
        assert not any(run["mismatches"].values())
        # The ages of a dictionary are its insertions, too many to be counted each.
        assert all(run.get("hits_by_age", [run["hits"]]))
    assert {run["spec"]["family"] for run in runs.values()} == {
        "apbf", "apbbf", "gebf", "blocked-gebf", "window-dictionary", "timed-timing",
        "partitioned-timing",
    }  # fmt: skip


def test_proof_that_is_not_told(proofs):
    proofs["proofs"] = [one for one in proofs["proofs"] if one["name"] != PROOFS[0].name]
    with pytest.raises(ValueError, match=f"lacks {PROOFS[0].name}$"):
        verification.proofs_table(proofs)


def test_unproven_is_told(proofs):
    proofs["proofs"][0]["status"] = "unknown"
    assert "| unknown |" in verification.proofs_table(proofs)


def test_proofs_and_runs_join_those_that_are_there(proofs, tmp_path, monkeypatch):
    runs = SOAKS.load(blocks.RESULTS / verification.SOAK_DATA)
    monkeypatch.setattr(blocks, "RESULTS", tmp_path)
    monkeypatch.setattr(verification, "RESULTS", tmp_path)
    # Not by the hardware that the source makes now, so that a change of it fails no page's test.
    former = {"default seed 1"}
    monkeypatch.setattr(
        verification,
        "current",
        lambda runs: {name: run for name, run in runs.items() if name not in former},
    )
    blocks.save(verification.PROOFS_DATA, proofs)
    blocks.save(verification.SOAK_DATA, runs)
    newer = dict(proofs["proofs"][0], seconds=99.0)
    given = {"proofs.json": {"versions": {}, "proofs": [dict(newer, name="gone"), newer]}}
    given["another.json"] = {"another": runs["default seed 1"]}
    (tmp_path / "new").mkdir()
    for name, values in given.items():
        (tmp_path / "new" / name).write_text(json.dumps(values))
    verification.take(sorted((tmp_path / "new").iterdir()))
    assert blocks.load(verification.PROOFS_DATA)["proofs"] == [newer, *proofs["proofs"][1:]]
    runs["another"] = runs.pop("default seed 1")
    assert blocks.load(verification.SOAK_DATA) == runs
