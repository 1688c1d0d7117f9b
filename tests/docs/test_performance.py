"""docs/performance.md is what its data say, and grows with them."""

from dataclasses import replace

from made_up import measurement

from campaigns.cases import CASES, select
from campaigns.measurements import summarise
from campaigns.pages import performance
from lately.boards.flow.synthesis import SynthesisReport, with_limits


def measured(*groups, seeds=None):
    return [
        measurement(case, seed=seed, timing_mhz=300.0 + seed, limit_mhz=302.0)
        for case in CASES
        if case.group in groups
        for seed in seeds or case.seeds
    ]


def test_page_has_tiny_units():
    assert {"tiny"} <= {s.case.group for s in summarise(CASES, performance.measurements())}


def test_page_has_what_was_measured():
    tiny = performance.blocks(measured("tiny"))
    assert "apbbf" not in tiny["speed"] + tiny["area"] + tiny["paths"] + tiny["growth"]
    whole = performance.blocks(measured("units", "tiny", "growth"))
    clocks = "303.0 (301.0 to 305.0) | 302 | 302.0 | 4 of 5"
    assert (
        f"| 27,490 | 1 to 5 | {clocks} | 1,600 | 1,900 | 32 | 24 cycles, 79 ns |"
        in (whole["speed"])
    )
    assert "| `apbbf` | ecp5-25k-6 | LUTs | 1,600 | 1,600 | met |" in whole["goals"]
    assert "images/clock-area.svg" in whole["plot"]
    assert "images/growth.svg" in whole["growth"]


def test_page_compares_with_before():
    (case,) = select(["apbbf/ecp5-25k-6"])
    before = performance.load(performance.BEFORE)[case.name]
    first, second, third = performance.blocks([measurement(case)])["before"].splitlines()[2:5]
    assert first.startswith(f"| `apbbf` | ecp5-25k-6 | before | {before['fmax_mhz']:.1f} | 154.6 |")
    assert second.startswith("| `apbbf` | ecp5-25k-6 | now | 330.0 | 400 | 330.0 | 1,600 | 1,900 |")
    assert third.startswith("| `apbbf` | ecp5-25k-8 | before |")
    report = SynthesisReport(**with_limits(before))
    unchanged = performance.blocks([replace(measurement(case), report=report)])["before"]
    assert "| now |" not in unchanged


def test_page_has_each_caveat_once():
    entries = [
        replace(entry, report=replace(entry.report, caveat="not to be trusted"))
        if entry.report.device.startswith("gowin")
        else entry
        for entry in measured("units")
    ]
    speed = performance.blocks(entries)["speed"]
    assert speed.count("\n**gowin-gw1nr-9c, gowin-gw2ar-18c:** not to be trusted.\n") == 1


def test_page_says_which_seeds():
    speed = performance.blocks(measured("units", seeds=(1, 3)))["speed"]
    assert "| 27,490 | 1, 3 | 301.0 (301.0 to 303.0) | 302 | 301.0 | 1 of 2 |" in speed


def test_drawing_is_known_by_its_figures(tmp_path):
    growth = [s for s in summarise(CASES, measured("growth")) if s.case.group == "growth"]
    first, again = tmp_path / "first.svg", tmp_path / "again.svg"
    performance.draw(growth, first)
    performance.draw(growth, again)
    assert first.read_bytes() == again.read_bytes()
    assert performance.description(growth) in first.read_text()


def test_only_the_present_hardware_is_kept(monkeypatch):
    monkeypatch.setattr(performance, "CASES", select(["tiny/*"]))
    other = measured("tiny")[0]
    (wanted, _) = performance.plan(performance.CASES).runs
    report = replace(other.report, versions=dict(wanted.versions))
    present = replace(other, rtlil=wanted.rtlil, flow=wanted.flow, report=report)
    assert performance.present([present, other]) == [present]
