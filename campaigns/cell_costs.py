"""Fit of the LUTs and flip-flops of dictionaries and timing filters to counts."""

import random
from functools import partial
from typing import NamedTuple

from lately.golden.spec.dictionary_sizes import (
    MOST_COLUMNS,
    MOST_MOVING_COLUMNS,
    MOVING,
    WindowDictionarySpec,
    least_columns,
)
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec

from .cost_fit import drawn, fitted, model, runs


class Sample(NamedTuple):
    """Ranges of the units of a family of devices: least and most bits of rows and cells."""

    device: str
    block_rams: int
    rows: tuple[int, int]
    cells: tuple[int, int]
    hashes: int


SAMPLES = {
    "ecp5": Sample("ecp5-85k-6", block_rams=208, rows=(7, 13), cells=(7, 14), hashes=16),
    "ice40": Sample("ice40-hx8k", block_rams=32, rows=(6, 10), cells=(6, 11), hashes=8),
    "gowin": Sample("gowin-gw2ar-18c", block_rams=46, rows=(6, 10), cells=(6, 11), hashes=8),
}
"""By family of devices."""

# How many units of a kind are fitted to, and how many more the fit is held against.
FITTED, HELD_OUT = 8, 4
KEY_BITS = (16, 32, 48, 64, 64, 64, 64, 104, 128)


def dictionary(rng, sizes, *, moves=False):
    """Return a window dictionary of a usual load."""
    rows = 1 << rng.randint(*sizes.rows)
    window = round(rows * 2 ** rng.uniform(-2, 2.6))
    most = MOST_MOVING_COLUMNS if moves else MOST_COLUMNS
    columns = least_columns(window, rows, moves=moves) or most
    digest = min(62, rows.bit_length() + rng.randint(1, 28))
    stash = MOVING if moves else {"stash": rng.choice([4, 8, 8])}
    return WindowDictionarySpec(
        window=window, columns=columns, rows=rows, digest_bits=digest, **stash,
        key_bits=rng.choice(KEY_BITS),
    )  # fmt: skip


def timing(rng, sizes, *, kind):
    """Return a timing filter of `kind`, its cells a third to two thirds full."""
    cells, hashes = 1 << rng.randint(*sizes.cells), rng.randint(1, sizes.hashes)
    keys = round(cells * rng.uniform(0.3, 1.1))
    values = {"cells": cells, "hashes": hashes, "key_bits": rng.choice(KEY_BITS)}
    if kind is TimedTimingSpec:
        values["span"] = rng.choice([1001, 1001, keys, rng.randint(100, 60_000)])
    else:
        values["block"] = 1 << rng.choice([0, 0, 1, 3, 6])
        values["window"] = -(-keys // values["block"]) * values["block"]
    least = kind(**values).stamp_bits
    return kind(**values, stamp_bits=least + rng.randint(0, 3))


DRAWS = {
    "window-dictionary": dictionary,
    "window-dictionary, moves": partial(dictionary, moves=True),
    "partitioned-timing": partial(timing, kind=PartitionedTimingSpec),
    "timed-timing": partial(timing, kind=TimedTimingSpec),
}
"""Functions that draw a specification, by kind."""


def units():
    """Yield the names of devices, and the specifications that are counted on them.

    Of each kind, units for the fit come first.
    """
    for family, sizes in SAMPLES.items():
        for named, draw in DRAWS.items():
            own = partial(draw, random.Random(f"{named} {family}"), sizes)
            yield from drawn(
                own, sizes.device, block_rams=sizes.block_rams, count=FITTED + HELD_OUT
            )


def parts(rows, measured, family, named):
    """Return the rows of a kind for the fit, and the held-out rows."""
    own, others = (
        [row for row in part if model(row) == (family, named)] for part in (rows, runs(measured))
    )
    return own[:FITTED], own[FITTED:] + others


def fit(rows, measured):
    """Fit a model of each kind for each family of devices."""
    return {
        family: {named: fitted(*parts(rows, measured, family, named)) for named in DRAWS}
        for family in SAMPLES
    }


def is_stamped(row):
    """Whether a counted unit is a dictionary or a timing filter."""
    return model(row)[1] in DRAWS
