"""View of a run while it goes on, on a terminal: rate, repeats, false positives, fill."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ..replay.texts import count_text, held, interval_text, part_name, rate_text
from .progress import watched

if TYPE_CHECKING:
    from rich.table import Table

    from ..replay.result import RunResult

_HISTORY = 40
_BARS = "▁▂▃▄▅▆▇█"
_PERIOD = 0.1


@contextmanager
def run_view(waiting: str) -> "Iterator[Callable[[RunResult, float | None], None]]":
    """Show how a run goes on, and leave the last view when it ends.

    Yield a function that takes the result so far, and the share of the stream if it is known;
    `waiting` is shown before its first call.

    Raises
    ------
    UsageError
        If standard error is no terminal.
    """
    if not watched():
        raise click.UsageError("--watch needs a terminal on standard error, which is none")
    from rich.console import Console
    from rich.live import Live

    view = RunView()
    with Live(waiting, console=Console(stderr=True), auto_refresh=False) as live:
        shown = 0.0

        def show(result: "RunResult", share: float | None) -> None:
            nonlocal shown
            view.take(result)
            if (now := time.monotonic()) - shown >= _PERIOD or share == 1:
                shown = now
                live.update(view.table(result, share), refresh=True)

        yield show


class RunView:
    """What a view shows of a run, with the course of rate and repeats in its last stretches."""

    def __init__(self) -> None:
        self._before = (0, 0, 0.0)
        self._rates: deque[float] = deque(maxlen=_HISTORY)
        self._repeats: deque[float] = deque(maxlen=_HISTORY)

    def take(self, result: "RunResult") -> None:
        """Note what has come since the last call of the `result` so far."""
        now = result.operations, result.repeats, result.seconds
        operations, repeats, seconds = (a - b for a, b in zip(now, self._before, strict=True))
        self._before = now
        if operations and seconds:
            self._rates.append(operations / seconds)
            self._repeats.append(repeats / operations)

    def table(self, result: "RunResult", share: float | None) -> "Table":
        """Return the view of a `result` of which a `share` of the stream, if known, was read."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        done = f"{count_text(result.operations)} operations"
        table.add_row("stream", result.source["name"])
        table.add_row("done", done if share is None else f"{done}, {share:.0%} of the stream")
        if share is not None:
            table.add_row("", ProgressBar(total=1, completed=share, width=_HISTORY))
        for name, unit, values in (
            ("rate", "/s", self._rates), ("repeats", "", self._repeats)
        ):  # fmt: skip
            if values:
                last = rate_text(values[-1]) if not unit else f"{count_text(int(values[-1]))}{unit}"
                table.add_row(name, f"{sparkline(values)}  {last}")
        for name, text in self._texts(result):
            table.add_row(name, text)
        if result.checkpoints:
            fills = result.checkpoints[-1].fill_ratios
            name = f"{held(result.spec)} by {part_name(result.spec)}"
            table.add_row(name, f"{sparkline(fills)}  {rate_text(float(fills.mean()))} on average")
        return table

    def _texts(self, result: "RunResult") -> Iterator[tuple[str, str]]:
        figures = result.probe_figures()
        yield "repeats found", f"{result.repeats_found:,} of {result.repeats:,}"
        measured = rate_text(figures["probe_false_positive_rate"])
        interval = interval_text(figures["probe_false_positive_interval"])
        computed = rate_text(figures["estimated_false_positive_rate"])
        yield "false positives", f"{measured} measured ({interval}), {computed} computed"
        if result.mismatches is not None:
            yield "RTL and golden", f"{result.mismatches:,} verdicts differ"


def sparkline(values: Any) -> str:
    """Draw values as a row of bars, the highest a full one."""
    top = max(float(max(values)), 1e-300)
    last = len(_BARS) - 1
    return "".join(_BARS[min(last, int(float(value) / top * last + 0.5))] for value in values)
