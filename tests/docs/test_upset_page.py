"""docs/upset-campaign.md is what its data say."""

import re

import pytest
from watched_registers import WATCHED

from campaigns.pages import upset_campaign
from campaigns.pages.upset_campaign import DATA, registers, registers_table, units_table
from campaigns.run_record import UPSETS, RunRecord
from campaigns.upset_outcomes import OUTCOMES
from lately.golden import Specification


@pytest.fixture
def runs():
    return UPSETS.load(DATA)


def test_campaigns(runs):
    for name, run in runs.items():
        assert (run["done"], run["mismatches"]) == (100_000, 0), name
        assert (
            sum(sum(silent) + sum(told) for _, _, silent, told, _ in run["elements"].values())
            == (run["done"])
        )
    plain = [run for run in runs.values() if not run["options"]]
    specs = [Specification.from_dict(run["spec"]) for run in plain]
    assert {spec.family for spec in specs} == {
        "apbf", "apbbf", "gebf", "blocked-gebf", "window-dictionary",
        "timed-timing", "partitioned-timing",
    }  # fmt: skip
    assert all({"memory", "register"} <= set(run["kinds"]) for run in plain)
    assert any(run["spec"].get("hash") == "siphash" for run in plain)
    assert any(run["spec"].get("lanes", 1) > 1 for run in plain)


def test_protection_keeps_its_promise(runs):
    protected = {name: run for name, run in runs.items() if "protect" in run["options"]}
    assert protected
    for name, run in protected.items():
        parity = run["options"]["protect"] == "parity"
        # A stash that overflows for lack of a cell in doubt, and says so.
        overflows = parity and run["spec"]["family"] == "window-dictionary"
        for row in run["found"]:
            if row["outcome"] == "false negative":
                assert row["silent"] == 0, name
                assert overflows or row["told"] == 0, name
            elif row["outcome"] == "lost result":
                assert (row["silent"], row["told"]) == (0, 0), name
            elif row["outcome"] not in ("masked", "latent"):
                assert row["silent"] == 0, name
                assert parity or row["told"] == 0, name


def test_what_is_watched_is_told(runs):
    checked = {name: run for name, run in runs.items() if "check" in run["options"]}
    assert len(checked) == 4
    for name, run in checked.items():
        watched = [one for one in run["elements"] if re.fullmatch(WATCHED, one)]
        assert len(watched) > 5
        for register in watched:
            _, _, silent, told, _ = run["elements"][register]
            assert sum(silent) == 0 < sum(told), (name, register)


def made(silent, told=0, lasting=0, kind="register"):
    counts = [0] * len(OUTCOMES)
    worst = list(OUTCOMES).index("false negative")
    return [kind, 4, [silent if at == worst else 1 for at in range(len(OUTCOMES))],
            [told if at == worst else 0 for at in range(len(OUTCOMES))],
            [*counts[:worst], lasting, *counts[worst + 1 :]]]  # fmt: skip


def test_registers_of_one_name_are_summed_up():
    run = {"options": {}, "elements": {"core.a": made(5, 1, 2), "core.a$7": made(6, 2, 3),
                                       "core.b": made(1), "m": made(9, kind="memory")}}  # fmt: skip
    groups = registers(run)
    assert groups["core.a"] == {"bits": 8, "struck": 24, "missed": 11, "lasting": 5, "worst": 5}
    assert list(groups) == ["core.a", "core.b"]
    lines = registers_table({"unit": run}).splitlines()
    assert lines[2] == "| `unit` | `core.a` | 8 | 24 | 45.8% | 20.8% | 91.7% |"


def test_none_found_has_an_upper_bound():
    found = [{"kind": "memory", "outcome": name, "silent": 1000 * (name == "masked"), "told": 0}
             for name in OUTCOMES]  # fmt: skip
    run = {"options": {"protect": "parity"}, "kinds": ["memory"], "found": found,
           "elements": {"core.store.words": ["memory", 16, [1000], [0], [0]]}}  # fmt: skip
    (row,) = units_table({"unit parity": run}, "protect").splitlines()[2:]
    assert row.endswith("| 0 | 0 | 0% to 0.368% |")
    assert units_table({"unit parity": run}).count("\n") <= 2


def test_page_takes_records(tmp_path, monkeypatch):
    monkeypatch.setattr(upset_campaign, "DATA", tmp_path / "upsets.json")
    path = tmp_path / "new.json"
    run = {"done": 1, "mismatches": 0, "seconds": 0.5, "found": [], "elements": {}}
    RunRecord(path, UPSETS).keep("one", run)
    upset_campaign.take([path])
    assert UPSETS.load(tmp_path / "upsets.json") == {"one": run}
