"""Command that measures the papers' tables and figures anew."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from .options import number_of_jobs, workers
from .progress_bars import progress_bar

if TYPE_CHECKING:
    from ..studies.runner import Progress


@click.command("reproduce", short_help="The papers' tables and figures, measured anew.")
@click.argument("names", nargs=-1, metavar="[NAME|all]...")
@click.option("--quick", is_flag=True, help="Fewer seeds and shorter streams.")
@workers("Processes.")
@click.option("--anew", is_flag=True, help="Measure what is in the cache folder, too.")
@click.option(
    "--out", metavar="DIR", help="Write reproduction.md, reproduction.json and drawings there."
)
@click.option("--list", "list_studies", is_flag=True, help="Name the studies and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
def reproduce(
    *,
    names: tuple[str, ...],
    quick: bool,
    jobs: int | None,
    scheduler: str | None,
    anew: bool,
    out: str | None,
    list_studies: bool,
    as_json: bool,
) -> None:
    """Compute or measure tables and figures of the papers, each figure beside the printed one.

    A study is one table or figure, or a few together. Names may have * and ?
    in them. A figure that is not met is a finding and no error: the exit
    status is 0 if all was measured, and 1 if something could not be.

    Every point of a study is kept as soon as it is measured, in the folder
    that the variable LATELY_CACHE names, or else in the user's cache folder:
    an interrupted run goes on where it stopped. Points are measured anew if
    the sources that they depend on, or the versions of Python, numpy or
    scipy, have changed. The folder `reproduction` there may be deleted at any
    time. Nothing else is written without --out.

    \b
    Examples:
      lately reproduce --list
      lately reproduce apbf-table-2
      lately reproduce 'apbf-*' --quick --json
      lately reproduce all --jobs 2 --out reproduction
      lately reproduce all --scheduler tcp://10.0.0.1:8786
    """
    number = number_of_jobs(jobs, scheduler)
    from ..papers.registry import ALL, select

    if not (names or list_studies):
        raise click.UsageError("give the name of a study, or all; --list names them")
    studies = select(names or [ALL])
    if list_studies:
        from .tables import print_studies

        listed = [
            {"name": study.name, "title": study.title, "source": study.source} for study in studies
        ]
        click.echo(json.dumps(listed)) if as_json else print_studies(studies)
        return
    from ..studies import page
    from ..studies.runner import reproduce as run
    from ..studies.store import Store, cache_directory

    if out is not None:
        from .app import _make_directory

        _make_directory(out)
    with _points() as progress:
        done = run(
            studies,
            Store(cache_directory()),
            quick=quick,
            anew=anew,
            jobs=number,
            scheduler=scheduler,
            progress=progress,
        )
    if out is not None:
        page.write(done.report, out)
    if as_json:
        more = {"failures": done.failures, "measured": done.measured, "found": done.found}
        click.echo(page.json_text(done.report, **more))
    else:
        from .tables import print_reproduction

        print_reproduction(done.report)
    from .app import _complain_of

    _complain_of(done.failures)


@contextmanager
def _points() -> "Iterator[Progress | None]":
    """Show how many points are done where somebody can see it."""
    with progress_bar("{task.description}", "bar", "count", "elapsed") as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("points", total=None)
        yield lambda done, total, name: bar.update(
            task, completed=done, total=total, description=name or "points"
        )
