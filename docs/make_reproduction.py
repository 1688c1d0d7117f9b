"""Writes reproduction.md and drawings from reproduction.json: `python docs/make_reproduction.py`.

reproduction.json is what `lately reproduce all --out docs` left, which writes all of them.
"""

from pathlib import Path

from lately.studies import page
from lately.studies.records import load

HERE = Path(__file__).parent
DATA = HERE / page.DATA
PAGE = HERE / page.PAGE


def out_of_date() -> str | None:
    """Return what to do if page or drawings are not those of the data."""
    report = load(DATA)
    missing = [chart for chart in report.charts if not (HERE / page.image(chart)).exists()]
    if PAGE.exists() and PAGE.read_text("utf-8") == page.page(report) and not missing:
        return None
    return "out of date: docs/reproduction.md; run python docs/make_reproduction.py"


if __name__ == "__main__":
    page.write(load(DATA), HERE)
