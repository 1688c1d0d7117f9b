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
from .blocks import DOCS, NOTHING, ROOT, Page, earlier, records, write

COSTS = ROOT / "lately" / "planner" / "costs.json"


def residuals(rows, models, shown):
    """Return lines of units by the `shown` fields of their specification, predicted and counted."""
    lines = ["| unit | device | block RAMs | LUTs | predicted | | flip-flops | predicted | |"]
    lines.append("|---|---|" + "---:|" * 7)
    for row in rows:
        figures = predicted(row, models)
        cells = [shown(specification(row)[0]), row["device"], str(row["bram"])]
        for what in ("lut", "ff"):
            error = figures[what] / row[what] - 1
            cells += [f"{row[what]:,}", f"{figures[what]:,.0f}", f"{error:+.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def ring_table(models, measured):
    """Lay out the rings of results/hardware.jsonl, predicted and measured."""

    def shown(spec):
        window = f"{spec.span:,} ticks" if spec.timed else f"window {spec.window:,}"
        return f"{spec.family}, {window}"

    rings = [row for row in runs(measured) if model(row)[1] == "ring"]
    lines = residuals(rings, models, shown)
    lines += ["| devices | units fitted to | LUTs within | flip-flops within |"]
    lines += ["|---|" + "---:|" * 3]
    for family in ring_costs.SAMPLES:
        named = models[family]
        errors = f"{named['ring']['lut_error']:.0%} | {named['ring']['ff_error']:.0%}"
        lines.append(f"| {family} | {named['ring']['units']} | {errors} |")
    return "\n".join(lines)


def cell_table(rows, measured, models):
    """Lay out the units that the fit is held against, predicted and counted."""
    kinds = [(family, named) for family in cell_costs.SAMPLES for named in cell_costs.DRAWS]
    held_out = {each: cell_costs.parts(rows, measured, *each)[1] for each in kinds}
    every = [row for each in kinds for row in held_out[each]]
    lines = residuals(every, models, lambda spec: spec.shape)
    lines.append("| devices | filters | fitted to | others | LUTs within | flip-flops within |")
    lines.append("|---|---|" + "---:|" * 4)
    for family, named in kinds:
        own = models[family][named]
        shown = [own["units"], len(held_out[family, named])]
        shown += [f"{own[f'{what}_error']:.0%}" for what in ("lut", "ff")]
        lines.append(f"| {family} | `{named}` | {' | '.join(map(str, shown))} |")
    return "\n".join(lines)


def scaled_table(models):
    """Lay out the errors of families whose costs are those of an ECP5, scaled."""
    names = {
        family: [other for other, own in scaled_costs.SAME.items() if own == family]
        for family in scaled_costs.DEVICES
    }
    lines = ["| devices | rings: units | LUTs within | flip-flops within | dictionaries: units "]
    lines[0] += "| LUTs within | flip-flops within |"
    lines.append("|---|" + "---:|" * 6)
    for family, own in models.items():
        if family in names:
            cells = []
            for kind in scaled_costs.MODELS:
                if kind in own:
                    errors = [f"{own[kind][f'{what}_error']:.0%}" for what in ("lut", "ff")]
                    cells += [str(own[kind]["units"]), *errors]
                else:
                    cells += [NOTHING] * 3
            lines.append(f"| {', '.join([family, *names[family]])} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
    cells = cell_table(rows_of(counted)[1], measured, cost.models())
    said = "\n\n" + earlier([*measured, *counted], "counts")
    scaled = scaled_table(cost.models())
    rings = ring_table(cost.models(), measured)
    return {"residuals": rings, "stamp-residuals": cells + said, "scaled": scaled}


PAGE = Page(DOCS / "planner.md", content, take=fit_all)
