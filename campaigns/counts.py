"""Cells of units that are synthesised but not placed: the planner's costs are fitted to them."""

from typing import Any

from lately.boards.flow.devices import device
from lately.boards.flow.synthesis import count_unit
from lately.golden import Specification

from . import cell_costs, ring_costs
from .engine import Campaign, Point, Records, Result
from .hardware import counted_identity


def points(*, quick: bool = False) -> list[Point]:
    """Return a point for each drawn unit."""
    every = [*ring_costs.units(), *cell_costs.units()]
    drawn = [{"spec": spec.to_dict(), "device": name} for name, spec in every]
    return drawn[:2] if quick else drawn


def run(point: Point) -> Result:
    """Synthesise a unit and count its cells."""
    found = count_unit(Specification.from_dict(point["spec"]), device=device(point["device"]))
    return {"lut": found.lut, "ff": found.ff, "bram": found.bram}


def identity(point: Point) -> dict[str, Any]:
    """Return a digest of the unit as RTLIL, and the options of synthesis."""
    return counted_identity(Specification.from_dict(point["spec"]), device(point["device"]))


def rows_of(records: Records) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the counted rings, and the counted dictionaries and timing filters."""
    rows = [record.point | record.result for record in records]
    stamped = [cell_costs.is_stamped(row) for row in rows]
    return (
        [row for row, one in zip(rows, stamped, strict=True) if not one],
        [row for row, one in zip(rows, stamped, strict=True) if one],
    )


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
