"""Progress bars on standard error, where somebody can see them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


def watched() -> bool:
    """Return whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress_bar(*columns: str) -> "Iterator[Progress | None]":
    """Show a progress bar, which vanishes at its end.

    Parameters
    ----------
    columns : str
        "bar", "count", "share", "elapsed", "remaining", or a text as rich formats it.

    Yields
    ------
    Progress or None
        None where nobody can see it.
    """
    if not watched():
        yield None
        return
    # Imported here, as it takes longer than a short command.
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
def counting_bar(
    name: str, total: int | None, *columns: str
) -> Iterator[Callable[[int], None] | None]:
    """Show how many of a kind are done.

    Parameters
    ----------
    name : str
        Of the kind.
    total : int, optional
        How many there are, if that is known.
    columns : str
        As for `progress_bar`.

    Yields
    ------
    callable or None
        Takes how many more are done; None where nobody can see it.
    """
    with progress_bar(*columns) as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task(name, total=total)
        yield lambda done: bar.advance(task, done)
