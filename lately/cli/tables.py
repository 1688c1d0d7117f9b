"""Figures for the terminal."""

import os
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ..replay.report import class_rows, count_text, interval_text, rate_text
from ..replay.run import RunResult

if TYPE_CHECKING:
    from ..sim.proofs.formal import Proof


def terminal() -> Any:
    """Return a console for standard output; lines for a pipe are not broken.

    COLUMNS in the environment gives another width.
    """
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # Lines for a program or a pager must not be broken to a width that nobody has.
        console.width = 160
    return console


def head_table(*left: str, right: tuple[str, ...]) -> Any:
    """Return an empty table with a head, of the columns `left` and `right`-aligned ones."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right")
    return table


def figure_table(rows: list[tuple[str, str, str]]) -> Any:
    """Return a table of figures: their names, values and notes."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    for name, value, note in rows:
        # Text, because a file name in brackets would be taken for markup.
        table.add_row(Text(name), Text(value), Text(note))
    return table


def print_figures(name: str, figures: dict[str, Any]) -> None:
    """Print figures in the tables that ``tables.toml`` lays out under a name."""
    layout = _layouts()[name]
    console = terminal()
    facts = figure_table(
        [
            (_cell(name, figures), _cell(value, figures), _cell(note, figures))
            for name, value, note in layout.get("figures", ())
            if _cell(name, figures)
        ]
    )
    table = None
    if "rows" in layout:
        table = head_table(*layout["left"], right=tuple(layout["right"]))
        for number, row in enumerate(figures[layout["rows"]], 1):
            cells = (*layout["left"].values(), *layout["right"].values())
            own = row if isinstance(row, dict) else {"row": row}
            values = {"number": number, "figures": figures, **own}
            table.add_row(*(_cell(cell, values) for cell in cells))
    for one in (facts, table) if layout.get("facts_first") else (table, facts):
        if one is not None and one.row_count:
            console.print(one)


@cache
def _layouts() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("tables.toml").read_text("utf-8"))


def _cell(template: str, values: dict[str, Any]) -> str:
    return str(_environment().from_string(template).render(values))


@cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment()
    environment.filters |= {
        "count": count_text,
        "rate": rate_text,
        "interval": interval_text,
        "fixed": lambda value, digits: f"{value:,.{digits}f}",
        "versions": lambda tools: ", ".join(f"{tool} {v}" for tool, v in tools.items()),
        # Rates of the filters of other libraries.
        "others": lambda runs: [
            run["keys_per_second"] for run in runs if run["runs"] not in ("compiled", "numpy")
        ],
        # More digits where two decimals would be zeros.
        "two_digits": lambda value: f"{value:.2f}" if value >= 0.1 else f"{value:.2g}",
    }
    return environment


def print_result(result: RunResult) -> None:
    """Print key figures and verdict classes on standard output."""
    figures = result.figures()
    shown = figures["source"] | {"shown": ascii(figures["source"]["name"])[1:-1]}
    print_figures("run", figures | {"source": shown, "classes": class_rows(result)})


def print_proofs(proofs: "list[Proof]") -> None:
    """Print the properties that can be proven."""
    rows = [(proof.name, proof.statement, f"Of: {proof.design}.") for proof in proofs]
    terminal().print("\n".join("\n    ".join(row) for row in rows), soft_wrap=True, markup=False)
