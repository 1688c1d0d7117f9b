"""Writes Markdown pages with the findings of studies, and draws the charts of the pages."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby
from pathlib import Path

from campaigns.engine import Record, write
from lately.golden.files import replace_file
from lately.replay.drawing import Chart

from .criteria import DIFFERENCE, RARE, Verdict, to_digits_of
from .paper import Conclusion, Finding, Study
from .report import Report


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGE = "reproduction.md"
DATA = "reproduction.jsonl"  # The records from which the page is generated.
IMAGES = Path("images", "reproduction")
NOTHING = "\N{EN DASH}"  # Shown in a table if there is no value.

DEVIATIONS = (Verdict.NOT_MET, Verdict.UNDECIDED, Verdict.NEAR)


def pages(report: Report, data: str = DATA) -> dict[str, str]:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "grid": _grid, "anchor": _anchor, "image": image, "escaped": escape,
        "counts": counts, "deviations": _deviations,
        "deviating": lambda outcome: any(each.verdict in DEVIATIONS for each in outcome.findings),
        "findings": lambda entries: [each for _, outcome in entries for each in outcome.findings],
    }  # fmt: skip
    papers = [
        (slug, [*entries]) for slug, entries in groupby(report.entries, lambda entry: entry[0].slug)
    ]
    compared = [
        finding for finding in report.findings if finding.verdict in (Verdict.MET, *DEVIATIONS)
    ]
    sentences = sum(finding.within is not None for finding in compared)
    summary = environment.get_template("page.md").render(
        report=report, papers=papers, data=data, Verdict=Verdict, sentences=sentences,
        figures=len(compared) - sentences, difference=f"{DIFFERENCE:.0%}", rare=f"{RARE:.2%}",
    )  # fmt: skip
    template = environment.get_template("paper.md")
    return {PAGE: summary} | {
        f"reproduction/{slug}.md": template.render(entries=entries, Verdict=Verdict)
        for slug, entries in papers
    }


def write_all(
    records: Sequence[Record], studies: Sequence[Study], directory: str | os.PathLike[str]
) -> list[str]:
    folder = Path(directory)
    report = Report.of(records, studies)
    drawings, texts = draw_all(report, folder), pages(report)
    (folder / "reproduction").mkdir(exist_ok=True)
    with ExitStack() as stack:
        for name, text in texts.items():
            stack.enter_context(replace_file(folder / name)).write(text.encode())
        write(folder / DATA, records)
    return [*texts, DATA, *drawings]


def draw_all(report: Report, directory: str | os.PathLike[str]) -> list[str]:
    from lately.replay.drawing import draw

    names = [image(chart) for chart in report.charts]
    if names:
        (Path(directory) / IMAGES).mkdir(parents=True, exist_ok=True)
    for chart, name in zip(report.charts, names, strict=True):
        draw(chart, Path(directory) / name)
    return names


def image(chart: Chart) -> str:
    return (IMAGES / f"{chart.name}.svg").as_posix()


def value_text(finding: Finding) -> str:
    """Format our value: a computed value with the paper's digits, any other with four digits."""
    if finding.paper and finding.low is None:
        with suppress(ValueError):
            return to_digits_of(finding.paper, finding.ours)
    return number_text(finding.ours)


def number_text(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"


def interval_text(finding: Finding) -> str:
    if finding.low is None or finding.high is None:
        return NOTHING
    return f"{number_text(finding.low)} to {number_text(finding.high)}"


def thresholds_text(finding: Finding) -> str:
    if finding.within is None:
        return NOTHING
    return " to ".join(dict.fromkeys(map(number_text, finding.within)))


def counts(findings: Iterable[Finding]) -> Counter[Verdict]:
    return Counter(finding.verdict for finding in findings)


_COLUMNS: dict[str, Callable[[Finding], str]] = {
    "figure": lambda finding: escape(finding.what),
    "paper": lambda finding: finding.paper or NOTHING,
    "ours": value_text,
    "95 % interval": interval_text,
    "threshold": thresholds_text,
    "verdict": lambda finding: finding.verdict.value,
    "note": lambda finding: escape(finding.note),
}


def _deviations(entries: Sequence[tuple[Study, Conclusion]]) -> str:
    rows = [
        [f"[{study.name}](#{_anchor(study.about)})", *(text(finding) for text in _COLUMNS.values())]
        for verdict in DEVIATIONS
        for study, outcome in entries
        for finding in outcome.findings
        if finding.verdict is verdict
    ]
    return table(["study", *_COLUMNS], rows) if rows else ""


def _grid(findings: Sequence[Finding]) -> str | None:
    cells: dict[str, dict[str, Finding]] = {}
    for finding in findings:
        row, colon, column = finding.what.partition(": ")
        if not colon or finding.low is not None or column in cells.setdefault(row, {}):
            return None
        cells[row][column] = finding
    columns = dict.fromkeys(column for row in cells.values() for column in row)
    if len(columns) < 3 or any(row.keys() != columns.keys() for row in cells.values()):
        return None
    rows = []
    for name, by_column in cells.items():
        texts = [
            f"{each.paper} **{value_text(each)}**"
            if each.verdict in DEVIATIONS
            else value_text(each)
            for each in (by_column[column] for column in columns)
        ]
        rows.append([name, *texts])
    return table(["", *columns], rows)


def _anchor(title: str) -> str:
    kept = (c for c in title.lower() if c.isalnum() or c in " -_")
    return "".join(kept).replace(" ", "-")
