"""Studies of the cuckoo dictionary, each in a reduced form."""

import math

import numpy as np
import pytest
from cases import daily
from study_results import concluded

from papers import cuckoo, streams
from papers.models import CuckooDictionary
from papers.studies.criteria import Verdict, positive, quotient

QUICK = {
    "cuckoo-figure-4": {"measured": 3000, "fresh": 20_000},
    "cuckoo-figure-9": {"measured": 2000, "fresh": 10_000},
    "cuckoo-figure-12": {"measured": 2000, "fresh": 100_000},
    "cuckoo-figure-13": {"measured": 14_000, "fresh": 10_000},
    "cuckoo-figure-14": {"count": 14_000},
    "cuckoo-theorem-2": {"insertions": 8000},
    "cuckoo-theorem-3": {},
    "cuckoo-work": {"measured": 500},
    "cuckoo-failures": {"turns": 50},
}
"""What is smaller than in the quick form."""

STUDIES = {study.name: study for study in cuckoo.STUDIES}


def seeds_of(points, count):
    """The points of the first seeds."""
    return [point for point in points if point["seed"] < count]


@pytest.mark.statistics
@pytest.mark.parametrize("name", daily(1, list(QUICK)))
def test_reduced_form(name):
    study = STUDIES[name]
    points = [point | QUICK[name] for point in seeds_of(study.points(True), 2)]
    outcome = concluded(study, points)
    assert outcome.findings
    for finding in outcome.findings:
        print(finding.what, finding.ours, finding.low, finding.high, finding.verdict)
        assert math.isfinite(finding.ours)
        if finding.low is not None:
            assert finding.low <= finding.ours <= finding.high < math.inf
    verdicts = {finding.what: finding.verdict for finding in outcome.findings}
    for subject, verdict in verdicts.items():
        if "missed" in subject:
            assert verdict is Verdict.MET, subject
        elif subject.endswith("false-positive rate"):
            # Two seeds and few queries may leave it open.
            assert verdict in (Verdict.MET, Verdict.UNDECIDED, Verdict.OURS), subject
    for chart in outcome.charts:
        for series in chart.series:
            assert len(series.x) == len(series.y)


def test_results_repeat():
    point = {"z": 0.0, "seed": 0, "windows": [1000], "measured": 500, "fresh": 1000}
    assert cuckoo.measure_streams(point) == cuckoo.measure_streams(point)


def test_names_are_those_of_the_studies():
    assert list(STUDIES) == list(QUICK)


def test_absent_files_are_reported(monkeypatch):
    monkeypatch.setattr(streams, "FOLDERS", ())
    streams.real.cache_clear()
    for study in (STUDIES["cuckoo-figure-13"], STUDIES["cuckoo-figure-14"]):
        points = [
            point | {"count": 12_000, "measured": 12_000}
            for point in seeds_of(study.points(True), 2)
        ]
        outcome = concluded(study, points)
        missing = " ".join(outcome.missing)
        assert "rows on tail numbers of departing aircraft, because the file `flights" in missing
        assert not any("aircraft" in finding.what for finding in outcome.findings)
    streams.real.cache_clear()


def test_sizes():
    assert cuckoo.dictionary(20_000, 0, 10_000).keywords["positions"] == 5000
    assert cuckoo.dictionary(20_000, 4, 10_000).keywords["positions"] == 3333
    assert cuckoo.dictionary(10_000, 1, 1000).keywords["positions"] == 1667
    assert cuckoo.best_hashes(10_000, 1000) == 7
    assert cuckoo.best_hashes(100, 1000) == 1
    # 1.44 log2(1 / epsilon) cells of 12 bits for a window of 1024.
    assert cuckoo.timing_bits(1024, 2**-10) == pytest.approx(1024 * 10 / math.log(2) * 12)


def test_insertion_ages():
    keys = np.array([5, 6, 5, 5, 7, 6], np.uint64)
    assert streams.insertion_ages(keys).tolist() == [6, 6, 1, 0, 6, 3]
    assert streams.insertion_ages(keys[:0]).tolist() == []


def test_replays_are_of_the_window():
    keys = np.arange(2000, dtype=np.uint64)
    stream = cuckoo.attacked(keys, 30, seed=1)
    ages = streams.insertion_ages(stream)
    replays = ages < len(stream)
    assert 2800 < len(stream) < 3200
    assert ages[replays].max() < 30
    assert stream[~replays].tolist() == keys.tolist()


def test_last():
    recent = np.array([3, 4, 3, 9], np.uint64)
    asked = np.array([3, 4, 9, 5, 10], np.uint64)
    assert cuckoo._last(recent, asked).tolist() == [2, 3, 1, 0, 0]


def test_estimates():
    mean, low, high = positive([1.0, 2.0, 3.0])
    assert mean == 2
    assert (low, high) == (0.0, pytest.approx(4.4841, abs=1e-4))
    assert quotient((4.0, 2.0, 6.0), (2.0, 1.0, 4.0)) == (2.0, 0.5, 6.0)
    assert quotient((4.0, 2.0, 6.0), (0.0, 0.0, 2.0)) == (2.0, 1.0, 3.0)


def test_list_without_a_failure_is_bounded():
    runs = [{"listed": 0.0, "peak": 0, "insertions": 1000}] * 3
    mean, low, high = cuckoo._mean_list(100, runs)
    assert mean == low == 0
    assert high == pytest.approx(100 * 3.69 / 3000, rel=0.01)


def test_work_grows_with_the_list():
    """Without a list two positions are read; a list as long as the window is read in full."""
    point = {"z": 0.0, "seed": 1, "measured": 1000}
    empty = cuckoo._work(cuckoo.dictionary(10_000, 0, 1000), point)
    assert empty["alive"] == empty["other"] == 2
    assert 2 < empty["update"] < 2.2
    full = cuckoo._work(cuckoo.dictionary(400, 0, 1000), point)
    # 200 positions at most have a key.
    assert 750 < full["other"] < 900
    assert full["update"] > 2 + 0.75 * 30
    assert 250 < full["alive"] < 450


def test_each_failure_is_counted_once():
    """The keys listed at every n-th moment, against those that the list ever got."""
    counted = cuckoo.measure_failures({"window": 8, "positions": 1, "turns": 100, "seed": 1})
    filter = CuckooDictionary(window=8, positions=8, seed=1)
    listed = set()
    for key in streams.uniform(800, 1 << 62, 1).tolist():
        filter.insert([key])
        listed |= set(filter.overflow_entries[0].ravel().tolist())
    assert filter.overflow <= counted["failed"] == len(listed) > 0
    assert counted["insertions"] == 800


def test_share_of_failures_is_compared_with_the_window():
    def failing(*counts):
        points = [{"window": n, "turns": 1, "seed": 1} for n in (16, 32, 64, 128)]
        results = [{"failed": count, "insertions": 100_000} for count in counts]
        findings = cuckoo.conclude_failures(list(zip(points, results, strict=True))).findings
        (finding,) = (
            finding
            for finding in findings
            if finding.what == "n times that share, n = 128 over n = 16"
        )
        return finding.verdict

    assert failing(1600, 800, 400, 200) is Verdict.MET
    assert failing(16, 8, 4, 2) is Verdict.UNDECIDED
    assert failing(1600, 1600, 1600, 1600) is Verdict.NOT_MET
