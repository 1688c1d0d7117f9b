"""Units on devices: cases, identities, and comparison with a baseline."""

from dataclasses import replace

import pytest

from campaigns import hardware
from campaigns.engine import Record
from campaigns.hardware import CASES, HARDWARE, identity, points, summarise, worse
from campaigns.options import UnknownNameError
from lately.boards.flow.devices import DEVICES, Device, device
from lately.boards.flow.inference import is_inferred
from lately.hdl.build import unit_profile
from lately.hdl.target_clocks import device_class

TINY = {"case": "tiny/ice40-hx8k", "seed": 1}
RESULT = {"timing_mhz": 310.0, "limit_mhz": 400.0, "lut": 100, "ff": 200, "bram": 3}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_case_can_be_built(case):
    profile = unit_profile(case.spec)
    profile.check_buildable()
    if case.device.startswith("ecp5"):
        assert profile.block_rams <= device(case.device).bram


def test_every_family_is_on_each_class_of_devices():
    """Apart from the smallest two classes, which have one ring each.

    Devices whose memories yosys infers have a ring, a timing filter and a dictionary.
    """
    families: dict[str, set[str]] = {}
    for case in CASES.values():
        families.setdefault(device_class(case.device), set()).add(case.spec.family)
    counts = {name: len(devices) for name, devices in families.items()}
    few = {"ice40-up5k": 1, "gowin-gw1nr-9c": 1} | {
        target.name: 3
        for target in DEVICES.values()
        if target.placed and is_inferred(target.family)
    }
    assert counts == dict.fromkeys(families, 7) | few
    placed = {device_class(target.name) for target in DEVICES.values() if target.placed}
    assert families.keys() | {"ecp5-7"} == placed


def test_points():
    assert len(points()) <= 160
    assert {point["case"].partition("/")[2] for point in points(case=("tiny",))} == {
        "ecp5-25k-6",
        "ice40-hx8k",
    }
    assert points(case=("apbbf/ecp5-25k-6",), seeds="2,5") == [
        {"case": "apbbf/ecp5-25k-6", "seed": 2},
        {"case": "apbbf/ecp5-25k-6", "seed": 5},
    ]
    with pytest.raises(UnknownNameError, match=r"^'huge' matches none of "):
        points(case=("huge",))


def test_identity_is_repeatable_and_tells_units_and_devices_apart(monkeypatch):
    whole = identity(TINY)
    assert identity(TINY) == whole
    assert whole["versions"].keys() == {"yosys", "nextpnr-ice40", "amaranth"}
    other = identity(TINY | {"case": "tiny/ecp5-25k-6"})
    assert other["rtlil"] != whole["rtlil"]
    assert other["flow"] != whole["flow"]
    gowin = CASES["apbf-small/gowin-gw2ar-18c"]
    assert " 380 " in hardware.flow(gowin.spec, device(gowin.device))
    monkeypatch.setattr(Device, "levels", 1)
    assert identity(TINY)["rtlil"] != whole["rtlil"]


def record(seed, earlier=False, **figures):
    values = {
        "limit": "clock tree", "critical_path": "from here to there", "caveat": "", "lanes": 1,
        "harness_lut": 48, "harness_ff": 400, "latency_cycles": 24,
    }  # fmt: skip
    point = TINY | {"seed": seed}
    return Record(point, {"versions": {}}, RESULT | values | figures, earlier)


def test_summary_takes_the_median():
    records = [record(seed, timing_mhz=300.0 + seed) for seed in (3, 1, 2, 4)]
    (summary,) = summarise(records, "tiny")
    assert summary.median.seed == 2
    assert summary.seeds == [1, 2, 3, 4]
    assert summary.at_limit == 0
    assert not summary.earlier
    assert summarise(records, "units") == []
    assert summarise([*records, replace(records[0], earlier=True)])[0].earlier
    (row,) = hardware.rows(records)
    assert (row["case"], row["usable"]) == ("tiny/ice40-hx8k", "302.0")


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, []),
        ({"timing_mhz": 309.99}, ["309.99 MHz, baseline 310.00"]),
        ({"limit_mhz": 300.0}, ["300.00 MHz, baseline 310.00"]),
        ({"lut": 101, "bram": 4}, ["101 LUTs, baseline 100", "4 block RAMs, baseline 3"]),
        ({"ff": 199, "timing_mhz": 320.0}, []),
    ],
)
def test_worse(changes, lines):
    assert [*worse(RESULT | changes, RESULT)] == lines


@pytest.mark.slow
def test_real_run(monkeypatch):
    stages = []
    monkeypatch.setattr(hardware, "tell", lambda stage, share: stages.append(stage))
    result = HARDWARE.run(TINY)
    (summary,) = summarise([Record(TINY, identity(TINY), result)])
    assert summary.median.fmax_mhz > 100
    assert result.keys() >= RESULT.keys()
    assert "routing" in stages
