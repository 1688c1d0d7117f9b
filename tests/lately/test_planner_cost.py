"""What the planner says that filters cost, beside what was measured."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from cases import daily

from campaigns import cell_costs, cost_fit, engine, ring_costs, scaled_costs
from campaigns.counts import rows_of, scaled_rows
from campaigns.hardware import CASES, report_of
from campaigns.pages.blocks import RESULTS, records
from lately.boards.flow.devices import DEVICES
from lately.boards.flow.synthesis import count_unit
from lately.golden import FilterSpec, Specification, preset
from lately.hdl.build import unit_profile
from lately.hdl.latencies import STATUS_BITS, stamp_bits
from lately.hdl.ring.profile import RingProfile
from lately.planner import PLANNER_FAMILIES, Requirement, choose, cost, plan, space
from lately.planner.ring_cost import area, features, of_spec
from lately.planner.rings import sized

COUNTED, MEASURED = (engine.read(RESULTS / f"{name}.jsonl") for name in ("counts", "hardware"))
ROWS = [row for rows in rows_of(COUNTED) for row in rows]
# The smallest of the device that is synthesised fastest is synthesised each day.
SCALED = sorted(scaled_rows(COUNTED), key=lambda row: (row["device"] != "t20", row["lut"]))
MODELS = [(family, named) for family in ring_costs.SAMPLES for named in cost.models()[family]]


def predicted(row):
    spec, device = Specification.from_dict(row["spec"]), DEVICES[row["device"]]
    return PLANNER_FAMILIES[spec.family].area(spec, device)


def test_block_rams_are_exact_in_all_runs_of_rings():
    """Those of several lanes, too: a shard is a filter, and the queues of ECP5 are in LUTs."""
    specs = [(CASES[run.point["case"]].spec, report_of(run)) for run in MEASURED]
    runs = [(spec, report) for spec, report in specs if isinstance(spec, FilterSpec)]
    assert len(runs) > 30
    for spec, report in runs:
        shard = spec if spec.lanes == 1 else RingProfile.of(spec).shard_spec
        each = PLANNER_FAMILIES["gebf"].block_rams(shard, DEVICES[report.device])
        assert each * spec.shards == report.bram, spec


def test_units_are_within_the_stated_error():
    """Block RAMs are exact. The fit is also held against units that it was not fitted to."""
    counted, held_out = defaultdict(list), defaultdict(list)
    for rows, units in ((counted, ROWS), (held_out, cost_fit.runs(MEASURED))):
        for row in units:
            rows[cost_fit.model(row)].append(row)
    for family, named in MODELS:
        model, rows = cost.models()[family][named], counted[family, named]
        more = held_out[family, named]
        print(family, named, model["units"], len(more), model["lut_error"], model["ff_error"])
        assert len(rows) >= model["units"] >= cell_costs.FITTED
        assert max(model["lut_error"], model["ff_error"]) <= 0.2
        for row in rows + more:
            area = predicted(row)
            assert int(area.bram[0]) == row["bram"], row["spec"]
            assert abs(area.lut[0] / row["lut"] - 1) <= area.lut_error, row["spec"]
            assert abs(area.ff[0] / row["ff"] - 1) <= area.ff_error, row["spec"]


@pytest.mark.parametrize("family", scaled_costs.DEVICES)
def test_scaled_costs_are_within_the_stated_error(family):
    """Of units that no cost is fitted to; block RAMs are exact, and all units are counted."""
    counted = [row for row in SCALED if cost_fit.model(row)[0] == family]
    names = [name for name, spec in scaled_costs.UNITS.items() for row in counted
             if row["spec"] == spec.to_dict()]  # fmt: skip
    assert sorted(names) == sorted(scaled_costs.UNITS)
    for row in counted:
        if cost_fit.model(row) in scaled_costs.INEXACT:
            continue
        area = predicted(row)
        one_more = family == "trion" and row["spec"].get("span") is not None
        assert int(area.bram[0]) == row["bram"] + one_more, row["spec"]
        if scaled_costs.is_held_out(row):
            assert abs(area.lut[0] / row["lut"] - 1) <= area.lut_error <= 0.5, row["spec"]
            assert abs(area.ff[0] / row["ff"] - 1) <= area.ff_error <= 0.5, row["spec"]


def test_families_of_the_same_logic_have_the_same_costs():
    for family, other in scaled_costs.SAME.items():
        assert cost.models()[family] == cost.models()[other]


@pytest.mark.parametrize("row", daily(1, SCALED))
def test_scaled_counts_are_those_of_synthesis(row):
    found = count_unit(Specification.from_dict(row["spec"]), device=DEVICES[row["device"]])
    assert (found.lut, found.ff, found.bram) == (row["lut"], row["ff"], row["bram"])


def test_coefficients_are_those_of_the_counts():
    counted = records("counts")
    rings, stamped = rows_of(counted)
    rings, cells = ring_costs.fit(rings, MEASURED), cell_costs.fit(stamped, MEASURED)
    models = {family: {"ring": ring, **cells[family]} for family, ring in rings.items()}
    models |= scaled_costs.fit(scaled_rows(counted), models)
    planned = [row for row in SCALED if cost_fit.model(row) not in scaled_costs.INEXACT]
    for row in [*ROWS, *planned]:
        again = cost_fit.predicted(row, models)
        assert again == pytest.approx(cost_fit.predicted(row, cost.models()), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS[:: len(ROWS) // 6])
def test_counts_are_those_of_synthesis(row):
    found = count_unit(Specification.from_dict(row["spec"]), device=DEVICES[row["device"]])
    assert (found.lut, found.ff, found.bram) == (row["lut"], row["ff"], row["bram"])


@pytest.mark.parametrize("span", [None, 2000])
def test_places_of_results_are_those_of_the_unit(span):
    """The latency that decides on them is computed twice, in arrays and for one."""
    for name in ("default", "large", "apbf-default", "gebf-default", "blocked-gebf-default"):
        spec = replace(preset(name), span=span)
        named = features(*of_spec(spec), DEVICES["ecp5-85k-6"], spec.key_bits)
        width = cost.TAG_BITS + 1 + (spec.window_generations).bit_length()
        width += STATUS_BITS + stamp_bits(span) if span else 0
        places = 1 << (RingProfile.of(spec).latency + 10).bit_length()
        assert named["places of results"][0] == places * width


@pytest.mark.parametrize("family", ["apbf", "apbbf", "gebf", "blocked-gebf"])
@pytest.mark.parametrize("name", ["ecp5-25k-6", "ice40-hx8k", "gowin-gw2ar-18c"])
def test_what_is_larger_costs_no_less(family, name):
    """Which lets the smallest size of a shape stand for all."""
    requirement = Requirement(window=20_000, false_positive_rate=0.01)
    shapes = space.shapes(family, requirement)
    shapes = shapes[:: max(1, len(shapes) // 200)]
    grids = [np.full(len(shapes), n) for n in space.sizes(False)[1:14]]
    shares = np.array(
        [
            area(shapes, sizes, DEVICES[name], 64).share(DEVICES[name])
            for sizes in grids
            if not space.too_large(shapes, sizes, requirement).all()
        ]
    )
    assert (np.diff(shares, axis=0) >= -1e-12).all()


@pytest.mark.parametrize("name", daily(3, DEVICES))
def test_what_is_chosen_for_a_device_fits(name):
    device = DEVICES[name]
    found = plan(Requirement(window=2000, false_positive_rate=0.05, device=device))
    for candidate in found.candidates:
        unit_profile(candidate.spec).check_buildable()
        area = candidate.family.area(candidate.spec, device)
        assert int(area.bram[0]) == candidate.area["bram"] <= device.bram
        assert area.lut[0] * (1 + area.lut_error) <= device.lut
        assert area.ff[0] * (1 + area.ff_error) <= device.ff
        share = area.bram[0] / device.bram + area.lut[0] / device.lut
        assert candidate.cost == pytest.approx(share)


def test_block_rams_of_the_device_decide():
    """Fewer and larger memories where block RAMs are large."""
    required = Requirement(window=20_000, false_positive_rate=0.05)
    bits = choose(replace(required, bits_only=True))
    ecp5 = choose(replace(required, device=DEVICES["ecp5-25k-6"]))
    assert ecp5.segments * ecp5.parts < bits.segments * bits.parts
    assert ecp5.storage_bits >= bits.storage_bits


def test_device_only_counts_what_fits():
    required = Requirement(window=2000, false_positive_rate=0.05, device=DEVICES["ice40-up5k"])
    free = sized("apbf", replace(required, device=None))
    assert len(sized("apbf", required).shapes) < len(free.shapes)
