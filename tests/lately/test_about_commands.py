"""`lately list`, `show` and `doctor`."""

import json
import platform

import pytest
from click.testing import CliRunner

from lately.boards.flow.devices import DEVICES
from lately.boards.targets.catalogue import BOARDS
from lately.cli.app import main
from lately.cli.reporting import EXTRAS
from lately.golden.spec.all_presets import ALL_PRESETS, any_preset
from lately.hdl.build import unit_profile

KNOWN = {"presets": ALL_PRESETS, "devices": DEVICES, "boards": BOARDS}


def run(*words, status=0):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == status, done.output
    return done.stdout if status == 0 else done.stderr


@pytest.mark.parametrize("what", KNOWN)
def test_all_names_are_listed(what):
    assert sorted(json.loads(run("list", what, "--json"))) == sorted(KNOWN[what])
    table = run("list", what)
    assert all(f" {name} " in table for name in KNOWN[what])


def test_lists_as_json_have_the_figures_of_the_tables():
    found = {what: json.loads(run("list", what, "--json")) for what in KNOWN}
    assert found["presets"]["tiny"] == any_preset("tiny").to_dict()
    assert found["devices"]["5ceba4"] == {
        "description": "Intel Cyclone V 5CEBA4", "family": "cyclonev",
        "figures": "counted, not placed", "lut": 36960, "ff": 73920, "bram": 308,
        "bram_bits": 8192, "usram": 0,
    }  # fmt: skip
    board = found["boards"]["icebreaker"]
    assert (board["device"], board["clock_mhz"], board["baud"]) == ("ice40-up5k", 24, 1_000_000)
    assert board["spec"] == BOARDS["icebreaker"].spec.to_dict()


@pytest.mark.parametrize("name", ["default", "timed-tiny", "dictionary-1000", "timing-default"])
def test_every_kind_of_filter_is_shown(name):
    spec = any_preset(name)
    found = json.loads(run("show", "--preset", name, "--json"))
    assert found["spec"] == spec.to_dict()
    text = run("show", "--preset", name)
    assert text.startswith(f"{spec.shape}\n")
    profile = unit_profile(spec)
    assert found["least_period_cycles"] == profile.least_period
    assert ("\n ticks " in text) == spec.timed
    last, first = found["reported_until"], found["forgotten_from"]
    assert (last, first) == profile.edges
    assert all(end in text for end in (f" d ≤ {last:,} ", f" d ≥ {first:,} "))
    timing = not hasattr(spec, "window")
    assert ("\n rate " in text) == (found["worst_false_positive_rate"] is not None) == (not timing)


def test_device_adds_its_area(tmp_path):
    any_preset("small").to_toml(tmp_path / "filter.toml")
    text = run("show", "--spec", str(tmp_path / "filter.toml"), "--device", "ecp5-25k-6")
    assert "block RAMs" in text
    assert "block RAMs" not in run("show", "--preset", "small")


def test_installation_is_reported(monkeypatch):
    found = json.loads(run("doctor", "--json"))
    assert found["Python"]["found"] == platform.python_version()
    assert {found[extra]["found"] for extra in EXTRAS} == {"yes"}
    assert found["export"]["use"] == "lately export"
    monkeypatch.setattr("lately.cli.about_commands.find_spec", lambda module: None)
    monkeypatch.setattr("lately.cli.about_commands.shutil.which", lambda tool: None)
    found = json.loads(run("doctor", "--json"))
    assert {found[part]["found"] for part in ("compiled models", *EXTRAS, "g++")} == {"no"}
    assert found["export"]["use"] == "lately export: pip install '.[export]'"
    assert "pip install '.[bench]'" in run("doctor")
