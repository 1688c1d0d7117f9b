"""Fit of the planner's cost models to counts of the LUTs and flip-flops of units."""

import json
from contextlib import suppress
from functools import cache

import numpy as np
from scipy.optimize import linprog

from lately.boards.flow.devices import device, own_memory
from lately.golden import Specification, SpecificationError
from lately.hdl.build import unit_profile
from lately.planner import PLANNER_FAMILIES

from .hardware import CASES, report_of


def drawn(draw, name, *, block_rams, count):
    """Yield different specifications of `draw` that fit a device, the same in every run."""
    where, found = device(name), []
    while len(found) < count:
        with suppress(SpecificationError):
            spec = draw()
            unit_profile(spec, memory=own_memory(where, spec)).check_buildable()
            if spec in found or PLANNER_FAMILIES[spec.family].block_rams(spec, where) > block_rams:
                continue
            found.append(spec)
            yield name, spec


def specification(row):
    """Return the specification of a counted unit, its planner family and its device."""
    spec = _parsed(json.dumps(row["spec"]))
    return spec, PLANNER_FAMILIES[spec.family], device(row["device"])


@cache
def _parsed(text):
    # The fits ask for each unit dozens of times.
    return Specification.from_dict(json.loads(text))


def model(row):
    """Return the family of devices and the name of the model of a unit."""
    spec, family, where = specification(row)
    return where.family, family.model(spec)


def runs(measured):
    """Return the units of results/hardware.jsonl that the planner offers, each once."""
    found = {}
    for entry in measured:
        spec, report = CASES[entry.point["case"]].spec, report_of(entry)
        alone = getattr(spec, "lanes", 1) == 1 and not getattr(spec, "classes", None)
        if spec.family in PLANNER_FAMILIES and alone:
            row = {"spec": spec.to_dict(), "device": report.device}
            row |= {kind: getattr(report, kind) for kind in ("lut", "ff", "bram")}
            found.setdefault((spec, report.device), row)
    return list(found.values())


def fitted(rows, held_out):
    """Fit coefficients of 0 or more, by the least largest relative error.

    Errors are those of all units; the deviation is that of units that are held out.
    """
    found = {"units": len(rows)}
    for what in ("lut", "ff"):
        coefficients = least_error(_relative(rows, what))
        errors, beyond = (_errors(part, what, coefficients) for part in (rows, held_out))
        # Digits beyond these are of the library's arithmetic.
        shown = [float(f"{value:.6g}") for value in coefficients]
        largest = max(np.abs(errors).max(), np.abs(beyond).max())
        found |= {
            what: dict(zip(_features(rows[0]), shown, strict=True)),
            # Rounded up to a whole percentage.
            f"{what}_error": float(np.ceil(largest * 100) / 100),
            f"{what}_deviation": round(float(np.sqrt((beyond**2).mean())), 3),
        }
    return found


def least_error(matrix):
    """Return coefficients of 0 or more whose sums, shape (n,), differ least from 1 at worst."""
    ones = np.ones((len(matrix), 1))
    found = linprog(
        [0] * matrix.shape[1] + [1],
        A_ub=np.block([[matrix, -ones], [-matrix, -ones]]),
        b_ub=np.concatenate([ones, -ones]),
    )
    return found.x[:-1]


def predicted(row, models):
    """Return the LUTs and flip-flops that models have for a unit."""
    where, name = model(row)
    own = models[where][name]
    return {
        what: sum(own[what][feature] * value for feature, value in _features(row).items())
        + _counted(row, what)
        for what in ("lut", "ff")
    }


def _features(row):
    spec, family, where = specification(row)
    return family.features(spec, where)


def _counted(row, what):
    """Return the cells of a unit that are counted, and not fitted."""
    spec, family, where = specification(row)
    return family.luts(spec, where) if what == "lut" else 0


def _relative(rows, what):
    """Return the features of units over all else that was found, shape (n, features)."""
    found = [row[what] - _counted(row, what) for row in rows]
    return np.array([[*_features(row).values()] for row in rows]) / np.array(found)[:, None]


def _errors(rows, what, coefficients):
    """Return the relative errors of units, shape (n,)."""
    rest = np.array([1 - _counted(row, what) / row[what] for row in rows])
    return (_relative(rows, what) @ coefficients - 1) * rest
