"""Progress on standard error, shown only on a terminal."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import TaskID


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
    """Show a progress bar during the block; `columns` are names listed below, or rich formats."""
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
def counting_bar(name: str, total: int | None, *columns: str) -> Iterator[Callable[[int], None]]:
    with progress_bar(*columns) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.advance(task, done)


@contextmanager
def stage_bar(name: str) -> Iterator[Callable[[str, float], None]]:
    with progress_bar("{task.description:<10}", "bar", "elapsed") as bar:
        task = bar.add_task(name, total=1.0)
        yield lambda stage, share: bar.update(task, description=stage, completed=share)


@contextmanager
def replay_bar(
    waiting: str, doing: str = "Replaying", kind: str = "operations"
) -> Iterator[Callable[[Any, float | None], None]]:
    """Show the progress of a stream; yield a function of the result and the completed fraction."""
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
    """Show the progress of parallel jobs; yield a `campaigns.engine.Progress` function."""
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
