"""Fit of the LUTs and flip-flops of rings to units that are synthesised."""

import random
from dataclasses import replace
from functools import partial

from lately.golden import FilterSpec, SpecificationError
from lately.golden.spec.base import require
from lately.hdl.ring.profile import RingProfile

from .cost_fit import drawn, fitted, model, runs

# Fewest bits of a part of a segment.
PART_BITS = 256

# For each family: the device for the counts, the maximum block RAMs, and the number of units.
SAMPLES = {
    "ice40": ("ice40-hx8k", 40, 60),
    "gowin": ("gowin-gw2ar-18c", 56, 60),
    "ecp5": ("ecp5-85k-6", 208, 60),
}
# How many units more have a window in time, and the most ticks of it.
TIMED = 12
MOST_TICKS = 1 << 16
SHAPES = ((32, 2), (64, 2), (64, 4), (128, 4), (256, 8), (512, 8))


def draw(rng):
    """Return a specification of a ring."""

    def about(low, high):
        return round(low * (high / low) ** rng.random())

    key_bits = rng.choice([16, 32, 48, 64, 64, 64, 64, 104, 128])
    family = rng.choice(["apbf", "apbbf", "gebf", "blocked-gebf"])
    values = {"family": family, "key_bits": key_bits, "seed": 0}
    if family == "apbf":
        values |= {"k": about(2, 24), "l": about(1, 40), "slice_bits": 1 << rng.randint(5, 18)}
    elif family == "apbbf":
        block_bits, hashes = rng.choice(SHAPES)
        values |= {"k": rng.randint(1, 4), "l": about(1, 30), "block_bits": block_bits}
        values |= {"hashes_per_block": hashes, "blocks": 1 << rng.randint(0, 13)}
    elif family == "gebf":
        epochs, hashes, bits = about(1, 30), about(1, 12), 1 << rng.randint(5, 17)
        values |= {"epochs": epochs, "hashes": hashes, "bits": (epochs + 1) * hashes * bits}
        values |= {"window": epochs * max(4, int(bits * 0.5))}
    else:
        epochs, hashes = about(1, 30), rng.choice([1, 2, 4, 8])
        block_bits = 1 << rng.randint(4, 9)
        require(hashes < block_bits, "hashes", "must be below the bits of a block", hashes)
        blocks = 1 << rng.randint(0, 12)
        values |= {"epochs": epochs, "hashes": hashes, "block_bits": block_bits}
        values |= {"bits": (epochs + 1) * block_bits * blocks}
        values |= {"window": epochs * max(4, int(block_bits * blocks / hashes * 0.5))}
    spec = FilterSpec.from_dict(values)
    require(
        spec.part_bits >= PART_BITS, "part_bits", f"must be at least {PART_BITS}", spec.part_bits
    )
    return spec


def timed(untimed, name, rng):
    """Yield some of the specifications with a window in time."""
    left = TIMED
    for spec in untimed:
        ticks = rng.randint(2 * spec.window_generations, MOST_TICKS)
        try:
            one = replace(spec, span=ticks, generation_span=None, when_full=None)
            RingProfile.of(one).check_buildable()
        except SpecificationError:
            continue
        if left:
            left -= 1
            yield name, one


def units():
    """Yield the names of devices, and the specifications that are counted on them."""
    for family, (name, most, count) in SAMPLES.items():
        own = partial(draw, random.Random(f"{family}0"))
        found = list(drawn(own, name, block_rams=most, count=count))
        yield from found
        yield from timed([spec for _, spec in found], name, random.Random(f"{family} in time"))


def fit(rows, measured):
    """Fit one model of rings for each family of devices; measured units are held out."""
    others = [row for row in runs(measured) if model(row)[1] == "ring"]
    return {
        family: fitted(*([row for row in part if model(row)[0] == family]
                         for part in (rows, others)))
        for family in SAMPLES
    }  # fmt: skip
