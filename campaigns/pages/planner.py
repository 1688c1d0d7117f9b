"""docs/planner.md: predicted and counted LUTs and flip-flops.

`python -m campaigns.pages planner fit` fits the coefficients in lately/planner to the results of
`python -m campaigns run counts`, and writes the page.
"""

import json
import sys

from lately.planner import cost

from .. import cell_costs, ring_costs, scaled_costs
from ..cost_fit import model, predicted, runs, specification
from ..counts import rows_of, scaled_rows
from .blocks import DOCS, ROOT, Page, records, render, write

COSTS = ROOT / "lately" / "planner" / "costs.json"


def residuals(rows, shown):
    """Return the name of each unit by its specification, its counts, and the predicted counts."""
    return [(shown(specification(row)[0]), row, predicted(row, cost.models())) for row in rows]


def ring_name(spec):
    """Return the family and the window of a ring."""
    window = f"{spec.span:,} ticks" if spec.timed else f"window {spec.window:,}"
    return f"{spec.family}, {window}"


def fit_all(what):
    """Fit and write the coefficients."""
    if [path.name for path in what] != ["fit"]:
        sys.exit("docs/planner.md takes no measurements: python -m campaigns.pages planner fit")
    rings, cells = rows_of(records("counts"))
    measured = records("hardware")
    ring, stamped = ring_costs.fit(rings, measured), cell_costs.fit(cells, measured)
    models = {family: {"ring": ring[family], **stamped[family]} for family in ring}
    models |= scaled_costs.fit(scaled_rows(records("counts")), models)
    write(COSTS, json.dumps(models, indent=1) + "\n")
    cost.models.cache_clear()


def content():
    """Return the blocks of the page."""
    measured, counted = records("hardware"), records("counts")
    kinds = [(family, named) for family in cell_costs.SAMPLES for named in cell_costs.DRAWS]
    # The units that the fit is held against.
    held_out = {each: cell_costs.parts(rows_of(counted)[1], measured, *each)[1] for each in kinds}
    models, same = cost.models(), scaled_costs.SAME
    return render(
        "planner",
        models=models,
        found=[*measured, *counted],
        rings=residuals([row for row in runs(measured) if model(row)[1] == "ring"], ring_name),
        ring_families=ring_costs.SAMPLES,
        cells=residuals([row for own in held_out.values() for row in own], lambda one: one.shape),
        held_out=held_out,
        # Families with the costs of an ECP5, scaled, and those that share the costs of each.
        scaled={family: ", ".join([family, *(one for one in same if same[one] == family)])
                for family in models if family in scaled_costs.DEVICES},
        kinds=scaled_costs.MODELS,
    )  # fmt: skip


PAGE = Page(DOCS / "planner.md", content, take=fit_all)
