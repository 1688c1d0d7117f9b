"""Command that measures the papers' tables and figures again."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from campaigns.options import workers
from lately.cli.options import json_option, print_json
from lately.cli.outputs import OutputFolder
from lately.cli.progress import parallel_bar
from lately.cli.reporting import OneLineCommand, fail_with
from lately.cli.tables import add_tables, print_figures, show

from .studies import page

if TYPE_CHECKING:
    from .studies.reproduction import Reproduction

add_tables(
    Path(__file__).parent / "tables.toml",
    # Of a finding.
    value_of=page.value_text,
    interval_of=page.interval_text,
)


@click.command(
    "papers", cls=OneLineCommand, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.argument("names", nargs=-1, metavar="[NAME|all]...")
@click.option("--quick", is_flag=True, help="Use fewer seeds and shorter streams.")
@workers("Processes")
@click.option("--anew", is_flag=True, help="Measure again what is in the cache folder.")
@click.option(
    "--out",
    type=OutputFolder(),
    metavar="DIR",
    help="Write reproduction.md, reproduction.jsonl and drawings to DIR.",
)
@click.option("--list", "list_studies", is_flag=True, help="List the studies and exit.")
@json_option
def reproduce(
    *, names: tuple[str, ...], out: str | None, list_studies: bool, as_json: bool, **how: Any
) -> None:
    """Compute or measure the papers' tables and figures, and compare them with the printed ones.

    A study is one table or figure, or a few together. Names may contain the
    wildcards * and ?. A figure that is not met is a finding, not an error: the
    exit status is 0 if everything was measured, and 1 if something could not be.

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
    from .registry import ALL, select

    if not (names or list_studies):
        raise click.UsageError("give the name of a study, or all; --list names them")
    studies = select(names or [ALL])
    if list_studies:
        told = ("name", "title", "source")
        listed = [{name: getattr(study, name) for name in told} for study in studies]
        show(as_json, listed, "studies", {"studies": listed})
        return
    from .studies.reproduction import cache_directory
    from .studies.reproduction import reproduce as run

    if out is not None:
        os.makedirs(out, exist_ok=True)
    with parallel_bar("points", "points") as progress:
        done = run(studies, cache_directory(), progress=progress, **how)
    if out is not None:
        page.write(done.report, out)
    print_reproduction(done, as_json)
    fail_with(done.failures)


def print_reproduction(done: "Reproduction", as_json: bool) -> None:
    """Print findings beside those of the papers, or all of a run as JSON."""
    if as_json:
        told = {name: getattr(done, name) for name in ("failures", "measured", "found")}
        print_json(done.report.to_dict() | told)
        return
    for entry in done.report.entries:
        print_figures("findings", vars(entry) | {"findings": entry.outcome.findings})
    missing = "\n".join(f"not measured: {name}: {text}" for name, text in done.report.missing)
    print_figures("verdicts", {"summary": page.summary_line(done.report), "missing": missing})
