"""Studies that count accesses, and of segments of several slices, each in a small way."""

import numpy as np
import pytest

from lately.golden import APBBF, APBF, analysis
from papers import apbf_accesses, apbf_accuracy, apbf_segments, cuckoo_work
from papers.apbf_runs import PAPER, build, distinct
from papers.models import CuckooDictionary
from papers.studies.criteria import Verdict


def by_what(outcome):
    return {finding.what: finding for finding in outcome.findings}


def measured(measure, points):
    return [(point, measure(point)) for point in points]


# Accesses of the APBF paper


@pytest.mark.statistics
def test_accesses_are_those_of_the_table():
    """The window's are in the exact profile as printed; where others differ, they are more."""
    point = {"aim": 1, "k": 4, "l": 3, "probes": 10_000}
    results = measured(apbf_accesses.measure, [point | {"seed": seed} for seed in range(2)])
    found = by_what(apbf_accesses.conclude(results))
    window, false = (found[f"k = 4, l = 3: accesses, {case}"] for case in ("window", "false"))
    assert (window.paper, false.paper) == ("4.71", "2.16")
    assert window.verdict is Verdict.MET
    for case in ("window", "false positive", "false"):
        one = found[f"k = 4, l = 3: accesses, {case}"]
        assert one.ours == pytest.approx(analysis.apbf_accesses(4, 3, case), rel=0.03)
    linear = "k = 4, l = 3: accesses of a linear scan over those of Algorithm 1, false"
    assert found[linear].ours == pytest.approx(2.16, rel=0.05)
    assert found[linear].verdict is Verdict.MET


def test_filters_are_those_of_the_table():
    rows = [PAPER.table("2").values(row) for row in PAPER.table("2").rows()]
    assert [rows[5 * i] for i in range(5)] == [
        list(pair) for pair in apbf_accuracy.FILTERS.values()
    ]
    highest = [list(pair) for pair in apbf_accesses.SMOOTHEST.values()]
    assert [rows[5 * i + 4] for i in range(5)] == highest
    blocks = [PAPER.table("3").values(row) for row in PAPER.table("3").rows()]
    assert all(point["row"] in blocks for point in apbf_accesses.STUDIES[1].points(False))


def test_naive_design_has_six_filters_in_the_same_memory():
    filter = APBBF(k=2, l=5, block_bits=512, hashes_per_block=8, blocks=60, seed=1)
    naive = apbf_accesses._naive(filter, {"seed": 1, "probes": 3000})
    assert naive["false"]["forward"] == 6
    assert naive["window"]["forward"] == pytest.approx(3, rel=0.01)
    assert 0 < naive["rate"] < 0.001


def test_zigzag_expected():
    filter = build(4, 3, 3 * 4000, 1)
    inserted = 14 * filter.spec.generation
    filter.insert(distinct(0, inserted, 1))
    before = filter.estimated_false_positive_rate()
    filter.insert(distinct(inserted, 1, 1))
    swing = before / filter.estimated_false_positive_rate() - 1
    assert swing == pytest.approx(apbf_accuracy._expected_swing(4, 3), rel=0.03)


# Segments of several slices

PARTS = (1, 2, 5)


def test_designs_share_memory_and_window():
    designs = [apbf_segments.build(parts, 100, 1).spec for parts in PARTS]
    assert [(spec.run, spec.window_generations) for spec in designs] == [(10, 20), (5, 10), (2, 4)]
    assert len({spec.memory_bits for spec in designs}) == 1
    assert {spec.guaranteed_window for spec in designs} == {2000}
    assert [spec.parts for spec in designs] == [1, 2, 5]


def test_one_slice_a_segment_is_an_apbf():
    design = apbf_segments.build(1, 50, 3)
    spec = design.spec
    other = APBF(k=10, l=20, slice_bits=spec.cells, generation=50, seed=3)
    keys = distinct(0, 5000, 3)
    design.insert(keys)
    other.insert(keys)
    ratios = design.fill_ratios(), other.fill_ratios()
    np.testing.assert_allclose(*ratios, atol=0.06)


@pytest.mark.statistics
def test_designs():
    points = [
        {"parts": parts, "generation": 100, "seed": seed} for parts in PARTS for seed in range(3)
    ]
    outcome = apbf_segments.conclude(measured(apbf_segments.measure, points))
    found = by_what(outcome)
    for what, one in found.items():
        if "over that of 1 a segment" in what and "zig-zag" not in what:
            assert one.verdict is Verdict.MET, what
        if "over the expected one" in what:
            assert one.ours == pytest.approx(1, abs=0.2)
    # The first slice of each holds a generation: 1, 2 or 5 of ten.
    firsts = [series.y[0] for series in outcome.charts[0].series]
    assert firsts == pytest.approx([1 - 2**-0.1, 1 - 2**-0.2, 1 - 2**-0.5], rel=0.15)
    assert [len(series.x) for series in outcome.charts[0].series] == [30, 30, 30]


# Work of the cuckoo dictionary


def test_work_grows_with_the_list():
    """Without a list two positions are read; a list as long as the window is read in full."""
    point = {"z": 0.0, "seed": 1, "measured": 1000}
    empty = cuckoo_work._work(cuckoo_work.dictionary(10_000, 0, 1000), point)
    assert empty["alive"] == empty["other"] == 2
    assert 2 < empty["update"] < 2.2
    full = cuckoo_work._work(cuckoo_work.dictionary(400, 0, 1000), point)
    # 200 positions at most have a key.
    assert 750 < full["other"] < 900
    assert full["update"] > 2 + 0.75 * 30
    assert 250 < full["alive"] < 450


def test_each_failure_is_counted_once(monkeypatch):
    """The keys listed at every n-th moment, against those that the list ever got."""
    point = {"window": 8, "turns": 100, "seed": 1}
    monkeypatch.setattr(cuckoo_work, "_POSITIONS", 1)
    counted = cuckoo_work.measure_failures(point)
    filter = CuckooDictionary(window=8, positions=8, seed=1)
    listed = set()
    for key in cuckoo_work._different(point).tolist():
        filter.insert([key])
        listed |= set(filter.overflow_entries[0].ravel().tolist())
    still = filter.overflow
    assert still <= counted["failed"] == len(listed) > 0
    assert counted["insertions"] == 800


def test_share_of_failures_is_held_against_the_window():
    def failing(*counts):
        points = [{"window": n, "turns": 1, "seed": 1} for n in (16, 32, 64, 128)]
        results = [{"failed": count, "insertions": 100_000} for count in counts]
        found = cuckoo_work.conclude_failures(list(zip(points, results, strict=True))).findings
        (one,) = (one for one in found if one.what == "n times that share, n = 128 over n = 16")
        return one.verdict

    assert failing(1600, 800, 400, 200) is Verdict.MET
    assert failing(16, 8, 4, 2) is Verdict.UNDECIDED
    assert failing(1600, 1600, 1600, 1600) is Verdict.NOT_MET
