"""docs/planner.md: predicted and counted LUTs and flip-flops.

`python -m campaigns.pages planner fit` fits the coefficients in lately/planner to the results of
`python -m campaigns run counts`, and writes the page.
"""

import json
import sys

from lately.golden import FilterSpec
from lately.planner import cost
from lately.planner.timestamp_cost import stamp_models

from .. import cell_costs, ring_costs
from ..counts import rows_of
from .blocks import DOCS, ROOT, Page, earlier, records, write

COSTS = ROOT / "lately" / "planner" / "costs.json"
STAMP_COSTS = COSTS.with_name("timestamp_costs.json")


def ring_table(models, measured):
    """Lay out the runs of results/hardware.jsonl, predicted and measured."""
    lines = ["| unit | device | block RAMs | LUTs | predicted | | flip-flops | predicted | |"]
    lines.append("|---|---|" + "---:|" * 7)
    for row in ring_costs.runs(measured):
        spec, figures = FilterSpec.from_dict(row["spec"]), ring_costs.predicted(row, models)
        window = f"{spec.span:,} ticks" if spec.timed else f"window {spec.window:,}"
        cells = [f"{spec.family}, {window}", row["device"], str(row["bram"])]
        for kind in ("lut", "ff"):
            error = figures[kind] / row[kind] - 1
            cells += [f"{row[kind]:,}", f"{figures[kind]:,.0f}", f"{error:+.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "| devices | units fitted to | LUTs within | flip-flops within |",
        "|---|" + "---:|" * 3,
    ]
    for family, model in models.items():
        errors = f"{model['lut_error']:.0%} | {model['ff_error']:.0%}"
        lines.append(f"| {family} | {model['units']} | {errors} |")
    return "\n".join(lines)


def cell_table(rows, measured, models):
    """Lay out the units that the fit is held against, predicted and counted."""
    lines = ["| unit | device | block RAMs | LUTs | predicted | | flip-flops | predicted | |"]
    lines.append("|---|---|" + "---:|" * 7)
    of = [(family, named) for family in cell_costs.SAMPLES for named in cell_costs.DRAWS]
    for row in (row for each in of for row in cell_costs.parts(rows, measured, *each)[1]):
        figures = cell_costs.predicted(row, models)
        cells = [cell_costs.specification(row).shape, row["device"]]
        cells.append(str(row["bram"]))
        for what in ("lut", "ff"):
            error = figures[what] / row[what] - 1
            cells += [f"{row[what]:,}", f"{figures[what]:,.0f}", f"{error:+.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| devices | filters | fitted to | others | LUTs within | flip-flops within |"]
    lines.append("|---|---|" + "---:|" * 4)
    for family, named in of:
        model = models[family][named]
        shown = [model["units"], len(cell_costs.parts(rows, measured, family, named)[1])]
        shown += [f"{model[f'{what}_error']:.0%}" for what in ("lut", "ff")]
        lines.append(f"| {family} | `{named}` | {' | '.join(map(str, shown))} |")
    return "\n".join(lines)


def fit_all(what):
    """Fit and write the coefficients."""
    if [path.name for path in what] != ["fit"]:
        sys.exit("docs/planner.md takes no measurements: python -m campaigns.pages planner fit")
    rings, cells = rows_of(records("counts"))
    measured = records("hardware")
    write(COSTS, json.dumps(ring_costs.fit(rings, measured), indent=1) + "\n")
    write(STAMP_COSTS, json.dumps(cell_costs.fit(cells, measured), indent=1) + "\n")
    cost.models.cache_clear()
    stamp_models.cache_clear()


def content():
    """Return the blocks of the page."""
    measured, counted = records("hardware"), records("counts")
    cells = cell_table(rows_of(counted)[1], measured, stamp_models())
    said = "\n\n" + earlier([*measured, *counted], "counts")
    return {"residuals": ring_table(cost.models(), measured), "stamp-residuals": cells + said}


PAGE = Page(DOCS / "planner.md", content, take=fit_all)
