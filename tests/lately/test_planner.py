"""The planner: the cheapest in its space, within what was asked, and clear where nothing is."""

import itertools
import json
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cases import daily

from lately.boards.flow.devices import DEVICES, device_memory
from lately.cli.plan_commands import front_chart
from lately.golden import (
    FAMILIES,
    FilterSpec,
    Operation,
    PartitionedTimingSpec,
    PoolStatus,
    SpecificationError,
    WindowDictionarySpec,
    from_spec,
)
from lately.golden.analysis import stashed_entries
from lately.golden.durations import time_text
from lately.golden.spec.dictionary_sizes import (
    MAX_MOVED,
    MAX_MOVING_COLUMNS,
    MAX_STASHED,
    MOVING,
)
from lately.hdl.build import filter_unit, unit_profile
from lately.hdl.latencies import TIMED_GENERATION
from lately.hdl.ring.profile import RingProfile
from lately.hdl.target_clocks import limit_mhz
from lately.hdl.timing.sweep_rules import rest_interval
from lately.planner import Requirement, RequirementError, choose, plan, rings
from lately.planner.requirement import PLANNER_FAMILIES, Span, distinct
from lately.planner.rings import PlannedRing
from lately.planner.stamped import MIN_REST
from lately.replay.drawing import draw

RINGS = tuple(FAMILIES)
STAMPED = tuple(family for family in PLANNER_FAMILIES if family not in FAMILIES)
SPAN = Span(ticks=200, tick=Fraction(1, 1000))
SECOND = Span.of(Fraction(1), Fraction(1, 200))
BY_COUNT = [*FAMILIES, "window-dictionary", "partitioned-timing"]


def asked(window, rate, **more):
    return Requirement(window=window, false_positive_rate=rate, **more)


def of_rings(window, rate, **more):
    return asked(window, rate, **{"families": RINGS} | more)


def worst_rate(spec, requirement):
    return PLANNER_FAMILIES[spec.family].rates(spec, requirement)[0]


def cheapest(family, requirement):
    return next(PLANNER_FAMILIES[family].search(requirement), None)


def unit_holds(spec):
    try:
        unit_profile(spec).check_buildable()
    except SpecificationError:
        return False
    return True


# Which families


@pytest.mark.parametrize(
    ("wanted", "families"),
    [
        ({}, BY_COUNT),
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
        ({"device": DEVICES["ice40-hx8k"]}, BY_COUNT),
    ],
)
def test_families_that_can_do_it(wanted, families):
    requirement = asked(300, 0.05, **wanted)
    assert [family.name for family in requirement.able] == families
    if families:
        planned = plan(requirement, alternatives=1)
        assert {spec_one.spec.family for spec_one in planned.candidates} == set(families)


def test_families_each_once_and_in_order():
    for given, result in (
        (["gebf", "apbf", "gebf"], ("apbf", "gebf")), ([], tuple(PLANNER_FAMILIES)),
        (["timed-timing", "apbf"], ("apbf", "timed-timing")), (["x"], ("x",)),
    ):  # fmt: skip
        assert distinct(given) == result


def test_cheapest_of_all():
    """Only filters with timestamps forget at once; a dictionary is cheapest where the rate is low,
    a ring where the window is long."""
    assert choose(of_rings(300, 0.05, slack=0.01)).slack > 0
    exact = choose(asked(300, 0.05, slack=0.0))
    assert (exact.family, exact.window, exact.slack) == ("window-dictionary", 300, 0)
    low = asked(1000, 1e-8, device=DEVICES["ecp5-25k-6"])
    assert plan(low).chosen.spec.family == "window-dictionary"
    assert choose(replace(low, window=20_000, false_positive_rate=0.01)).family in FAMILIES
    # With moves, an ECP5 has 4 block RAMs for 8.
    where = asked(300, 1e-6, exact_age=True, device=DEVICES["ecp5-25k-6"])
    assert choose(where).moves == MOVING["moves"]
    assert {bool(spec_one.spec.moves) for spec_one in plan(where).candidates} == {False, True}


# Rates


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("any_size", daily(1, [False, True]))
def test_bounds_are_no_higher_than_the_rates_of_the_specification(family, any_size):
    requirement = of_rings(5000, 1e-6, any_size=any_size)
    ring, draw = PLANNER_FAMILIES[family], random.Random(1)
    sizes = [size for size in rings.SIZES[any_size] if 2 <= size < 4096]
    shapes = [shape for shapes in ring._shapes(requirement) for shape in shapes]
    ratios = []
    for shape in draw.sample(shapes, 100):
        shape = shape.resized(draw.choice(sizes))
        exact = ring.spec(shape, requirement).worst_false_positive_rate
        assert shape.rate_bound <= exact * (1 + 1e-9)
        ratios.append(shape.rate_bound / exact)
    # So high that a search begins where it ends.
    assert np.median(ratios) > 0.3


# The cheapest

GENERATIONS = (1, 2, 3, 4, 5, 8)
SMALL = {
    "RUNS": {"apbf": range(1, 6), "apbbf": (1, 2, 3), "gebf": (1,), "blocked-gebf": (1,)},
    "PARTS": {"apbf": (1,), "apbbf": (2, 4), "gebf": range(1, 6), "blocked-gebf": range(1, 5)},
    "BLOCK_BITS": {"apbbf": (32, 64), "blocked-gebf": (32, 64)},
}
SIZES = {False: [1 << e for e in range(11)], True: [1, 2, 3, 5, 8, 12, 20, 33, 60, 100, 250, 900]}
SMALL["SIZES"] = SIZES


def every_ring(family, window, any_size):
    """Yield all specifications of the small space, from the definitions."""
    generations, sizes = GENERATIONS, SIZES[any_size]
    runs, parts = SMALL["RUNS"][family], SMALL["PARTS"][family]
    blocks = SMALL["BLOCK_BITS"].get(family, [0])
    clears = [16] if any_size else [1, 2, 4, 8, 16, 32, 64, 128, 256]
    for k, l, b, B, size in itertools.product(runs, generations, parts, blocks, sizes):
        values = {
            "apbf": {"k": k, "l": l, "slice_bits": size},
            "apbbf": {"k": k, "l": l, "block_bits": B, "hashes_per_block": b, "blocks": size},
            "gebf": {"epochs": l, "hashes": b, "bits": (l + 1) * b * size},
            "blocked-gebf": {"epochs": l, "hashes": b, "block_bits": B, "bits": (l + 1) * B * size},
        }[family]
        if l > window or (B and B // b < rings.MIN_CELLS):
            continue
        for clear in clears:
            try:
                spec = FilterSpec(family=family, window=window, clear=clear, **values)
                if not any_size:
                    RingProfile.of(spec).check_buildable()
            except SpecificationError:
                continue
            if spec.part_bits >= 2:
                yield spec
            break


def every_dictionary(window, rate):
    sizes = [1 << bits for bits in range(2, 11)]
    shapes = itertools.product(range(1, 13), sizes, range(3, 16), ({}, MOVING))
    for columns, rows, bits, moving in shapes:
        if bits <= rows.bit_length() - 1 or (moving and not 1 < columns <= MAX_MOVING_COLUMNS):
            continue
        spec = WindowDictionarySpec(
            window=window, columns=columns, rows=rows, digest_bits=bits, **moving
        )
        stashed = stashed_entries(window, columns=columns, rows=rows)
        few = stashed <= (MAX_MOVED * window if moving else MAX_STASHED)
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
            if rest_interval(spec) >= MIN_REST and unit_holds(spec):
                yield spec


COSTS = {
    "memories": ({}, lambda spec: (RingProfile.of(spec).block_rams, spec.storage_bits)),
    "bits": ({"bits_only": True}, lambda spec: (spec.storage_bits,) * 2),
    "bits of any size": ({"any_size": True}, lambda spec: (spec.storage_bits,) * 2),
}
"""Options of a requirement, and what is least then: cost, then bits."""


@pytest.mark.parametrize("counted", COSTS)
@pytest.mark.parametrize(
    ("window", "rate", "slack"),
    daily(1, [(3, 0.3, None), (40, 0.05, None), (40, 0.2, 0.5), (300, 0.01, None), (97, 0.1, 0.3)]),
)
def test_no_ring_is_cheaper(monkeypatch, window, rate, slack, counted):
    options, figures = COSTS[counted]
    any_size = "any_size" in options
    for name, values in SMALL.items():
        monkeypatch.setattr(rings, name, values)
    requirement = of_rings(window, rate, slack=slack, **options)
    longest = math.inf if slack is None else (1 + Fraction(str(slack))) * window

    def rank(spec):
        return (*figures(spec), spec.segments * spec.parts, spec.worst_false_positive_rate)

    for family in FAMILIES:
        best = next(PlannedRing(family, GENERATIONS).search(requirement), None)
        met = [
            spec
            for spec in every_ring(family, window, any_size)
            if spec.worst_false_positive_rate <= rate
            and spec.guaranteed_window + spec.slack <= longest
        ]
        assert (best is None) == (not met)
        if best is not None:
            assert rank(best.spec) == pytest.approx(min(map(rank, met)))
            assert best.cost == figures(best.spec)[0]
            assert any(replace(spec_one, clear=best.spec.clear) == best.spec for spec_one in met)


@pytest.mark.parametrize(
    ("family", "window", "rate", "slack"),
    [
        *(("window-dictionary", *shape, None) for shape in ((40, 0.05), (100, 0.2), (33, 0.01))),
        *(("partitioned-timing", *shape) for shape in (
            (40, 0.05, None), (100, 0.2, 0.0), (33, 0.05, 0.25), (33, 0.05, 0.0))),
    ],
)  # fmt: skip
def test_no_filter_with_timestamps_is_cheaper(family, window, rate, slack):
    requirement = asked(window, rate, slack=slack, bits_only=True)
    best = cheapest(family, requirement)
    every = list(
        every_dictionary(window, rate) if family == "window-dictionary"
        else every_timing(window, rate, requirement.longest_trace)
    )  # fmt: skip
    assert best.cost == min(spec.storage_bits for spec in every)
    assert best.spec in every
    assert worst_rate(best.spec, requirement) <= rate
    fewest = cheapest(family, replace(requirement, bits_only=False))
    assert (fewest.cost, fewest.spec.storage_bits) == min(
        (unit_profile(spec).block_rams, spec.storage_bits) for spec in every
    )


@pytest.mark.parametrize(
    ("window", "rate", "any_size"),
    [(3, 0.3, False), (3, 0.3, True), (10, 0.1, False), (1000, 1e-3, True), (10**6, 0.01, False),
     (10**6, 1e-6, False), pytest.param(10**7, 1e-9, True, marks=pytest.mark.slow)],
)  # fmt: skip
def test_rings_keep_what_was_asked(window, rate, any_size):
    requirement = of_rings(window, rate, any_size=any_size, key_bits=48, seed=5)
    spec = choose(requirement)
    assert spec.window == window
    assert spec.guaranteed_window >= window
    assert spec.worst_false_positive_rate <= rate
    assert (spec.key_bits, spec.seed) == (48, 5)
    if not any_size:
        RingProfile.of(spec).check_buildable()


@pytest.mark.parametrize("family", STAMPED)
@pytest.mark.parametrize("rate", daily(1, [0.3, 1e-3, 1e-8]))
@pytest.mark.parametrize("device", [None, "ecp5-85k-6", "gowin-gw2ar-18c"])
def test_filters_with_timestamps_can_be_built(family, rate, device):
    where = None if device is None else DEVICES[device]
    span = SPAN if family == "timed-timing" else None
    requirement = asked(500, rate, span=span, families=(family,), key_bits=48, seed=5, device=where)
    spec = choose(requirement)
    assert (spec.key_bits, spec.seed) == (48, 5)
    assert worst_rate(spec, requirement) <= rate
    filter_unit(spec, memory="portable" if where is None else device_memory(where, spec))
    from_spec(spec)


def test_slack_is_kept_at_its_edge():
    spec = choose(asked(1000, 0.01, slack=0.1, families=("gebf",)))
    assert (spec.guaranteed_window + spec.slack) * 10 <= 11 * 1000
    # Ten epochs of 100: just the slack that was asked.
    exact = asked(1000, 0.5, slack=0.1, families=("gebf",), any_size=True)
    assert choose(exact).epochs == 10
    assert choose(replace(exact, slack=0.0999)).epochs > 10
    # Blocks of 32 insertions keep a key for 31 more; a window of whole blocks for some more.
    blocks = asked(320, 0.01, slack=31 / 320, families=("partitioned-timing",))
    assert choose(blocks).block == 32
    assert choose(replace(blocks, slack=0.0968)).block == 16


# The plan


@pytest.fixture(scope="module")
def planned():
    return plan(of_rings(20_000, 0.01, slack=0.2), front=True)


def test_candidates(planned):
    assert planned.chosen is planned.candidates[0]
    costs = [candidate.cost for candidate in planned.candidates]
    assert costs == sorted(costs)
    assert {candidate.spec.family for candidate in planned.candidates} == set(FAMILIES)
    for candidate in planned.candidates:
        spec = candidate.spec
        assert spec.worst_false_positive_rate <= 0.01
        assert candidate.slack <= 0.2
        assert candidate.bits == spec.storage_bits
        assert candidate.memories == candidate.cost == RingProfile.of(spec).block_rams
        assert candidate.latency == RingProfile.of(spec).latency
        assert 1 <= candidate.accesses < spec.ring_segments + 1e-9
    sizes = {spec_one.spec.family: spec_one for spec_one in plan(
        asked(500, 0.01, any_size=True, families=STAMPED)).candidates}  # fmt: skip
    assert sizes["partitioned-timing"].spec.cells & (sizes["partitioned-timing"].spec.cells - 1)
    assert all(spec_one.latency is None and spec_one.accesses >= 1 for spec_one in sizes.values())


def test_the_same_every_time():
    requirement = asked(2000, 0.02, device=DEVICES["ecp5-25k-6"], families=("gebf", "blocked-gebf"))
    spec_one, two = (plan(requirement, front=True).to_dict() for _ in range(2))
    assert json.dumps(spec_one) == json.dumps(two)


def smaller_ring(spec, binding):
    """Build a ring anew from the field that binds."""
    values = spec.to_dict()
    del values["generation"]
    parts = values.get("hashes")
    if binding.field == "epochs":
        values["bits"] = values["bits"] // (values["epochs"] + 1) * (binding.value + 1)
    if binding.field == "hashes" and spec.family == "gebf":
        values["bits"] = values["bits"] // parts * binding.value
    if binding.field == "cells":
        values["bits"] = values["bits"] // spec.cells * binding.value
    elif binding.field == "blocks" and parts:
        values["bits"] = values["bits"] // spec.segment_blocks * binding.value
    else:
        values[binding.field] = binding.value
    return FilterSpec.from_dict(values)


def test_what_binds_a_ring_breaks_what_it_says(planned):
    kinds = set()
    for candidate in planned.candidates:
        assert candidate.bindings
        for binding in candidate.bindings:
            smaller = smaller_ring(candidate.spec, binding)
            kinds.add(binding.constraint)
            if binding.constraint == "rate":
                if binding.field == "hashes" and candidate.spec.family == "blocked-gebf":
                    assert smaller.parts == binding.value
                assert smaller.worst_false_positive_rate == pytest.approx(binding.reached)
                assert binding.reached > 0.01
            else:
                trace = smaller.guaranteed_window + smaller.slack
                assert trace / 20_000 - 1 == pytest.approx(binding.reached)
                assert binding.reached > 0.2
    assert "rate" in kinds
    # Below a window that clears a segment, less is not possible.
    tiny = plan(asked(4, 0.01, families=("apbf",))).candidates
    clearing = [b for spec_one in tiny for b in spec_one.bindings if b.constraint == "clearing"]
    print([str(binding) for spec_one in tiny for binding in spec_one.bindings])
    assert all(str(binding).endswith("not cleared in time") for binding in clearing)


@pytest.mark.parametrize("any_size", [False, True])
@pytest.mark.parametrize("span", [None, SPAN])
def test_what_binds_timestamps_breaks_what_it_says(any_size, span):
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
                stashed = stashed_entries(600, columns=smaller.columns, rows=smaller.rows)
                maximum, share = (MAX_STASHED, 1) if binding.constraint == "stash" else (
                    MAX_MOVED, 600)  # fmt: skip
                assert stashed / share == binding.reached > maximum
            else:
                assert rest_interval(smaller) == binding.reached < MIN_REST
    assert "rate" in seen


def test_front_is_undominated(planned):
    for family in FAMILIES:
        separate = [c for c in planned.front if c.spec.family == family]
        assert len(separate) > 1
        costs = [c.cost for c in separate]
        rates = [c.spec.worst_false_positive_rate for c in separate]
        assert costs == sorted(set(costs))
        assert rates == sorted(set(rates), reverse=True)


@pytest.mark.parametrize(
    ("ending", "head"), daily(1, [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
)
def test_drawing(planned, tmp_path, ending, head):
    path = tmp_path / f"front.{ending}"
    draw(front_chart(planned), path)
    first = path.read_bytes()
    assert first.startswith(head)
    draw(front_chart(planned), path)
    assert path.read_bytes() == first
    assert [series.label for series in front_chart(planned).series] == [*FAMILIES, "chosen"]


def test_clocks_of_the_sweep_are_told():
    device = DEVICES["ecp5-25k-6"]
    result = plan(asked(500, 0.01, families=("partitioned-timing",), device=device)).chosen
    rest = rest_interval(result.spec)
    assert rest >= MIN_REST
    assert result.max_operations == pytest.approx(212e6 * (1 - 1 / rest))


# What cannot be


UP5K = {"device": DEVICES["ice40-up5k"]}
WRONG = [
    ({"window": 0}, r"window: must be between 1 and 2\*\*32 insertions, not 0"),
    ({"window": 10**12}, r"window: must be between 1 and 2\*\*32 insertions, not 1000000000000"),
    ({"false_positive_rate": 0.0}, "fpr: must be above 0 and below 1, not 0"),
    ({"false_positive_rate": math.nan}, "fpr: must be above 0 and below 1, not nan"),
    ({"slack": -0.1}, "slack: must be a fraction of the window, 0 or more, not -0.1"),
    ({"families": ("bloom",)}, "family: must be one of apbf, .*, not bloom"),
    ({"key_bits": 0}, "key-bits: must be between 1 and 4096, not 0"),
    (UP5K | {"any_size": True}, "device cannot be combined with any_size"),
    (UP5K | {"bits_only": True}, "device cannot be combined with bits_only"),
    ({"slack": 0.0, "families": ("gebf", "apbf")},
     "family: must be window-dictionary or partitioned-timing for a window in insertions "
     "and a slack of 0, not gebf or apbf"),
    ({"remove": True, "exact_age": True, "families": ("partitioned-timing",)},
     "family: must be window-dictionary for a window in insertions and exact ages and "
     "removal, not partitioned-timing"),
    ({"span": SPAN, "remove": True},
     "span: no family has a window in time and removal"),
    ({"window": 200_000, "slack": 0.0},
     "fpr: a buildable filter of family window-dictionary or partitioned-timing with a window of "
     "200,000 and a slack of 0 cannot reach any rate below 0.5"),
    ({"slack": 0.0, "device": DEVICES["ccgm1a1"]},
     "device: must be of family ecp5 or gowin or ice40 for .*, whose block RAM count is known "
     "only for these, not ccgm1a1"),
    ({"window": 1, "families": RINGS}, "window: must be at least 2 insertions .* not 1"),
]  # fmt: skip


def test_wrong_requirements():
    for values, message in WRONG:
        with pytest.raises(RequirementError, match=f"^{message}$"):
            choose(Requirement(**{"window": 300, "false_positive_rate": 0.05} | values))
    assert choose(of_rings(1, 0.1, any_size=True)).window == 1
    assert choose(of_rings(2, 0.1)).window == 2
    for wrong, message in (
        (lambda: SECOND.keys(0.0), "rate: must be above 0 keys per second, not 0"),
        (lambda: Span.of(Fraction(1), when_full="drop"),
         "when-full: must be shorten or overfill, not drop"),
    ):  # fmt: skip
        with pytest.raises(RequirementError, match=f"^{message}$"):
            wrong()


def test_slack_too_small():
    with pytest.raises(RequirementError, match=r"^slack: must be at least ([\d.]+) ") as error:
        choose(of_rings(10_000, 0.1, slack=1e-4))
    minimum = float(str(error.value).split()[5])
    assert minimum < 0.01
    assert choose(of_rings(10_000, 0.1, slack=minimum)).slack <= minimum * 10_000


EXACT = {"slack": 0.0, "families": tuple(PLANNER_FAMILIES)}


@pytest.mark.parametrize(
    ("window", "rate", "more", "limit"),
    [(4, 1e-300, {}, 1e-3), (20_000, 1e-30, EXACT, 1e-8)],
    ids=["rings", "timestamps"],
)
def test_rate_too_small(window, rate, more, limit):
    required = of_rings(window, rate, **more)
    with pytest.raises(RequirementError, match=r"^fpr: must be at least (\S+) for ") as error:
        choose(required)
    print(error.value)
    assert ("cleared within a generation" in str(error.value)) == (not more)
    lowest = float(str(error.value).split()[5].rstrip(","))
    assert 0 < lowest < limit
    assert choose(replace(required, false_positive_rate=lowest)).mean_false_positive_rate <= lowest


@pytest.mark.parametrize(
    ("window", "rate", "device", "more", "binds"),
    daily(1, [(30_000, 0.01, "ice40-hx8k", {"families": ("gebf",)}, "block RAMs, but 32 exist"),
              (30_000, 1e-3, "ecp5-25k-6", EXACT, "block RAMs, but 56 exist")]),
)  # fmt: skip
def test_device_too_small(window, rate, device, more, binds):
    required = of_rings(window, rate, device=DEVICES[device], **more)
    with pytest.raises(RequirementError, match=rf"^device: {device} cannot hold") as error:
        plan(required)
    text = str(error.value)
    print(text)
    assert "\n" not in text
    assert binds in text
    window = int(text.split("a window of ")[-1].split()[0].replace(",", ""))
    assert choose(replace(required, window=window)).window == window
    with pytest.raises(RequirementError):
        choose(replace(required, window=int(window * 1.2)))


# Spans of time


def test_keys_of_a_span_are_those_of_a_tick_more():
    for span, rate, keys in (
        (Span(ticks=9, tick=Fraction(1)), 200_000.0, 2_000_000),
        (Span(ticks=1, tick=Fraction(1, 4)), 3.0, 2),
        # Not a binary fraction: 0.1 x 30 is 3 and not more.
        (Span(ticks=29, tick=Fraction(1)), 0.1, 3),
        (SECOND, 1000.0, 1010),
    ):
        assert span.keys(rate) == keys
    assert Span.of(Fraction(3)).tick == Fraction(3, 1000)
    # Of a filter with timestamps, those of the span and of the present tick.
    requirement = asked(700, 0.01, span=SPAN, slack=0.0)
    spec = choose(requirement)
    assert (spec.family, spec.span, spec.period) == ("timed-timing", 200, 1)
    worst, mean = PLANNER_FAMILIES[spec.family].rates(spec, requirement)
    assert worst == pytest.approx((1 - (1 - 1 / spec.cells) ** 700) ** spec.hashes)
    assert mean <= worst <= 0.01


def bursts(window, span, count, seed):
    """Return times of operations, as unsteady as `window` keys at most in each span allow."""
    choose = random.Random(seed)
    times = []
    for number in range(count):
        calm = choose.random() < (0.9 if number // window % 2 else 0.02)
        time = times[-1] + choose.randrange(2 * span // window + 2) * calm if times else 0
        minimum = times[number - window] + span + 1 if number >= window else 0
        times.append(max(time, minimum))
    return np.array(times)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("slack", [None, 0.3])
def test_span_is_kept_in_any_course_of_the_stream(family, slack):
    """No segment retires early while no more than N keys come in each span."""
    spec = choose(asked(100, 0.05, span=SECOND, slack=slack, families=(family,)))
    assert spec.span == SECOND.ticks == 201
    assert spec.run * (spec.generation_span - 1) <= (slack or 1) * spec.span
    assert spec.worst_false_positive_rate <= 0.05
    for seed in range(20):
        model = from_spec(spec)
        times = bursts(spec.window + 1, spec.span, 12 * spec.window, seed)
        keys = np.random.default_rng(seed).integers(0, 1 << 63, len(times), np.uint64)
        codes = np.full(len(times), Operation.INSERT)
        assert (model.perform(codes, keys, times).status != PoolStatus.WINDOW_SHORTENED).all()
        now = int(times[-1])
        assert model.shortened == 0
        recent = times >= now - spec.span
        assert model.query(keys[recent], now).all()


def test_generation_of_a_span_is_no_longer_than_it_must_be():
    """Of N keys in a span, the first is lost at the last if generations are one shorter."""
    keys = 122
    spec = choose(asked(keys, 0.3, span=SECOND, families=("gebf",)))
    shorter = spec.generation - 1
    assert shorter >= TIMED_GENERATION
    generations = spec.window_generations
    assert generations * shorter + 2 <= keys < generations * spec.generation + 2
    lost = replace(spec, generation=shorter, window=generations * shorter)
    for spec_one in (spec, lost):
        model = from_spec(spec_one)
        # A generation that the first of the keys fills up, then all others at the span's end.
        times = [999] * (spec_one.generation - 1) + [1000] + [1000 + spec.span] * (keys - 1)
        model.insert(np.arange(len(times)).astype(np.uint64), times)
        assert model.shortened == (spec_one is lost)
        assert model.query(spec_one.generation - 1, times[-1]) or spec_one is lost


def test_longest_report_of_a_span():
    """A key that begins a generation is reported for the span and what its generation lasts."""
    spec = choose(asked(1000, 0.05, span=SECOND, slack=0.25, families=("gebf",), key_bits=64))
    for more, seen in ((0, True), (1, False)):
        model = from_spec(spec)
        last = spec.generation_span - 1
        model.insert([1], [0])
        model.insert([2], [last])
        assert model.query(1, last + spec.span + more) == seen
    assert last <= 0.25 * spec.span


def test_ticks_long_enough_for_the_sweep():
    """Longer stamps leave the sweep more time, where ticks are short on the device."""
    device = DEVICES["ecp5-25k-6"]
    clock = Fraction(limit_mhz(device.name) * 1e6)
    clocks = 1200
    span = Span(ticks=100, tick=clocks / clock)
    requirement = asked(700, 0.01, span=span, slack=0.0, device=device)
    spec = choose(requirement)
    assert unit_profile(spec).min_period <= clocks
    roomy = choose(replace(requirement, span=replace(span, tick=Fraction(1))))
    assert unit_profile(roomy).min_period > clocks or roomy == spec
    short = replace(requirement, span=replace(span, tick=Fraction(10) / clock))
    with pytest.raises(RequirementError, match=r"^tick: must be at least ") as error:
        plan(short)
    assert str(error.value).endswith(f"not {time_text(short.span.tick)}")


@pytest.mark.slow
def test_tick_too_short_for_the_device():
    span = Span.of(Fraction(1, 1000), Fraction(1, 10**7))
    message = r"^tick: must be at least 113\.208 ns \(24 clock cycles\) on ecp5-25k-6, not"
    with pytest.raises(RequirementError, match=message):
        plan(of_rings(200, 0.001, span=span, device=DEVICES["ecp5-25k-6"]))
    with pytest.raises(RequirementError, match=r"^slack: must be at least 0\.00498 for a "):
        plan(asked(200, 0.01, span=SECOND, slack=1e-5, families=("gebf",)))
