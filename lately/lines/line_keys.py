"""Keys of lines, and their digests."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..golden.compilation import core
from ..golden.errors import LatelyError
from ..golden.hash.functions import ConstantStream
from ..golden.hash.keys import KeyDigest
from ..golden.spec.base import Specification

Bytes = NDArray[np.uint8]  # bytes of a stream, shape (n,)
Positions = NDArray[np.int64]  # positions in `Bytes`, shape (n,)
MAX_FIELD = (1 << 31) - 1  # largest field number
_NEWLINE = ord("\n")


class LineKeyError(LatelyError, ValueError):
    """The requested key does not exist."""


@dataclass(frozen=True, kw_only=True)
class LineKey:
    """The part of a line that is its key; by default the whole line."""

    # Field numbers, counting from 1. Keys are equal if all their fields are equal.
    field: int | tuple[int, ...] | None = None
    delimiter: bytes = b"\t"  # byte that separates fields
    # Members of a JSON object; dots separate nested members. Equal values give equal keys.
    member: str | tuple[str, ...] | None = None
    pattern: bytes | None = None  # regular expression; the key is group 1, or else the match

    def __post_init__(self) -> None:
        ways = [name for name in ("field", "member", "pattern") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise LineKeyError(f"{' and '.join(ways)} cannot be combined")
        for name in ("field", "member"):
            if isinstance(value := getattr(self, name), tuple):
                # A single field or member keeps its own digest.
                several = tuple(sorted({*value}))
                object.__setattr__(self, name, several if len(several) > 1 else several[0])
        for number in self._fields:
            if number is not None and not 1 <= number <= MAX_FIELD:
                raise LineKeyError(f"field: must be between 1 and {MAX_FIELD}, not {number}")
        if len(self.delimiter) != 1:
            raise LineKeyError(f"delimiter: must be one byte, not {self.delimiter!r}")
        try:
            re.compile(self.pattern or b"")
        except re.error as error:
            raise LineKeyError(f"regex: not a valid regular expression: {error}") from None

    @property
    def _fields(self) -> tuple[int | None, ...]:
        return self.field if isinstance(self.field, tuple) else (self.field,)

    def digests(
        self, data: Bytes, bounds: Positions, digest: KeyDigest
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the digests of lines that have a key, and a mask of these lines."""
        parts = [replace(self, field=field).find(data, bounds) for field in self._fields]
        keyed = np.logical_and.reduce([starts >= 0 for _, starts, _ in parts])
        kept: Any = slice(None) if keyed.all() else keyed
        words = np.hstack([digest.of_spans(content, starts[kept], stops[kept])
                           for content, starts, stops in parts])  # fmt: skip
        if len(parts) > 1:
            # Digests have a fixed length, so adjacent fields cannot be confused.
            ends = np.arange(len(words) + 1) * 8 * words.shape[1]
            octets = words.astype("<u8").view(np.uint8).ravel()
            words = digest.of_spans(octets, ends[:-1], ends[1:])
        return words, keyed

    def find(self, data: Bytes, bounds: Positions) -> tuple[Bytes, Positions, Positions]:
        """Return bytes, and the start (-1 without a key) and end of each line's key in them."""
        starts, stops = bounds[:-1].copy(), bounds[1:].copy()
        # The last line of a stream may lack a newline.
        stops -= data[stops - 1] == _NEWLINE if len(stops) else 0
        if isinstance(self.field, int):
            narrow = core().field_spans if core() else field_spans
            narrow(data, self.field, self.delimiter[0], starts, stops)
        elif self.member is not None or self.pattern is not None:
            return self._extract(data, starts, stops)
        return data, starts, stops

    def _extract(
        self, data: Bytes, starts: Positions, stops: Positions
    ) -> tuple[Bytes, Positions, Positions]:
        extract, whole = self._extractor(), data.tobytes()
        keys = [extract(whole[a:b]) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        ends = np.cumsum([len(key or b"") for key in keys], dtype=np.int64)
        begins = ends - np.array([len(key or b"") for key in keys], np.int64)
        begins[[key is None for key in keys]] = -1
        return np.frombuffer(b"".join(key or b"" for key in keys), np.uint8), begins, ends

    def _extractor(self) -> Callable[[bytes], bytes | None]:
        if self.pattern is not None:
            search = re.compile(self.pattern).search

            def matched(line: bytes) -> bytes | None:
                match = search(line)
                return None if match is None else match[1 if match.re.groups else 0]

            return matched
        members = self.member if isinstance(self.member, tuple) else (self.member or "",)
        paths = [path.split(".") for path in members]

        def member(line: bytes) -> bytes | None:
            try:
                whole: Any = json.loads(line)
                values = [reduce(getitem, path, whole) for path in paths]
            except (ValueError, KeyError, TypeError, RecursionError):
                return None
            return json.dumps(values if len(values) > 1 else values[0], sort_keys=True).encode()

        return member


def line_bounds(data: Bytes, stop: int, bounds: Positions) -> int:
    """Write the starts of the lines in ``data[:stop]``; return the number of complete lines."""
    if native := core():
        return int(native.line_bounds(data, stop, bounds))
    ends = np.flatnonzero(data[:stop] == _NEWLINE)[: len(bounds) - 1] + 1
    bounds[0] = 0
    bounds[1 : len(ends) + 1] = ends
    return len(ends)


def field_spans(
    data: Bytes, field: int, delimiter: int, starts: Positions, stops: Positions
) -> None:
    """Narrow the span of each line to a field; the start is -1 if the field is missing."""
    text, between = data.tobytes(), bytes([delimiter])
    for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        for _ in range(field - 1):
            between_at = text.find(between, start, stop)
            start = between_at + 1 if between_at >= 0 else -1
            if start < 0:
                break
        last = text.find(between, start, stop) if start >= 0 else -1
        starts[number], stops[number] = start, last if last >= 0 else stop


def line_digest(spec: Specification, key: LineKey) -> KeyDigest:
    """Return the digest of keys in a filter; each kind of key has a different digest."""
    if key == LineKey():
        return KeyDigest.of(spec)
    return KeyDigest.of(spec, ConstantStream(label=f"lines/{key!r}", seed=spec.seed).word())
