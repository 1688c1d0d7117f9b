"""docs/performance.md is what its data say."""

from dataclasses import replace
from functools import partial

from campaigns.engine import Record
from campaigns.hardware import CASES, points, summarise
from campaigns.pages import blocks, drawings, tables
from campaigns.pages.blocks import Drawing

RESULT = {
    "limit_mhz": 302.0, "limit": "clock tree", "lut": 1600, "ff": 1900, "bram": 32,
    "critical_path": "from here to there", "caveat": "", "harness_lut": 48, "harness_ff": 400,
    "lanes": 1, "latency_cycles": 24,
}  # fmt: skip


def measured(group, **values):
    """Make up a record for each point of a group."""
    return [
        Record(
            point, {"versions": {"yosys": "1"}},
            RESULT | {"timing_mhz": 300.0 + point["seed"]} | values,
        )
        for point in points(case=(group,))
    ]  # fmt: skip


def test_at_most_156_measurements():
    """Each family on each class of devices, with three seeds; no more."""
    assert sum(len(case.seeds) for case in CASES.values()) <= 156


STAR = "\\* This result is from an earlier version of the unit; the present version was not placed."


def test_page_has_what_was_measured():
    blocks = tables.performance(measured("tiny") + measured("units"))
    clocks = "302.0 (301.0 to 303.0) | 302 | 302.0 | 2 of 3"
    row = f"| `apbbf` | ecp5-25k-6 | 27,490 | 1 to 3 | {clocks} | 1,600 | 1,900 | 32 | 24 cycles"
    assert row in blocks["speed"]
    assert "images/clock-area.svg" in blocks["plot"]
    assert "`apbf-tiny`" not in blocks["speed"] + blocks["area"] + blocks["paths"]
    assert "`apbf-tiny`" in blocks["tiny"]
    assert blocks["tiny"].count("| `tiny` |") == 2
    assert STAR not in blocks["speed"]


def test_page_marks_figures_of_an_earlier_state():
    records = measured("units")
    records[0] = replace(records[0], earlier=True)
    speed = tables.performance(records)["speed"]
    assert speed.count("| `apbbf`\\* |") == 1
    assert STAR in speed


def test_page_has_each_caveat_once():
    speed = tables.performance(measured("units", caveat="not to be trusted"))["speed"]
    assert speed.count("not to be trusted.") == 1


def test_drawing_is_repeatable(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "IMAGES", tmp_path)
    units = summarise(measured("units"), "units")
    for name in ("first", "again"):
        Drawing(name, partial(drawings.clocks, units), drawings.area).write()
    first, again = (tmp_path / f"{name}.svg" for name in ("first", "again"))
    assert first.read_bytes() == again.read_bytes()
    assert "[302.0,1600]" in first.read_text()
