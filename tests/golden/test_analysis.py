"""Analysis against enumeration, against closed forms, and against the tables of the APBF paper."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases import daily

from lately.golden import analysis
from papers import apbf

DATA = Path(apbf.__file__).parent / "data"

SMALL = [(1, 1), (1, 4), (2, 1), (2, 3), (3, 1), (3, 2), (3, 5), (4, 2), (4, 4), (5, 1), (5, 3)]


def random_fills(k, l):
    return np.random.default_rng([k, l]).random(k + l).tolist()


def patterns(fills):
    """Every pattern of matches with its probability."""
    for pattern in itertools.product((False, True), repeat=len(fills)):
        yield (
            pattern,
            math.prod(
                fill if match else 1 - fill for fill, match in zip(fills, pattern, strict=True)
            ),
        )


def has_run(pattern, k):
    return any(all(pattern[j : j + k]) for j in range(len(pattern) - k + 1))


def algorithm_1(pattern, k, l):
    """The query of section 5.4, word for word, and the slices that it reads."""
    i, p, c = l, 0, 0
    accesses = 0
    while i >= 0:
        accesses += 1
        if pattern[i]:
            c = c + 1
            i = i + 1
            if p + c == k:
                return True, accesses
        else:
            i = i - k
            p = c
            c = 0
    return False, accesses


def enumerated_accesses(fills, k, l, verdict):
    weight = total = 0.0
    for pattern, probability in patterns(fills):
        result, accesses = algorithm_1(pattern, k, l)
        assert result == has_run(pattern, k)
        if result == verdict:
            weight += probability
            total += probability * accesses
    return total / weight


# False-positive rate


@pytest.mark.parametrize(("k", "l"), SMALL)
def test_rate_enumerated(k, l):
    fills = random_fills(k, l)
    expected = sum(probability for pattern, probability in patterns(fills) if has_run(pattern, k))
    assert analysis.apbf_false_positive_rate(k, l, fills=fills) == pytest.approx(
        expected, rel=1e-13
    )


@pytest.mark.parametrize(("k", "l"), [*SMALL, (14, 11), (18, 63)])
@pytest.mark.parametrize("profile", analysis.PROFILES)
def test_rate_recursion_as_printed(k, l, profile):
    r = analysis.apbf_fills(k, l, profile=profile)

    @cache
    def recursion(a, i):
        if a == k:
            return 1.0
        if i > l + a:
            return 0.0
        return r[i] * recursion(a + 1, i + 1) + (1 - r[i]) * recursion(0, i + 1)

    assert analysis.apbf_false_positive_rate(k, l, profile=profile) == pytest.approx(
        recursion(0, 0), rel=1e-12
    )


def test_rate_of_run_1_is_one_minus_misses():
    fills = random_fills(1, 9)
    misses = math.prod(1 - fill for fill in fills)
    assert analysis.apbf_false_positive_rate(1, 9, fills=fills) == pytest.approx(
        1 - misses, rel=1e-14
    )


def test_rate_far_below_rounding_of_one():
    rate = analysis.apbf_false_positive_rate(1, 1, fills=[1e-30, 1e-30])
    assert rate == pytest.approx(2e-30, rel=1e-14, abs=0)


@pytest.mark.parametrize(("fill", "expected"), [(0.0, 0.0), (1.0, 1.0)])
def test_rate_of_empty_and_full(fill, expected):
    assert analysis.apbf_false_positive_rate(3, 4, fills=[fill] * 7) == expected


def test_rate_takes_fills_youngest_first():
    # The run 1, 2 is there only if the youngest segment is the empty one.
    assert analysis.apbf_false_positive_rate(2, 1, fills=[0.0, 1.0, 1.0]) == 1.0
    assert analysis.apbf_false_positive_rate(2, 1, fills=[1.0, 0.0, 1.0]) == 0.0


def test_rate_by_default_is_exact_profile():
    assert f"{analysis.apbf_false_positive_rate(14, 11):.6f}" == "0.000120"
    assert f"{analysis.apbf_false_positive_rate(14, 11, profile='linear'):.6f}" == "0.000099"


def test_fills_linear():
    assert analysis.apbf_fills(4, 2, profile="linear") == [1 / 8, 2 / 8, 3 / 8, 1 / 2, 1 / 2, 1 / 2]


def test_fills_exact():
    assert analysis.apbf_fills(2, 1) == pytest.approx([1 - 2**-0.5, 1 / 2, 1 / 2], rel=1e-15)


def test_fills_exact_is_what_slices_hold():
    k, l, slice_bits = 14, 11, 1 << 20
    loads = analysis.segment_loads(k, l, analysis.apbf_generation(slice_bits, k), 1.0)
    held = [
        analysis.segment_false_positive_rate(load, blocks=1, cells=slice_bits, parts=1)
        for load in loads
    ]
    assert held == pytest.approx(analysis.apbf_fills(k, l), rel=2e-5)


# Accesses


@pytest.mark.parametrize(("k", "l"), SMALL)
@pytest.mark.parametrize(("case", "verdict"), [("false positive", True), ("false", False)])
def test_accesses_enumerated(k, l, case, verdict):
    fills = random_fills(k, l)
    assert analysis.apbf_accesses(k, l, case, fills=fills) == pytest.approx(
        enumerated_accesses(fills, k, l, verdict), rel=1e-12
    )


@pytest.mark.parametrize(("k", "l"), SMALL)
def test_accesses_window_enumerated(k, l):
    fills = random_fills(k, l)
    total = 0.0
    for generation in range(l):
        written = fills[:generation] + [1.0] * k + fills[generation + k :]
        total += enumerated_accesses(written, k, l, True)
    assert analysis.apbf_accesses(k, l, "window", fills=fills) == pytest.approx(
        total / l, rel=1e-12
    )


@pytest.mark.parametrize(("k", "l"), [(4, 3), (14, 11), (8, 56)])
def test_accesses_window_same_in_both_profiles(k, l):
    exact = analysis.apbf_accesses(k, l, "window")
    assert exact == pytest.approx(
        analysis.apbf_accesses(k, l, "window", profile="linear"), rel=1e-14
    )


def test_accesses_at_the_edges():
    # Nothing matches: slices l, l - k, ... are read.
    assert analysis.apbf_accesses(3, 7, "false", fills=[0.0] * 10) == 3
    assert analysis.apbf_accesses(3, 7, "false positive", fills=[1.0] * 10) == 3
    assert analysis.apbf_accesses(3, 7, "window", fills=[1.0] * 10) == 3
    # A GEBF reads from the oldest segment; the key of epoch j is found after l - j misses.
    assert analysis.apbf_accesses(1, 4, "window", fills=[0.0] * 5) == (5 + 4 + 3 + 2) / 4


# Segments


def brute_segment_rate(load, blocks, cells, parts):
    """Place the keys in every way and count the places where a fresh key matches."""
    positions = list(itertools.product(range(blocks), *[range(cells)] * parts))
    matched = 0
    for keys in itertools.product(positions, repeat=load):
        held = {(key[0], part, cell) for key in keys for part, cell in enumerate(key[1:])}
        matched += sum(
            all((position[0], part, cell) in held for part, cell in enumerate(position[1:]))
            for position in positions
        )
    return matched / len(positions) ** (load + 1)


@pytest.mark.parametrize(
    ("load", "blocks", "cells", "parts"),
    [(0, 2, 2, 2), (1, 1, 3, 2), (1, 3, 2, 2), (3, 1, 2, 2), (3, 2, 2, 2), (4, 3, 2, 1),
     (3, 2, 3, 1), (2, 3, 1, 1), (2, 1, 1, 2)],
)  # fmt: skip
def test_segment_rate_enumerated(load, blocks, cells, parts):
    assert analysis.segment_false_positive_rate(
        load, blocks=blocks, cells=cells, parts=parts
    ) == pytest.approx(brute_segment_rate(load, blocks, cells, parts), rel=1e-13)


def closed_segment_rate(load, blocks, cells, parts):
    """The power (1 - x)^parts written out, so that the binomial sum has a closed form."""
    with localcontext() as context:
        context.prec = 80
        stay = 1 - Decimal(1) / cells
        return float(
            sum(
                math.comb(parts, s) * (-1) ** s * (1 - (1 - stay**s) / blocks) ** load
                for s in range(parts + 1)
            )
        )


@pytest.mark.parametrize(
    ("load", "blocks", "cells", "parts"),
    [
        (1, 100000, 16, 4), (1000, 64, 16, 4), (12345, 1, 16384, 1), (20000, 1, 8192, 4),
        (10**6, 100000, 16, 4), (10**6, 100000, 64, 8), (10**6, 2, 1 << 20, 8),
        (10**6, 1, 1 << 20, 3), (50, 100000, 8, 8), (10**6, 17, 1 << 15, 2), (0, 100000, 16, 4),
    ],
)  # fmt: skip
def test_segment_rate_closed_form(load, blocks, cells, parts):
    rate = analysis.segment_false_positive_rate(load, blocks=blocks, cells=cells, parts=parts)
    assert rate == pytest.approx(closed_segment_rate(load, blocks, cells, parts), rel=1e-10, abs=0)


def test_segment_rate_is_interpolated():
    low, high = (
        analysis.segment_false_positive_rate(load, blocks=4, cells=4, parts=2) for load in (6, 7)
    )
    rate = analysis.segment_false_positive_rate(6.25, blocks=4, cells=4, parts=2)
    assert rate == pytest.approx(low + (high - low) / 4, rel=1e-14)
    assert analysis.segment_false_positive_rate(6.0, blocks=4, cells=4, parts=2) == low


@pytest.mark.parametrize("blocks", daily(3, [1, 2, 4, 7, 64, 1024]))
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("cells", [1, 2, 4])
def test_segment_rate_never_above_one(blocks, cells, parts):
    for exponent in range(0, 16):
        for load in (blocks * 2.0**exponent, blocks * 2.0**exponent + 1 / 3):
            rate = analysis.segment_false_positive_rate(
                load, blocks=blocks, cells=cells, parts=parts
            )
            assert 0 < rate <= 1
            assert 0 <= analysis.apbf_false_positive_rate(2, 2, fills=[rate] * 4) <= 1 + 1e-15


def test_block_rate_never_above_one():
    rates = [analysis.apbbf_block_false_positive_rate(8, 2, 2.0**n / 3) for n in range(20)]
    assert max(rates) <= 1
    # The last bit depends on how the processor sums.
    assert rates[-1] == pytest.approx(1, rel=1e-15)


def test_segment_loads():
    assert analysis.segment_loads(3, 2, 100, 0.25) == [25.0, 125.0, 225.0, 300.0, 300.0]
    assert analysis.segment_loads(1, 3, 8, 0.0) == [0.0, 8.0, 8.0, 8.0]


@pytest.mark.parametrize(("run", "window_generations"), [(1, 3), (3, 2), (4, 4)])
def test_segment_loads_continue_over_a_shift(run, window_generations):
    before = analysis.segment_loads(run, window_generations, 10, 1.0)
    after = analysis.segment_loads(run, window_generations, 10, 0.0)
    assert after == [0.0, *before[:-1]]


def test_block_rate_is_limit_of_many_blocks():
    load = analysis.apbbf_block_capacity(64, 4)
    poisson = analysis.apbbf_block_false_positive_rate(64, 4)
    errors = [
        analysis.segment_false_positive_rate(load * blocks, blocks=blocks, cells=16, parts=4)
        / poisson
        - 1
        for blocks in (1000, 10000)
    ]
    assert abs(errors[0]) < 1e-3
    assert abs(errors[1]) < 1e-4


@pytest.mark.parametrize(("block_bits", "hashes_per_block"), [(64, 4), (512, 8), (8, 2), (60, 7)])
@pytest.mark.parametrize("load", [0.001, 1.5, None, 200.0])
def test_block_rate_closed_form(block_bits, hashes_per_block, load):
    mean = analysis.apbbf_block_capacity(block_bits, hashes_per_block) if load is None else load
    with localcontext() as context:
        context.prec = 80
        stay = 1 - Decimal(hashes_per_block) / block_bits
        expected = float(
            sum(
                math.comb(hashes_per_block, s) * (-1) ** s * (-Decimal(mean) * (1 - stay**s)).exp()
                for s in range(hashes_per_block + 1)
            )
        )
    rate = analysis.apbbf_block_false_positive_rate(block_bits, hashes_per_block, load)
    assert rate == pytest.approx(expected, rel=1e-11, abs=0)


def test_block_rate_of_nothing():
    assert analysis.apbbf_block_false_positive_rate(64, 4, 0.0) == 0.0


def test_apbbf_fills():
    fills = analysis.apbbf_fills(2, 3, 64, 4)
    half = analysis.apbbf_block_capacity(64, 4) / 2
    full = analysis.apbbf_block_false_positive_rate(64, 4)
    assert fills == [analysis.apbbf_block_false_positive_rate(64, 4, half), full, full, full, full]


# Sizes, slack and staleness


@pytest.mark.parametrize(
    ("slice_bits", "k", "generation"), [(16384, 10, 1135), (32, 3, 7), (1, 1, 1), (2, 5, 1)]
)
def test_apbf_generation(slice_bits, k, generation):
    assert analysis.apbf_generation(slice_bits, k) == generation


@pytest.mark.parametrize(
    ("blocks", "block_bits", "hashes_per_block", "k", "generation"),
    # ln(1/2) / ln(15/16) = 10.7401; ln(1/2) / ln(3/4) = 2.4094; ln(1/2) / ln(1/2) = 1
    [(1024, 64, 4, 2, 5498), (4, 8, 2, 2, 4), (1, 8, 2, 3, 1), (6, 2, 1, 2, 3)],
)
def test_apbbf_generation(blocks, block_bits, hashes_per_block, k, generation):
    assert analysis.apbbf_generation(blocks, block_bits, hashes_per_block, k) == generation


def test_block_capacity_fills_half():
    capacity = analysis.apbbf_block_capacity(512, 8)
    assert (1 - 8 / 512) ** capacity == pytest.approx(1 / 2, rel=1e-13)


# Bloom filter and GEBF


@pytest.mark.parametrize("k", [1, 4, 17])
def test_bloom_accesses_formula_of_the_paper(k):
    exact = Fraction(2**k, 2**k - 1) * sum(Fraction(i, 2**i) for i in range(1, k + 1))
    assert analysis.bloom_accesses(k, "false") == pytest.approx(float(exact), rel=1e-14)
    assert analysis.bloom_accesses(k, "true") == k
    assert analysis.bloom_accesses(k, "false", 0) == 1


def test_bloom_accesses_enumerated():
    k, fill = 4, 0.3
    misses = [
        (pattern.index(False) + 1, probability)
        for pattern, probability in patterns([fill] * k)
        if not all(pattern)
    ]
    expected = sum(i * p for i, p in misses) / sum(p for _, p in misses)
    assert analysis.bloom_accesses(k, "false", fill) == pytest.approx(expected, rel=1e-14)


# Wrong parameters

COUNT = "must be an integer of at least 1, not "
BELOW = "must be below block_bits = 8, not 8"
SHAPE = r"fills: must have shape \(5,\), not \(4,\)"
PROFILE = "profile: must be one of exact, linear, not 'square'"


def segment(load=1, blocks=1, cells=1, parts=1):
    return analysis.segment_false_positive_rate(load, blocks=blocks, cells=cells, parts=parts)


WRONG = [
    (lambda: analysis.apbf_generation(0, 1), f"slice_bits: {COUNT}0"),
    (lambda: analysis.apbf_generation(8, -1), f"k: {COUNT}-1"),
    (lambda: analysis.apbf_generation(8.0, 1), f"slice_bits: {COUNT}8.0"),
    (lambda: analysis.apbf_generation(8, True), f"k: {COUNT}True"),
    (lambda: analysis.apbbf_block_capacity(0, 1), f"block_bits: {COUNT}0"),
    (lambda: analysis.apbbf_block_capacity(8, 0), f"hashes_per_block: {COUNT}0"),
    (lambda: analysis.apbbf_block_capacity(8, 8), f"hashes_per_block: {BELOW}"),
    (lambda: analysis.apbbf_generation(0, 8, 2, 1), f"blocks: {COUNT}0"),
    (lambda: analysis.apbbf_generation(1, 8, 8, 1), f"hashes_per_block: {BELOW}"),
    (lambda: analysis.apbbf_generation(1, 8, 2, 0), f"k: {COUNT}0"),
    (lambda: analysis.npws(0, 1, 0.5), f"k: {COUNT}0"),
    (lambda: analysis.npws(1, 0, 0.5), f"l: {COUNT}0"),
    (lambda: analysis.npws(1, 1, 1.5), "survival: must be between 0 and 1, not 1.5"),
    (lambda: analysis.segment_loads(0, 1, 1, 0.5), f"run: {COUNT}0"),
    (lambda: analysis.segment_loads(1, 0, 1, 0.5), f"window_generations: {COUNT}0"),
    (lambda: analysis.segment_loads(1, 1, 0, 0.5), f"generation: {COUNT}0"),
    (lambda: analysis.segment_loads(1, 1, 1, 1.01), "phase: must be between 0 and 1, not 1.01"),
    (lambda: analysis.segment_loads(1, 1, 1, math.nan), "phase: must be between 0 and 1, not nan"),
    (lambda: segment(load=-1), "load: must be at least 0 and finite, not -1"),
    (lambda: segment(load=math.inf), "load: must be at least 0 and finite, not inf"),
    (lambda: segment(load=math.nan), "load: must be at least 0 and finite, not nan"),
    (lambda: segment(blocks=0), f"blocks: {COUNT}0"),
    (lambda: segment(cells=0), f"cells: {COUNT}0"),
    (lambda: segment(parts=0), f"parts: {COUNT}0"),
    (lambda: analysis.apbbf_block_false_positive_rate(8, 8), f"hashes_per_block: {BELOW}"),
    (lambda: analysis.apbbf_block_false_positive_rate(8, 2, -0.5),
     "load: must be at least 0 and finite, not -0.5"),
    (lambda: analysis.digest_false_positive_rate(0, 8), f"window: {COUNT}0"),
    (lambda: analysis.bloom_accesses(0, "true"), f"k: {COUNT}0"),
    (lambda: analysis.bloom_accesses(1, "window"),
     "case: must be 'true' or 'false', not 'window'"),
    (lambda: analysis.bloom_accesses(1, "true", 2), "fill: must be between 0 and 1, not 2"),
    (lambda: analysis.bloom_accesses(1, "false", 1.0),
     "fill: must be below 1 for the case 'false', not 1.0"),
    (lambda: analysis.apbf_fills(0, 1), f"k: {COUNT}0"),
    (lambda: analysis.apbf_fills(1, 0), f"l: {COUNT}0"),
    (lambda: analysis.apbf_fills(1, 1, profile="square"), PROFILE),
    (lambda: analysis.apbbf_fills(0, 1, 8, 2), f"k: {COUNT}0"),
    (lambda: analysis.apbbf_fills(1, 0, 8, 2), f"l: {COUNT}0"),
    (lambda: analysis.apbbf_fills(1, 1, 8, 8), f"hashes_per_block: {BELOW}"),
    (lambda: analysis.apbf_false_positive_rate(0, 1), f"k: {COUNT}0"),
    (lambda: analysis.apbf_false_positive_rate(0, 1, fills=[0.5]), f"k: {COUNT}0"),
    (lambda: analysis.apbf_false_positive_rate(1, 0, fills=[0.5]), f"l: {COUNT}0"),
    (lambda: analysis.apbf_false_positive_rate(1, 1, profile="square"), PROFILE),
    (lambda: analysis.apbf_false_positive_rate(2, 3, fills=[0.5] * 4), SHAPE),
    (lambda: analysis.apbf_false_positive_rate(1, 1, fills=[0.5, 1.5]),
     "fills: must be between 0 and 1, not 1.5"),
    (lambda: analysis.apbf_false_positive_rate(1, 1, fills=[0.5, math.nan]),
     "fills: must be between 0 and 1, not nan"),
    (lambda: analysis.apbf_accesses(0, 1, "false"), f"k: {COUNT}0"),
    (lambda: analysis.apbf_accesses(1, 0, "false"), f"l: {COUNT}0"),
    (lambda: analysis.apbf_accesses(1, 1, "true"),
     "case: must be one of window, false positive, false, not 'true'"),
    (lambda: analysis.apbf_accesses(1, 1, "false", profile="square"), PROFILE),
    (lambda: analysis.apbf_accesses(2, 3, "false", fills=[0.5] * 4), SHAPE),
    (lambda: analysis.apbf_accesses(1, 1, "false", fills=[1.0, 1.0]),
     "fills: must give 'false' a probability above 0, not 0.0"),
    (lambda: analysis.apbf_accesses(1, 1, "false positive", fills=[0.0, 0.0]),
     "fills: must give 'false positive' a probability above 0, not 0.0"),
]  # fmt: skip


def test_parameter_wrong():
    for call, message in WRONG:
        with pytest.raises(ValueError, match=f"^{message}$"):
            call()
