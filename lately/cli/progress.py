"""Progress on standard error, shown only on a terminal: bars, and live views of long runs."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import TaskID
    from rich.table import Table

    from ..dedup.deduplicate import DedupResult, PacketOracle
    from ..replay.run import RunResult


_HISTORY = 40
_BARS = "▁▂▃▄▅▆▇█"
_PERIOD = 0.1


def quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("quiet"))


def watched() -> bool:
    return not quiet() and sys.stderr is not None and sys.stderr.isatty()


class _Unseen:
    def add_task(self, description: str, **fields: Any) -> int:
        return 0

    def update(self, task: int, *done: int, **fields: Any) -> None:
        pass

    advance = remove_task = update


@contextmanager
def progress_bar(*columns: str) -> Iterator[Any]:
    """Show a progress bar with `columns`: names such as "bar" and "count", or formats of rich."""
    if not watched():
        yield _Unseen()
        return
    # Imported here, because the import takes longer than a short command.
    from rich import progress
    from rich.console import Console

    named: dict[str, Callable[[], progress.ProgressColumn]] = {
        "bar": progress.BarColumn,
        "count": progress.MofNCompleteColumn,
        "share": progress.TaskProgressColumn,
        "elapsed": progress.TimeElapsedColumn,
        "remaining": progress.TimeRemainingColumn,
    }
    shown = [named[column]() if column in named else column for column in columns]
    with progress.Progress(*shown, console=Console(stderr=True), transient=True) as bar:
        yield bar


@contextmanager
def stage_bar(name: str) -> Iterator[Callable[[str, float], None]]:
    with progress_bar("{task.description:<10}", "bar", "elapsed") as bar:
        task = bar.add_task(name, total=1.0)
        yield lambda stage, share: bar.update(task, description=stage, completed=share)


@contextmanager
def replay_bar(
    waiting: str, doing: str = "Replaying", kind: str = "operations"
) -> Iterator[Callable[[Any, float | None], None]]:
    """Show the progress of a stream; the block calls the yielded function to report progress."""
    count = f"{{task.fields[done]:,}} {kind}"
    with progress_bar("{task.description}", "bar", count, "elapsed") as bar:
        task = bar.add_task(waiting, total=None, done=0)

        def report(result: Any, share: float | None) -> None:
            bar.update(
                task, description=doing, done=getattr(result, kind),
                total=None if share is None else 1.0, completed=share or 0.0,
            )  # fmt: skip

        yield report


@contextmanager
def parallel_bar(
    waiting: str, kind: str
) -> Iterator[Callable[[int, int, Mapping[str, tuple[str, float]]], None]]:
    """Show the progress of parallel jobs; yield a callback of type `campaigns.engine.Progress`."""
    with progress_bar("{task.description}", "bar", "elapsed") as bar:
        whole = bar.add_task(waiting, total=None)
        tasks: dict[str, TaskID] = {}

        def show(done: int, total: int, running: Mapping[str, tuple[str, float]]) -> None:
            share = done + sum(share for _, share in running.values())
            bar.update(whole, description=f"{done} of {total} {kind}", total=total, completed=share)
            for name in [*tasks.keys() - running.keys()]:
                bar.remove_task(tasks.pop(name))
            for name, (stage, share) in running.items():
                if name not in tasks:
                    tasks[name] = bar.add_task(name, total=1.0)
                bar.update(tasks[name], description=f"{name}: {stage}", completed=share)

        yield show


@contextmanager
def live_view(waiting: str, view: "View") -> Iterator[Callable[[Any, float | None], None]]:
    """Show a live view of a long run; the block calls the yielded function to update the view."""
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

        from ..replay.formatting import count_text, rate_text

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
    from ..replay.formatting import held, interval_text, rate_text

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
    from ..replay.formatting import interval_text, rate_text

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
    from ..replay.formatting import rate_text

    return f"{sparkline(fills)}  {rate_text(float(fills.mean()))} on average"


def sparkline(values: Any) -> str:
    top = max(float(max(values)), 1e-300)
    last = len(_BARS) - 1
    return "".join(_BARS[min(last, int(float(value) / top * last + 0.5))] for value in values)
