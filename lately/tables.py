"""Figures of a run, for the terminal."""

from typing import Any

from .report import class_rows, count_text, interval_text, rate_text
from .run import RunResult


def print_result(result: RunResult) -> None:
    """Print key figures and verdict classes on standard output."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        # Lines for a program or a pager must not be broken to a width that nobody has.
        console.width = 160
    console.print(_figure_table(result.figures(), result))
    console.print(_class_table(result))


def _figure_table(figures: dict[str, Any], result: RunResult) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    for name, value, note in _figure_rows(figures, result):
        # Text, because a file name in brackets would be taken for markup.
        table.add_row(Text(name), Text(value), Text(note))
    return table


def _figure_rows(figures: dict[str, Any], result: RunResult) -> list[tuple[str, str, str]]:
    rows = [("operations", count_text(result.operations), _source_note(figures))]
    if result.cycles is not None:
        per_operation = f"{figures['cycles_per_operation']:.4f} per operation"
        rows.append(("clock cycles", count_text(result.cycles), per_operation))
        rows.append(("mismatches", count_text(result.mismatches), "verdicts, RTL against golden"))
    return [
        *rows,
        ("shifts", count_text(result.shifts), f"one per {result.spec.generation:,} insertions"),
        (
            "false negatives",
            count_text(result.false_negatives),
            f"of {figures['guaranteed_queries']:,} guaranteed",
        ),
        (
            "repeats found",
            count_text(result.repeats_found),
            f"of {result.repeats:,} within {result.spec.window:,} insertions",
        ),
        (
            "false-positive rate",
            rate_text(figures["probe_false_positive_rate"]),
            f"of random keys ({interval_text(figures['probe_false_positive_interval'])}); "
            f"{rate_text(figures['estimated_false_positive_rate'])} from the bits set, "
            f"{rate_text(figures['predicted_false_positive_rate'])} predicted for distinct keys",
        ),
        ("distinct keys", count_text(result.distinct_keys), _collision_note(figures)),
        ("malformed lines", count_text(result.malformed_lines), _malformed_note(result)),
        (
            "time",
            f"{result.seconds:.2f} s",
            f"{figures['operations_per_second']:,.0f} operations/s",
        ),
    ]


def _class_table(result: RunResult) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("class")
    for name in ("queries", "seen", "not seen", "share seen", "95% interval", "expected"):
        table.add_column(name, justify="right")
    for row in class_rows(result):
        table.add_row(
            row["name"],
            count_text(row["queries"]),
            count_text(row["seen"]),
            count_text(row["not_seen"]),
            rate_text(row["share"]),
            interval_text(row["interval"]),
            row["expected"],
        )
    return table


def _source_note(figures: dict[str, Any]) -> str:
    source = figures["source"]
    key = f", key {' + '.join(source['key'])}" if source["key"] else ""
    return ascii(source["name"])[1:-1] + f" ({source['format']}{key})"


def _collision_note(figures: dict[str, Any]) -> str:
    colliding = figures["colliding_keys"]
    return f"{colliding:,} texts share a key with another" if colliding else ""


def _malformed_note(result: RunResult) -> str:
    if not result.malformed_examples:
        return ""
    line, reason = result.malformed_examples[0]
    return f"line {line}: {reason}"
