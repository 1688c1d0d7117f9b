"""docs/upsets/campaign.md is what its data say."""

from dataclasses import replace

import pytest

from campaigns.engine import Record
from campaigns.pages import blocks, tables
from campaigns.upsets import OUTCOMES, points


@pytest.fixture
def runs():
    return blocks.records("upsets")


def test_campaigns(runs):
    for run in runs:
        assert run.result["done"] >= 20_000
        assert run.result["mismatches"] == 0
        rows = run.result["found"]
        assert sum(row["silent"] + row["told"] for row in rows) == run.result["done"]
    plain = [run.point["spec"] for run in runs if not tables.option(run)]
    assert {spec["family"] for spec in plain} == {
        "apbf", "apbbf", "gebf", "blocked-gebf", "window-dictionary",
        "timed-timing", "partitioned-timing",
    }  # fmt: skip
    assert any(spec.get("hash") == "siphash" for spec in plain)
    assert any(spec.get("lanes", 1) > 1 for spec in plain)


def test_protection_keeps_its_promise(runs):
    protected = [run for run in runs if tables.option(run) == "protect"]
    assert protected
    for run in protected:
        parity = run.point["protect"] == "parity"
        # A stash that overflows for lack of a cell in doubt, and says so.
        overflows = parity and run.point["spec"]["family"] == "window-dictionary"
        for row in run.result["found"]:
            if row["outcome"] == "false negative":
                assert row["silent"] == 0
                assert overflows or row["told"] == 0
            elif row["outcome"] == "lost result":
                assert (row["silent"], row["told"]) == (0, 0)
            elif row["outcome"] not in ("masked", "latent"):
                assert row["silent"] == 0
                assert parity or row["told"] == 0


def record(protect="none", **result):
    point = points(preset=("tiny",))[0] | {"protect": protect, "kinds": ["memory"]}
    rows = [{"kind": "memory", "outcome": name, "silent": 1000 * (name == "masked"), "told": 0}
             for name in OUTCOMES]  # fmt: skip
    counts = {"done": 1000, "mismatches": 0, "seconds": 1.0, "bits": {"memory": 16}}
    return Record(point, {}, counts | {"found": rows, "registers": {}} | result)


def test_registers_are_ranked_by_what_they_lose():
    registers = {
        "core.b": [4, 6, 1, 0, 0], "core.a": [8, 24, 11, 5, 5],
        "a": [4, 60, 0, 0, 40], "b": [4, 9, 0, 0, 9],
    }  # fmt: skip
    blocks = tables.upsets([record(registers=registers)])
    first, second = blocks["registers"].splitlines()[2:4]
    assert first == "| `tiny memory` | `core.a` | 8 | 24 | 45.8% | 20.8% | 91.7% |"
    assert "| `core.b` |" in second
    assert blocks["lasting"].splitlines()[2:] == ["| `tiny memory` | `a` (66.7%) |"]


def test_none_found_has_an_upper_bound():
    row = tables.upsets([record("parity")])["protected"].splitlines()[2]
    assert row.endswith("| 0 | 0 | 0% to 0.368% |")
    assert tables.option(record("parity")) == "protect"
    checked = record()
    checked = replace(checked, point=checked.point | {"self_check": True})
    assert tables.option(checked) == "check"
