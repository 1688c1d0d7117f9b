"""docs/reproduction.md and its drawings, from what `python -m papers NAME... --out` leaves."""

import sys
from pathlib import Path

from papers.registry import STUDIES
from papers.studies import page
from papers.studies.records import Report, load, text

from .blocks import DOCS, RESULTS, Page, write

DATA = RESULTS / page.DATA


class ReproductionPage(Page):
    """A page without blocks: all of it is made."""

    def stale(self) -> list[Path]:
        """Return the files that are not what they should be."""
        report = load(DATA)
        wrong = [] if self.path.read_text("utf-8") == page.page(report) else [self.path]
        return wrong + [path for path in _images(report) if not path.exists()]

    def write(self) -> None:
        """Write page and drawings."""
        report = load(DATA)
        write(self.path, page.page(report))
        page.draw_all(report, DOCS)


def _images(report: Report) -> list[Path]:
    return [DOCS / page.image(chart) for chart in report.charts]


def take(paths: list[Path]) -> None:
    """Take over the studies of reports; other studies stay unchanged."""
    report = load(DATA)
    names = [study.name for study in STUDIES]
    try:
        for path in paths:
            report = report.updated(load(path), names)
    except ValueError as error:
        sys.exit(str(error))
    write(DATA, text(report))


PAGE = ReproductionPage(DOCS / page.PAGE, dict, take=take)
