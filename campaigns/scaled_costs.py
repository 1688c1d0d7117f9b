"""Fit of costs for families whose memories yosys infers: costs on an ECP5, scaled."""

from dataclasses import replace
from typing import Any

import numpy as np

from lately.boards.flow.inference import is_inferred
from lately.golden import any_preset

from .cost_fit import least_error, model, runs, specification
from .hardware import SPECS

DEVICES = {
    "xc7": "xc7k325t",
    "cyclonev": "5ceba4",
    "nexus": "lfcpnx-100",
    "machxo": "lcmxo2-7000",
    "gatemate": "ccgm1a1",
    "gw5a": "gw5ast-138c",
    "trion": "t20",
    "polarfire": "mpf100t",
}
"""Device of each family that units are counted on."""

SAME = {"xcup": "xc7"}
"""Families with the costs of another family, whose logic is the same."""

UNITS = {
    "small": any_preset("small"),
    "dictionary-tiny": any_preset("dictionary-tiny"),
    "timing-small": any_preset("timing-small"),
    "gebf-tiny": any_preset("gebf-tiny"),
    "small, in time": replace(any_preset("small"), span=2000),  # type: ignore[call-arg]
    "timing-counted-small": SPECS["timing-counted-small"],
    "tiny": any_preset("tiny"),
    "apbf-small": SPECS["apbf-small"],
    "dictionary-300": SPECS["dictionary-300"],
}
"""Units that are counted on each family."""

MODELS = ("ring", "window-dictionary")
"""Models of costs that are scaled: timing filters, and dictionaries whose entries move, are not
planned for these families."""

# Features of LUTs and flip-flops that are scaled together: a unit and its hash, and its results.
# The others are those of segments, columns and parts.
GROUPS = (
    ("unit", "key bits", "registers of the hash", "index bits", "digest bits"),
    ("places of results", "window in time", "bits of times", "bits of settled times"),
)

MARGIN, LEAST_ERROR = 1.5, 0.15
"""Stated errors over the largest that was found, and at least: the units are few."""

FEW = 3
"""Units of which so many or fewer scale all costs alike."""


def units():
    """Yield the names of devices, and the specifications that are counted on them."""
    for spec in UNITS.values():
        yield from ((name, spec) for name in DEVICES.values())


def fit(rows, measured, models):
    """Return models for each family: coefficients of `models` on an ECP5, scaled by group."""
    found = {}
    for family in DEVICES:
        own = [row for row in rows if model(row)[0] == family]
        stamped = [row for row in own if model(row)[1] != "ring"]
        rings = [row for row in own if model(row)[1] == "ring"]
        others = [row for row in runs(measured) if model(row)[0] == family]
        found[family] = {
            name: _scaled(rings if name == "ring" else stamped, name, others, models["ecp5"])
            for name in MODELS
        }
    return found | {family: found[other] for family, other in SAME.items()}


def is_scaled(row):
    """Whether a counted unit is of a family with scaled costs."""
    return is_inferred(model(row)[0])


def is_planned(row):
    """Whether a counted unit is of a model with scaled costs."""
    return model(row)[1] in MODELS


def _scaled(rows, name, others, models):
    """Return the model of a `name`, with scales that fit `rows`, which may be of several models."""
    judged = [row for row in rows + others if model(row)[1] == name]
    found: dict[str, Any] = {"units": len(rows)}
    for what in ("lut", "ff"):
        sums = np.array([_sums(row, what, models) for row in rows])
        used: Any = sums.any(axis=0)
        if len(rows) <= FEW:
            sums, used = sums.sum(axis=1, keepdims=True), slice(None)
        scales = np.zeros(len(GROUPS) + 1)
        scales[used] = least_error(sums[:, used])
        errors = [_sums(row, what, models) @ scales - 1 for row in judged or rows]
        coefficients = {
            feature: float(f"{value * scales[_group(feature)]:.6g}")
            for feature, value in models[name][what].items()
        }
        largest = max(float(np.abs(errors).max()), LEAST_ERROR / MARGIN)
        found |= {
            what: coefficients,
            f"{what}_error": float(np.ceil(largest * MARGIN * 100) / 100),
            f"{what}_deviation": round(float(np.sqrt(np.mean(np.square(errors)))), 3),
        }
    return found


def _sums(row, what, models):
    """Return the cost of each group of features on an ECP5, over what was counted."""
    spec, family, where = specification(row)
    sums = np.zeros(len(GROUPS) + 1)
    for feature, value in family.features(spec, where).items():
        sums[_group(feature)] += models[family.model(spec)][what][feature] * value
    return sums / row[what]


def _group(feature):
    return next((n for n, group in enumerate(GROUPS) if feature in group), len(GROUPS))
