"""Sizes, false-positive rates, accesses and staleness of the filters, as the papers derive them."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""An array of real numbers; its shape is told where it is used."""

PROFILES = ("exact", "linear")
"""Fill ratios of the first k slices that are known by name; see `apbf_fills`."""

CASES = ("window", "false positive", "false")
"""Kinds of query that `apbf_accesses` tells apart."""


# Sizes


def apbf_generation(slice_bits: int, k: int) -> int:
    """Return the insertions of a generation that fill a slice to one half (APBF, section 5.2).

    Parameters
    ----------
    slice_bits : int
        Bits of a slice, m.
    k : int
        Slices that an insertion writes.

    Returns
    -------
    int
        g = floor(m ln 2 / k) insertions, and never less than 1.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1.
    """
    _count("slice_bits", slice_bits)
    _count("k", k)
    return max(1, math.floor(slice_bits * math.log(2) / k))


def apbbf_block_capacity(block_bits: int, hashes_per_block: int) -> float:
    """Return the expected insertions that fill a block to one half (APBF, section 6).

    Parameters
    ----------
    block_bits, hashes_per_block : int
        B and b: bits of a block, and bits that an insertion sets in it, each
        in a part of B / b bits.

    Returns
    -------
    float
        n = ln(1/2) / ln(1 - b/B) insertions per block.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1, or b is not below B.
    """
    _block(block_bits, hashes_per_block)
    return math.log(1 / 2) / math.log1p(-hashes_per_block / block_bits)


def apbbf_generation(blocks: int, block_bits: int, hashes_per_block: int, k: int) -> int:
    """Return the insertions of a generation that fill the blocks to one half (APBF, section 6).

    Parameters
    ----------
    blocks : int
        Blocks of a segment.
    block_bits, hashes_per_block : int
        B and b, as in `apbbf_block_capacity`.
    k : int
        Segments that an insertion writes.

    Returns
    -------
    int
        g = floor(blocks n / k) insertions with n the capacity of a block, and
        never less than 1.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1, or b is not below B.
    """
    _count("blocks", blocks)
    _count("k", k)
    return max(1, math.floor(blocks * apbbf_block_capacity(block_bits, hashes_per_block) / k))


def apbbf_relative_capacity(block_bits: int, hashes_per_block: int) -> float:
    """Window of an APBBF over that of an APBF in the same memory (APBF, Table 3, 'cap.').

    Parameters
    ----------
    block_bits, hashes_per_block : int
        B and b, as in `apbbf_block_capacity`.

    Returns
    -------
    float
        n / ((B/b) ln 2), without unit; the APBF has k b slices written and
        l b in the window.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1, or b is not below B.
    """
    capacity = apbbf_block_capacity(block_bits, hashes_per_block)
    return capacity * hashes_per_block / (block_bits * math.log(2))


# Slack and staleness


def npws(k: int, l: int, survival: float) -> float:
    """Peak normalised probability-weighted slack (APBF, section 5.2).

    Just before a shift the youngest of the k generations of the slack is
    reported surely, and each older one has a segment less to match by right.

    Parameters
    ----------
    k, l : int
        Segments that an insertion writes, and generations in the window.
    survival : float
        Probability that a full segment matches without the key: 1/2 for an
        APBF, the false-positive rate of a full block for an APBBF.

    Returns
    -------
    float
        (1/l) times the sum of survival**i for i < k, in windows. For l < k - 1
        the segments that stand in are not all full, and this is an upper
        bound of what the sum stands for.

    Raises
    ------
    ValueError
        If k or l is not an integer of at least 1, or survival is not in 0 to 1.
    """
    _count("k", k)
    _count("l", l)
    _share("survival", survival)
    return float(sum(survival**i for i in range(k)) / l)


def apbf_npws(k: int, l: int) -> float:
    """Peak normalised probability-weighted slack of an APBF, in windows (section 5.2).

    Parameters
    ----------
    k, l : int
        Slices that an insertion writes, and generations in the window.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1.
    """
    return npws(k, l, 1 / 2)


def apbf_staleness_bound(k: int, l: int, generation: int) -> int:
    """Return the insertions after which an APBF or APBBF has no trace of a key (APBF, section 5.2).

    The first key of a generation is written to segment 0 and discarded by the
    (k + l)-th shift from there, which comes with the last of these insertions.

    Parameters
    ----------
    k, l : int
        Segments that an insertion writes, and generations in the window.
    generation : int
        g, in insertions.

    Returns
    -------
    int
        (k + l) g = window + slack, in insertions after the key's own.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1.
    """
    _count("k", k)
    _count("l", l)
    _count("generation", generation)
    return (k + l) * generation


def gebf_staleness_bound(window: int, epochs: int) -> int:
    """Return the insertions after which a GEBF has no trace of a key (GEBF, proposition 1).

    A segment is cleared r + 1 epochs after it became the current one, so the
    first key of an epoch goes after (r + 1) ceil(W/r) more insertions. The
    paper's W + ceil(W/r) is the same where r divides W; elsewhere it is too
    small by r ceil(W/r) - W, the insertions that the r epochs cover past W.

    Parameters
    ----------
    window : int
        W, in insertions.
    epochs : int
        r, the epochs in the window.

    Returns
    -------
    int
        (r + 1) ceil(W/r), in insertions after the key's own.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1.
    """
    _count("window", window)
    _count("epochs", epochs)
    return (epochs + 1) * -(-window // epochs)


# Segments


def segment_loads(run: int, window_generations: int, generation: int, phase: float) -> list[float]:
    """Distinct keys inserted in each segment, from youngest to oldest (APBF, section 5.1).

    Parameters
    ----------
    run : int
        Segments that an insertion writes: k of an APBF, 1 of a GEBF.
    window_generations : int
        l of an APBF, r of a GEBF.
    generation : int
        Insertions between two shifts, every one of a new key.
    phase : float
        Share of the current generation that has been inserted, 0 to 1.

    Returns
    -------
    list of float
        run + window_generations loads in keys: (i + phase) generations in
        segment i < run, and run generations in the others.

    Raises
    ------
    ValueError
        If a count is not an integer of at least 1, or phase is not in 0 to 1.
    """
    _count("run", run)
    _count("window_generations", window_generations)
    _count("generation", generation)
    _share("phase", phase)
    filling = [float((i + phase) * generation) for i in range(run)]
    return filling + [float(run * generation)] * window_generations


def segment_false_positive_rate(load: float, *, blocks: int, cells: int, parts: int) -> float:
    """Probability that a fresh key matches a segment (APBF, sections 4.1 and 6).

    A key picks one of the blocks uniformly, and one cell in each part of that
    block. The number of keys in a block is binomial, and the parts of a block
    with j keys match independently, each with probability 1 - (1 - 1/cells)^j.
    One block is the plain partitioned Bloom filter.

    Parameters
    ----------
    load : float
        Distinct keys inserted in the segment. Between two integers the rate
        is interpolated linearly; at an integer it is exact to rounding.
    blocks : int
        Blocks of the segment.
    cells : int
        Bits of one part of one block.
    parts : int
        Parts of a block: bits that a key sets.

    Raises
    ------
    ValueError
        If load is negative or not finite, or a count is not an integer of at
        least 1.
    """
    _load(load)
    _count("blocks", blocks)
    _count("cells", cells)
    _count("parts", parts)
    whole = math.floor(load)
    rate = _binomial_rate(whole, blocks, cells, parts)
    if whole == load:
        return rate
    above = _binomial_rate(whole + 1, blocks, cells, parts)
    return min(1.0, float(rate + (load - whole) * (above - rate)))


def apbbf_block_false_positive_rate(
    block_bits: int, hashes_per_block: int, load: float | None = None
) -> float:
    """Probability that a fresh key matches a segment of very many blocks (APBF, section 6).

    The limit of `segment_false_positive_rate`: the number of keys in a block
    is Poisson-distributed.

    Parameters
    ----------
    block_bits, hashes_per_block : int
        B and b, as in `apbbf_block_capacity`. A part has B / b bits; B need
        not be a multiple of b.
    load : float, optional
        Expected keys in a block. By default a full block's
        (`apbbf_block_capacity`).

    Raises
    ------
    ValueError
        If a count is not an integer of at least 1, b is not below B, or load
        is negative or not finite.
    """
    capacity = apbbf_block_capacity(block_bits, hashes_per_block)
    mean = capacity if load is None else load
    _load(mean)
    if mean == 0:
        return 0.0
    return _average(
        _likely_loads(mean, None),
        lambda j: np.log(mean / (j + 1)),
        block_bits / hashes_per_block,
        hashes_per_block,
    )


# Bloom filter


def bloom_hashes(rate: float) -> int:
    """Hash functions of a Bloom filter for a false-positive rate (APBF, section 4.1).

    Parameters
    ----------
    rate : float
        Rate aimed at, above 0 and below 1.

    Returns
    -------
    int
        k = ceil(log2(1 / rate)).

    Raises
    ------
    ValueError
        If rate is not above 0 and below 1.
    """
    _require(0 < rate < 1, "rate", "must be above 0 and below 1", rate)
    return math.ceil(-math.log2(rate))


def bloom_bits_per_item(k: int) -> float:
    """Bits per key of a Bloom filter that stops at half full (APBF, section 4.1): k / ln 2.

    Parameters
    ----------
    k : int
        Hash functions.

    Raises
    ------
    ValueError
        If k is not an integer of at least 1.
    """
    _count("k", k)
    return k / math.log(2)


def bloom_false_positive_rate(k: int, fill: float = 1 / 2) -> float:
    """False-positive rate fill**k of a partitioned Bloom filter (APBF, section 4.1).

    Parameters
    ----------
    k : int
        Slices.
    fill : float
        Share of bits set, 0 to 1.

    Raises
    ------
    ValueError
        If k is not an integer of at least 1, or fill is not in 0 to 1.
    """
    _count("k", k)
    _share("fill", fill)
    return float(fill**k)


def bloom_accesses(k: int, case: str, fill: float = 1 / 2) -> float:
    """Return the expected slice accesses of a Bloom-filter query (APBF, section 4.2).

    Parameters
    ----------
    k : int
        Slices.
    case : str
        'true' for a query that is reported, 'false' for one that is not.
    fill : float
        Share of bits set, 0 to 1; below 1 for the case 'false'.

    Returns
    -------
    float
        k, or the mean position of the first 0 given that there is one.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """
    _count("k", k)
    _require(case in ("true", "false"), "case", "must be one of true, false", case)
    _share("fill", fill)
    if case == "true":
        return float(k)
    _require(fill < 1, "fill", "must be below 1 for the case 'false'", fill)
    first_miss = sum(i * fill ** (i - 1) * (1 - fill) for i in range(1, k + 1))
    return float(first_miss / (1 - fill**k))


def bloom_metrics(k: int) -> dict[str, float]:
    """Row of Table 1 of the APBF paper, by column name.

    Parameters
    ----------
    k : int
        Hash functions.

    Returns
    -------
    dict of str to float
        ``bits_per_item``, ``actual_fp``, ``accesses_true`` and
        ``accesses_false``, at a fill ratio of one half.

    Raises
    ------
    ValueError
        If k is not an integer of at least 1.
    """
    return {
        "bits_per_item": bloom_bits_per_item(k),
        "actual_fp": bloom_false_positive_rate(k),
        "accesses_true": bloom_accesses(k, "true"),
        "accesses_false": bloom_accesses(k, "false"),
    }


# Age-partitioned Bloom filters


def apbf_fills(k: int, l: int, *, profile: str = "exact") -> list[float]:
    """Fill ratios of the slices just before a shift, youngest first (APBF, section 5.3).

    Parameters
    ----------
    k, l : int
        Slices that an insertion writes, and generations in the window.
    profile : str
        'linear' takes (i + 1) / (2k) for the slices s_i, i < k, as the paper
        does. 'exact' takes 1 - 2^(-(i + 1) / k), which generations of
        floor(m ln 2 / k) keys lead to; it is the larger one, and it is what
        filters measure. The other slices are half full.

    Returns
    -------
    list of float
        k + l ratios.

    Raises
    ------
    ValueError
        If k or l is not an integer of at least 1, or the profile is unknown.
    """
    _count("k", k)
    _count("l", l)
    _require(profile in PROFILES, "profile", f"must be one of {', '.join(PROFILES)}", profile)
    if profile == "linear":
        filling = [(i + 1) / (2 * k) for i in range(k)]
    else:
        filling = [-math.expm1(-(i + 1) / k * math.log(2)) for i in range(k)]
    return filling + [1 / 2] * l


def apbbf_fills(k: int, l: int, block_bits: int, hashes_per_block: int) -> list[float]:
    """Match probabilities of the segments of an APBBF just before a shift, youngest first.

    The blocks' false-positive rate takes the place of the fill ratio (APBF,
    section 6); the load of segment i < k is (i + 1) / k of a full one's.

    Parameters
    ----------
    k, l : int
        Segments that an insertion writes, and generations in the window.
    block_bits, hashes_per_block : int
        B and b, as in `apbbf_block_capacity`.

    Returns
    -------
    list of float
        k + l probabilities.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1, or b is not below B.
    """
    _count("k", k)
    _count("l", l)
    capacity = apbbf_block_capacity(block_bits, hashes_per_block)
    filling = [
        apbbf_block_false_positive_rate(block_bits, hashes_per_block, capacity * (i + 1) / k)
        for i in range(k)
    ]
    return filling + filling[-1:] * l


def apbf_false_positive_rate(
    k: int, l: int, *, fills: Sequence[float] | None = None, profile: str = "exact"
) -> float:
    """Probability of k consecutive matches among k + l segments: F(k, l, 0, 0) (APBF, section 5.3).

    The recursion is run forwards over the segments, on the probabilities of
    the number of matches just before a segment. For k = 1 it is 1 minus the
    product of the misses.

    Parameters
    ----------
    k, l : int
        Segments that an insertion writes, and generations in the window.
    fills : sequence of float, shape (k + l,), optional
        Probability that a segment matches, youngest first. By default
        `apbf_fills`: the worst case, just before a shift.
    profile : str
        Profile of the default fills, 'exact' or 'linear'.

    Raises
    ------
    ValueError
        If k or l is not an integer of at least 1, fills are not k + l numbers
        in 0 to 1, or the profile is unknown.
    """
    rates = _fills(k, l, fills, profile)
    state = np.zeros(k + 1)
    state[0] = 1.0
    for fill in rates:
        missed = state[:k].sum() * (1 - fill)
        state[k] += state[k - 1] * fill
        state[1:k] = state[: k - 1] * fill
        state[0] = missed
    return float(state[k])


def apbf_accesses(
    k: int,
    l: int,
    case: str,
    *,
    fills: Sequence[float] | None = None,
    profile: str = "exact",
) -> float:
    """Return the expected segment accesses of Algorithm 1, the backward query (APBF, section 5.4).

    Parameters
    ----------
    k, l : int
        Segments that an insertion writes, and generations in the window.
    case : str
        'false': a fresh key, given that it is not reported. 'false positive':
        a fresh key, given that it is reported. 'window': a key of the window,
        averaged over the l generations that it may belong to. With the j-th
        youngest of them, 0 <= j < l, segments j to j + k - 1 match surely, and
        the others with their fill ratio. (Generation l is reported surely as
        well just before a shift, but it is the first of the slack.)
    fills : sequence of float, shape (k + l,), optional
        Probability that a segment matches, youngest first. By default
        `apbf_fills`: the worst case, just before a shift.
    profile : str
        Profile of the default fills, 'exact' or 'linear'.

    Raises
    ------
    ValueError
        If k or l is not an integer of at least 1, the case or the profile is
        unknown, fills are not k + l numbers in 0 to 1, or the case has
        probability 0 with them.
    """
    _require(case in CASES, "case", f"must be one of {', '.join(CASES)}", case)
    rates = _fills(k, l, fills, profile)
    if case == "window":
        return _window_accesses(k, l, rates)
    probability, accesses = _walk(k, l, rates)[case == "false positive"]
    _require(probability > 0, "fills", f"must give {case!r} a probability above 0", probability)
    return accesses / probability


def apbf_efficiency(k: int, l: int, bloom_k: float) -> float:
    """Memory of a Bloom filter over that of an APBF for the same window (APBF, section 5.5).

    Parameters
    ----------
    k, l : int
        Slices that an insertion writes, and generations in the window.
    bloom_k : float
        Slices of the Bloom filter with the same false-positive rate. Table 2
        takes log2(1 / rate) of the APBF's own rate, not rounded up to a whole
        number of slices.

    Returns
    -------
    float
        (bloom_k / k) l / (k + l), without unit.

    Raises
    ------
    ValueError
        If k or l is not an integer of at least 1, or bloom_k is not above 0
        and finite.
    """
    _count("k", k)
    _count("l", l)
    _require(0 < bloom_k < math.inf, "bloom_k", "must be above 0 and finite", bloom_k)
    return float(bloom_k / k * l / (k + l))


def apbf_metrics(k: int, l: int, *, profile: str = "exact") -> dict[str, float]:
    """Row of Table 2 of the APBF paper, by column name.

    Parameters
    ----------
    k, l : int
        Slices that an insertion writes, and generations in the window.
    profile : str
        'exact', or 'linear' for the figures as printed; see `apbf_fills`.

    Returns
    -------
    dict of str to float
        ``actual_fp``, ``efficiency``, ``accesses_window``, ``accesses_fp``,
        ``accesses_false`` and ``npws``.

    Raises
    ------
    ValueError
        If k or l is not an integer of at least 1, or the profile is unknown.
    """
    rate = apbf_false_positive_rate(k, l, profile=profile)
    return {
        "actual_fp": rate,
        "efficiency": apbf_efficiency(k, l, -math.log2(rate)),
        "accesses_window": apbf_accesses(k, l, "window", profile=profile),
        "accesses_fp": apbf_accesses(k, l, "false positive", profile=profile),
        "accesses_false": apbf_accesses(k, l, "false", profile=profile),
        "npws": apbf_npws(k, l),
    }


def apbbf_metrics(k: int, l: int, block_bits: int, hashes_per_block: int) -> dict[str, float]:
    """Row of Table 3 of the APBF paper, by column name.

    Parameters
    ----------
    k, l : int
        Segments that an insertion writes, and generations in the window.
    block_bits, hashes_per_block : int
        B and b, as in `apbbf_block_capacity`.

    Returns
    -------
    dict of str to float
        ``fp_apbbf``, ``fp_apbf_same_memory`` (of an APBF with k b and l b, in
        the linear profile of Table 2), ``relative_capacity``,
        ``accesses_window``, ``accesses_fp``, ``accesses_false`` (in blocks)
        and ``npws``.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1, or b is not below B.
    """
    fills = apbbf_fills(k, l, block_bits, hashes_per_block)
    return {
        "fp_apbbf": apbf_false_positive_rate(k, l, fills=fills),
        "fp_apbf_same_memory": apbf_false_positive_rate(
            k * hashes_per_block, l * hashes_per_block, profile="linear"
        ),
        "relative_capacity": apbbf_relative_capacity(block_bits, hashes_per_block),
        "accesses_window": apbf_accesses(k, l, "window", fills=fills),
        "accesses_fp": apbf_accesses(k, l, "false positive", fills=fills),
        "accesses_false": apbf_accesses(k, l, "false", fills=fills),
        "npws": npws(k, l, fills[-1]),
    }


# Guarded-epoch Bloom filters


def gebf_false_positive_rate(m: int, W: int, r: int, k: int) -> float:
    """False-positive rate of a GEBF as the paper approximates it.

    All r + 1 segments are taken as full and not partitioned:
    1 - (1 - (1 - e^(-k l/s))^k)^(r + 1), with epochs of l = ceil(W/r)
    insertions and segments of s = m / (r + 1) bits.

    Parameters
    ----------
    m : int
        Bits of all segments together.
    W : int
        Window in insertions.
    r : int
        Epochs in the window.
    k : int
        Hash functions.

    Raises
    ------
    ValueError
        If a parameter is not an integer of at least 1.
    """
    for name, value in (("m", m), ("W", W), ("r", r), ("k", k)):
        _count(name, value)
    fill = -math.expm1(-k * -(-W // r) * (r + 1) / m)
    segment = fill**k
    if segment == 1:
        return 1.0
    return -math.expm1((r + 1) * math.log1p(-segment))


# Averages over the load of a block


def _binomial_rate(load: int, blocks: int, cells: int, parts: int) -> float:
    if blocks == 1:
        return float(_match(np.array([float(load)]), cells, parts)[0])
    odds = math.log(blocks - 1)
    return _average(
        _likely_loads(load / blocks, load),
        lambda j: np.log((load - j) / (j + 1)) - odds,
        cells,
        parts,
    )


def _likely_loads(mean: float, most: int | None) -> Floats:
    # Beyond 40 deviations and 300 the weights are below 1e-300.
    width = 40 * math.sqrt(mean) + 300
    low = max(0, math.floor(mean - width))
    high = math.ceil(mean + width)
    return np.arange(low, (high if most is None else min(high, most)) + 1, dtype=np.float64)


def _average(
    loads: Floats, log_ratio: Callable[[Floats], Floats], cells: float, parts: int
) -> float:
    """Average the match probability, given the log of each load's weight over the one before."""
    log_weights = np.concatenate(([0.0], np.cumsum(log_ratio(loads[:-1]))))
    weights = np.exp(log_weights - log_weights.max())
    # Rounding can lead past the average's bound.
    return min(1.0, float(weights @ _match(loads, cells, parts) / weights.sum()))


def _match(loads: Floats, cells: float, parts: int) -> Floats:
    if cells == 1:
        return (loads > 0).astype(np.float64)
    part: Floats = -np.expm1(loads * math.log1p(-1 / cells))
    return part**parts


# Algorithm 1


def _walk(k: int, l: int, rates: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """Follow Algorithm 1 on probabilities.

    Returns the pair (probability, accesses weighted by probability) of the
    queries that end false, then of those that end true. Row `start` of the
    tables is the position after a jump, column p the matches before it.
    """
    probability, accesses = np.zeros((2, l + 1, k))
    probability[l, 0] = 1.0
    count = np.arange(k)
    missed, found = np.zeros((2, 2))
    for start in range(l, -1, -1):
        ratio = rates[start : start + k]
        reach = np.concatenate(([1.0], np.cumprod(ratio)))
        full = reach[k - count]
        found[0] += probability[start] @ full
        found[1] += (accesses[start] + probability[start] * (k - count)) @ full
        # A miss after c matches: possible while p + c < k.
        miss = reach[:k] * (1 - ratio)
        chance = miss * np.cumsum(probability[start])[::-1]
        spent = miss * np.cumsum(accesses[start])[::-1] + chance * (count + 1)
        ends = max(0, k - start)
        missed += chance[:ends].sum(), spent[:ends].sum()
        onward = count[ends:]
        probability[start + onward - k, onward] += chance[ends:]
        accesses[start + onward - k, onward] += spent[ends:]
    return (float(missed[0]), float(missed[1])), (float(found[0]), float(found[1]))


def _window_accesses(k: int, l: int, rates: Floats) -> float:
    total = 0.0
    for generation in range(l):
        written = rates.copy()
        written[generation : generation + k] = 1.0
        total += _walk(k, l, written)[True][1]
    return total / l


# Rules


def _require(condition: bool, name: str, rule: str, value: object) -> None:
    if not condition:
        raise ValueError(f"{name}: {rule}, not {value!r}")


def _count(name: str, value: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    _require(whole and value >= 1, name, "must be an integer of at least 1", value)


def _share(name: str, value: float) -> None:
    _require(0 <= value <= 1, name, "must be in 0 to 1", value)


def _load(load: float) -> None:
    _require(0 <= load < math.inf, "load", "must be at least 0 and finite", load)


def _block(block_bits: int, hashes_per_block: int) -> None:
    _count("block_bits", block_bits)
    _count("hashes_per_block", hashes_per_block)
    _require(
        hashes_per_block < block_bits,
        "hashes_per_block",
        f"must be below block_bits = {block_bits}",
        hashes_per_block,
    )


def _fills(k: int, l: int, fills: Sequence[float] | None, profile: str) -> Floats:
    _count("k", k)
    _count("l", l)
    rates = np.array(
        apbf_fills(k, l, profile=profile) if fills is None else fills, dtype=np.float64
    )
    _require(rates.shape == (k + l,), "fills", f"must have shape ({k + l},)", rates.shape)
    inside = (rates >= 0) & (rates <= 1)
    if not inside.all():
        _share("fills", float(rates[~inside][0]))
    return rates
