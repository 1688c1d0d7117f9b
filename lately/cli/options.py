"""Options that several commands have."""

import os
from collections.abc import Callable
from typing import Any

import click

Command = Callable[..., Any]
"""What click makes a command of."""


def workers(what: str) -> Callable[[Command], Command]:
    """Add --jobs, how many of `what` at a time, and --scheduler to a command."""

    def add(command: Command) -> Command:
        jobs = click.option(
            "--jobs", type=click.IntRange(min=1), metavar="N", help=f"{what}  [default: cores]"
        )
        scheduler = click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="Have the workers of a Dask scheduler do it, such as tcp://10.0.0.1:8786.",
        )
        return jobs(scheduler(command))

    return add


def number_of_jobs(jobs: int | None, scheduler: str | None) -> int:
    """Return how many processes to start.

    Parameters
    ----------
    jobs : int, optional
        Value of --jobs; by default as many as there are cores.
    scheduler : str, optional
        Value of --scheduler.

    Raises
    ------
    UsageError
        If both are given.
    """
    if jobs is not None and scheduler is not None:
        raise click.UsageError(
            "--jobs is for processes of this machine; "
            "the workers of a --scheduler are as many as were started"
        )
    return jobs or os.cpu_count() or 1
