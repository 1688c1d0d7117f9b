"""A stream through the filter of a board."""

import csv
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import click
import numpy as np

from ..boards.link.information import Information
from ..golden import DecisionTable, Filter, Operation, from_spec
from ..golden.hash.keys import check_keys
from ..golden.results import Results
from ..host import Board, golden_operands
from ..replay.stream_times import check_table
from ..replay.traces import Trace
from ..session import HostError
from .interrupts import interruptible
from .progress import counting_bar

CHUNK = 2048
"""Keys that are sent at a time."""

_COLUMNS = ("bar", "{task.completed:,.0f} operations", "elapsed")


def golden_model(
    board: Board,
    secret: int | None,
    skip: int = 0,
    table: DecisionTable | None = None,
    query_class: int = 0,
) -> Filter:
    """Return an empty model of the filter of a board, with its secret and its table.

    Queries are of `query_class`, if the filter has classes.

    Raises
    ------
    UsageError
        If a secret is missing or not needed, or the times of skipped operations are needed.
    SpecificationError
        As `lately.replay.stream_times.check_table`.
    """
    if skip and board.information.timed:
        raise click.UsageError(
            "--verify must not be given with --skip for a window in time: "
            "when the board performed the skipped operations is not known"
        )
    if board.information.keyed != (secret is not None):
        raise click.UsageError(
            "--verify needs --secret-file if the board's filter takes a secret, and only then"
        )
    spec = board.information.specification
    golden: Any = from_spec(spec)
    check_table(spec, table, query_class)
    if table is not None:
        golden.decide_by(table.thresholds)
    if secret is not None:
        golden.rekey(secret)
    if board.information.shifts:
        golden.generation = board.statistics()["generation"]
    golden.clear()
    model: Filter = golden
    return model


def begin(board: Board, secret: int | None) -> None:
    """Clear the filter of a board, and make `secret` its only secret."""
    board.clear()
    if secret is not None:
        board.configure(secret=secret)
        board.clear()


def perform(
    board: Board,
    trace: Trace,
    golden: Filter | None,
    skip: int,
    limit: int | None,
    verdicts: BinaryIO | None,
    window: int | None = None,
) -> dict[str, Any]:
    """Check and insert the keys of a stream in the filter of a board.

    Results are compared with the results of `golden` and written to `verdicts` as CSV, if given.
    The board has already performed the first `skip` operations; at most `limit` are added. Queries
    have a `window`, or a class, as for `Board.query`.

    Returns
    -------
    dict
        Counts, rates and the error that ended the stream, for JSON.
    """
    if verdicts is not None:
        columns = ["index", "key", "seen", "age", *_columns(board.information)]
        verdicts.write(",".join(columns).encode() + b"\n")
    stream = _Stream(board, golden, verdicts, window, mismatches=None if golden is None else 0)
    with interruptible() as interrupted, counting_bar("operations", limit, *_COLUMNS) as progress:
        for texts in _texts(trace, skip, interrupted):
            stream.skip(texts)
        began = time.perf_counter()
        try:
            for texts in _texts(trace, limit, interrupted):
                stream.perform(texts)
                progress(len(texts))
        except HostError as error:
            stream.error = str(error)
        seconds = time.perf_counter() - began
    counted = ("operations", "skipped", "seen", "mismatches", "first_mismatch", "error")
    return {name: getattr(stream, name) for name in counted} | {
        "malformed_lines": trace.rejects.count,
        "requests_repeated": board.repeated,
        "seconds": seconds,
        "operations_per_second": stream.operations / seconds if seconds else None,
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
class _Stream:
    """A stream in progress: its operations and verdicts so far."""

    board: Board
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
        if self.golden is not None:
            self.golden.check_and_insert(self._hashed(texts))
        self.skipped += len(texts)

    def perform(self, texts: list[str]) -> None:
        """Check and insert the keys of some texts, and write their verdicts."""
        keys = self._hashed(texts)
        codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
        results = self.board.perform(codes, keys, self.window)
        start = self.skipped + self.operations
        if self.golden is not None:
            wrong = self._differing(self.golden, codes, keys, results)
            if len(wrong) and self.first_mismatch is None:
                self.first_mismatch = start + int(wrong[0])
            self.mismatches = (self.mismatches or 0) + len(wrong)
        if self.verdicts is not None:
            _write(self.verdicts, start, texts, results, _columns(self.board.information))
        self.operations += len(texts)
        self.seen += int(results.seen.sum())

    def _differing(self, golden: Filter, codes: Any, keys: Any, results: Results) -> Any:
        """Return the places of results that are not those of the model at the same times."""
        operands = golden_operands(self.board.information, results.time, self.window)
        expected = golden.perform(codes, keys, *operands)
        pairs = zip(results, expected, Results._fields, strict=True)
        return np.flatnonzero(
            np.any([a != b for a, b, name in pairs if name not in ("time", "covered")], axis=0)
        )

    def _hashed(self, texts: list[str]) -> Any:
        return check_keys(texts, self.board.information.key_digest)


def _columns(information: Information) -> list[str]:
    """Return the names of the columns after verdict and age."""
    return [name for name in ("time", "status", "oldest") if information.result.get(name)]


def _write(
    verdicts: BinaryIO, start: int, texts: list[str], results: Results, columns: list[str]
) -> None:
    text = io.StringIO(newline="")
    more = [getattr(results, name).tolist() for name in columns]
    csv.writer(text, lineterminator="\n").writerows(
        (index, key, int(seen), age if seen else "", *rest)
        for index, (key, seen, age, *rest) in enumerate(
            zip(texts, results.seen.tolist(), results.age.tolist(), *more, strict=True), start
        )
    )
    verdicts.write(text.getvalue().encode("utf-8", "surrogateescape"))
