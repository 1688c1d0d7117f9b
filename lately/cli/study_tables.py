"""Studies and their findings, for the terminal."""

from typing import TYPE_CHECKING, Any

from .tables import head_table, terminal

if TYPE_CHECKING:
    from ..studies.records import Entry, Report
    from ..studies.study import Study


def print_studies(studies: "list[Study]") -> None:
    """Print the studies that reproduce the papers."""
    table = head_table("study", "", "source", right=())
    # The name is what one types: it is never cut.
    table.columns[0].min_width = max(len(study.name) for study in studies)
    for study in studies:
        table.add_row(study.name, study.title, study.source)
    terminal().print(table)


def print_reproduction(report: "Report") -> None:
    """Print findings beside those of the papers."""
    from ..studies.page import summary_line

    console = terminal()
    for entry in report.entries:
        console.print(f"{entry.title} ({entry.source})", markup=False, style="bold")
        console.print(_findings_table(entry))
    console.print(summary_line(report), markup=False)


def _findings_table(entry: "Entry") -> Any:
    from rich.text import Text

    from ..studies.page import NOTHING, interval_text, value_text

    table = head_table("", right=("paper", "ours", "95% interval"))
    table.columns[0].no_wrap = False
    table.add_column("verdict", no_wrap=True)
    colours = {"met": "green", "near": "yellow", "not met": "red"}
    for finding in entry.outcome.findings:
        table.add_row(
            Text(finding.what),
            finding.paper or NOTHING,
            value_text(finding),
            interval_text(finding),
            Text(finding.verdict, colours.get(finding.verdict, "dim")),
        )
    return table
