"""Studies of the time-limited filter: small points, and what is concluded from results."""

from pathlib import Path

import numpy as np
import pytest
from study_results import concluded, measured

from papers import time_limited
from papers.apbf import PAPER as APBF
from papers.studies.criteria import Verdict
from papers.time_limited import PAPER

BY_NAME = {study.name: study for study in time_limited.STUDIES}


def test_table_2_in_part():
    study = BY_NAME["time-limited-table-2"]
    points = [
        point | {"combinations": [[4, 3]], "window": 1000}
        for point in study.points(True)
        if point["error"] == 0.1
    ]
    outcome = concluded(study, points)
    assert [finding.verdict for finding in outcome.findings] == [Verdict.MET] * 2
    assert [finding.paper for finding in outcome.findings] == ["10", "13"]
    low, high = (finding.ours for finding in outcome.findings)
    assert low == pytest.approx(10.1, abs=0.1)
    assert high == pytest.approx(13.5, abs=0.1)
    assert len(outcome.charts) == 1


def test_slices_in_part():
    study = BY_NAME["time-limited-figures-1-to-3"]
    points = [
        point | {"combinations": [[7, 5], [9, 14]], "window": 1000} for point in study.points(True)
    ]
    outcome = concluded(study, points)
    assert len(outcome.charts) == 6
    for finding in outcome.findings:
        assert finding.verdict in (Verdict.MET, Verdict.OURS), finding


def test_rates_in_part():
    study = BY_NAME["time-limited-figures-4-and-5"]
    points = [
        point | {"window": 1000, "queries": 2000}
        for point in study.points(True)
        if (point["error"], point["k"]) == (0.1, 4) and point["seed"] < 2
    ]
    results = measured(study, points)
    assert results == measured(study, points)
    outcome = study.conclude(results)
    *rates, highest, first, ratio, negatives = outcome.findings
    # Two seeds may leave it open.
    assert {finding.verdict for finding in rates} <= {Verdict.MET, Verdict.UNDECIDED}
    assert all(0.07 < finding.ours < 0.11 for finding in rates)
    # No more than half above the greatest rate of the steady state, and few at first.
    assert 1 < highest.ours < 1.7
    assert 0 < first.ours < 0.5
    assert ratio.ours == pytest.approx(1, abs=0.02)
    assert (negatives.ours, negatives.verdict) == (0, Verdict.MET)
    assert {chart.name for chart in outcome.charts} == {
        "time-limited-figure-4-0.1",
        "time-limited-figure-5-0.1",
    }


def course(*rates):
    """A curve with a rate in the first span, one later, and the others in the steady state."""
    spans = [0.5, 5.0, *(9 + i / 10 for i in range(len(rates) - 2))]
    return {"curve": [list(pair) for pair in zip(spans, rates, strict=True)]}


@pytest.mark.parametrize(
    ("start", "course_of_7", "number", "value", "verdict"),
    [
        (0.1, course(0.008, 0.012, 0.009, 0.011), 0, 1.2, Verdict.MET),
        (0.1, course(0.008, 0.021, 0.009, 0.011), 0, 2.1, Verdict.NOT_MET),
        (0.1, course(0.008, 0.008, 0.009, 0.009), 0, 0.95, Verdict.NOT_MET),
        (0.1, course(0.008, 0.008, 0.009, 0.011), 1, 1, Verdict.MET),
        (0.1, course(0.008, 0.008, 0.0099, 0.01), 1, 0, Verdict.NEAR),
        (10, course(0.001, 0.009, 0.009, 0.011), 0, 0.1, Verdict.MET),
        (10, course(0.0095, 0.009, 0.009, 0.011), 0, 0.95, Verdict.NOT_MET),
    ],
)
def test_courses(start, course_of_7, number, value, verdict):
    other = course(0.0009, 0.0095, 0.0092, 0.0095)
    groups = {(start, 0.01, 7, 5): [({}, course_of_7)], (start, 0.01, 8, 8): [({}, other)]}
    finding = time_limited._course_findings(groups)[number]
    assert finding.ours == pytest.approx(value)
    assert finding.verdict is verdict


def test_moments_meet_all_phases_and_differ():
    point = {"seed": 0, "k": 7, "l": 5, "start": 0.1, "samples": 60}
    moments = time_limited._moments(point, 100_000)
    assert [60 * (moment - 1) // 100_000 for moment in moments] == list(range(60))
    others = [{"seed": 1}, {"k": 8}, {"l": 6}, {"start": 10}]
    assert all(time_limited._moments(point | change, 100_000) != moments for change in others)
    # Of the generations of 2,000 keys, all quarters alike, within four standard deviations.
    every = [
        moment for seed in range(50)
        for moment in time_limited._moments(point | {"seed": seed}, 100_000)
    ]  # fmt: skip
    quarters = np.bincount(np.array(every) % 2000 // 500, minlength=4)
    assert abs(quarters - 750).max() < 4 * (750 * 3 / 4) ** 0.5


@pytest.mark.slow
def test_rates_too_small_to_be_counted_are_those_of_the_bits():
    study = BY_NAME["time-limited-figures-4-and-5"]
    points = [
        point | {"window": 1000, "queries": 100}
        for point in study.points(True)
        if (point["error"], point["k"]) == (0.0001, 14) and point["seed"] < 2
    ]
    results = measured(study, points)
    outcome = study.conclude(results)
    grown, shrunk = outcome.findings[:2]
    assert (grown.paper, shrunk.paper) == ("around the error rate",) * 2
    assert {grown.verdict, shrunk.verdict} <= {Verdict.MET, Verdict.UNDECIDED}
    assert 0.00009 < grown.ours < 0.00012
    assert grown.note.endswith("From the bits set.")
    assert "time-limited-figure-4-0.0001" in {chart.name for chart in outcome.charts}
    assert not any(series.marks for chart in outcome.charts for series in chart.series)


def test_what_is_not_met_is_said():
    """A filter twice as large, or without the slices it needs, does not pass."""
    study = BY_NAME["time-limited-table-2"]
    point = study.points(True)[0] | {"combinations": [[4, 3]], "window": 1000}
    result = study.run(point)
    for rows in result.values():
        rows["bits"] = [2 * bits for bits in rows["bits"]]
    verdicts = [finding.verdict for finding in study.conclude([(point, result)]).findings]
    assert verdicts == [Verdict.NOT_MET] * 2
    rate = BY_NAME["time-limited-figures-4-and-5"]
    point = rate.points(True)[0] | {"window": 1000}
    result = rate.run(point)
    result |= {
        "missed": 1,
        "samples": [[spans, 3 * hits, 3 * expected] for spans, hits, expected in result["samples"]],
    }
    result["curve"] = [[spans, 3 * value] for spans, value in result["curve"]]
    findings = rate.conclude([(point, result), (point | {"start": 10}, result)]).findings
    verdicts = {finding.what.split(":")[0]: finding.verdict for finding in findings}
    assert verdicts.pop("over-dimensioned, 0.1") is Verdict.MET  # A quotient of two rates.
    assert {*verdicts.values()} - {Verdict.OURS} == {Verdict.NOT_MET}
    assert len(verdicts) == 4


def test_printed_table_is_that_of_the_paper():
    path = Path(__file__).parents[1] / "data" / "time_limited_table2.csv"
    rows = [line.split(",") for line in path.read_text("utf-8").split()[1:]]
    assert {error: [int(low), int(high)] for error, low, high in rows} == PAPER.data["bits"]


def test_filters_are_those_of_the_other_paper_s_table():
    other = APBF.table("2")
    pairs = [other.values(row) for row in other.rows()]
    table, slices, rates = (study.points() for study in time_limited.STUDIES)
    large = (point["combinations"] for point in table if point["start"] == 10)
    assert [pair for combinations in large for pair in combinations] == pairs
    assert all(point["combinations"] == pairs[5:10] for point in slices)
    first = [point for point in rates if (point["start"], point["seed"]) == (10, 0)]
    assert [[point["k"], point["l"]] for point in first] == pairs
