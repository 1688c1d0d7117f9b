"""A stream through the filter of a board."""

import csv
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import click
import numpy as np

from ..boards.link.information import Information
from ..golden import (
    CountedFilter,
    DecisionTable,
    Filter,
    Operation,
    PartitionedTimingFilter,
    Specification,
    TimedTimingFilter,
    TimeLimitedRing,
    WindowDictionary,
    any_preset,
    from_spec,
)
from ..golden.hash.keys import text_keys
from ..host import Host, Results, preset_of
from ..replay.stream_times import check_table
from ..replay.traces import Trace
from ..session import HostError
from .interrupts import interruptible
from .progress import counting_bar

CHUNK = 2048
"""Keys that are sent at a time."""

_COLUMNS = ("bar", "{task.completed:,.0f} operations", "elapsed")


def golden_model(
    board: Host,
    wanted: Specification | None,
    secret: int | None,
    skip: int = 0,
    table: DecisionTable | None = None,
    query_class: int = 0,
) -> Filter:
    """Return an empty model of the filter that the board has, or must have, with its secret.

    If a table answers, it is `table`, and queries are of `query_class`.

    Raises
    ------
    UsageError
        If the board does not tell which filter it has, takes a secret and there is none, or
        needs the times of operations that are skipped.
    SpecificationError
        As `lately.replay.stream_times.check_table`.
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
        wanted = any_preset(name)
    if board.information.keyed != (secret is not None):
        raise click.UsageError(
            "--check needs --secret-file if the board's filter takes a secret, and only then"
        )
    golden: Any = from_spec(wanted)
    check_table(wanted, table, query_class)
    if table is not None:
        golden.decide_by(table.thresholds)
    if secret is not None:
        golden.rekey(secret)
    if board.information.generation:
        golden.generation = board.statistics()["generation"]
    golden.clear()
    return cast("Filter", golden)


def begin(board: Host, secret: int | None) -> None:
    """Clear the filter of a board, and have it hold one secret and no other."""
    board.clear()
    if secret is not None:
        board.configure(secret=secret)
        board.clear()


def perform(
    board: Host,
    trace: Trace,
    golden: Filter | None,
    skip: int,
    limit: int | None,
    verdicts: BinaryIO | None,
    window: int | None = None,
) -> dict[str, Any]:
    """Check and insert the keys of a stream in the filter of a board.

    What the board tells is compared with what `golden` does, and is written to `verdicts` as CSV,
    if they are given. The board has already performed the first `skip` operations; at most `limit`
    are added. Queries have a `window`, or a class, as for `Host.query`.

    Returns
    -------
    dict
        Counts, rates and the error that ended the stream, as JSON can hold them.
    """
    if verdicts is not None:
        columns = ["index", "key", "seen", "age", *_columns(board.information)]
        verdicts.write(",".join(columns).encode() + b"\n")
    course = _Course(board, golden, verdicts, window, mismatches=None if golden is None else 0)
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
    golden: Filter | None
    verdicts: BinaryIO | None
    window: int | None
    mismatches: int | None
    first_mismatch: int | None = None
    operations: int = 0
    skipped: int = 0
    seen: int = 0
    error: str | None = None

    def skip(self, texts: list[str]) -> None:
        """Count keys that the board already holds; the model still needs them."""
        if isinstance(self.golden, CountedFilter):
            self.golden.check_and_insert(self._hashed(texts))
        self.skipped += len(texts)

    def perform(self, texts: list[str]) -> None:
        """Check and insert the keys of some texts, and write their verdicts."""
        keys = self._hashed(texts)
        told = self.board.perform(_checks(keys), keys, self.window)
        start = self.skipped + self.operations
        if self.golden is not None:
            wrong = _differing(self.golden, keys, told, self.window)
            if len(wrong) and self.first_mismatch is None:
                self.first_mismatch = start + int(wrong[0])
            self.mismatches = (self.mismatches or 0) + len(wrong)
        if self.verdicts is not None:
            _write(self.verdicts, start, texts, told, _columns(self.board.information))
        self.operations += len(texts)
        self.seen += int(told.seen.sum())

    def _hashed(self, texts: list[str]) -> Any:
        return text_keys(texts, key_bits=self.board.information.key_bits)


def _checks(keys: Any) -> Any:
    return np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)


def _columns(information: Information) -> list[str]:
    """Return the names of what a board tells beside verdict and age."""
    bits = {"time": information.time_bits, "status": information.status_bits,
            "oldest": information.oldest_bits}  # fmt: skip
    return [name for name, width in bits.items() if width]


def _differing(golden: Filter, keys: Any, told: Results, window: int | None) -> Any:
    """Return the places where anything differs from the model's, at the times that were told."""
    expected = _expected(golden, keys, told, window)
    differs = [value != getattr(told, name) for name, value in expected.items()]
    return np.flatnonzero(np.any(differs, axis=0))


def _expected(golden: Any, keys: Any, told: Results, window: int | None) -> dict[str, Any]:
    """Perform the same in the model; return what the board should have told, by its name."""
    codes = _checks(keys)
    if isinstance(golden, TimedTimingFilter | PartitionedTimingFilter):
        unit = golden.period if isinstance(golden, TimedTimingFilter) else golden.block
        # A class counts nothing.
        asked = window and window * (1 if golden.classes else unit)
        if isinstance(golden, TimedTimingFilter):
            cells = golden.perform(codes, keys, told.time * unit, windows=asked)
        else:
            cells = golden.perform(codes, keys, windows=asked)
        return {"seen": cells.seen, "oldest_age": cells.age, "oldest": cells.oldest}
    if isinstance(golden, WindowDictionary):
        exact = golden.perform(codes, keys, windows=window)
        return {"seen": exact.seen, "age": exact.age, "status": exact.status}
    if isinstance(golden, TimeLimitedRing):
        ring = golden.perform(codes, keys, told.time)
        return {"seen": ring.seen, "age": ring.age, "status": ring.status}
    plain = golden.apply(codes, keys)
    return {"seen": plain.seen, "age": plain.age}


def _write(
    verdicts: BinaryIO, start: int, texts: list[str], told: Results, columns: list[str]
) -> None:
    text = io.StringIO(newline="")
    more = [getattr(told, name).tolist() for name in columns]
    csv.writer(text, lineterminator="\n").writerows(
        (index, key, int(seen), age if seen else "", *rest)
        for index, (key, seen, age, *rest) in enumerate(
            zip(texts, told.seen.tolist(), told.age.tolist(), *more, strict=True), start
        )
    )
    verdicts.write(text.getvalue().encode("utf-8", "surrogateescape"))
