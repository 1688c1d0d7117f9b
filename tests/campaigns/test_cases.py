"""Which units are measured, and what is asked of them."""

import pytest
from made_up import measurement

from campaigns.cases import (
    CASES,
    DECIDED,
    GROUPS,
    UnknownCaseError,
    best_gebf,
    gebf_choices,
    segment_block_rams,
    select,
)
from lately.boards.flow.devices import DEVICES, device
from lately.boards.flow.limits import unit_limit
from lately.golden import FilterSpec, preset
from lately.hdl.build import unit_profile
from lately.hdl.target_clocks import target_mhz


def case(name):
    (found,) = select([name])
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_can_be_built(case):
    case.profile.check_buildable()
    assert case.profile == unit_profile(case.spec)
    if case.device.startswith("ecp5"):
        assert case.profile.block_rams <= device(case.device).bram
    elif isinstance(case.spec, FilterSpec):
        assert segment_block_rams(case.spec, device(case.device)) <= device(case.device).bram
    assert case.group in GROUPS
    assert case.seeds


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_goals_are_figures_within_the_limits(case):
    figures = set(measurement(case).report.to_dict()) | {"logic_cells"}
    assert set(case.goals) <= figures
    assert case.goals.get("fmax_mhz", 0) <= unit_limit(case.device).mhz


def test_names_are_different():
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_what_is_asked():
    units = [case for case in CASES if case.group == "units"]
    own = {"large/ecp5-85k-6": min(200, target_mhz("ecp5-85k-6"))}
    own |= {"small/ice40-hx8k": 150, "small/ice40-up5k": 48, "small-span/ice40-hx8k": 150}
    own |= {f"dictionary-{window}/ecp5-25k-6": 190 for window in (1000, 10000)}
    clocks = {case.name: case.goals["fmax_mhz"] for case in units
              if "fmax_mhz" in case.goals}  # fmt: skip
    assert clocks == {name: own.get(name, target_mhz(name.partition("/")[2])) for name in clocks}
    assert len(clocks) == 26
    for case in select(["apbbf/ecp5*"]):
        area = {"lut": 1600, "ff": 1700, "bram": 32, "latency_cycles": 15}
        assert area.items() <= case.goals.items()
    few = {*DECIDED, "dictionary-ring-10000"}
    assert all(len(case.seeds) == (3 if case.unit in few else 5) for case in units)


def test_growth_doubles_until_the_device_is_full():
    growth = [case.spec for case in select(["growth"])]
    assert [spec.blocks for spec in growth] == [32 << step for step in range(8)]
    assert growth[0].window < 1 << 10 < growth[1].window
    twice = FilterSpec(
        **growth[-1].to_dict() | {"blocks": 8192, "window": None, "generation": None}
    )
    assert segment_block_rams(twice, device("ecp5-85k-6")) > device("ecp5-85k-6").bram


def test_gowin_devices_are_cases():
    units = {case.device for case in CASES if case.group == "units"}
    assert {name for name in DEVICES if name.startswith("gowin")} <= units


def test_windows_in_time_are_those_of_units_without_one():
    timed = [case for case in CASES if case.unit.endswith("-span")]
    assert all(case.spec.timed for case in timed)
    assert len({case.device for case in timed}) == 4 + sum("gowin" in name for name in DEVICES)
    untimed = {case.unit: case.spec for case in CASES}
    for one in timed:
        assert one.spec.untimed == untimed[one.unit.removesuffix("-span")]


# GEBF


def test_gebf_is_the_best_by_theory():
    rates = {spec.hashes: spec.worst_false_positive_rate for spec in gebf_choices()}
    assert list(rates) == list(range(1, 17))
    assert min(rates, key=rates.__getitem__) == 8
    assert case("gebf/*").spec == best_gebf()
    assert best_gebf().worst_false_positive_rate == pytest.approx(0.0170, abs=5e-5)


def test_gebf_memory_is_that_asked_for_rounded_up():
    # 14 bits for each of 20,000 items in 9 segments of 31,111 bits, or 32,768.
    for spec in gebf_choices():
        assert spec.parts * spec.part_bits <= 32768 < 2 * spec.parts * spec.part_bits
        assert spec.memory_bits / spec.window < 14.75
    assert best_gebf().memory_bits >= 14 * 20_000


def test_gebf_is_too_large_for_the_smaller_device():
    assert segment_block_rams(best_gebf(), device("ecp5-25k-6")) == 80 > 56


# Choice


def test_select():
    assert select([]) == list(CASES)
    assert [case.name for case in select(["tiny/*"])] == ["tiny/ecp5-25k-6", "tiny/ice40-hx8k"]
    assert {case.group for case in select(["tiny"])} == {"tiny"}
    assert len(select(["tiny", "tiny/*"])) == 5
    assert case("large/ecp5-85k-6").spec == preset("large")


def test_select_wrong():
    with pytest.raises(
        UnknownCaseError, match=r"^case: must match a case that --list names, .*, not 'huge'$"
    ):
        select(["tiny", "huge"])
