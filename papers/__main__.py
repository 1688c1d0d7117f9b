"""Command line of the reproduction: `python -m papers`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from campaigns.options import select, workers
from lately.cli.options import OutputFolder, json_option, print_json
from lately.cli.progress import parallel_bar
from lately.cli.reporting import OneLineCommand, fail_with
from lately.cli.tables import add_tables, print_figures, show

from .registry import STUDIES
from .studies import page
from .studies.criteria import Verdict
from .studies.paper import Study
from .studies.report import Report, cache_directory
from .studies.report import reproduce as run

add_tables(
    Path(__file__).parent / "tables.toml",
    # Fields of a finding.
    value_of=page.value_text,
    interval_of=page.interval_text,
)


def chosen(names: Sequence[str]) -> list[Study]:
    patterns = ["*" if name == "all" else name for name in names]
    selected = select(patterns, [study.name for study in STUDIES])
    return [study for study in STUDIES if study.name in selected]


@click.command(
    "papers", cls=OneLineCommand, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.argument("names", nargs=-1, metavar="[NAME|all]...")
@click.option("--quick", is_flag=True, help="Use fewer seeds and shorter streams.")
@workers("Number of processes")
@click.option("--anew", is_flag=True, help="Measure all points again, even if they are cached.")
@click.option(
    "--out",
    type=OutputFolder(),
    metavar="DIR",
    help="Write reproduction.md, a page per paper, reproduction.jsonl and drawings to folder DIR.",
)
@click.option("--list", "list_studies", is_flag=True, help="List the studies and exit.")
@json_option
def reproduce(
    *, names: tuple[str, ...], out: str | None, list_studies: bool, as_json: bool, **options: Any
) -> None:
    """Compute or measure the papers' tables and figures, and compare them with the printed ones.

    A study reproduces one table or figure, or a few together. Names may contain the
    wildcards * and ?. A figure that is not reproduced is a finding, not an error:
    the exit status is 0 if everything was measured, and 1 otherwise.

    Every point of a study is cached as soon as it is measured, in the folder
    named by the environment variable LATELY_CACHE or else in the user's cache
    folder, so that an interrupted run resumes where it stopped. Points are
    measured again if the sources that they depend on, or the versions of
    Python, numpy or scipy, have changed. The folder `reproduction` there may
    be deleted at any time. Nothing else is written without --out.

    \b
    Examples:
      python -m papers --list
      python -m papers apbf-table-2
      python -m papers 'apbf-*' --quick --json
      python -m papers all --jobs 2 --out reproduction
      python -m papers all --scheduler tcp://10.0.0.1:8786
    """
    if not (names or list_studies):
        raise click.UsageError("give the name of a study, or 'all'; see --list")
    studies = chosen(names)
    if list_studies:
        listed = [
            {"name": study.name, "title": study.about, "source": f"{study.paper}, {study.source}"}
            for study in studies
        ]
        show(as_json, listed, "studies", {"studies": listed})
        return
    if out is not None:
        os.makedirs(out, exist_ok=True)
    with parallel_bar("points", "points") as progress:
        records, done = run(studies, cache_directory(), progress=progress, **options)
    if out is not None:
        page.write_all(records, studies, out)
    report = Report.of(records, studies)
    if as_json:
        studied = [record.point | record.result for record in records]
        counts = page.counts(report.findings)
        outcome = {"failures": done.failures, "measured": done.measured, "found": done.known}
        print_json({"counts": counts, "studies": studied} | outcome)
    else:
        print_report(report)
    fail_with(done.failures)


def print_report(report: Report) -> None:
    for study, outcome in report.entries:
        title = f"{study.about} ({study.paper}, {study.source})"
        print_figures("findings", {"title": title, "findings": outcome.findings})
    missing = "\n".join(f"not measured: {name}: {text}" for name, text in report.missing)
    counts = page.counts(report.findings)
    summary = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict)
    print_figures("verdicts", {"summary": summary, "missing": missing})


if __name__ == "__main__":
    reproduce(prog_name="python -m papers")
