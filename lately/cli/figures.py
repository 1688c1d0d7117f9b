"""Commands that return figures: printed, or written as JSON, and judged by their mismatches."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from .options import Command, json_option, print_json
from .outputs import OutputFile
from .reporting import INTERRUPTED

Figures = dict[str, Any]
"""Figures that a command measured, as JSON can hold them."""


def show(as_json: bool, value: object, tables: str | Sequence[str], figures: Figures) -> None:
    """Print a value as JSON or, if that is not asked for, figures in a table or several."""
    if as_json:
        print_json(value)
    else:
        # Imported here, as it takes longer than a short command.
        from .tables import print_figures

        for table in [tables] if isinstance(tables, str) else tables:
            print_figures(table, figures)


def figures_command(
    table: str, name: str, count: Callable[[Figures], object], *, out: bool = False
) -> Callable[[Command], Command]:
    """Return a decorator for a command that returns figures.

    The command gets --json and, with `out`, --out. Without --json the figures are printed in a
    `table` of ``tables.toml``. The command fails unless a `count` of events, by their `name`, is
    zero.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*, as_json: bool, out: str | None = None, **options: Any) -> None:
            figures = command(**options)
            if out is not None:
                from ..golden.files import write_json

                write_json(figures, out)
            show(as_json, figures, table, figures)
            if found := count(figures):
                raise click.ClickException(f"{name}: must be 0, not {found}")
            if figures.get("interrupted"):
                raise click.exceptions.Exit(INTERRUPTED)

        run = json_option(run)
        return _out(run) if out else run

    return decorate


_out = click.option(
    "--out", type=OutputFile(), metavar="FILE", help="Write the figures to FILE, as JSON."
)
