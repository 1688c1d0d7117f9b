"""A stream through the filter of a board."""

import csv
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import click
import numpy as np

from ..golden import FilterSpec, Operation, SlidingFilter, TimeLimitedRing, Verdicts, from_spec
from ..golden import preset as named
from ..golden.hash.keys import text_keys
from ..host import Host, TimedResults, preset_of
from ..replay.traces import Trace
from ..session import HostError
from .interrupts import interruptible
from .progress import counting_bar

CHUNK = 2048
"""Keys that are sent at a time."""

Golden = SlidingFilter | TimeLimitedRing
"""Model of a board's filter."""

_COLUMNS = ("bar", "{task.completed:,.0f} operations", "elapsed")


def golden_model(
    board: Host, wanted: FilterSpec | None, secret: int | None, skip: int = 0
) -> Golden:
    """Return an empty model of the filter that the board has, or must have, with its secret.

    Raises
    ------
    UsageError
        If the board does not tell which filter it has, takes a secret and there is none, or
        needs the times of operations that are skipped.
    """
    if skip and board.information.timed:
        raise click.UsageError(
            "--check must not be given with --skip for a window in time: "
            "when the board performed the skipped operations is not known"
        )
    if wanted is None:
        name = preset_of(board.information)
        if name is None:
            raise click.UsageError("--check needs --spec or --preset: the board's is no preset")
        wanted = named(name)
    if board.information.keyed != (secret is not None):
        raise click.UsageError(
            "--check needs --secret-file if the board's filter takes a secret, and only then"
        )
    golden = from_spec(wanted, secret=secret or 0)
    golden.generation = board.statistics()["generation"]
    golden.clear()
    return golden


def begin(board: Host, secret: int | None) -> None:
    """Clear the filter of a board, and have it hold one secret and no other."""
    board.clear()
    if secret is not None:
        board.configure(secret=secret)
        board.clear()


def perform(
    board: Host,
    trace: Trace,
    golden: Golden | None,
    skip: int,
    limit: int | None,
    table: BinaryIO | None,
) -> dict[str, Any]:
    """Check and insert the keys of a stream in the filter of a board.

    Verdicts are compared with those of `golden` and go to `table`, as CSV, where there are these;
    so do the times and statuses of a window in time.
    The board has already performed the first `skip` operations; at most `limit` are added.

    Returns
    -------
    dict
        Counts, rates and the error that ended the stream, as JSON can hold them.
    """
    if table is not None:
        times = b",time,status" if board.information.timed else b""
        table.write(b"index,key,seen,age" + times + b"\n")
    course = _Course(board, golden, table, mismatches=None if golden is None else 0)
    with interruptible() as interrupted, counting_bar("operations", limit, *_COLUMNS) as progress:
        for texts in _texts(trace, skip, interrupted):
            course.skip(texts)
        began = time.perf_counter()
        try:
            for texts in _texts(trace, limit, interrupted):
                course.perform(texts)
                progress(len(texts))
        except HostError as error:
            course.error = str(error)
        seconds = time.perf_counter() - began
    counted = ("operations", "skipped", "seen", "mismatches", "first_mismatch", "error")
    return {name: getattr(course, name) for name in counted} | {
        "malformed_lines": trace.rejects.count,
        "requests_repeated": board.repeated,
        "seconds": seconds,
        "operations_per_second": course.operations / seconds if seconds else None,
        "interrupted": interrupted(),
    }


def _texts(trace: Trace, count: int | None, interrupted: Callable[[], bool]) -> Iterator[list[str]]:
    """Yield the texts of some records, or of all, a stretch at a time."""
    left = CHUNK if count is None else count
    while left and not interrupted():
        records = trace.read(min(CHUNK, left))
        if not records:
            return
        yield [text for text, _ in records]
        left -= len(records) if count is not None else 0


@dataclass
class _Course:
    """A stream in progress: its operations and verdicts so far."""

    board: Host
    golden: Golden | None
    table: BinaryIO | None
    mismatches: int | None
    first_mismatch: int | None = None
    operations: int = 0
    skipped: int = 0
    seen: int = 0
    error: str | None = None

    def skip(self, texts: list[str]) -> None:
        """Count keys that the board already holds; the model still needs them."""
        if isinstance(self.golden, SlidingFilter):
            self.golden.check_and_insert(self._hashed(texts))
        self.skipped += len(texts)

    def perform(self, texts: list[str]) -> None:
        """Check and insert the keys of some texts, and write their verdicts."""
        keys = self._hashed(texts)
        verdicts = self._performed(keys)
        start = self.skipped + self.operations
        if self.golden is not None:
            wrong = _differing(self.golden, keys, verdicts)
            if len(wrong) and self.first_mismatch is None:
                self.first_mismatch = start + int(wrong[0])
            self.mismatches = (self.mismatches or 0) + len(wrong)
        if self.table is not None:
            _write(self.table, start, texts, verdicts)
        self.operations += len(texts)
        self.seen += int(verdicts.seen.sum())

    def _performed(self, keys: Any) -> Verdicts | TimedResults:
        if self.board.information.timed:
            return self.board.perform(_checks(keys), keys)
        return self.board.check_and_insert(keys)

    def _hashed(self, texts: list[str]) -> Any:
        return text_keys(texts, key_bits=self.board.information.key_bits)


def _checks(keys: Any) -> Any:
    return np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)


def _differing(golden: Golden, keys: Any, verdicts: Verdicts | TimedResults) -> Any:
    """Return the places where verdict, age or status differ from the model's at the same times."""
    if isinstance(golden, TimeLimitedRing):
        assert isinstance(verdicts, TimedResults)
        timed = golden.perform(_checks(keys), keys, verdicts.time)
        expected, wrong = Verdicts(timed.seen, timed.age), timed.status != verdicts.status
    else:
        expected, wrong = golden.apply(_checks(keys), keys), np.zeros(len(keys), np.bool_)
    wrong |= (expected.seen != verdicts.seen) | (expected.age != verdicts.age)
    return np.flatnonzero(wrong)


def _write(
    table: BinaryIO, start: int, texts: list[str], verdicts: Verdicts | TimedResults
) -> None:
    text = io.StringIO(newline="")
    columns = [texts, verdicts.seen.tolist(), verdicts.age.tolist()]
    if isinstance(verdicts, TimedResults):
        columns += [verdicts.time.tolist(), verdicts.status.tolist()]
    csv.writer(text, lineterminator="\n").writerows(
        (index, key, int(seen), age if seen else "", *rest)
        for index, (key, seen, age, *rest) in enumerate(zip(*columns, strict=True), start)
    )
    table.write(text.getvalue().encode("utf-8", "surrogateescape"))
