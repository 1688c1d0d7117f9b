"""docs/reproduction.md and its drawings, from what `python -m papers NAME... --out` leaves."""

from pathlib import Path

from campaigns import engine
from papers.registry import STUDIES
from papers.studies import page
from papers.studies.report import Report

from .blocks import DOCS, RESULTS, Page, write

DATA = RESULTS / page.DATA


class ReproductionPage(Page):
    """A page without blocks: all of it is made."""

    def stale(self) -> list[Path]:
        """Return the files that are not what they should be."""
        report = Report.of(engine.read(DATA), STUDIES)
        wrong = [] if self.path.read_text("utf-8") == _text(report) else [self.path]
        images = [DOCS / page.image(chart) for chart in report.charts]
        return wrong + [path for path in images if not path.exists()]

    def write(self) -> None:
        """Write page and drawings."""
        report = Report.of(engine.read(DATA), STUDIES)
        write(self.path, _text(report))
        page.draw_all(report, DOCS)


def _text(report: Report) -> str:
    return page.page(report, f"../results/{page.DATA}")


def take(paths: list[Path]) -> None:
    """Take over the studies of files of records; other studies stay unchanged."""
    known = {one.point["study"]: one for path in (DATA, *paths) for one in engine.read(path)}
    records = [known[study.name] for study in STUDIES if study.name in known]
    Report.of(records, STUDIES)  # Refuses studies of the quick form.
    engine.write(DATA, records)


PAGE = ReproductionPage(DOCS / page.PAGE, dict, take=take)
