"""What the planner says that filters cost, beside what was measured."""

from dataclasses import replace

import numpy as np
import pytest

from campaigns import cell_costs, ring_costs
from campaigns.counts import rows_of
from campaigns.hardware import CASES, report_of
from campaigns.pages.blocks import records
from lately.boards.flow.devices import DEVICES
from lately.boards.flow.synthesis import count_unit
from lately.golden import FilterSpec, preset
from lately.hdl.build import unit_profile
from lately.hdl.latencies import STATUS_BITS, stamp_bits
from lately.hdl.profile import HardwareProfile
from lately.planner import Requirement, choose, cost, plan, space
from lately.planner.search import sized
from lately.planner.timestamp_cost import stamp_area, stamp_models

ROWS, STAMP_ROWS = rows_of(records("counts"))
MEASURED = records("hardware")
RUNS = [
    (spec, report_of(run))
    for run in MEASURED
    if isinstance(spec := CASES[run.point["case"]].spec, FilterSpec)
]


def predicted(spec, device):
    if not isinstance(spec, FilterSpec):
        return stamp_area(spec, device)
    return cost.area(*cost.of_spec(spec), device, spec.key_bits)


def test_block_rams_are_exact_in_all_runs():
    """Those of several lanes, too: a shard is a filter, and the queues of ECP5 are in LUTs."""
    assert len(RUNS) > 30
    for spec, report in RUNS:
        device = DEVICES[report.device]
        shard = spec if spec.lanes == 1 else HardwareProfile(spec).shard_spec
        each = int(cost.block_rams(*cost.of_spec(shard), device, shard.key_bits)[0])
        assert each * spec.shards == report.bram, spec


def test_block_rams_are_exact_in_all_counts():
    assert len(ROWS) >= 100
    for row in ROWS:
        spec, device = FilterSpec.from_dict(row["spec"]), DEVICES[row["device"]]
        found = cost.block_rams(*cost.of_spec(spec), device, spec.key_bits)
        assert int(found[0]) == row["bram"], spec


def test_luts_and_flip_flops_are_within_the_stated_error():
    units = [(FilterSpec.from_dict(row["spec"]), row["device"], row) for row in ROWS]
    units += [(spec, run.device, run.to_dict()) for spec, run in RUNS if spec.lanes == 1]
    for spec, name, counted in units:
        area = predicted(spec, DEVICES[name])
        assert abs(area.lut[0] / counted["lut"] - 1) <= area.lut_error, spec
        assert abs(area.ff[0] / counted["ff"] - 1) <= area.ff_error, spec


def test_stated_error_is_small():
    for model in cost.models().values():
        print(model["units"], model["lut_error"], model["ff_error"])
        assert model["lut_error"] <= 0.2
        assert model["ff_error"] <= 0.2


def test_coefficients_are_those_of_the_counts():
    fitted = ring_costs.fit(ROWS, MEASURED)
    for family, model in cost.models().items():
        assert model["units"] == fitted[family]["units"]
        for row in ROWS:
            if DEVICES[row["device"]].family == family:
                anew = ring_costs.predicted(row, fitted)
                now = ring_costs.predicted(row, cost.models())
                assert anew == pytest.approx(now, rel=1e-3)


@pytest.mark.slow
def test_counts_are_those_of_synthesis():
    for row in ROWS[:: len(ROWS) // 3]:
        found = count_unit(FilterSpec.from_dict(row["spec"]), device=DEVICES[row["device"]])
        assert (found.lut, found.ff, found.bram) == (row["lut"], row["ff"], row["bram"])


@pytest.mark.parametrize("span", [None, 2000])
def test_places_of_results_are_those_of_the_unit(span):
    """The latency that decides on them is reckoned twice, in arrays and for one."""
    for name in ("default", "large", "apbf-default", "gebf-default", "blocked-gebf-default"):
        spec = replace(preset(name), span=span)
        named = cost.features(*cost.of_spec(spec), DEVICES["ecp5-85k-6"], spec.key_bits)
        width = cost.TAG_BITS + 1 + (spec.window_generations).bit_length()
        width += STATUS_BITS + stamp_bits(span) if span else 0
        places = 1 << (HardwareProfile(spec).latency + 10).bit_length()
        assert named["places of results"][0] == places * width


@pytest.mark.parametrize("family", ["apbf", "apbbf", "gebf", "blocked-gebf"])
@pytest.mark.parametrize("name", ["ecp5-25k-6", "ice40-hx8k", "gowin-gw2ar-18c"])
def test_what_is_larger_costs_no_less(family, name):
    """Which lets the smallest size of a shape stand for all."""
    requirement = Requirement(window=20_000, false_positive_rate=0.01)
    shapes = space.shapes(family, requirement)
    shapes = shapes[:: max(1, len(shapes) // 200)]
    sizes = space.sizes(False)[1:14]
    shares = np.array(
        [
            cost.area(shapes, np.full(len(shapes), n), DEVICES[name], 64).share(DEVICES[name])
            for n in sizes
            if not space.too_large(shapes, np.full(len(shapes), n), requirement).all()
        ]
    )
    assert (np.diff(shares, axis=0) >= -1e-12).all()


@pytest.mark.parametrize("name", DEVICES)
def test_what_is_chosen_for_a_device_fits(name):
    device = DEVICES[name]
    found = plan(Requirement(window=2000, false_positive_rate=0.05, device=device))
    for candidate in found.candidates:
        unit_profile(candidate.spec).check_buildable()
        area = predicted(candidate.spec, device)
        assert int(area.bram[0]) == candidate.area["bram"] <= device.bram
        assert area.lut[0] * (1 + area.lut_error) <= device.lut
        assert area.ff[0] * (1 + area.ff_error) <= device.ff
        share = area.bram[0] / device.bram + area.lut[0] / device.lut
        assert candidate.cost == pytest.approx(share)


def test_block_rams_of_the_device_decide():
    """Fewer and larger memories where block RAMs are large."""
    asked = Requirement(window=20_000, false_positive_rate=0.05)
    bits = choose(replace(asked, bits_only=True))
    ecp5 = choose(replace(asked, device=DEVICES["ecp5-25k-6"]))
    assert ecp5.segments * ecp5.parts < bits.segments * bits.parts
    assert ecp5.storage_bits >= bits.storage_bits


def test_device_only_counts_what_fits():
    asked = Requirement(window=2000, false_positive_rate=0.05, device=DEVICES["ice40-up5k"])
    free = sized("apbf", replace(asked, device=None))
    fitting = sized("apbf", asked)
    assert len(fitting.shapes) < len(free.shapes)


# Filters with timestamps


@pytest.mark.parametrize("family", cell_costs.SAMPLES)
@pytest.mark.parametrize("named", cell_costs.DRAWS)
def test_filters_with_timestamps_are_within_the_stated_error(family, named):
    """Block RAMs are exact; units that the fit is held against are told apart."""
    fitted, held_out = cell_costs.parts(STAMP_ROWS, MEASURED, family, named)
    model = stamp_models()[family][named]
    assert model["units"] == len(fitted)
    assert max(model["lut_error"], model["ff_error"]) <= (0.1 if family == "ecp5" else 0.2)
    assert len(held_out) >= cell_costs.HELD_OUT
    for row in fitted + held_out:
        spec = cell_costs.specification(row)
        area = stamp_area(spec, DEVICES[row["device"]])
        assert int(area.bram[0]) == row["bram"], spec
        assert abs(area.lut[0] / row["lut"] - 1) <= area.lut_error, spec
        assert abs(area.ff[0] / row["ff"] - 1) <= area.ff_error, spec


def test_coefficients_of_timestamps_are_those_of_the_counts():
    models = cell_costs.fit(STAMP_ROWS, MEASURED)
    for row in STAMP_ROWS:
        anew = cell_costs.predicted(row, models)
        assert anew == pytest.approx(cell_costs.predicted(row, stamp_models()), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("row", STAMP_ROWS[:: len(STAMP_ROWS) // 3][:3])
def test_counts_of_filters_with_timestamps_are_those_of_synthesis(row):
    found = count_unit(cell_costs.specification(row), device=DEVICES[row["device"]])
    assert (found.lut, found.ff, found.bram) == (row["lut"], row["ff"], row["bram"])
