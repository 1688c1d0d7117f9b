"""Write a table of verdicts, one row per operation, as CSV or Parquet."""

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from ..golden.durations import NANOSECONDS
from .oracle import CLASSES
from .run import JudgedRecords

# Operation, counting from 0; seconds since the epoch or blank; key text; verdict; class from the
# oracle; insertions since the key was last inserted, or blank.
COLUMNS = ("index", "timestamp", "key", "seen", "class", "distance")
_GROUP_ROWS = 1 << 16  # minimum rows per Parquet row group; small groups are slow to read


@contextmanager
def open_verdicts(file: BinaryIO, form: str) -> Iterator[Callable[[JudgedRecords], None]]:
    if form == "parquet":
        with _open_parquet(file) as sink:
            yield sink
        return
    text = io.TextIOWrapper(file, "utf-8", errors="surrogateescape", newline="", write_through=True)
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        yield lambda verdicts: writer.writerows(_rows(verdicts))
    finally:
        text.detach()


def _rows(verdicts: JudgedRecords) -> Iterator[tuple[Any, ...]]:
    texts, times = zip(*verdicts.records, strict=True)
    return zip(
        range(verdicts.start, verdicts.start + len(texts)),
        ["" if time is None else _time_text(time) for time in times],
        texts,
        verdicts.results.seen.astype(np.uint8).tolist(),
        [CLASSES[kind] for kind in verdicts.truth.kind.tolist()],
        [distance or "" for distance in verdicts.truth.distance.tolist()],
        strict=True,
    )


def _time_text(time: int) -> str:
    if not time % NANOSECONDS:
        return str(time // NANOSECONDS)
    seconds, rest = divmod(abs(time), NANOSECONDS)
    return f"{'-' if time < 0 else ''}{seconds}" + f".{rest:09}".rstrip("0")


@contextmanager
def _open_parquet(file: BinaryIO) -> Iterator[Callable[[JudgedRecords], None]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.string(), pa.int64())
    schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
    waiting: list[Any] = []

    def flush() -> None:
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
            waiting.clear()

    def append(verdicts: JudgedRecords) -> None:
        texts, times = zip(*verdicts.records, strict=True)
        distance = verdicts.truth.distance
        seconds = [None if time is None else time / NANOSECONDS for time in times]
        # Parquet does not accept bytes that are not valid UTF-8.
        octets = [text.encode("utf-8", "surrogateescape") for text in texts]
        values = (
            range(verdicts.start, verdicts.start + len(texts)),
            pa.array(seconds, pa.float64()),
            [text.decode("utf-8", "backslashreplace") for text in octets],
            verdicts.results.seen,
            [CLASSES[kind] for kind in verdicts.truth.kind],
            pa.array(distance, mask=distance == 0),
        )
        waiting.append(pa.table(dict(zip(COLUMNS, values, strict=True)), schema))
        if sum(table.num_rows for table in waiting) >= _GROUP_ROWS:
            flush()

    with pq.ParquetWriter(file, schema) as writer:
        yield append
        flush()
