"""Live view of a long run on a terminal: rate, repeats, false positives and fill ratios."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from ..replay.formatting import count_text, held, interval_text, rate_text
from .progress import watched

if TYPE_CHECKING:
    from rich.table import Table

    from ..dedup.deduplicate import DedupResult
    from ..dedup.packet_oracle import PacketOracle
    from ..replay.run import RunResult

_HISTORY = 40
_BARS = "▁▂▃▄▅▆▇█"
_PERIOD = 0.1


@contextmanager
def live_view(waiting: str, view: "View") -> Iterator[Callable[[Any, float | None], None]]:
    """Show a live view; yield a function of the result so far and the completed fraction."""
    if not watched():
        raise click.UsageError(
            "--watch needs a terminal on standard error, and cannot be combined with --quiet"
        )
    from rich.console import Console
    from rich.live import Live

    with Live(waiting, console=Console(stderr=True), auto_refresh=False) as live:
        shown, last = 0.0, None

        def show(result: Any, share: float | None) -> None:
            nonlocal shown, last
            view.take(result)
            last = result, share
            if (now := time.monotonic()) - shown >= _PERIOD:
                shown = now
                live.update(view.table(result, share), refresh=True)

        yield show
        if last is not None:
            live.update(view.table(*last), refresh=True)


@dataclass
class View:
    name: str  # name of the stream
    things: str  # name of the items, such as packets
    repeats: str  # name of the counted repeats
    counts: Callable[[Any], tuple[int, int, float]]  # numbers of items and repeats, seconds
    texts: Callable[[Any], Iterator[tuple[str, str]]]  # names and texts of the other lines

    def __post_init__(self) -> None:
        self._before = (0, 0, 0.0)
        self._rates: deque[float] = deque(maxlen=_HISTORY)
        self._shares: deque[float] = deque(maxlen=_HISTORY)

    def take(self, result: Any) -> None:
        now = self.counts(result)
        done, repeats, seconds = (a - b for a, b in zip(now, self._before, strict=True))
        self._before = now
        if done and seconds:
            self._rates.append(done / seconds)
            self._shares.append(repeats / done)

    def table(self, result: Any, share: float | None) -> "Table":
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        done = f"{count_text(self._before[0])} {self.things}"
        table.add_row("stream", self.name)
        table.add_row("done", done if share is None else f"{done}, {share:.0%} of the stream")
        if share is not None:
            table.add_row("", ProgressBar(total=1, completed=share, width=_HISTORY))
        if self._rates:
            table.add_row("rate", f"{sparkline(self._rates)}  {count_text(int(self._rates[-1]))}/s")
            table.add_row(self.repeats, f"{sparkline(self._shares)}  {rate_text(self._shares[-1])}")
        for name, text in self.texts(result):
            table.add_row(name, text)
        return table


def run_view(name: str) -> View:
    def texts(result: "RunResult") -> Iterator[tuple[str, str]]:
        figures = result.probe_figures()
        yield "repeats found", f"{result.reported_repeats:,} of {result.repeats:,}"
        measured = rate_text(figures["probe_false_positive_rate"])
        interval = interval_text(figures["probe_false_positive_interval"])
        computed = rate_text(figures["estimated_false_positive_rate"])
        yield "false positives", f"{measured} measured ({interval}), {computed} computed"
        if result.mismatches is not None:
            yield "RTL and golden", f"{result.mismatches:,} verdicts differ"
        if result.checkpoints:
            fills = result.checkpoints[-1].fill_ratios
            yield f"{held(result.spec)} by {result.spec.part_name}", fill_text(fills)

    counts = attrgetter("operations", "repeats", "seconds")
    return View(name, "operations", "repeats", counts, texts)


def dedup_view(name: str, model: Any, oracle: "PacketOracle | None") -> View:
    def texts(result: "DedupResult") -> Iterator[tuple[str, str]]:
        yield "bytes written", f"{result.bytes_written:,} of {result.bytes_read:,}"
        if oracle is not None:
            figures = oracle.finish().figures()
            measured = rate_text(figures["false_positive_rate"] or 0.0)
            interval = interval_text(figures["false_positive_interval"])
            passed, duplicates = figures["passed_duplicates"], figures["duplicates"]
            yield "lost uniques", f"{figures['lost_uniques']:,}"
            yield "passed duplicates", f"{passed:,} of {duplicates:,}"
            yield "false positives", f"{measured} measured ({interval})"
        if result.mismatches is not None:
            yield "RTL and golden", f"{result.mismatches:,} results differ"
        yield "bits set by segment", fill_text(model.fill_ratios())

    return View(name, "packets", "dropped", attrgetter("packets", "dropped", "seconds"), texts)


def fill_text(fills: Any) -> str:
    return f"{sparkline(fills)}  {rate_text(float(fills.mean()))} on average"


def sparkline(values: Any) -> str:
    top = max(float(max(values)), 1e-300)
    last = len(_BARS) - 1
    return "".join(_BARS[min(last, int(float(value) / top * last + 0.5))] for value in values)
