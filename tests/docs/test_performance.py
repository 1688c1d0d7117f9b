"""docs/performance.md is what its data say, and grows with them."""

from dataclasses import replace

import make_performance as performance
import pytest
from test_measurements import measurement

from lately.bench.cases import CASES, select
from lately.bench.measurements import load, summarise


def measured(*groups, seeds=None):
    return [
        measurement(case, seed=seed, fmax_mhz=300.0 + seed)
        for case in CASES
        if case.group in groups
        for seed in seeds or case.seeds
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("DATA", "PAGE", "DRAWING"):
        path = getattr(performance, name)
        monkeypatch.setattr(performance, name, tmp_path / path.relative_to(performance.HERE))
    monkeypatch.setattr(performance, "HERE", tmp_path)
    return tmp_path


def test_page_is_up_to_date():
    assert performance.out_of_date() is None
    assert {"tiny"} <= {s.case.group for s in summarise(CASES, load(performance.DATA))}


def test_page_has_the_sections_that_were_measured():
    tiny = performance.page(measured("tiny"))
    assert "## Tiny units" in tiny
    assert "## Speed" not in tiny
    assert "## Growth" not in tiny
    whole = performance.page(measured("units", "tiny", "growth"))
    for section in ("Speed", "Area", "Critical paths", "Tiny units", "Growth"):
        assert f"\n## {section}\n" in whole
    assert "Nothing\nwas measured on silicon" in tiny
    assert (
        "| `apbbf` | ecp5-25k-6 | 27,490 | 1 to 5 | 303.0 (301.0 to 305.0) | 320 | 360 |" in whole
    )
    assert "| `apbbf` | ecp5-25k-6 | LUTs | 1,600 | 1,900 | 1,500 | met |" in whole


def test_page_has_each_caveat_once():
    entries = [
        replace(entry, report=replace(entry.report, caveat="not to be trusted"))
        if entry.report.device.startswith("gowin")
        else entry
        for entry in measured("units")
    ]
    page = performance.page(entries)
    assert page.count("\n**gowin-gw1n-9, gowin-gw2a-18:** not to be trusted.\n") == 1


def test_page_says_which_seeds():
    page = performance.page(measured("units", seeds=(1, 3)))
    assert "| 27,490 | 1, 3 | 301.0 (301.0 to 303.0) | 320 | 360 | not met |" in page


def test_write_and_out_of_date(folder):
    performance.write(measured("tiny", "growth"))
    assert performance.out_of_date() is None
    drawing = performance.DRAWING.read_bytes()
    performance.write(measured("tiny", "growth"))
    assert performance.DRAWING.read_bytes() == drawing
    performance.save(performance.DATA, measured("tiny", "growth", seeds=[9]))
    assert performance.out_of_date() == (
        "out of date: docs/performance.md and docs/images/growth.svg; "
        "run python docs/make_performance.py"
    )


def test_one_size_is_not_drawn(folder):
    growth = measured("growth")
    performance.write(growth)
    performance.write(growth[:1])
    assert not performance.DRAWING.exists()
    assert "## Growth" in performance.PAGE.read_text()
    assert performance.out_of_date() is None


def test_only_the_present_hardware_is_kept(monkeypatch):
    monkeypatch.setattr(performance, "CASES", select(["tiny/*"]))
    other = measured("tiny")[0]
    (wanted, _) = performance.plan(performance.CASES).runs
    report = replace(other.report, versions=dict(wanted.versions))
    present = replace(other, rtlil=wanted.rtlil, flow=wanted.flow, report=report)
    assert performance.present([present, other]) == [present]
