"""Fit of costs for families whose memories yosys infers: costs on an ECP5, scaled."""

from dataclasses import replace
from typing import Any

import numpy as np

from lately.boards.flow.inference import is_inferred
from lately.golden import any_preset

from .cost_fit import model, specification
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

SAME = {"xcup": "xc7"}  # families with the costs of another family, whose logic is the same

UNITS = {
    "small": any_preset("small"),
    "dictionary-1000": any_preset("dictionary-1000"),
    "gebf-tiny": any_preset("gebf-tiny"),
    "small, in time": replace(any_preset("small"), span=2000),  # type: ignore[call-arg]
    "tiny": any_preset("tiny"),
    "apbf-small": SPECS["apbf-small"],
    "dictionary-300": SPECS["dictionary-300"],
}
"""Units that are counted on each family."""

MODELS = ("ring", "window-dictionary")
"""Models of costs that are scaled: timing filters, and dictionaries whose entries move, are not
planned for these families."""

INEXACT = {("cyclonev", "window-dictionary"), ("gatemate", "window-dictionary")}
"""Models of families that are not planned: yosys takes one block RAM more or fewer for each column
of a dictionary than the planner counts."""

HELD_OUT = ("small", "dictionary-300")
"""Units that no cost is fitted to: the stated errors must hold for them."""

MARGIN, LEAST_ERROR = 1.5, 0.15
"""Stated errors over the largest that was found, and at least: the units are few."""


def units():
    """Yield the names of devices, and the specifications that are counted on them."""
    for spec in UNITS.values():
        yield from ((name, spec) for name in DEVICES.values())


def fit(rows, models):
    """Return models for each family: the coefficients of `models` on an ECP5, times one scale."""
    known = [row for row in rows if not is_held_out(row)]
    found = {
        family: {name: _scaled([row for row in known if model(row)[:2] == (family, name)],
                               models["ecp5"][name])
                 for name in MODELS if (family, name) not in INEXACT}
        for family in DEVICES
    }  # fmt: skip
    return found | {family: found[other] for family, other in SAME.items()}


def is_scaled(row):
    """Whether a counted unit is of a family with scaled costs."""
    return is_inferred(model(row)[0])


def is_held_out(row):
    """Whether no cost is fitted to a counted unit."""
    return row["spec"] in [UNITS[name].to_dict() for name in HELD_OUT]


def _scaled(rows, costs):
    """Return the costs of a model, with the scales that fit `rows` of this model best."""
    found: dict[str, Any] = {"units": len(rows)}
    for what in ("lut", "ff"):
        ratios = np.array([_cost(row, costs[what]) / row[what] for row in rows])
        scale = 2 / (ratios.min() + ratios.max())
        errors = ratios * scale - 1
        largest = max(float(np.abs(errors).max()), LEAST_ERROR / MARGIN)
        found |= {
            what: {name: float(f"{value * scale:.6g}") for name, value in costs[what].items()},
            f"{what}_error": float(np.ceil(largest * MARGIN * 100) / 100),
            f"{what}_deviation": round(float(np.sqrt(np.mean(np.square(errors)))), 3),
        }
    return found


def _cost(row, costs):
    """Return the cost of a unit on an ECP5."""
    spec, family, where = specification(row)
    return sum(costs[name] * value for name, value in family.features(spec, where).items())
