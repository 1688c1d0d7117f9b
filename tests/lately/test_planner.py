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

from lately.boards.flow.devices import DEVICES
from lately.golden import (
    FAMILIES,
    FilterSpec,
    Operation,
    PoolStatus,
    SpecificationError,
    from_spec,
)
from lately.hdl.latencies import TIMED_GENERATION
from lately.hdl.ring.profile import RingProfile
from lately.planner import Requirement, RequirementError, choose, plan, space
from lately.planner.chart import draw_plan, front_chart
from lately.planner.rates import lower_bounds
from lately.planner.requirement import PLANNER_FAMILIES, Span, distinct


def asked(window, rate, **more):
    """Return what is asked of a ring."""
    rings = {"families": tuple(FAMILIES)}
    return Requirement(window=window, false_positive_rate=rate, **rings | more)


# Rates


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("any_size", daily(1, [False, True]))
def test_bounds_are_no_higher_than_the_rates_of_the_specification(family, any_size):
    requirement = asked(5000, 0.01, any_size=any_size)
    shapes = space.shapes(family, requirement)
    rng = np.random.default_rng(1)
    shapes = shapes[rng.choice(len(shapes), 150)]
    sizes = space.sizes(any_size)
    usual = sizes[(sizes >= 2) & (sizes < 4096)]
    size = rng.choice(usual, len(shapes))
    fine = ~space.too_large(shapes, size, requirement)
    shapes, size = shapes[fine], size[fine]
    exact = [
        shapes.spec(i, int(n), requirement).worst_false_positive_rate for i, n in enumerate(size)
    ]
    assert len(exact) > 20
    bounds = lower_bounds(shapes, size)
    assert (bounds <= np.array(exact) * (1 + 1e-9)).all()
    # So high that a search begins where it ends.
    assert np.median(bounds / np.array(exact)) > 0.3


# The cheapest

SMALL = {
    "GENERATIONS": (1, 2, 3, 4, 5, 8),
    "RUNS": {"apbf": range(1, 6), "apbbf": (1, 2, 3), "gebf": (1,), "blocked-gebf": (1,)},
    "PARTS": {"apbf": (1,), "apbbf": (2, 4), "gebf": range(1, 6), "blocked-gebf": range(1, 5)},
    "BLOCK_BITS": {"apbbf": (32, 64), "blocked-gebf": (32, 64)},
}
SIZES = {False: [1 << e for e in range(11)], True: [1, 2, 3, 5, 8, 12, 20, 33, 60, 100, 250, 900]}


def every_spec(family, window, any_size):
    """Yield all specifications of the small space, from the definitions."""
    generations, sizes = SMALL["GENERATIONS"], SIZES[any_size]
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
        if l > window or (B and B // b < space.LEAST_CELLS):
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
def test_none_is_cheaper(monkeypatch, window, rate, slack, counted):
    options, figures = COSTS[counted]
    any_size = "any_size" in options
    for name, values in SMALL.items():
        monkeypatch.setattr(space, name, values)
    monkeypatch.setattr("lately.planner.rings.sizes", lambda any_size: np.array(SIZES[any_size]))
    requirement = asked(window, rate, slack=slack, **options)
    for family in FAMILIES:
        best = next(PLANNER_FAMILIES[family].search(requirement), None)
        met = [
            spec
            for spec in every_spec(family, window, any_size)
            if spec.worst_false_positive_rate <= rate
            and (
                slack is None
                or spec.guaranteed_window + spec.slack <= (1 + Fraction(str(slack))) * window
            )
        ]
        ranks = [rank(spec, figures) for spec in met]
        assert (best is None) == (not met)
        if best is not None:
            spec = best.spec
            assert rank(spec, figures) == pytest.approx(min(ranks))
            assert best.cost == figures(spec)[0]
            assert any(replace(one, clear=spec.clear) == spec for one in met)


def rank(spec, figures):
    return (*figures(spec), spec.segments * spec.parts, spec.worst_false_positive_rate)


@pytest.mark.parametrize(
    ("window", "rate", "any_size"),
    [
        (3, 0.3, False),
        (3, 0.3, True),
        (10, 0.1, False),
        (1000, 1e-3, True),
        (10**6, 0.01, False),
        (10**6, 1e-6, False),
        pytest.param(10**7, 1e-9, True, marks=pytest.mark.slow),
    ],
)
def test_what_was_asked_is_kept(window, rate, any_size):
    requirement = asked(window, rate, any_size=any_size, key_bits=48, seed=5)
    spec = choose(requirement)
    assert spec.window == window
    assert spec.guaranteed_window >= window
    assert spec.worst_false_positive_rate <= rate
    assert (spec.key_bits, spec.seed) == (48, 5)
    if not any_size:
        RingProfile.of(spec).check_buildable()


def test_slack_is_kept_at_its_edge():
    spec = choose(asked(1000, 0.01, slack=0.1, families=("gebf",)))
    assert (spec.guaranteed_window + spec.slack) * 10 <= 11 * 1000
    # Ten epochs of 100: just the slack that was asked.
    exact = asked(1000, 0.5, slack=0.1, families=("gebf",), any_size=True)
    assert choose(exact).epochs == 10
    assert choose(replace(exact, slack=0.0999)).epochs > 10


def test_the_same_every_time():
    requirement = asked(2000, 0.02, device=DEVICES["ecp5-25k-6"], families=("gebf", "blocked-gebf"))
    one, two = (plan(requirement, front=True).to_dict() for _ in range(2))
    assert json.dumps(one) == json.dumps(two)


# The plan


@pytest.fixture(scope="module")
def planned():
    return plan(asked(20_000, 0.01, slack=0.2), front=True)


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


def test_what_binds_breaks_what_it_says(planned):
    """Built anew from the fields that are named."""
    kinds = set()
    for candidate in planned.candidates:
        assert candidate.bindings
        for binding in candidate.bindings:
            values = candidate.spec.to_dict()
            del values["generation"]
            parts = values.get("hashes")
            if binding.field == "epochs":
                values["bits"] = values["bits"] // (values["epochs"] + 1) * (binding.value + 1)
            if binding.field == "hashes" and candidate.spec.family == "gebf":
                values["bits"] = values["bits"] // parts * binding.value
            if binding.field == "cells":
                values["bits"] = values["bits"] // candidate.spec.cells * binding.value
            elif binding.field == "blocks" and parts:
                values["bits"] = values["bits"] // candidate.spec.segment_blocks * binding.value
            else:
                values[binding.field] = binding.value
            smaller = FilterSpec.from_dict(values)
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


def test_clearing_binds():
    """Below a window that clears a segment, less is not possible."""
    found = plan(asked(4, 0.01, families=("apbf",)))
    constraints = [b for c in found.candidates for b in c.bindings if b.constraint == "clearing"]
    print([str(binding) for c in found.candidates for binding in c.bindings])
    assert all(str(binding).endswith("not cleared in time") for binding in constraints)


def test_front_is_undominated(planned):
    for family in FAMILIES:
        own = [c for c in planned.front if c.spec.family == family]
        assert len(own) > 1
        costs = [c.cost for c in own]
        rates = [c.spec.worst_false_positive_rate for c in own]
        assert costs == sorted(set(costs))
        assert rates == sorted(set(rates), reverse=True)


@pytest.mark.parametrize(
    ("ending", "head"), daily(1, [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
)
def test_drawing(planned, tmp_path, ending, head):
    path = tmp_path / f"front.{ending}"
    draw_plan(planned, path)
    first = path.read_bytes()
    assert first.startswith(head)
    draw_plan(planned, path)
    assert path.read_bytes() == first
    assert [series.label for series in front_chart(planned).series] == [*FAMILIES, "chosen"]


# What cannot be


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"window": 0}, r"window: must be 1 to 2\*\*32 insertions, not 0"),
        ({"window": 10**12}, r"window: must be 1 to 2\*\*32 insertions, not 1000000000000"),
        ({"false_positive_rate": 0.0}, "fpr: must be a rate above 0 and below 1, not 0"),
        ({"false_positive_rate": math.nan}, "fpr: must be a rate above 0 and below 1, not nan"),
        ({"slack": -0.1}, "slack: must be a fraction of the window, 0 or more, not -0.1"),
        ({"families": ("bloom",)}, "family: must be one of apbf, .*, not bloom"),
        ({"key_bits": 0}, "key-bits: must be 1 to 4096, not 0"),
        (
            {"device": DEVICES["ice40-up5k"], "any_size": True},
            "device cannot be combined with any_size",
        ),
        (
            {"device": DEVICES["ice40-up5k"], "bits_only": True},
            "device cannot be combined with bits_only",
        ),
    ],
)
def test_requirement_wrong(values, message):
    with pytest.raises(RequirementError, match=f"^{message}$"):
        Requirement(**{"window": 9, "false_positive_rate": 0.1} | values)


def test_window_too_small_for_hardware():
    with pytest.raises(RequirementError, match=r"^window: must be 2 insertions or more .* not 1$"):
        choose(asked(1, 0.1))
    assert choose(asked(1, 0.1, any_size=True)).window == 1
    assert choose(asked(2, 0.1)).window == 2


def test_slack_too_small():
    with pytest.raises(RequirementError, match=r"^slack: must be at least ([\d.]+) ") as error:
        choose(asked(10_000, 0.1, slack=1e-4))
    least = float(str(error.value).split()[5])
    assert least < 0.01
    assert choose(asked(10_000, 0.1, slack=least)).slack <= least * 10_000


STAMPED = {"slack": 0.0, "families": tuple(PLANNER_FAMILIES)}


@pytest.mark.parametrize(
    ("window", "rate", "more", "limit"),
    [(4, 1e-300, {}, 1e-3), (20_000, 1e-30, STAMPED, 1e-8)],
    ids=["rings", "timestamps"],
)
def test_rate_too_small(window, rate, more, limit):
    required = asked(window, rate, **more)
    with pytest.raises(RequirementError, match=r"^fpr: must be at least (\S+) for ") as error:
        choose(required)
    print(error.value)
    assert ("cleared within a generation" in str(error.value)) == (not more)
    lowest = float(str(error.value).split()[5].rstrip(","))
    assert 0 < lowest < limit
    assert choose(replace(required, false_positive_rate=lowest)).mean_false_positive_rate <= lowest


@pytest.mark.parametrize(
    ("window", "rate", "device", "more", "binds"),
    daily(
        1,
        [
            (30_000, 0.01, "ice40-hx8k", {"families": ("gebf",)}, "block RAMs of 32"),
            (30_000, 1e-3, "ecp5-25k-6", STAMPED, "block RAMs of 56"),
        ],
    ),
)
def test_device_too_small(window, rate, device, more, binds):
    required = asked(window, rate, device=DEVICES[device], **more)
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


def test_keys_of_a_span_are_rounded_up():
    assert Span(ticks=9, tick=Fraction(1)).keys(200_000.0) == 2_000_000
    assert Span(ticks=1, tick=Fraction(1, 4)).keys(3.0) == 2
    # Not a binary fraction: 0.1 x 30 is 3 and not more.
    assert Span(ticks=29, tick=Fraction(1)).keys(0.1) == 3
    with pytest.raises(RequirementError, match=r"^rate: must be keys per second above 0, not 0$"):
        SPAN.keys(0.0)


SPAN = Span.of(Fraction(1), Fraction(1, 200))


def bursts(window, span, count, seed):
    """Return times of operations, as unsteady as `window` keys at most in each span allow."""
    choose = random.Random(seed)
    times = []
    for number in range(count):
        calm = choose.random() < (0.9 if number // window % 2 else 0.02)
        time = times[-1] + choose.randrange(2 * span // window + 2) * calm if times else 0
        least = times[number - window] + span + 1 if number >= window else 0
        times.append(max(time, least))
    return np.array(times)


def performed(spec, seed):
    """Insert distinct keys at such times; return the model, keys and times."""
    model = from_spec(spec)
    times = bursts(spec.window + 1, spec.span, 12 * spec.window, seed)
    keys = np.random.default_rng(seed).integers(0, 1 << 63, len(times), np.uint64)
    codes = np.full(len(times), Operation.INSERT)
    assert (model.perform(codes, keys, times).status != PoolStatus.WINDOW_SHORTENED).all()
    return model, keys, times


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("slack", [None, 0.3])
def test_span_is_kept_in_any_course_of_the_stream(family, slack):
    """No segment retires early while no more than N keys come in each span."""
    requirement = asked(100, 0.05, span=SPAN, slack=slack, families=(family,))
    spec = choose(requirement)
    assert spec.span == SPAN.ticks == 201
    assert spec.run * (spec.generation_span - 1) <= (slack or 1) * spec.span
    assert spec.worst_false_positive_rate <= 0.05
    for seed in range(20):
        model, keys, times = performed(spec, seed)
        now = int(times[-1])
        assert model.shortened == 0
        recent = times >= now - spec.span
        assert model.query(keys[recent], now).all()


def test_generation_of_a_span_is_no_longer_than_it_must_be():
    """Of N keys in a span, the first is lost at the last if generations are one shorter."""
    keys = 122
    spec = choose(asked(keys, 0.3, span=SPAN, families=("gebf",)))
    shorter = spec.generation - 1
    assert shorter >= TIMED_GENERATION
    generations = spec.window_generations
    assert generations * shorter + 2 <= keys < generations * spec.generation + 2
    lost = replace(spec, generation=shorter, window=generations * shorter)
    for one in (spec, lost):
        model = from_spec(one)
        # A generation that the first of the keys fills up, then all others at the span's end.
        times = [999] * (one.generation - 1) + [1000] + [1000 + spec.span] * (keys - 1)
        model.insert(np.arange(len(times)).astype(np.uint64), times)
        assert model.shortened == (one is lost)
        assert model.query(one.generation - 1, times[-1]) or one is lost


def test_longest_report_of_a_span():
    """A key that begins a generation is reported for the span and what its generation lasts."""
    spec = choose(asked(1000, 0.05, span=SPAN, slack=0.25, families=("gebf",), key_bits=64))
    for more, seen in ((0, True), (1, False)):
        model = from_spec(spec)
        last = spec.generation_span - 1
        model.insert([1], [0])
        model.insert([2], [last])
        assert model.query(1, last + spec.span + more) == seen
    assert last <= 0.25 * spec.span


@pytest.mark.slow
def test_tick_too_short_for_the_device():
    span = Span.of(Fraction(1, 1000), Fraction(1, 10**7))
    message = r"^tick: must be at least 113\.208 ns on ecp5-25k-6, where 24 clocks pass between"
    with pytest.raises(RequirementError, match=message):
        plan(asked(200, 0.001, span=span, device=DEVICES["ecp5-25k-6"]))
    with pytest.raises(RequirementError, match=r"^slack: must be at least 0\.00498 for a "):
        plan(asked(200, 0.01, span=SPAN, slack=1e-5, families=("gebf",)))


def test_keys_of_a_span_are_those_of_a_tick_more():
    assert SPAN.keys(1000.0) == 1010
    assert Span.of(Fraction(3)).tick == Fraction(3, 1000)
    with pytest.raises(
        RequirementError, match=r"^when-full: must be shorten or overfill, not drop$"
    ):
        Span.of(Fraction(1), when_full="drop")


def test_families_each_once_and_in_order():
    assert distinct(["gebf", "apbf", "gebf"]) == ("apbf", "gebf")
    assert distinct([]) == tuple(PLANNER_FAMILIES)
    assert distinct(["timed-timing", "apbf"]) == ("apbf", "timed-timing")
    assert distinct(["x"]) == ("x",)
