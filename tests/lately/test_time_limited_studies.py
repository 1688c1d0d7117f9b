"""Studies of the time-limited filter: small points, and what is concluded from results."""

import json
from pathlib import Path

import pytest

from lately.papers.registry import select
from lately.papers.time_limited_runs import PAPER
from lately.studies.study import Verdict

STUDIES = select(["time-limited-*"])
BY_NAME = {study.name: study for study in STUDIES}


def measured(study, points):
    """Results as they come back from another process."""
    return [(point, json.loads(json.dumps(study.measure(point)))) for point in points]


@pytest.mark.parametrize("study", STUDIES, ids=BY_NAME)
def test_points_are_distinct_and_json(study):
    for quick in (True, False):
        points = study.points(quick)
        assert points == json.loads(json.dumps(points))
        assert len({json.dumps(point) for point in points}) == len(points)
    assert len(study.points(True)) <= len(study.points(False))


def test_table_2_in_part():
    study = BY_NAME["time-limited-table-2"]
    points = [
        point | {"combinations": [[4, 3]], "window": 1000}
        for point in study.points(True)
        if point["error"] == 0.1
    ]
    outcome = study.conclude(measured(study, points))
    assert [finding.verdict for finding in outcome.findings] == [Verdict.MET] * 2
    assert [finding.paper for finding in outcome.findings] == ["10", "13"]
    least, most = (finding.ours for finding in outcome.findings)
    assert least == pytest.approx(10.1, abs=0.1)
    assert most == pytest.approx(13.5, abs=0.1)
    assert len(outcome.charts) == 1


def test_slices_in_part():
    study = BY_NAME["time-limited-figures-1-to-3"]
    points = [
        point | {"combinations": [[7, 5], [9, 14]], "window": 1000} for point in study.points(True)
    ]
    outcome = study.conclude(measured(study, points))
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
    *rates, grown, shrunk, ratio, negatives = outcome.findings
    assert [finding.verdict for finding in rates] == [Verdict.MET] * 2
    assert all(0.07 < finding.ours < 0.11 for finding in rates)
    assert grown.ours > shrunk.ours * 0.9 > 0.8
    assert ratio.ours == pytest.approx(1, abs=0.02)
    assert (negatives.ours, negatives.verdict) == (0, Verdict.MET)
    assert {chart.name for chart in outcome.charts} == {
        "time-limited-figure-4-0.1",
        "time-limited-figure-5-0.1",
    }


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
    assert (grown.paper, shrunk.paper) == ("around 0.0001",) * 2
    assert [finding.verdict for finding in (grown, shrunk)] == [Verdict.MET] * 2
    assert 0.00009 < grown.ours < 0.00012
    assert grown.note.endswith("From the bits set.")
    assert "time-limited-figure-4-0.0001" in {chart.name for chart in outcome.charts}
    assert not any(series.marks for chart in outcome.charts for series in chart.series)


def test_what_is_not_met_is_said():
    """A filter twice as large, or without the slices it needs, does not pass."""
    study = BY_NAME["time-limited-table-2"]
    point = study.points(True)[0] | {"combinations": [[4, 3]], "window": 1000}
    result = study.measure(point)
    for rows in result.values():
        rows["bits"] = [2 * bits for bits in rows["bits"]]
    verdicts = [finding.verdict for finding in study.conclude([(point, result)]).findings]
    assert verdicts == [Verdict.NOT_MET] * 2
    rate = BY_NAME["time-limited-figures-4-and-5"]
    point = rate.points(True)[0] | {"window": 1000}
    result = rate.measure(point)
    result |= {
        "missed": 1,
        "samples": [[spans, 3 * hits, 3 * expected] for spans, hits, expected in result["samples"]],
    }
    result["curve"] = [[spans, 3 * value] for spans, value in result["curve"]]
    findings = rate.conclude([(point, result), (point | {"start": 10}, result)]).findings
    assert [finding.verdict for finding in findings if finding.paper] == [Verdict.NOT_MET] * 3


def test_printed_table_is_that_of_the_paper():
    path = Path(__file__).parents[1] / "data" / "time_limited_table2.csv"
    rows = [line.split(",") for line in path.read_text("utf-8").split()[1:]]
    assert {error: [int(low), int(high)] for error, low, high in rows} == PAPER.data["bits"]
