"""Block RAMs that the planner counts, beside those of synthesised units."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cases import daily

from campaigns import engine
from campaigns.hardware import CASES, report_of
from campaigns.pages.__main__ import PAGES
from campaigns.pages.blocks import RESULTS
from lately.boards.flow.devices import DEVICES
from lately.boards.flow.inference import is_inferred
from lately.boards.flow.synthesis import count_unit
from lately.golden import Specification
from lately.hdl.build import unit_profile
from lately.planner import PLANNER_FAMILIES, Requirement, choose, plan, rings

TABLE = Path(__file__).parents[1] / "data" / "block_rams.jsonl"
COUNTED = [
    (Specification.from_dict(row["spec"]), DEVICES[row["device"]], row["block_rams"])
    for row in map(json.loads, TABLE.read_text("utf-8").splitlines())
]
"""Units of every family of devices, as yosys counted them."""

# The smallest of the device that is synthesised fastest is synthesised each day.
INFERRED = sorted(
    (row for row in COUNTED if is_inferred(row[1].family)),
    key=lambda row: (row[1].name != "t20", row[0].storage_bits),
)


def block_rams(spec, device):
    return PLANNER_FAMILIES[spec.family].block_rams(spec, device)


def test_block_rams_are_exact_in_all_runs():
    """Those of several lanes, too: the queues of an ECP5 are in LUTs."""
    runs = [
        (CASES[run.point["case"]].spec, report_of(run))
        for run in engine.read(RESULTS / "hardware.jsonl")
    ]
    counted = [
        (spec, report) for spec, report in runs
        if spec.family in PLANNER_FAMILIES and not getattr(spec, "classes", None)
        and PLANNER_FAMILIES[spec.family].is_counted(spec, DEVICES[report.device])
    ]  # fmt: skip
    assert len(counted) > 100
    assert {spec.family for spec, _ in counted} == PLANNER_FAMILIES.keys()
    for spec, report in counted:
        assert block_rams(spec, DEVICES[report.device]) == report.bram, spec


def test_block_rams_are_exact_on_every_family_of_devices():
    families = {device.family for device in DEVICES.values()}
    # The logic of an UltraScale+ is that of the 7 series.
    assert {device.family for _, device, _ in COUNTED} == families - {"xcup"}
    for spec, device, counted in COUNTED:
        one_more = device.family == "trion" and getattr(spec, "span", None) is not None
        assert block_rams(spec, device) == counted + one_more, (spec, device.name)


@pytest.mark.parametrize("number", daily(1, range(len(INFERRED))))
def test_counts_are_those_of_synthesis(number):
    spec, device, counted = INFERRED[number]
    assert count_unit(spec, device=device).bram == counted


def test_measured_figures_are_current():
    assert PAGES["measured"].stale() == []


@pytest.mark.parametrize("family", ["apbf", "apbbf", "gebf", "blocked-gebf"])
@pytest.mark.parametrize("name", ["ecp5-25k-6", "ice40-hx8k", "gowin-gw2ar-18c"])
def test_what_is_larger_costs_no_less(family, name):
    """More generations of the same size: the fewest stand for all."""
    requirement = Requirement(window=20_000, false_positive_rate=0.01, device=DEVICES[name])
    planned = PLANNER_FAMILIES[family]
    for shapes in list(planned._shapes(requirement))[::7]:
        for size in (32, 256):
            costs = [
                planned.cost(planned.spec(shape.resized(size), requirement), requirement)
                for shape in shapes[::9]
            ]
            assert costs == sorted(costs)


@pytest.mark.parametrize("name", daily(3, DEVICES))
def test_what_is_chosen_for_a_device_fits(name):
    device = DEVICES[name]
    result = plan(Requirement(window=1000, false_positive_rate=0.05, device=device))
    for candidate in result.candidates:
        unit_profile(candidate.spec).check_buildable()
        counted = block_rams(candidate.spec, device)
        assert counted == candidate.memories == candidate.cost <= device.bram


def test_block_rams_of_the_device_decide():
    """Fewer and larger memories where block RAMs are large."""
    required = Requirement(
        window=20_000, false_positive_rate=0.05, families=tuple(rings.RUNS), bits_only=True
    )
    bits = choose(required)
    ecp5 = choose(replace(required, bits_only=False, device=DEVICES["ecp5-25k-6"]))
    assert ecp5.segments * ecp5.parts < bits.segments * bits.parts
    assert ecp5.storage_bits >= bits.storage_bits
