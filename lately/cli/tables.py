"""Print figures on the terminal."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click

from .options import print_json

Figures = dict[str, Any]  # measured figures of a command, for JSON
_PATHS = [Path(__file__).with_name("tables.toml")]
_FILTERS: dict[str, Any] = {}


def terminal(*, err: bool = False) -> Any:
    from rich.console import Console

    console = Console(highlight=False, stderr=err)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # Lines must not be wrapped for another program or a pager.
        console.width = 160
    return console


def show(as_json: bool, value: object, tables: str | Sequence[str], figures: Figures) -> None:
    if as_json:
        print_json(value)
        return
    for table in [tables] if isinstance(tables, str) else tables:
        print_figures(table, figures)


def add_tables(path: Path, **filters: Any) -> None:
    _PATHS.append(path)
    _FILTERS.update(filters)


def print_figures(name: str, figures: dict[str, Any]) -> None:
    layout = _layouts()[name]
    console = terminal()
    rows = map(_members, figures[layout["figures_of"]]) if "figures_of" in layout else [figures]
    facts = [
        [_cell(cell, values) for cell in line]
        for values in rows
        for line in layout.get("figures", ())
        if _cell(line[0], values)
    ]
    for line in filter(None, (_cell(line, figures) for line in layout.get("before", ()))):
        console.print(line, soft_wrap=True, markup=False)
    if "title" in layout:
        console.print(_cell(layout["title"], figures), markup=False, style="bold")
    if layout.get("facts_first"):
        print_facts(facts)
    if "rows" in layout:
        with console.capture() as table:
            console.print(_rows(layout, figures))
        # rich pads lines with spaces.
        click.echo("\n".join(line.rstrip() for line in table.get().splitlines()))
    if not layout.get("facts_first"):
        print_facts(facts)
    for line in filter(None, (_cell(line, figures) for line in layout.get("after", ()))):
        console.print(line, markup=False)


def print_facts(facts: Iterable[Sequence[str]], *, err: bool = False) -> None:
    """Print names, values and notes in three columns; rich is imported only on a terminal."""
    rows = [[_printable(cell) for cell in row] for row in facts]
    if not rows:
        return
    stream = sys.stderr if err else sys.stdout
    shown = stream is not None and stream.isatty()
    if not shown and "COLUMNS" not in os.environ:
        name, value = (max(len(row[column]) for row in rows) for column in range(2))
        lines = (f" {row[0]:{name}}   {row[1]:>{value}}   {row[2]}".rstrip() for row in rows)
        click.echo("\n".join(["", *lines, ""]), err=err)
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    for row in rows:
        # Wrapped in Text, because rich would parse a file name in brackets as markup.
        table.add_row(*map(Text, row))
    terminal(err=err).print(table)


def _rows(layout: dict[str, Any], figures: dict[str, Any]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    cells = []
    for side in ("left", "right", "last"):
        for template, cell in layout.get(side, {}).items():
            if name := _cell(template, figures):
                justify: Any = "right" if side == "right" else "left"
                whole = side != "right" and name not in layout.get("broken", ())
                table.add_column(name.strip(), justify=justify, no_wrap=whole)
                cells.append(cell)
    colours = layout.get("colours", {})
    for number, row in enumerate(figures[layout["rows"]], 1):
        values = {"number": number, "figures": figures} | _members(row)
        texts = (_cell(cell, values) for cell in cells)
        table.add_row(*(Text(text, colours.get(text, "")) for text in texts))
    if layout.get("never_cut"):
        names = table.columns[0]
        names.min_width = max(len(str(cell)) for cell in names.cells)
    return table


def _members(row: Any) -> dict[str, Any]:
    return row if isinstance(row, dict) else {"row": row}


@cache
def _layouts() -> dict[str, Any]:
    import tomllib

    layouts: dict[str, Any] = {}
    for path in _PATHS:
        layouts |= tomllib.loads(path.read_text("utf-8"))
    return layouts


def _cell(template: str, values: dict[str, Any]) -> str:
    return _printable(_environment().from_string(template).render(values))


def _printable(text: str) -> str:
    # Keep control characters and undecodable bytes from the terminal.
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )


@cache
def _environment() -> Any:
    import jinja2

    from ..replay.formatting import FILTERS, count_text

    environment = jinja2.Environment()
    environment.filters |= FILTERS | _FILTERS
    environment.filters |= {
        "count_if_any": lambda value: "" if value is None else count_text(value),
        "fixed": lambda value, digits: f"{value:,.{digits}f}",
        "versions": lambda tools: ", ".join(f"{tool} {v}" for tool, v in tools.items()),
        "ascii": lambda text: ascii(text)[1:-1],
        # More digits if two decimals would both be zero.
        "two_digits": lambda value: f"{value:.2f}" if value >= 0.1 else f"{value:.2g}",
    }
    return environment


def print_table(rows: Sequence[Mapping[str, object]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    head = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in head:
        number = all(isinstance(row.get(name), int | float | None) for row in rows)
        table.add_column(name.strip(), justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(_plain(row.get(name))) for name in head))
    terminal().print(table)


def _plain(value: object) -> str:
    if isinstance(value, bool | None):
        return "" if value is None else str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
