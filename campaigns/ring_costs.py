"""Fit of the LUTs and flip-flops of rings to units that are synthesised."""

import random
from dataclasses import replace

import numpy as np
from scipy.optimize import linprog

from lately.boards.flow.devices import device
from lately.golden import FilterSpec, SpecificationError
from lately.hdl.profile import HardwareProfile
from lately.planner import cost

from .hardware import CASES, report_of

# Fewest bits of a part of a segment.
PART_BITS = 256

# What each family of devices is counted on, the most block RAMs, and how many units.
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
    """Return a specification that can be built, or None."""

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
        if hashes >= block_bits:
            return None
        blocks = 1 << rng.randint(0, 12)
        values |= {"epochs": epochs, "hashes": hashes, "block_bits": block_bits}
        values |= {"bits": (epochs + 1) * block_bits * blocks}
        values |= {"window": epochs * max(4, int(block_bits * blocks / hashes * 0.5))}
    try:
        spec = FilterSpec.from_dict(values)
        HardwareProfile(spec).check_buildable()
    except SpecificationError:
        return None
    return spec


def sample(family):
    """Yield different specifications that fit, the same in every run."""
    name, most, count = SAMPLES[family]
    rng = random.Random(f"{family}0")
    found = []
    while len(found) < count:
        spec = draw(rng)
        if spec is None or spec in found:
            continue
        if spec.part_bits < PART_BITS or blocks(spec, device(name)) > most:
            continue
        found.append(spec)
        yield name, spec
    yield from timed(found, name, random.Random(f"{family} in time"))


def timed(untimed, name, rng):
    """Yield some of the specifications with a window in time."""
    left = TIMED
    for spec in untimed:
        ticks = rng.randint(2 * spec.window_generations, MOST_TICKS)
        try:
            one = replace(spec, span=ticks, generation_span=None, when_full=None)
            HardwareProfile(one).check_buildable()
        except SpecificationError:
            continue
        if left:
            left -= 1
            yield name, one


def blocks(spec, where):
    """Return the block RAMs that are predicted for a specification of one lane."""
    return int(cost.block_rams(*cost.of_spec(spec), where, spec.key_bits)[0])


def units():
    """Yield the names of devices, and the specifications that are counted on them."""
    for family in SAMPLES:
        yield from sample(family)


def features(row):
    """Return the features of a unit that was counted, by name."""
    spec, where = FilterSpec.from_dict(row["spec"]), device(row["device"])
    named = cost.features(*cost.of_spec(spec), where, spec.key_bits)
    return {name: float(values[0]) for name, values in named.items()}


def fit(rows, measured):
    """Fit coefficients of 0 or more, by the least largest relative error of each family of devices.

    Errors are those of the units that are fitted to and of results/hardware.jsonl,
    which are not; the deviation is that of the latter.
    """
    models = {}
    for family in SAMPLES:
        own, others = (
            [row for row in part if device(row["device"]).family == family]
            for part in (rows, runs(measured))
        )
        models[family] = {"units": len(own)}
        for kind in ("lut", "ff"):
            matrix, counted = matrices(own, kind)
            coefficients = least_error(matrix / counted[:, None])
            errors = matrix @ coefficients / counted - 1
            matrix, counted = matrices(others, kind)
            held_out = matrix @ coefficients / counted - 1
            # Digits beyond these are of the library's arithmetic.
            shown = [float(f"{value:.6g}") for value in coefficients]
            models[family] |= {
                kind: dict(zip(features(own[0]), shown, strict=True)),
                f"{kind}_error": up(max(np.abs(errors).max(), np.abs(held_out).max())),
                f"{kind}_deviation": round(float(np.sqrt((held_out**2).mean())), 3),
            }
    return models


def matrices(rows, kind):
    """Return the features of units, shape (n, features), and what was counted, shape (n,)."""
    named = np.array([list(features(row).values()) for row in rows])
    return named, np.array([row[kind] for row in rows], float)


def runs(measured):
    """Return the units of results/hardware.jsonl that the planner offers, each once."""
    found = {}
    for entry in measured:
        spec, report = CASES[entry.point["case"]].spec, report_of(entry)
        if isinstance(spec, FilterSpec) and spec.lanes == 1:
            row = {"spec": spec.to_dict(), "device": report.device}
            row |= {kind: getattr(report, kind) for kind in ("lut", "ff", "bram")}
            found.setdefault((spec, report.device), row)
    return list(found.values())


def predicted(row, models):
    """Return the LUTs and flip-flops that a model has for a unit."""
    model = models[device(row["device"]).family]
    return {
        kind: sum(model[kind][name] * value for name, value in features(row).items())
        for kind in ("lut", "ff")
    }


def least_error(matrix):
    """Return coefficients of 0 or more whose sums, shape (n,), differ least from 1 at worst."""
    ones = np.ones((len(matrix), 1))
    found = linprog(
        [0] * matrix.shape[1] + [1],
        A_ub=np.block([[matrix, -ones], [-matrix, -ones]]),
        b_ub=np.concatenate([ones, -ones]),
    )
    return found.x[:-1]


def up(error):
    """Round up to a whole percentage."""
    return float(np.ceil(error * 100) / 100)
