"""docs/reproduction.md and its drawings, from what `lately reproduce all --out` leaves."""

import shutil
from pathlib import Path

from lately.studies import page
from lately.studies.records import Report, load

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
    """Take over a report."""
    for path in paths:
        load(path)
        shutil.copyfile(path, DATA)


PAGE = ReproductionPage(DOCS / page.PAGE, dict, take=take)
