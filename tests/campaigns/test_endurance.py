"""Tests of days: what is compared, what is kept, and that they resume."""

import json

import pytest
from campaigns.workers.kept_calls import Tally
from click.testing import CliRunner

from campaigns import endurance
from campaigns.__main__ import main
from campaigns.cases import DECIDED
from campaigns.endurance import CASES, EnduranceCase, endure, select, totals
from campaigns.run_record import SOAKS, RunRecord
from lately.golden import PRESETS, Specification, any_preset, preset

TINY = EnduranceCase(name="tiny", spec=preset("tiny"), seeds=(1, 2))


@pytest.fixture
def record(tmp_path):
    return RunRecord(tmp_path / "soak.json", SOAKS)


@pytest.fixture
def made(monkeypatch):
    """Orders of runs that were made, here and at once, each with a figure that is its seed's."""
    orders = []

    def complete(wanted, kind, **how):
        for one in wanted:
            if not one.known:
                case, seed, operations = one.call.argument
                orders.append((case.name, seed, operations))
                one.keep(figures(case, seed, operations))
        return Tally([], len(orders), sum(one.known for one in wanted))

    monkeypatch.setattr(endurance, "complete", complete)
    return orders


def figures(case, seed, operations):
    return {
        "case": case.name, "seed": seed, "operations": operations, "hits": 10 * seed,
        "mismatches": {"verdicts": 0, "ages": seed}, "memory_bits": 64, "memory_comparisons": 2,
        "seconds": 0.5, "interrupted": False, "spec": case.spec.to_dict(), **case.how(seed),
    }  # fmt: skip


@pytest.mark.rtl
def test_runs_are_kept_and_found(record):
    runs, tally = endure([TINY], record, seeds=[3], operations=2_000)
    assert tally == Tally([], 1, 0)
    assert runs["tiny seed 3"]["operations"] == 2_000
    assert set(runs["tiny seed 3"]["mismatches"].values()) == {0}
    again, tally = endure([TINY], record, seeds=[3], operations=2_000)
    assert (again, tally) == (runs, Tally([], 0, 1))


def test_only_what_is_missing_is_run(record, made):
    endure([TINY], record, seeds=[1], operations=100)
    runs, tally = endure([TINY], record, operations=100)
    assert made == [("tiny", 1, 100), ("tiny", 2, 100)]
    assert (list(runs), tally.found) == (["tiny seed 1", "tiny seed 2"], 1)


def test_fewer_operations_are_not_enough(record, made):
    for operations in (100, 101, 100):
        endure([TINY], record, seeds=[1], operations=operations)
    assert made == [("tiny", 1, 100), ("tiny", 1, 101)]


def test_other_hardware_is_run_anew(record, made):
    endure([TINY], record, seeds=[1], operations=100)
    other = EnduranceCase(name="tiny", spec=TINY.spec, memory="ecp5")
    endure([other], record, seeds=[1], operations=100)
    assert len(made) == 2
    assert record.find("tiny seed 1")["hardware"] == TINY.hardware("ecp5")


def test_runs_without_pauses_are_run_anew(record, made):
    """A record from before there were pauses holds for runs that have none."""
    runs, _ = endure([TINY], record, operations=100)
    assert [run["stalls"] for run in runs.values()] == [False, True]
    for run in runs.values():
        del run["stalls"]
    record.replace(runs)
    made.clear()
    endure([TINY], record, operations=100)
    assert made == [("tiny", 2, 100)]


def test_last_run_has_the_memories_of_a_device(record, made):
    runs, _ = endure([TINY], record, operations=100)
    assert [run["memory"] for run in runs.values()] == ["portable", "ecp5"]
    assert [run["hardware"] for run in runs.values()] == [
        TINY.hardware("portable"),
        TINY.hardware("ecp5"),
    ]


def test_runs_of_former_hardware_are_not_current(record, made, monkeypatch):
    monkeypatch.setattr(endurance, "CASES", (TINY,))
    gone = EnduranceCase(name="gone", spec=TINY.spec)
    runs, _ = endure([TINY, gone], record, operations=100)
    assert list(endurance.current(runs)) == ["tiny seed 1", "tiny seed 2"]
    runs["tiny seed 1"]["hardware"] = gone.hardware("portable")[::-1]
    assert list(endurance.current(runs)) == ["tiny seed 2"]


def test_runs_are_replaced(record, made):
    runs, _ = endure([TINY], record, operations=100)
    record.replace({"tiny seed 2": runs["tiny seed 2"]})
    assert record.find("tiny seed 1") is None
    assert record.find("tiny seed 2") == runs["tiny seed 2"]


def test_totals_are_of_all_runs_of_a_case(monkeypatch):
    monkeypatch.setattr(endurance, "CASES", (TINY,))
    runs = {str(seed): figures(TINY, seed, 100) for seed in (1, 2)}
    total = totals(runs)["tiny"]
    assert (total["runs"], total["operations"], total["hits"]) == (2, 200, 30)
    assert total["stalls"] == 1
    assert total["mismatches"] == {"verdicts": 0, "ages": 3}
    assert (total["memory_bits"], total["memory_comparisons"], total["seconds"]) == (64, 4, 1.0)


def test_every_kind_of_unit_is_compared():
    """Rings by count and in time a thousand million times, and others two hundred million times.

    Those that differ in size alone, or in what decides, run once, with the memories of a device and
    with pauses.
    """
    rings = [
        case for case in CASES if case.spec.family in ("apbbf", "apbf", "gebf", "blocked-gebf")
    ]
    once = [case for case in CASES if case.name in ("large", "small", *DECIDED)]
    assert (len(rings), len(once)) == (13, 4)
    for case in CASES:
        ring = case in rings and case.spec.lanes == 1
        assert len(case.seeds) == (1 if case in once else 10 if ring else 2), case.name
        assert case.how(case.seeds[-1])["stalls"], case.name
        assert case.how(case.seeds[-1])["memory"] != "portable", case.name
    assert {case.spec.lanes for case in rings} == {1, 2, 4}
    assert {case.spec.family for case in CASES} == {any_preset(name).family for name in PRESETS} | {
        "window-dictionary",
        "timed-timing",
        "partitioned-timing",
    }
    for case in CASES:
        assert Specification.from_dict(case.spec.to_dict()) == case.spec


def test_cases_by_name():
    assert [case.name for case in select(["timing-def*", "default"])] == [
        "default",
        "timing-default",
    ]
    assert select([]) == list(CASES)


def test_case_wrong():
    result = CliRunner().invoke(main, ["endurance", "--case", "tiny"])
    assert result.exit_code == 1
    assert "case: must match one of default, apbf-default," in result.stderr
    assert "not 'tiny'" in result.stderr


def test_list():
    result = CliRunner().invoke(main, ["endurance", "--list", "--json"])
    assert json.loads(result.stdout)[0] == {"name": "default", "runs": 10}


def test_damaged_record(tmp_path):
    path = tmp_path / "soak.json"
    path.write_text('{"default seed 1": {"case": "default"}}')
    result = CliRunner().invoke(main, ["endurance", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "must hold figures of endurance, but: default seed 1 must have seed of" in (
        result.stderr
    )
    assert path.read_text() == '{"default seed 1": {"case": "default"}}'


@pytest.mark.parametrize("as_json", [False, True])
def test_mismatches_fail(as_json, tmp_path, made):
    arguments = ["endurance", "--case", "apbf-default", "--seeds", "1,2"]
    arguments += ["--out", str(tmp_path)]
    result = CliRunner().invoke(main, arguments + (["--json"] if as_json else []))
    assert result.exit_code == 1
    assert "apbf-default seed 1: mismatches must be 0, not {'ages': 1}" in result.stderr
    assert "apbf-default seed 2: mismatches must be 0, not {'ages': 2}" in result.stderr
    if as_json:
        told = json.loads(result.stdout)
        assert (told["measured"], told["runs"]["apbf-default seed 2"]["hits"]) == (2, 20)
    else:
        assert "apbf-default      2   200,000,000     30            3         1" in result.stdout
