"""What coverage counts, without a simulator."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

from campaigns import coverage_report
from lately.golden import PRESETS, Operation
from lately.hdl.profile import HardwareProfile
from lately.sim.bench.code_coverage import (
    Exclusion,
    Point,
    Tally,
    module,
    read_points,
    tally,
    unescaped,
)
from lately.sim.bench.coverage import Collector, Ports, Sampler, merged, missed, points, run_bin

SPEC = PRESETS["tiny"]
PROFILE = HardwareProfile(SPEC)


@pytest.fixture
def collector():
    return Collector(points(SPEC))


@pytest.fixture
def sampler(collector):
    made = Sampler(SPEC, collector)
    made.clock(Ports(rst=True, generation=SPEC.generation))
    return made


def accept(operation, key=0, **ports):
    ports = {"generation": SPEC.generation} | ports
    return Ports(offered=True, ready=True, operation=operation, key=key, **ports)


def hit(collector, point):
    return {name: count for name, count in collector.counts[point].items() if count}


IDLE = Ports(ready=True, generation=SPEC.generation)
CLOSED = Ports(offered=True, generation=SPEC.generation)


def test_nothing_is_hit_at_first(collector):
    assert len(missed(collector.counts)) == sum(len(bins) for bins in points(SPEC).values())


def test_unknown_value_counts_for_nothing(collector):
    collector.sample("age of a hit", 99)
    collector.sample("no such point", 0)
    assert not hit(collector, "age of a hit")


@pytest.mark.parametrize(
    ("clocks", "name"),
    [(1, "1"), (2, "2"), (3, "3 to 7"), (7, "3 to 7"), (8, "8 or more"), (99, "8 or more")],
)
def test_run_bin(clocks, name):
    assert run_bin(clocks) == name


def test_secret_points_with_siphash_only():
    keyed = points(PRESETS["siphash-tiny"])
    assert keyed.keys() - points(SPEC).keys() == {
        "clocks from a secret to an operation",
        "while a secret waits",
    }


def test_pairs(collector, sampler):
    for code in (1, 7, 7):
        sampler.clock(accept(code))
    assert hit(collector, "operation pairs") == {"QUERY, code 7": 1, "code 7, code 7": 1}


def test_pairs_do_not_reach_across_a_reset(collector, sampler):
    sampler.clock(accept(1))
    sampler.clock(Ports(rst=True, generation=SPEC.generation))
    sampler.clock(accept(1))
    assert not hit(collector, "operation pairs")


def test_phase_and_automatic_shift(collector, sampler):
    for _ in range(SPEC.generation):
        sampler.clock(accept(Operation.INSERT))
    sampler.clock(accept(Operation.CHECK_AND_INSERT))
    assert hit(collector, "automatic shift") == {"CHECK_AND_INSERT": 1}
    sampler.clock(accept(Operation.SHIFT))
    sampler.clock(accept(Operation.SHIFT))
    assert hit(collector, "phase of a forced shift") == {"0": 1, "1": 1}


def test_spare(collector, sampler):
    sampler.clock(accept(Operation.CLEAR))
    for _ in range(PROFILE.clear_cycles):
        sampler.clock(CLOSED)
    sampler.clock(accept(Operation.SHIFT))
    assert hit(collector, "spare") == {"CLEAR, clean": 1, "SHIFT, clean": 1}
    sampler.clock(accept(Operation.CLEAR))
    assert hit(collector, "spare")["CLEAR, not clean"] == 1


@pytest.mark.parametrize("clocks", [1, 5, PROFILE.latency + 1])
def test_distance_of_a_key(collector, sampler, clocks):
    sampler.clock(accept(Operation.INSERT, 7))
    for _ in range(clocks - 1):
        sampler.clock(IDLE)
    sampler.clock(accept(Operation.QUERY, 7))
    found = hit(collector, "clocks between an insertion and a query of its key")
    assert found == {str(clocks): 1}
    assert not hit(collector, "clocks between an insertion and a query of its cell")


def test_distance_too_large(collector, sampler):
    sampler.clock(accept(Operation.INSERT, 7))
    for _ in range(PROFILE.latency + 1):
        sampler.clock(IDLE)
    sampler.clock(accept(Operation.QUERY, 7))
    assert not hit(collector, "clocks between an insertion and a query of its key")


def test_distance_of_a_cell(collector, sampler):
    for key in range(1, 256):
        sampler.clock(Ports(rst=True, generation=SPEC.generation))
        sampler.clock(accept(Operation.INSERT, 0))
        sampler.clock(accept(Operation.QUERY, key))
    # One of 8 cells of one of 4 blocks, in either of two parts.
    found = hit(collector, "clocks between an insertion and a query of its cell")
    assert 255 / 64 < found["1"] < 255 / 4


def test_ages_of_hits_that_are_taken(collector, sampler):
    sampler.clock(Ports(valid=True, seen=True, age=1, taken=False))
    sampler.clock(Ports(valid=True, seen=True, age=1, taken=True))
    sampler.clock(Ports(valid=True, seen=False, age=0, taken=True))
    assert hit(collector, "age of a hit") == {"1": 1}
    assert hit(collector, "clocks without o.ready") == {"1": 1}


def test_gaps(collector, sampler):
    sampler.clock(IDLE)
    sampler.clock(accept(1))
    sampler.clock(IDLE)
    sampler.clock(IDLE)
    sampler.clock(accept(1))
    assert hit(collector, "clocks without i.valid") == {"2": 1}


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Operation.QUERY, "results wait"),
        (Operation.SHIFT, "after SHIFT"),
        (Operation.CLEAR, "after CLEAR"),
    ],
)
def test_input_closed(collector, sampler, operation, reason):
    sampler.clock(accept(operation))
    for _ in range(3):
        sampler.clock(CLOSED)
    sampler.clock(accept(1))
    assert hit(collector, "input closed") == {reason: 1}
    waits = hit(collector, "clocks closed for waiting results")
    assert waits == ({"3 to 7": 1} if reason == "results wait" else {})


def test_one_at_a_time(collector, sampler):
    sampler.clock(accept(Operation.SHIFT, generation=1))
    sampler.clock(accept(6, generation=1))
    sampler.clock(accept(Operation.SHIFT))
    assert hit(collector, "one at a time") == {"begins": 1, "ends": 1}
    assert hit(collector, "operations one at a time") == {"SHIFT": 1, "code 6": 1}


def test_secret():
    spec = PRESETS["siphash-tiny"]
    collector = Collector(points(spec))
    sampler = Sampler(spec, collector)
    sampler.clock(Ports(rst=True, generation=spec.generation))
    sampler.clock(accept(1))
    sampler.clock(accept(1, secret=5))
    sampler.clock(accept(Operation.SHIFT))
    for _ in range(3):
        sampler.clock(accept(1))
    sampler.clock(accept(Operation.CLEAR))
    found = hit(collector, "clocks from a secret to an operation")
    assert found == {str(clocks): 1 for clocks in range(-1, 5)}
    # The shift comes before the secret is heeded.
    assert hit(collector, "while a secret waits") == {"CLEAR": 1}


def test_merged():
    runs = [{"a": {"x": 1, "y": 0}}, {"a": {"x": 2, "y": 0}, "b": {"z": 0}}]
    assert merged(runs) == {"a": {"x": 3, "y": 0}, "b": {"z": 0}}
    assert missed(merged(runs)) == ["a: y", "b: z"]


def test_add_to_a_file(collector, tmp_path):
    collector.sample("age of a hit", 1)
    for _ in range(2):
        collector.add_to(tmp_path / "functional.json")
    counts = json.loads((tmp_path / "functional.json").read_text())
    assert counts["age of a hit"] == {"0": 0, "1": 2, "2": 0}


def test_unescaped():
    assert unescaped("__0243[0]:0->1") == "$3[0]:0->1"
    assert unescaped("control__02eadopt:0->1") == "control.adopt:0->1"


@pytest.mark.parametrize(
    ("instance", "kind"),
    [
        ("", "(unit)"),
        ("hits$55", "statistics"),
        ("core.store.segment3_part1", "core.store.segment_part"),
        ("core.hash1.fold", "core.hash.fold"),
    ],
)
def test_module(instance, kind):
    assert module(instance) == kind


def test_read_points(tmp_path):
    path = tmp_path / "coverage.dat"
    path.write_text(
        "# SystemC::Coverage-3\n"
        "C '\1f\2top.v\1l\0022\1n\0021\1page\2v_toggle/lately_unit.core\1o\2__0241[0]:0->1"
        "\1h\2lately_unit.core' 3\n"
        "C '\1f\2top.v\1l\0021\1page\2v_branch/lately_unit\1o\2if\1h\2lately_unit' 0\n"
        "C '\1f\2models.v\1l\0021\1page\2v_line/other\1o\2block\1h\2other' 0\n"
    )
    assert read_points(path, "first\nsecond\n") == [
        Point("toggles", "core", "$1[0]:0->1", "second", 3),
        Point("lines", "", "1 if", "first", 0),
    ]


def test_exclusion_takes_only_what_was_not_reached(monkeypatch):
    rule = Exclusion("why", name=r"a.*", hash="h3")
    monkeypatch.setattr("lately.sim.bench.code_coverage.EXCLUSIONS", [rule])
    made = [Point("toggles", "issue", name, "", count) for name, count in
            [("a:0->1", 0), ("ab:0->1", 2), ("b:0->1", 0)]]  # fmt: skip
    modules, reasons = tally(SPEC, made)
    counted = modules["issue"]["toggles"]
    assert (counted.reached, counted.excluded, counted.missed) == (1, 1, ["issue: b:0->1"])
    assert reasons == {"why": 1}
    assert counted.percent == 50
    assert tally(PRESETS["siphash-tiny"], made)[1] == {}


@pytest.mark.parametrize(("rises", "excluded"), [(0, 2), (1, 0)])
def test_exclusion_of_still_bits(monkeypatch, rises, excluded):
    monkeypatch.setattr("lately.sim.bench.code_coverage.EXCLUSIONS", [Exclusion("why", still=True)])
    made = [
        Point("toggles", "issue", "a[0]:0->1", "", rises),
        Point("toggles", "issue", "a[0]:1->0", "", 0),
    ]
    modules, _ = tally(SPEC, made)
    assert modules["issue"]["toggles"].excluded == excluded


def test_report():
    counts = {"a": {"x": 1, "y": 0}}
    lines = Tally(reached=9, missed=["issue: 3 if"])
    unit = coverage_report.UnitCoverage(
        failed=[], functional=counts, modules={"issue": {"lines": lines, "toggles": Tally()}},
        reasons={"why": 4},
    )  # fmt: skip
    out = io.StringIO()
    coverage_report.print_report({"tiny": unit}, Console(file=out, width=120))
    text = out.getvalue()
    assert "1 of 2" in text
    assert "90.0 % of 10" in text
    assert "bins never hit: a: y" in text
    assert "lines not reached: issue: 3 if" in text
    assert not unit.passed
    assert unit.as_json()["total"]["lines"] == {
        "percent": 90.0, "reached": 9, "reachable": 10, "excluded": 0,
    }  # fmt: skip
    whole = dataclasses.replace(
        unit,
        functional={"a": {"x": 1}},
        modules={"issue": {"lines": Tally(reached=1), "toggles": Tally()}},
    )
    assert whole.passed
