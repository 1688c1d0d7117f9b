"""The studies of the inferential paper, on few points."""

import math

import pytest
from study_results import concluded, measured

from papers import inferential as study
from papers import streams
from papers.studies.criteria import Verdict


@pytest.mark.slow
@pytest.mark.statistics
def test_table_3():
    which = study.STUDIES[0]
    points = [point for point in which.points(True) if point["stream"] == "power law"]
    findings = concluded(which, points).findings
    assert [finding.paper for finding in findings] == ["1.182", "13.451"]
    for finding in findings:
        print(f"{finding.what}: {finding.ours:.3f}, {finding.low:.3f} to {finding.high:.3f}")
        assert finding.verdict == Verdict.MET
        assert finding.low < finding.ours < finding.high


def test_expected_ratios():
    """Table 3 is what equation 5 gives, but for the sampling of the paper's one run."""
    for experiment in study.EXPERIMENTS[:4]:
        assert study._expected_ratio(experiment) == pytest.approx(
            float(experiment["ratio"]), rel=3e-3
        )


@pytest.mark.slow
@pytest.mark.statistics
def test_penalties():
    which = study.STUDIES[1]
    points = [
        point | {"hashes": [3, 4, 6]}
        for point in which.points(True)
        if point["bits"] == 8 and point["window"] <= 1 << 13
    ]
    results = measured(which, points)
    assert measured(which, points[:1]) == results[:1]
    outcome = which.conclude(results)
    findings = {finding.what: finding for finding in outcome.findings}
    assert findings["false negatives of the standard filter, all runs"].ours == 0
    cost = findings["power law, w = 2048, 8 bits per item: inferential / standard penalty"]
    print(f"power law, 8 bits: {cost.ours:.3f}, {cost.low:.3f} to {cost.high:.3f}")
    assert 0 < cost.ours < 0.7
    names = [chart.name for chart in outcome.charts]
    assert names[:2] == ["btbf-figure-9", "btbf-figure-10"]
    for chart in outcome.charts:
        for series in chart.series:
            assert len(series.x) == len(series.y) == len(series.low) == len(series.high)


def test_bits():
    which = study.STUDIES[2]
    (finding,) = concluded(which, which.points(True)).findings
    assert finding.ours == pytest.approx(21 * 15_112_980 / 2**20)
    assert finding.verdict is Verdict.MET


def test_every_number_of_hashes_is_tried():
    """From 1 to 30, as section 5.1.2 has it."""
    for point in study.STUDIES[1].points(False):
        assert point["hashes"] == list(range(1, 31))


def test_absent_stream(monkeypatch):
    monkeypatch.setattr(streams, "FOLDERS", streams.FOLDERS[:1])
    for which in study.STUDIES:
        assert not [point for point in which.points(True) if point.get("stream") == "pages"]
    (missing,) = study.absent()
    assert missing.startswith("the rows on pages, because the file `product_page_requests")


@pytest.mark.parametrize("hashes", [1, 2, 3, 5, 9, 17, 30])
@pytest.mark.parametrize("bits", [1, 8, 64])
def test_sizes(hashes, bits):
    """The block is the shortest with which a cell has the bits that section 5.1.2 gives it."""
    window = 5000
    sizes = study.sizes(window, bits, hashes)
    model = study.BlockTimingBloomFilter(**sizes)
    given = max(hashes, 3)
    assert model.timestamp_bits <= given
    assert model.swept <= hashes
    assert window * bits - given < model.cells * given <= window * bits
    if model.block > 1:
        shorter = study.BlockTimingBloomFilter(**sizes | {"block": model.block - 1})
        assert shorter.timestamp_bits > given


def test_errors_of_posteriors():
    run = {
        "count": [10, *[0] * 18, 30],
        "inside": [1, *[0] * 18, 30],
        "mass": [0.5, *[0] * 18, 29.0],
    }
    # Bins have their middles at 0.025 and 0.975.
    assert study.posterior_error(run) == pytest.approx((abs(1 - 0.25) + abs(30 - 29.25)) / 40)
    assert study.calibration_error(run) == pytest.approx((0.5 + 1.0) / 40)


def test_student_of_one_more_run():
    middle, low, high = study.student([1.0, 2.0, 3.0], of_one=True)
    # The quantile of t with two degrees of freedom is 4.3027.
    assert (middle, middle - low) == (2, pytest.approx(high - 2))
    assert high - 2 == pytest.approx(4.3027 * math.sqrt(4 / 3), rel=1e-4)


def test_ratio_of_sums():
    estimate = study.ratio([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    assert estimate == pytest.approx((0.5, 0.5, 0.5))
    estimate = study.ratio([1.0, 2.0], [4.0, 4.0])
    assert estimate[0] == 0.375
    assert estimate[1] == 0
