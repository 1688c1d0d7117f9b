"""The summary and pages of the reproduction, from what `python -m papers NAME... --out` leaves."""

from pathlib import Path

from campaigns import engine
from papers.registry import STUDIES
from papers.studies import page
from papers.studies.report import Report

from .blocks import DOCS, RESULTS, Page, write

DATA = RESULTS / page.DATA


class ReproductionPage(Page):
    """Pages without blocks: all of them are made."""

    def stale(self) -> list[Path]:
        """Return the files that are not what they should be."""
        report = _report()
        texts = {DOCS / name: text for name, text in _texts(report).items()}
        wrong = [
            path
            for path, text in texts.items()
            if not path.exists() or path.read_text("utf-8") != text
        ]
        images = [DOCS / page.image(chart) for chart in report.charts]
        return wrong + [path for path in images if not path.exists()]

    def write(self) -> None:
        """Write pages and drawings."""
        report = _report()
        for name, text in _texts(report).items():
            write(DOCS / name, text)
        page.draw_all(report, DOCS)


def _report() -> Report:
    return Report.of(engine.read(DATA), STUDIES)


def _texts(report: Report) -> dict[str, str]:
    return page.pages(report, f"../results/{page.DATA}")


def take(paths: list[Path]) -> None:
    """Take over the studies of files of records; other studies stay unchanged."""
    known = {one.point["study"]: one for path in (DATA, *paths) for one in engine.read(path)}
    records = [known[study.name] for study in STUDIES if study.name in known]
    Report.of(records, STUDIES)  # Refuses studies of the quick form.
    engine.write(DATA, records)


PAGE = ReproductionPage(DOCS / page.PAGE, dict, take=take)
