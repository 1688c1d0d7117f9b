"""`lately list`, `show` and `doctor`."""

import platform

import pytest
from command_runs import figures_of, lately

from lately.boards.flow.devices import DEVICES
from lately.boards.targets.catalogue import BOARDS
from lately.cli.reporting import EXTRAS
from lately.golden.spec.presets import ALL_PRESETS, any_preset
from lately.hdl.build import unit_profile

KNOWN = {"presets": ALL_PRESETS, "devices": DEVICES, "boards": BOARDS}


@pytest.mark.parametrize("kind", KNOWN)
def test_all_names_are_listed(kind):
    assert sorted(figures_of("list", kind)) == sorted(KNOWN[kind])
    table = lately("list", kind).stdout
    assert all(f" {name} " in table for name in KNOWN[kind])


@pytest.mark.parametrize("name", ["default", "timed-tiny", "dictionary-1000", "timing-default"])
def test_every_kind_of_filter_is_shown(name):
    spec = any_preset(name)
    figures = figures_of("show", "--preset", name)
    assert figures["spec"] == spec.to_dict()
    text = lately("show", "--preset", name).stdout
    assert text.startswith(f"{spec.shape}\n")
    profile = unit_profile(spec)
    assert figures["least_period_cycles"] == profile.min_period
    assert ("\n ticks " in text) == spec.timed
    last, first = figures["reported_until"], figures["forgotten_from"]
    assert (last, first) == profile.edges
    assert all(end in text for end in (f" d ≤ {last:,} ", f" d ≥ {first:,} "))
    timing = not hasattr(spec, "window")
    assert (
        ("\n rate " in text) == (figures["worst_false_positive_rate"] is not None) == (not timing)
    )


def test_installation_is_reported(monkeypatch):
    figures = figures_of("doctor")
    assert figures["Python"]["found"] == platform.python_version()
    assert {figures[extra]["found"] for extra in EXTRAS} == {"yes"}
    assert figures["export"]["use"] == "lately export"
    monkeypatch.setattr("lately.cli.about_commands.find_spec", lambda module: None)
    monkeypatch.setattr("lately.cli.about_commands.shutil.which", lambda tool: None)
    figures = figures_of("doctor")
    assert {figures[part]["found"] for part in ("compiled models", *EXTRAS, "g++")} == {"no"}
    assert figures["export"]["use"] == "lately export: pip install '.[export]'"
    assert "pip install '.[bench]'" in lately("doctor").stdout
