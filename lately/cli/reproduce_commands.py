"""Command that measures the papers' tables and figures anew."""

import os
from typing import TYPE_CHECKING, Any

import click

from .figures import show
from .options import json_option, print_json, workers
from .outputs import OutputFolder
from .progress import parallel_bar
from .reporting import fail_with

if TYPE_CHECKING:
    from ..studies.reproduction import Reproduction


@click.command("reproduce", short_help="The papers' tables and figures, measured anew.")
@click.argument("names", nargs=-1, metavar="[NAME|all]...")
@click.option("--quick", is_flag=True, help="Use fewer seeds and shorter streams.")
@workers("Processes")
@click.option("--anew", is_flag=True, help="Measure again what is in the cache folder.")
@click.option(
    "--out",
    type=OutputFolder(),
    metavar="DIR",
    help="Write reproduction.md, reproduction.json and drawings to DIR.",
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
      lately reproduce --list
      lately reproduce apbf-table-2
      lately reproduce 'apbf-*' --quick --json
      lately reproduce all --jobs 2 --out reproduction
      lately reproduce all --scheduler tcp://10.0.0.1:8786
    """
    from ..papers.registry import ALL, select

    if not (names or list_studies):
        raise click.UsageError("give the name of a study, or all; --list names them")
    studies = select(names or [ALL])
    if list_studies:
        told = ("name", "title", "source")
        listed = [{name: getattr(study, name) for name in told} for study in studies]
        show(as_json, listed, "studies", {"studies": listed})
        return
    from ..studies import page
    from ..studies.reproduction import reproduce as run
    from ..studies.store import Store, cache_directory

    if out is not None:
        os.makedirs(out, exist_ok=True)
    with parallel_bar("points", "points") as progress:
        done = run(studies, Store(cache_directory()), progress=progress, **how)
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
    from ..studies.page import summary_line
    from .tables import print_figures

    for entry in done.report.entries:
        print_figures("findings", vars(entry) | {"findings": entry.outcome.findings})
    missing = "\n".join(f"not measured: {name}: {text}" for name, text in done.report.missing)
    print_figures("verdicts", {"summary": summary_line(done.report), "missing": missing})
