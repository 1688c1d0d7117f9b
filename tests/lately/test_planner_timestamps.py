"""Dictionaries and timing filters in plans: where they are offered, the cheapest, and messages."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from cases import daily

from lately.boards.flow.devices import DEVICES, own_memory
from lately.golden import (
    FAMILIES,
    PartitionedTimingSpec,
    SpecificationError,
    TimedTimingSpec,
    WindowDictionarySpec,
    from_spec,
)
from lately.golden.analysis import stashed_entries
from lately.golden.durations import time_text
from lately.golden.spec.dictionary_sizes import (
    MOST_MOVED,
    MOST_MOVING_COLUMNS,
    MOST_STASHED,
    MOVING,
)
from lately.hdl.build import filter_unit, unit_profile
from lately.hdl.target_clocks import limit_mhz
from lately.hdl.timing.sweep_rules import rest_interval
from lately.planner import Requirement, RequirementError, choose, plan
from lately.planner.requirement import PLANNER_FAMILIES, Span
from lately.planner.stamped import LEAST_REST

SPAN = Span(ticks=200, tick=Fraction(1, 1000))
STAMPED = tuple(family for family in PLANNER_FAMILIES if family not in FAMILIES)


def asked(window, rate, **more):
    return Requirement(window=window, false_positive_rate=rate, **more)


def worst_rate(spec, requirement):
    return PLANNER_FAMILIES[spec.family].rates(spec, requirement)[0]


def cheapest(family, requirement):
    return next(PLANNER_FAMILIES[family].search(requirement))


def unit_holds(spec):
    try:
        unit_profile(spec).check_buildable()
    except SpecificationError:
        return False
    return True


# Where they are offered


@pytest.mark.parametrize(
    ("wanted", "families"),
    [
        ({}, [*FAMILIES, "window-dictionary", "partitioned-timing"]),
        ({"span": SPAN}, [*FAMILIES, "timed-timing"]),
        ({"slack": 0.0}, ["window-dictionary", "partitioned-timing"]),
        ({"window_per_query": True}, ["window-dictionary", "partitioned-timing"]),
        ({"exact_age": True}, ["window-dictionary"]),
        ({"remove": True}, ["window-dictionary"]),
        ({"span": SPAN, "slack": 0.0}, ["timed-timing"]),
        ({"span": SPAN, "window_per_query": True}, ["timed-timing"]),
        ({"span": SPAN, "remove": True}, []),
        ({"span": SPAN, "exact_age": True}, []),
        ({"remove": True, "families": ("gebf", "timed-timing")}, []),
        (
            {"device": DEVICES["ice40-hx8k"]},
            [*FAMILIES, "window-dictionary", "partitioned-timing"],
        ),
    ],
)
def test_families_that_can_do_it(wanted, families):
    requirement = asked(300, 0.05, **wanted)
    assert [family.name for family in requirement.able] == families
    if families:
        planned = plan(requirement, alternatives=1)
        assert {one.spec.family for one in planned.candidates} == set(families)


def test_only_those_with_timestamps_forget_at_once():
    ring = choose(asked(300, 0.05, slack=0.01, families=tuple(FAMILIES)))
    assert ring.slack > 0
    exact = choose(asked(300, 0.05, slack=0.0))
    assert exact.family == "window-dictionary"
    assert (exact.window, exact.slack) == (300, 0)


def test_cheapest_of_all_on_a_device():
    """A dictionary where the rate is low, a ring where it is not."""
    low = asked(1000, 1e-8, device=DEVICES["ecp5-25k-6"])
    assert plan(low).chosen.spec.family == "window-dictionary"
    assert plan(replace(low, false_positive_rate=0.01)).chosen.spec.family in FAMILIES


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"slack": 0.0, "families": ("gebf", "apbf")},
            "family: must be window-dictionary or partitioned-timing for a window of insertions "
            "and a slack of 0, not gebf or apbf",
        ),
        (
            {"remove": True, "exact_age": True, "families": ("partitioned-timing",)},
            "family: must be window-dictionary for a window of insertions and exact ages and "
            "removal, not partitioned-timing",
        ),
        (
            {"span": SPAN, "remove": True},
            "span: must be left out, as no family has a window of time and removal, not span of "
            "200 ticks of 1 ms with at most 300 keys",
        ),
        (
            {"window": 200_000, "slack": 0.0},
            "fpr: cannot be met for a buildable filter of window-dictionary or "
            "partitioned-timing with a window of 200,000 and a slack of 0, not 0.05",
        ),
    ],
)
def test_nothing_can_do_it(wanted, message):
    with pytest.raises(RequirementError) as error:
        choose(Requirement(**{"window": 300, "false_positive_rate": 0.05} | wanted))
    assert str(error.value) == message


def test_device_for_which_no_area_is_known():
    wanted = Requirement(window=300, false_positive_rate=0.05, slack=0.0, device=DEVICES["ccgm1a1"])
    message = (
        "^device: must be of ecp5, gowin, ice40 for .*, whose area is known there, not ccgm1a1"
    )
    with pytest.raises(RequirementError, match=message):
        choose(wanted)


# The cheapest


def every_dictionary(window, rate):
    sizes = [1 << bits for bits in range(2, 11)]
    shapes = itertools.product(range(1, 13), sizes, range(3, 16), ({}, MOVING))
    for columns, rows, bits, moving in shapes:
        if bits <= rows.bit_length() - 1 or (moving and not 1 < columns <= MOST_MOVING_COLUMNS):
            continue
        spec = WindowDictionarySpec(
            window=window, columns=columns, rows=rows, digest_bits=bits, **moving
        )
        stashed = stashed_entries(window, columns=columns, rows=rows)
        few = stashed <= (MOST_MOVED * window if moving else MOST_STASHED)
        if few and spec.mean_false_positive_rate <= rate and unit_holds(spec):
            yield spec


def every_timing(window, rate, longest):
    for hashes, size, block in itertools.product(range(1, 12), range(1, 12), (1, 2, 4, 8, 16)):
        whole, cells = math.ceil(window / block) * block, 1 << size
        kept = (1 - (1 - 1 / cells) ** (whole + block - 1)) ** hashes <= rate
        if not kept or (longest is not None and whole + block - 1 > longest):
            continue
        shape = {"window": whole, "block": block, "hashes": hashes, "cells": cells}
        for bits in range((whole // block + 2).bit_length(), 17):
            spec = PartitionedTimingSpec(**shape, stamp_bits=bits)
            if rest_interval(spec) >= LEAST_REST and unit_holds(spec):
                yield spec


def test_moves_where_block_rams_are_dearer_than_logic():
    """On an ECP5-25k 4 of 56 for 8, and not on an HX8K, whose logic is scarce."""
    where = asked(300, 1e-6, exact_age=True, device=DEVICES["ecp5-25k-6"])
    assert choose(where).moves == MOVING["moves"]
    assert {bool(one.spec.moves) for one in plan(where).candidates} == {False, True}
    assert choose(replace(where, device=DEVICES["ice40-hx8k"])).moves is None


@pytest.mark.parametrize(("window", "rate"), [(40, 0.05), (100, 0.2), (33, 0.01)])
def test_no_dictionary_is_cheaper(window, rate):
    every = list(every_dictionary(window, rate))
    best = cheapest("window-dictionary", asked(window, rate, bits_only=True))
    assert best.cost == min(spec.storage_bits for spec in every)
    assert best.spec in every
    best = cheapest("window-dictionary", asked(window, rate))
    assert (best.cost, best.spec.storage_bits) == min(map(blocks_and_bits, every))


def blocks_and_bits(spec):
    return unit_profile(spec).block_rams, spec.storage_bits


@pytest.mark.parametrize(
    ("window", "rate", "slack"),
    [(40, 0.05, None), (100, 0.2, 0.0), (33, 0.05, 0.25), (33, 0.05, 0.0)],
)
def test_no_timing_filter_is_cheaper(window, rate, slack):
    requirement = asked(window, rate, slack=slack, bits_only=True)
    best = cheapest("partitioned-timing", requirement)
    every = list(every_timing(window, rate, requirement.longest_trace))
    assert best.cost == min(spec.storage_bits for spec in every)
    fewest = cheapest("partitioned-timing", replace(requirement, bits_only=False))
    assert (fewest.cost, fewest.spec.storage_bits) == min(map(blocks_and_bits, every))
    assert best.spec in every
    assert worst_rate(best.spec, requirement) <= rate


def test_slack_of_blocks_is_kept_at_its_edge():
    """Blocks of 32 insertions keep a key for 31 more; a window of whole blocks for some more."""
    requirement = asked(320, 0.01, slack=31 / 320, families=("partitioned-timing",))
    assert choose(requirement).block == 32
    assert choose(replace(requirement, slack=0.0968)).block == 16


@pytest.mark.parametrize("family", STAMPED)
@pytest.mark.parametrize("rate", daily(1, [0.3, 1e-3, 1e-8]))
@pytest.mark.parametrize("device", [None, "ecp5-85k-6", "gowin-gw2ar-18c"])
def test_what_is_found_can_be_built(family, rate, device):
    where = None if device is None else DEVICES[device]
    span = SPAN if family == "timed-timing" else None
    requirement = asked(500, rate, span=span, families=(family,), key_bits=48, seed=5, device=where)
    spec = choose(requirement)
    assert (spec.key_bits, spec.seed) == (48, 5)
    assert worst_rate(spec, requirement) <= rate
    filter_unit(spec, memory="portable" if where is None else own_memory(where, spec))
    from_spec(spec)


def test_sizes_of_golden_models_alone():
    asked_any = asked(500, 0.01, any_size=True, families=STAMPED)
    exact = {one.spec.family: one for one in plan(asked_any).candidates}
    assert exact["partitioned-timing"].spec.cells & (exact["partitioned-timing"].spec.cells - 1)
    assert all(one.latency is None and one.accesses >= 1 for one in exact.values())


# Spans of time


def test_ticks_long_enough_for_the_sweep():
    """Longer stamps leave the sweep more time, where ticks are short on the device."""
    device = DEVICES["ecp5-25k-6"]
    clock = Fraction(limit_mhz(device.name) * 1e6)
    clocks = 1200
    span = Span(ticks=100, tick=clocks / clock)
    requirement = asked(700, 0.01, span=span, slack=0.0, device=device)
    spec = choose(requirement)
    assert unit_profile(spec).least_period <= clocks
    roomy = choose(replace(requirement, span=replace(span, tick=Fraction(1))))
    assert unit_profile(roomy).least_period > clocks or roomy == spec
    short = replace(requirement, span=replace(span, tick=Fraction(10) / clock))
    with pytest.raises(RequirementError, match=r"^tick: must be at least ") as error:
        plan(short)
    assert str(error.value).endswith(f"not {time_text(short.span.tick)}")


def test_keys_of_the_span_count():
    """Those of the ticks of the span and of the present one."""
    requirement = asked(700, 0.01, span=SPAN, slack=0.0)
    spec = choose(requirement)
    assert isinstance(spec, TimedTimingSpec)
    assert (spec.span, spec.period) == (200, 1)
    rates = PLANNER_FAMILIES[spec.family].moments(spec, requirement)
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx((1 - (1 - 1 / spec.cells) ** 700) ** spec.hashes)
    assert rates[-1] <= 0.01


# The plan


@pytest.mark.parametrize("any_size", [False, True])
@pytest.mark.parametrize("span", [None, SPAN])
def test_what_binds_breaks_what_it_says(any_size, span):
    requirement = asked(600, 0.01, slack=0.2, any_size=any_size, span=span, families=STAMPED)
    planned = plan(requirement, front=True)
    json.dumps(planned.to_dict(), allow_nan=False)
    seen = set()
    for candidate in planned.candidates:
        assert candidate.slack <= 0.2
        assert candidate.mean_rate <= candidate.worst_rate <= 0.01
        for binding in candidate.bindings:
            seen.add(binding.constraint)
            smaller = replace(candidate.spec, **{binding.field: binding.value})
            if binding.constraint == "rate":
                assert worst_rate(smaller, requirement) == binding.reached > 0.01
            elif binding.constraint in {"stash", "moves"}:
                shape = {"columns": smaller.columns, "rows": smaller.rows}
                stashed = stashed_entries(600, **shape)
                if binding.constraint == "stash":
                    assert stashed == binding.reached > MOST_STASHED
                else:
                    assert stashed / 600 == binding.reached > MOST_MOVED
            else:
                assert rest_interval(smaller) == binding.reached < LEAST_REST
    assert "rate" in seen


def test_clocks_of_the_sweep_are_told():
    device = DEVICES["ecp5-25k-6"]
    found = plan(asked(500, 0.01, families=("partitioned-timing",), device=device)).chosen
    rest = rest_interval(found.spec)
    assert rest >= LEAST_REST
    assert found.most_operations == pytest.approx(212e6 * (1 - 1 / rest))
