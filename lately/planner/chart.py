"""The drawing of a plan."""

import os
from pathlib import Path

from ..replay.drawing import Chart, Series, draw
from .plans import Plan
from .requirement import RequirementError

FORMATS = (".svg", ".png", ".pdf")
"""Suffixes of the files to which a plan can be drawn."""


def check_format(path: str) -> None:
    """Refuse the `path` of a file in a format that is not supported.

    Raises
    ------
    RequirementError
        If the suffix is not in `FORMATS`.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise RequirementError(f"plot: must end in {', '.join(FORMATS)}, not {path!r}")


def front_chart(plan: Plan) -> Chart:
    """Return the front as a chart: cost against worst false-positive rate, family by family."""
    asked, device = plan.requirement, plan.requirement.device
    cost = "Memories of 16 kbit" if asked.counts_memories else "Memory in bits"
    if device is not None:
        cost = f"Share of {device.name}, block RAMs and LUTs added"
    series = []
    for family in asked.able:
        own = [candidate for candidate in plan.front if candidate.family is family]
        if own:
            rates = [candidate.worst_rate for candidate in own]
            series.append(Series(family.name, [one.cost for one in own], rates, marks=True))
    chosen = plan.chosen
    at = [chosen.cost], [chosen.worst_rate]
    return Chart(
        name="plan",
        title=f"Cheapest filters, {asked.text()}",
        x=cost,
        y="Worst false-positive rate",
        series=[*series, Series("chosen", *at, marks=True)],
        x_log=device is None,
        y_log=True,
    )


def draw_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Draw the front to the file `path`; the same plan gives the same bytes."""
    draw(front_chart(plan), path)
