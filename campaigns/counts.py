"""Cells of units that are synthesised but not placed: the planner's costs are fitted to them."""

from typing import Any

from lately.boards.flow.devices import device
from lately.boards.flow.synthesis import count_unit
from lately.golden import Specification

from . import cell_costs, ring_costs, scaled_costs
from .engine import Campaign, Point, Records, Result
from .hardware import counted_identity


def points(*, family: tuple[str, ...] = (), quick: bool = False) -> list[Point]:
    """Return a point for each drawn unit, or for those of a family of devices."""
    every = [*ring_costs.units(), *cell_costs.units(), *scaled_costs.units()]
    drawn = [
        {"spec": spec.to_dict(), "device": name}
        for name, spec in every
        if not family or device(name).family in family
    ]
    return drawn[:2] if quick else drawn


def run(point: Point) -> Result:
    """Synthesise a unit and count its cells."""
    found = count_unit(Specification.from_dict(point["spec"]), device=device(point["device"]))
    return {"lut": found.lut, "ff": found.ff, "bram": found.bram}


def identity(point: Point) -> dict[str, Any]:
    """Return a digest of the unit as RTLIL, and the options of synthesis."""
    return counted_identity(Specification.from_dict(point["spec"]), device(point["device"]))


def rows_of(records: Records) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the counted rings, and the counted dictionaries and timing filters.

    Families with scaled costs are left out; see `scaled_rows`.
    """
    rows = [row for row in _rows(records) if not scaled_costs.is_scaled(row)]
    stamped = [cell_costs.is_stamped(row) for row in rows]
    return (
        [row for row, one in zip(rows, stamped, strict=True) if not one],
        [row for row, one in zip(rows, stamped, strict=True) if one],
    )


def scaled_rows(records: Records) -> list[dict[str, Any]]:
    """Return the counted units of families with scaled costs."""
    return [row for row in _rows(records) if scaled_costs.is_scaled(row)]


def _rows(records: Records) -> list[dict[str, Any]]:
    return [record.point | record.result for record in records]


COUNTS = Campaign(
    name="counts",
    about="""Count the cells of drawn units, which the planner's costs are fitted to.

    `python -m campaigns.pages planner fit` fits the coefficients to the results.
    """,
    packages=("lately.golden", "lately.hdl", "lately.boards"),
    tools=("amaranth",),
    points=points,
    run=run,
    identity=identity,
)
