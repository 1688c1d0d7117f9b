"""Files, summaries and comparison of synthesis reports that are made up."""

import json
from dataclasses import replace

import pytest
from made_up import CASE, measurement

from campaigns.cases import select
from campaigns.measurements import (
    MeasurementsFileError,
    Store,
    Summary,
    compare,
    load,
    save,
    summarise,
)

# Files


def test_file_holds_what_was_saved(tmp_path):
    entries = [measurement(seed=seed) for seed in (1, 2)]
    save(tmp_path / "file", entries)
    assert load(tmp_path / "file") == entries


def test_store_finds_by_all_that_determines(tmp_path):
    store = Store(tmp_path / "file")
    entry = measurement()
    assert store.find(entry.identity) is None
    store.add(entry)
    again = Store(tmp_path / "file")
    assert again.find(entry.identity) == entry
    for other in (
        measurement(seed=2),
        measurement(rtlil="1"),
        measurement(versions={"yosys": "2"}),
        replace(entry, flow="synth -other"),
        replace(entry, spec=replace(CASE.spec, seed=1)),
        replace(entry, report=replace(entry.report, device="ecp5-85k-6")),
    ):
        assert again.find(other.identity) is None


def test_store_keeps_the_rest(tmp_path):
    Store(tmp_path / "file").add(measurement(seed=1))
    Store(tmp_path / "file").add(measurement(seed=2))
    assert [entry.report.seed for entry in load(tmp_path / "file")] == [1, 2]


def damaged(**values):
    entry = measurement().to_dict()
    entry["report"] |= values
    return json.dumps({"format": 1, "measurements": [entry]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        (damaged()[:-20], "Unterminated string"),
        ("[]", "it must be an object of format 1"),
        ('{"format": 2, "measurements": []}', "it must be an object of format 1"),
        ('{"format": 1}', "it must have a list of measurements"),
        ('{"format": 1, "measurements": [{}]}', "a measurement lacks 'spec'"),
        ('{"format": 1, "measurements": [3]}', "a measurement is malformed: "),
        (damaged(extra=1), "a measurement is malformed: "),
        (damaged(lut="many"), "lut must be of type int, not 'many'"),
        (damaged(device=3), "device: must be one of "),
        (damaged(timing_mhz=0), "timing_mhz must be above 0, not 0"),
        (damaged(limit_mhz=0), "limit_mhz must be above 0, not 0"),
        (damaged(versions={"yosys": []}), "versions must be texts, not {'yosys': []}"),
        (damaged(timing_mhz=1).replace("apbbf", "none"), "family: must be one of "),
        ("[" * 100_000, ""),
    ],
)
def test_file_wrong(tmp_path, text, message):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(MeasurementsFileError) as caught:
        Store(path)
    expected = f"{path}: must hold measurements of hardware, but: {message}"
    assert str(caught.value).startswith(expected)
    assert len(str(caught.value).splitlines()) == 1
    assert path.read_text() == text


# Summaries


def test_median_and_its_path():
    clocks = {1: 300.0, 2: 340.0, 3: 320.0, 4: 310.0, 5: 350.0}
    summary = Summary(CASE, [measurement(seed=s, timing_mhz=mhz) for s, mhz in clocks.items()])
    assert summary.seeds == [1, 2, 3, 4, 5]
    assert summary.median.seed == 3
    figures = summary.to_dict()
    assert (figures["fmax_mhz"], figures["fmax_mhz_range"]) == (320.0, [300.0, 350.0])
    assert figures["critical_path"] == "from here to there, seed 3"
    assert figures["latency_ns"] == pytest.approx(24e3 / 320)
    assert figures["operations_per_second"] == 320e6
    assert [run["seed"] for run in figures["runs"]] == [1, 2, 3, 4, 5]


def test_median_of_an_even_number_is_the_lower():
    summary = Summary(CASE, [measurement(seed=s, timing_mhz=300.0 + s) for s in (1, 2)])
    assert summary.median.fmax_mhz == 301.0


@pytest.mark.parametrize(
    ("clocks", "verdict", "at_limit"),
    [
        ([212.0] * 3, "met", 3),
        ([400, 212.0, 300], "met", 3),
        ([400, 211.9, 212], "2 of 3 seeds", 2),
        ([100, 200, 211.9], "not met", 0),
    ],
)
def test_goal_is_for_all_seeds(clocks, verdict, at_limit):
    case = replace(CASE, goals={"fmax_mhz": 212})
    entries = [
        measurement(case, seed=seed, timing_mhz=mhz, limit_mhz=212.0, limit="clock tree")
        for seed, mhz in enumerate(clocks)
    ]
    summary = Summary(case, entries)
    assert summary.verdicts == {"fmax_mhz": verdict}
    figures = summary.to_dict()
    assert (figures["seeds_at_limit"], figures["all_seeds_at_limit"]) == (at_limit, at_limit == 3)
    assert figures["fmax_mhz"] == min(sorted(clocks)[1], 212)
    assert figures["operations_per_second"] == figures["fmax_mhz"] * 1e6
    assert figures["limited_by"] == ("clock tree" if sorted(clocks)[1] > 212 else "timing")


@pytest.mark.parametrize(
    ("figures", "verdicts"),
    [
        ({"lut": 1601, "ff": 1701, "bram": 33, "latency_cycles": 16}, ["not met"] * 4),
        ({"lut": 1600, "ff": 1700, "bram": 32, "latency_cycles": 15}, ["met"] * 4),
    ],
)
def test_verdicts(figures, verdicts):
    summary = Summary(CASE, [measurement(**figures)])
    assert summary.verdicts == {"fmax_mhz": "met"} | dict(zip(figures, verdicts, strict=True))


def test_no_verdict_without_a_limit():
    (tiny,) = select(["tiny/ecp5-25k-6"])
    assert Summary(tiny, [measurement(tiny)]).verdicts == {}


def test_area_is_divided():
    summary = Summary(CASE, [measurement()])
    assert CASE.spec.segments == 8
    assert summary.per_segment() == {"lut": 200.0, "ff": 237.5, "bram": 4.0}
    assert summary.per_lane() == {"lut": 1600.0, "ff": 1900.0, "bram": 32.0}


def test_summarise_takes_the_cases_own():
    cases = select(["apbbf/*"])
    entries = [measurement(case) for case in cases]
    assert summarise(cases, entries) == [
        Summary(case, [entry]) for case, entry in zip(cases, entries, strict=True)
    ]
    assert summarise(cases, []) == []


# Comparison


def compared(now, before):
    return compare([Summary(CASE, [now])], [before])


def test_equal_passes():
    found = compared(measurement(), measurement())
    assert (found.regressions, found.equal, found.better, found.changed) == ((), 1, 0, 0)
    assert str(found) == (
        "runs as in the baseline: 1, better: 0; to make this the baseline: make performance"
    )


@pytest.mark.parametrize(
    "figures", [{"timing_mhz": 330.01}, {"lut": 1599}, {"ff": 1}, {"bram": 31}]
)
def test_better_passes(figures):
    found = compared(measurement(rtlil="1", **figures), measurement())
    assert (found.regressions, found.equal, found.better, found.changed) == ((), 0, 1, 1)
    assert "better: 1; of changed hardware: 1;" in str(found)


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        ({"timing_mhz": 329.99}, "329.99 MHz, baseline 330.00"),
        ({"lut": 1601}, "1601 LUTs, baseline 1600"),
        ({"ff": 1901, "lut": 1000}, "1901 flip-flops, baseline 1900"),
        ({"bram": 33, "timing_mhz": 400.0}, "33 block RAMs, baseline 32"),
    ],
)
def test_worse_fails(figures, line):
    found = compared(measurement(**figures), measurement())
    assert found.regressions == (f"apbbf/ecp5-25k-6 seed 1: {line}",)
    assert (found.equal, found.better) == (0, 0)


def test_every_regression_is_a_line():
    found = compared(measurement(timing_mhz=1.0, lut=9999, ff=9999, bram=99), measurement())
    assert len(found.regressions) == 4


def test_other_version_is_one_line_and_not_compared():
    now = [
        measurement(seed=seed, timing_mhz=1.0, versions={"yosys": "2", "nextpnr-ecp5": "1"})
        for seed in (1, 2)
    ]
    before = [
        measurement(seed=seed, versions={"yosys": "1", "nextpnr-ecp5": "1"}) for seed in (1, 2)
    ]
    assert compare([Summary(CASE, now)], before).regressions == (
        "yosys is 2, for the baseline it was 1; renew it: make performance",
    )


def test_not_in_the_baseline_fails():
    found = compared(measurement(seed=2), measurement(seed=1))
    assert found.regressions == (
        "apbbf/ecp5-25k-6 seed 2: not in the baseline; renew it: make performance",
    )
