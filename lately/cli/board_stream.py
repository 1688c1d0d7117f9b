"""Stream the keys of a trace through a board's filter."""

import csv
import io
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import click
import numpy as np

from ..golden import DecisionTable, Filter, Operation, from_spec
from ..golden.hash.keys import KeyDigest, check_keys
from ..host import Board, differing
from ..replay.stream_times import check_table
from ..replay.traces import Trace
from ..uartbone import HostError
from .progress import counting_bar
from .reporting import interruptible

CHUNK = 2048  # number of keys sent at a time


def prepare(
    board: Board, verify: bool, secret: int | None, skip: int, table: DecisionTable | None,
    query_class: int,
) -> Filter | None:  # fmt: skip
    """Prepare the board for a stream; with `verify`, return a golden model in the same state."""
    spec = board.spec
    if verify and skip and spec.timed:
        raise click.UsageError(
            "--verify cannot be combined with --skip for a time window: "
            "the times of the skipped operations are unknown"
        )
    if verify and spec.keyed != (secret is not None):
        raise click.UsageError(
            "--verify needs --secret-file, because the board's filter uses a secret"
            if spec.keyed
            else "--secret-file: the board's filter does not use a secret"
        )
    if verify or table is not None:
        check_table(spec, table, query_class)
    if table is not None:
        board.decide_by(table)
    if not verify:
        return None
    golden: Any = from_spec(spec)
    if table is not None:
        golden.decide_by(table.thresholds)
    if secret is not None:
        golden.rekey(secret)
    if "generation" in (statistics := board.statistics()):
        golden.generation = statistics["generation"]
    golden.clear()
    if not skip:
        # Two clears, so that the secret becomes the board's only secret.
        board.clear()
        if secret is not None:
            board.configure(secret=secret)
            board.clear()
    model: Filter = golden
    return model


def perform(
    board: Board, trace: Trace, golden: Filter | None, skip: int, limit: int | None,
    verdicts: BinaryIO | None, window: int | None,
) -> dict[str, Any]:  # fmt: skip
    """Check and insert the keys of a trace in a board's filter, and return the counts to print.

    The results are written to `verdicts` as CSV. The first `skip` keys, whose operations the board
    has already performed, go only to the golden model. At most `limit` further keys are sent.
    """
    spec = board.spec
    kinds = {"timing": ["oldest"], "dictionary": ["status"]}
    more = ["time"] * spec.timed + kinds.get(spec.kind, ["status"] * spec.timed)
    if verdicts is not None:
        verdicts.write(_csv([["index", "key", "seen", "age", *more]]))
    done = skipped = seen = 0
    wrong: list[int] = []
    error: str | None = None
    bar = counting_bar("operations", limit, "bar", "{task.completed:,.0f} operations", "elapsed")
    with interruptible() as interrupted, bar as progress:
        for texts in _texts(trace, skip, interrupted):
            if golden is not None:
                golden.check_and_insert(check_keys(texts, KeyDigest.of(spec)))
            skipped += len(texts)
        began = time.perf_counter()
        try:
            for texts in _texts(trace, limit, interrupted):
                keys: Any = check_keys(texts, KeyDigest.of(spec))
                codes = np.full(len(keys), Operation.CHECK_AND_INSERT, np.uint8)
                results = board.perform(codes, keys, window)
                if golden is not None:
                    part = differing(spec, golden, codes, keys, window, results)
                    wrong += (part + skipped + done).tolist()
                if verdicts is not None:
                    hits = results.seen.tolist()
                    ages = (age if hit else "" for hit, age in zip(hits, results.age, strict=True))
                    others = [getattr(results, name) for name in more]
                    indices = range(skipped + done, skipped + done + len(texts))
                    columns = (indices, texts, map(int, hits), ages, *others)
                    verdicts.write(_csv(zip(*columns, strict=True)))
                done += len(texts)
                seen += int(results.seen.sum())
                progress(len(texts))
        except HostError as failure:
            error = str(failure)
        seconds = time.perf_counter() - began
    return {
        "operations": done, "skipped": skipped, "seen": seen,
        "mismatches": None if golden is None else len(wrong),
        "first_mismatch": wrong[0] if wrong else None, "error": error,
        "malformed_lines": trace.rejects.count, "requests_repeated": board.repeated,
        "seconds": seconds, "operations_per_second": done / seconds if seconds else None,
        "interrupted": interrupted(),
    }  # fmt: skip


def _texts(trace: Trace, count: int | None, interrupted: Callable[[], bool]) -> Iterator[list[str]]:
    left = CHUNK if count is None else count
    while left and not interrupted() and (records := trace.read(min(CHUNK, left))):
        yield [text for text, _ in records]
        left -= len(records) if count is not None else 0


def _csv(rows: Iterable[Any]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "surrogateescape")
