"""Calls whose results are kept: those without a result yet are made, and kept as they end."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lately.golden.errors import LatelyError

from . import calls
from .calls import Call, Message

Progress = Callable[[int, int, Mapping[str, tuple[str, float]]], None]
"""Called with the calls done, the calls in all, and stage and share done of those under way."""

WAITING = ("waiting for workers", 0.0)
"""Stage shown in place of the calls under way while there is nobody to make them."""


@dataclass(frozen=True)
class KeptCall:
    """A call that `keep` takes the result of, unless that is `known` from before.

    The label names it in error messages.
    """

    call: Call
    label: str
    known: bool
    keep: Callable[[Any], None]


@dataclass(frozen=True)
class Tally:
    """Outcome of calls."""

    failures: list[str]
    """One line for each call that failed, in order of the labels."""
    measured: int
    """Number of calls that were made now."""
    found: int
    """Number of calls that were known before."""


def complete(
    wanted: Sequence[KeptCall],
    kind: str,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Tally:
    """Make the calls that are not known yet, and keep each result as it comes.

    A call that fails does not keep the others from being made. If this is
    interrupted, the calls under way are ended; the results kept so far remain.

    `kind` names what is computed, for `progress`, which is called whenever something happened,
    from several threads but by one at a time. `jobs` and `scheduler` are as for `calls.run`.

    Raises
    ------
    SchedulerError, MismatchError
        If the scheduler is not there, or a worker has other sources or versions.
    """
    waiting = {id(one.call): one for one in wanted if not one.known}
    found = len(wanted) - len(waiting)
    board = _Board(kind, found, len(wanted), progress)
    failures = []

    def settle(call: Call, outcome: Any) -> None:
        one = waiting[id(call)]
        if isinstance(outcome, LatelyError):
            failures.append(f"{one.label}: {outcome}")
        else:
            one.keep(outcome)
        board.end(call)

    calls.run(
        [one.call for one in waiting.values()],
        settle,
        jobs=jobs,
        scheduler=scheduler,
        hear=board.hear,
        idle=board.wait,
    )
    return Tally(sorted(failures), len(waiting) - len(failures), found)


class _Board:
    """The calls under way."""

    def __init__(self, kind: str, done: int, total: int, progress: Progress | None) -> None:
        self._kind = kind
        self._done = done
        self._total = total
        self._running: dict[int, tuple[str, tuple[str, float]]] = {}
        self._ended: set[int] = set()
        self._progress = progress
        self._lock = threading.Lock()
        self._show()

    def hear(self, call: Call, message: Message) -> None:
        """Note the stage of a call and the share done of it, 0 to 1."""
        with self._lock:
            # A message may come after the result of its call.
            if id(call) not in self._ended:
                self._running[id(call)] = (call.name, (message["stage"], message["share"]))
                self._show()

    def wait(self) -> None:
        """Note that nobody makes the calls."""
        with self._lock:
            self._running.clear()
            self._show({self._kind: WAITING})

    def end(self, call: Call) -> None:
        """Note that a call has ended."""
        with self._lock:
            self._done += 1
            self._ended.add(id(call))
            self._running.pop(id(call), None)
            self._show()

    def _show(self, running: Mapping[str, tuple[str, float]] | None = None) -> None:
        if self._progress is not None:
            running = dict(self._running.values()) if running is None else running
            self._progress(self._done, self._total, running)
