"""Dictionaries and timing filters of which `python docs/pages planner fit` counts the cells."""

import random

import numpy as np

from lately.boards.flow.devices import device
from lately.golden import Specification, SpecificationError
from lately.golden.analysis import column_loads
from lately.golden.spec.dictionary_sizes import WindowDictionarySpec
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec
from lately.hdl.build import unit_profile
from lately.planner.abilities import STAMPED_ON
from lately.planner.timestamp_cost import stamp_features

from .fitting import least_error, up
from .performance import measurements

COUNTS = "planner-stamped.json"

# What is counted on, and the most block RAMs of a unit.
DEVICE, MOST_BLOCKS = "ecp5-85k-6", 208
# How many units of a family are fitted to, and how many more the fit is held against.
FITTED, HELD_OUT = 8, 4
KEY_BITS = (16, 32, 48, 64, 64, 64, 64, 104, 128)


def dictionary(rng):
    """Return a window dictionary of a usual load."""
    rows = 1 << rng.randint(7, 13)
    window = round(rows * 2 ** rng.uniform(-2, 2.6))
    loads = {n: column_loads(window, columns=n, rows=rows)[-1] * rows for n in range(1, 13)}
    columns = next((n for n, stashed in loads.items() if stashed <= 0.01), 12)
    digest = min(62, rows.bit_length() + rng.randint(1, 28))
    return WindowDictionarySpec(
        window=window, columns=columns, rows=rows, digest_bits=digest, stash=rng.choice([4, 8, 8]),
        key_bits=rng.choice(KEY_BITS),
    )  # fmt: skip


def timing(rng, kind):
    """Return a timing filter of `kind`, its cells a third to two thirds full."""
    cells, hashes = 1 << rng.randint(7, 14), rng.randint(1, 16)
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
    "partitioned-timing": lambda rng: timing(rng, PartitionedTimingSpec),
    "timed-timing": lambda rng: timing(rng, TimedTimingSpec),
}
"""What draws a specification, by family."""


def sample(family):
    """Yield different specifications of a family of filters, the same in every run.

    Those that are fitted to come first.
    """
    rng, found = random.Random(f"{family} ecp5"), []
    while len(found) < FITTED + HELD_OUT:
        try:
            spec = DRAWS[family](rng)
            profile = unit_profile(spec, memory="ecp5")
            profile.check_buildable()
        except SpecificationError:
            continue
        if spec not in found and profile.block_rams <= MOST_BLOCKS:
            found.append(spec)
            yield DEVICE, spec


def units():
    """Yield the names of devices, and the specifications that are counted on them."""
    for family in DRAWS:
        yield from sample(family)


def specification(row):
    return Specification.from_dict(row["spec"])


def features(row):
    """Return the features of a unit that was counted, by name."""
    return stamp_features(specification(row), device(row["device"]))


def runs():
    """Return the units of results/performance.json on ECP5 that the planner offers, each once."""
    found = {}
    for entry in measurements():
        where = device(entry.report.device).family
        offered = not any(getattr(entry.spec, name, None) for name in ("moves", "classes"))
        if entry.spec.family in DRAWS and where in STAMPED_ON and offered:
            row = {"spec": entry.spec.to_dict(), "device": entry.report.device}
            row |= {kind: getattr(entry.report, kind) for kind in ("lut", "ff", "bram")}
            found.setdefault((entry.spec, entry.report.device), row)
    return list(found.values())


def parts(rows, family):
    """Return the rows of a family that are fitted to, and those that the fit is held against."""
    own = [row for row in rows if row["spec"]["family"] == family]
    others = [row for row in runs() if row["spec"]["family"] == family]
    return own[:FITTED], own[FITTED:] + others


def fit(rows):
    """Fit coefficients of 0 or more, by the least largest relative error of each family.

    Errors are those of all units, the deviation is that of those that are not fitted to.
    """
    models = {}
    for family in DRAWS:
        fitted, held_out = parts(rows, family)
        models[family] = {"units": len(fitted)}
        for kind in ("lut", "ff"):
            coefficients = least_error(_relative(fitted, kind))
            errors = _relative(fitted, kind) @ coefficients - 1
            beyond = _relative(held_out, kind) @ coefficients - 1
            # Digits beyond these are of the library's arithmetic.
            shown = [float(f"{value:.6g}") for value in coefficients]
            models[family] |= {
                kind: dict(zip(features(fitted[0]), shown, strict=True)),
                f"{kind}_error": up(max(np.abs(errors).max(), np.abs(beyond).max())),
                f"{kind}_deviation": round(float(np.sqrt((beyond**2).mean())), 3),
            }
    return dict.fromkeys(STAMPED_ON, models)


def _relative(rows, kind):
    """Return the features of units over what was counted, shape (n, features)."""
    return np.array([[value / row[kind] for value in features(row).values()] for row in rows])


def predicted(row, models):
    """Return the LUTs and flip-flops that a model has for a unit."""
    model = models[device(row["device"]).family][row["spec"]["family"]]
    return {
        kind: sum(model[kind][name] * value for name, value in features(row).items())
        for kind in ("lut", "ff")
    }


def table(rows, models):
    """Lay out the units that the fit is held against, predicted and counted."""
    lines = ["| unit | device | block RAMs | LUTs | predicted | | flip-flops | predicted | |"]
    lines.append("|---|---|" + "---:|" * 7)
    for row in (row for family in DRAWS for row in parts(rows, family)[1]):
        figures, cells = predicted(row, models), [specification(row).shape, row["device"]]
        cells.append(str(row["bram"]))
        for kind in ("lut", "ff"):
            error = figures[kind] / row[kind] - 1
            cells += [f"{row[kind]:,}", f"{figures[kind]:,.0f}", f"{error:+.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| ECP5 | units fitted to | others | LUTs within | flip-flops within |"]
    lines.append("|---|" + "---:|" * 4)
    for family, model in models["ecp5"].items():
        shown = [model["units"], len(parts(rows, family)[1])]
        shown += [f"{model[f'{kind}_error']:.0%}" for kind in ("lut", "ff")]
        lines.append(f"| `{family}` | {' | '.join(map(str, shown))} |")
    return "\n".join(lines)
