"""Page of what studies found, in Markdown, with its drawings."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from lately.golden.files import replace_file
from lately.replay.drawing import Chart

from . import markdown
from .comparison import RARE, to_digits_of
from .criteria import DIFFERENCE, Verdict
from .records import Report, text
from .study import Finding

PAGE = "reproduction.md"
"""Name of the page."""
DATA = "reproduction.jsonl"
"""Name of the file that the page is written from."""
IMAGES = Path("images", "reproduction")
"""Places of the files below the requested folder."""

NOTHING = "\N{EN DASH}"
"""Stands in a table where there is no value."""


def page(report: Report) -> str:
    """Return the page; its drawings are below `IMAGES`."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"grid": _grid, "table": _table, "escaped": markdown.escape}
    environment.filters |= {"anchor": _anchor, "image": image}
    return environment.get_template("page.md").render(
        report=report, Verdict=Verdict, difference=f"{DIFFERENCE:.0%}", rare=f"{RARE:.2%}"
    )


def write(report: Report, directory: str | os.PathLike[str]) -> list[str]:
    """Write page, data and drawings, and return their names below the folder.

    Page and data appear together, and after the drawings.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    folder = Path(directory)
    report = Report.from_dict(report.to_dict())  # Draw what the file holds.
    drawings = draw_all(report, folder)
    with ExitStack() as stack:
        for name, content in ((PAGE, page(report)), (DATA, text(report))):
            file = stack.enter_context(replace_file(folder / name))
            file.write(content.encode())
    return [PAGE, DATA, *drawings]


def draw_all(report: Report, directory: str | os.PathLike[str]) -> list[str]:
    """Write the drawings, and return their names below the folder; errors as `write`."""
    from lately.replay.drawing import draw

    names = [image(chart) for chart in report.charts]
    if names:
        (Path(directory) / IMAGES).mkdir(parents=True, exist_ok=True)
    for chart, name in zip(report.charts, names, strict=True):
        draw(chart, Path(directory) / name)
    return names


def image(chart: Chart) -> str:
    """Return the file of a chart, below the folder of the page."""
    return (IMAGES / f"{chart.name}.svg").as_posix()


def value_text(finding: Finding) -> str:
    """Write our value: in the printed digits if it is computed, else in four figures."""
    if finding.paper and finding.low is None:
        with suppress(ValueError):
            return to_digits_of(finding.paper, finding.ours)
    return number_text(finding.ours)


def number_text(value: float) -> str:
    """Write a number in four figures, whole ones in full."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"


def interval_text(finding: Finding) -> str:
    """Write the ends of the interval; a dash without one."""
    if finding.low is None or finding.high is None:
        return NOTHING
    return f"{number_text(finding.low)} to {number_text(finding.high)}"


def thresholds_text(finding: Finding) -> str:
    """Write the thresholds of a sentence; a dash for a printed figure."""
    if finding.within is None:
        return NOTHING
    return " to ".join(dict.fromkeys(map(number_text, finding.within)))


# Parts


_COLUMNS: dict[str, Callable[[Finding], str]] = {
    "": lambda finding: markdown.escape(finding.what),
    "paper": lambda finding: finding.paper or NOTHING,
    "ours": value_text,
    "not rounded": lambda finding: f"{finding.ours:.10g}",
    "95 % interval": interval_text,
    "threshold": lambda finding: thresholds_text(finding),
    "verdict": lambda finding: finding.verdict.value,
    "note": lambda finding: markdown.escape(finding.note),
    "reason": lambda finding: markdown.escape(finding.note),
}


def _table(findings: Iterable[Finding], *columns: str) -> str:
    rows = [[_COLUMNS[column](finding) for column in columns] for finding in findings]
    return markdown.table(columns, rows)


def _grid(findings: Sequence[Finding]) -> str | None:
    """Lay out computed findings named "row: column" as rows and columns; None if others are."""
    cells: dict[str, dict[str, Finding]] = {}
    for finding in findings:
        row, colon, column = finding.what.partition(": ")
        if not colon or finding.low is not None or column in cells.setdefault(row, {}):
            return None
        cells[row][column] = finding
    columns = dict.fromkeys(column for row in cells.values() for column in row)
    if len(columns) < 3 or any(row.keys() != columns.keys() for row in cells.values()):
        return None
    rows = [[name, *(_cell(row[column]) for column in columns)] for name, row in cells.items()]
    return markdown.table(["", *columns], rows)


def _cell(finding: Finding) -> str:
    if finding.verdict in (Verdict.MET, Verdict.COPIED, Verdict.OURS):
        return value_text(finding)
    return f"{finding.paper} **{value_text(finding)}**"


def _anchor(title: str) -> str:
    """Return the anchor that a heading gets."""
    kept = (c for c in title.lower() if c.isalnum() or c in " -_")
    return "".join(kept).replace(" ", "-")


def summary_line(report: Report) -> str:
    """Return the counts of all verdicts in a line."""
    return ", ".join(f"{report.counts[verdict]} {verdict.value}" for verdict in Verdict)
