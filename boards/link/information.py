"""Description of a board in its bitstream, and the layout of operations and results.

This module does not import Amaranth.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...golden.hash.digests import DIGESTS, KeyDigest
from ...golden.spec.base import Specification
from .protocol import (
    LEAST_CLOCK,
    MAX_ANSWER,
    MAX_PAYLOAD,
    MAX_SLOTS,
    VERSION,
    WORD_BYTES,
    ProtocolError,
)

ROM_ADDRESS = 0x200
"""Address of the first word of the description, which contains its number of bytes."""

MOST_ROM_BYTES = 1 << 11
"""Maximum bytes of a description, including its first word."""

LINE_ADDRESS = 0x40
"""Address of the first register word of the line; the unit's registers are below."""

MOST_TEXT = 1 << 14
"""Maximum bytes of a description as text."""

_GROUPS = ({"control", "status"}, {"reset", "self_test", "signature", "failed"})
"""Registers that occur together."""

_RESULT_PARTS = (("age", "seen"), ("oldest",), ("time", "status"))
"""Fields of a result that share bytes, the lowest first."""


def whole_bytes(bits: int) -> int:
    """Return the number of bytes for a number of `bits`."""
    return -(-bits // 8)


@dataclass(frozen=True, kw_only=True)
class SelfTestPlan:
    """Parameters of the self-test, which determine its operations.

    Attributes
    ----------
    operations : int
        Operations of a test; 0 if the board has no self-test.
    distance_bits : int
        Width of the distance from the newest key to a queried key.
    clear_bits, shift_bits : int
        One in ``64 << bits`` operations is a CLEAR, or a SHIFT.
    tick_bits : int
        One in ``1 << bits`` operations follows a tick, if there are ticks.
    """

    operations: int = 0
    distance_bits: int = 0
    clear_bits: int = 0
    shift_bits: int = 0
    tick_bits: int = 0


@dataclass(frozen=True, kw_only=True)
class Information:
    """Description of a board.

    Attributes
    ----------
    slots : int
        Requests in flight.
    clock_hz : int
        Cycles per second.
    spec : dict
        Fields of the specification.
    registers : dict
        Address of the first word, and width, of each register by name.
    request, result : dict
        Widths of the fields of requests and results, by name; empty if the board receives frames.
    longest : int
        Longest window of a query, or highest class if the unit has a table.
    cycles : int
        Maximum cycles of a self-test.
    plan : SelfTestPlan
    """

    slots: int
    clock_hz: int
    spec: Mapping[str, Any]
    registers: Mapping[str, tuple[int, int]]
    request: Mapping[str, int] = field(default_factory=dict)
    result: Mapping[str, int] = field(default_factory=dict)
    longest: int = 0
    cycles: int = 0
    plan: SelfTestPlan = SelfTestPlan()

    # What it means

    @property
    def frames(self) -> bool:
        """Whether the board receives frames instead of operations."""
        return not self.request

    @property
    def timed(self) -> bool:
        """Whether the window is a span of time."""
        return "period" in self.registers

    @property
    def keyed(self) -> bool:
        """Whether the filter has a secret."""
        return "secret" in self.registers

    @property
    def decides(self) -> bool:
        """Whether a table determines answers, so that queries have a class and no window."""
        return "table" in self.registers

    @property
    def shifts(self) -> bool:
        """Whether there are generations."""
        return "generation" in self.registers

    @property
    def removes(self) -> bool:
        """Whether keys can be removed."""
        return self.request.get("operation", 0) > 3

    @property
    def key_bits(self) -> int:
        """Width of a key."""
        return self.request["key"] if self.request else int(self.spec["key_bits"])

    @property
    def key_digest(self) -> KeyDigest:
        """Digest of text, equal to the golden model's."""
        name, seed = self.spec.get("digest", DIGESTS[0]), self.spec.get("seed", 0)
        return KeyDigest(self.key_bits, name, seed)

    # Bytes on the line

    @property
    def longest_bytes(self) -> int:
        """Bytes of the window or class in the record of an operation."""
        return whole_bytes(self.longest.bit_length())

    @property
    def record_bytes(self) -> int:
        """Bytes of the record of an operation."""
        return 1 + whole_bytes(self.key_bits) + self.longest_bytes

    @property
    def result_parts(self) -> list[tuple[int, list[str]]]:
        """Bytes and fields of each part of a result record, in order.

        In each part, the fields are adjacent, starting at the lowest bit; `seen` is the highest
        bit of its part.
        """
        parts = []
        for names in _RESULT_PARTS:
            there = [name for name in names if self.result.get(name)]
            size = whole_bytes(sum(self.result[name] for name in there))
            parts += [(size, there)] if there else []
        return parts

    @property
    def result_bytes(self) -> int:
        """Bytes of a result record."""
        return sum(size for size, _ in self.result_parts)

    @property
    def batch_operations(self) -> int:
        """Maximum operations of one request."""
        return min(MAX_PAYLOAD // self.record_bytes, MAX_ANSWER // self.result_bytes)

    def pack_operations(
        self, codes: NDArray[Any], keys: NDArray[np.uint64], windows: NDArray[Any]
    ) -> NDArray[np.uint8]:
        """Return the records of operations, shape (n, record_bytes).

        Parameters
        ----------
        codes : ndarray of int, shape (n,)
        keys : ndarray of uint64, shape (n, words)
        windows : ndarray of int, shape (n,)
            Windows or classes of queries.
        """
        columns = [codes.astype(np.uint8)[:, None], _octets(keys, whole_bytes(self.key_bits))]
        return np.hstack([*columns, _octets(windows[:, None], self.longest_bytes)])

    def pack_results(self, values: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """Return the records of results, shape (n, result_bytes).

        Parameters
        ----------
        values : mapping of str to ndarray, shape (n,)
            Fields of the results by name.
        """
        columns = []
        for size, names in self.result_parts:
            number = np.zeros(len(values["seen"]), np.int64)
            for name, place in self._places(size, names):
                mask = (1 << self.result[name]) - 1
                number |= (np.asarray(values[name], np.int64) & mask) << place
            columns.append(_octets(number[:, None], size))
        return np.hstack(columns)

    def unpack_results(self, records: NDArray[np.uint8]) -> dict[str, NDArray[np.int64]]:
        """Return the fields of results by name, each of shape (n,).

        Parameters
        ----------
        records : ndarray of uint8, shape (n, result_bytes)
        """
        values, at = {}, 0
        for size, names in self.result_parts:
            octets = records[:, at : at + size].astype(np.int64)
            number = (octets << 8 * np.arange(size)).sum(axis=1)
            for name, place in self._places(size, names):
                values[name] = number >> place & (1 << self.result[name]) - 1
            at += size
        return values

    def _places(self, size: int, names: list[str]) -> list[tuple[str, int]]:
        """Return the lowest bit of each field of a part."""
        places, at = [], 0
        for name in names:
            places.append((name, 8 * size - 1 if name == "seen" else at))
            at += self.result[name]
        return places

    # The ROM

    def rom(self) -> bytes:
        """Return the description as whole words: its number of bytes, then the bytes.

        Raises
        ------
        ProtocolError
            If the protocol does not support such a board.
        """
        self._check()
        text = json.dumps({"version": VERSION} | asdict(self), separators=(",", ":"))
        packed = zlib.compress(text.encode(), 9)
        words = len(packed).to_bytes(WORD_BYTES, "little") + packed
        _require("description", len(words) <= MOST_ROM_BYTES, f"{MOST_ROM_BYTES} bytes", len(words))
        return words + bytes(-len(words) % WORD_BYTES)

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Return the description in the bytes after the first word.

        Raises
        ------
        ProtocolError
            If the bytes do not describe a possible board.
        """
        try:
            text = zlib.decompressobj().decompress(packed, MOST_TEXT)
            values = json.loads(text)
            version = values.pop("version")
            if version != VERSION:
                raise ProtocolError(f"protocol: must be version {VERSION}, not {version!r:.20}")
            values["plan"] = SelfTestPlan(**values["plan"])
            values["registers"] = {name: (at, bits) for name, (at, bits) in
                                   values["registers"].items()}  # fmt: skip
            found = cls(**values)
            found._check()
        except ProtocolError:
            raise
        except (zlib.error, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ProtocolError("information: must be the description of a board") from None
        return found

    def _check(self) -> None:
        """Reject the description of an impossible board."""
        numbers = [
            self.slots,
            self.clock_hz,
            self.longest,
            self.cycles,
            *asdict(self.plan).values(),
        ]
        numbers += [*self.request.values(), *self.result.values()]
        numbers += [number for pair in self.registers.values() for number in pair]
        for number in numbers:
            _require(
                "numbers", type(number) is int and number >= 0, "integers of at least 0", number
            )
        _require("slots", 1 <= self.slots <= MAX_SLOTS, f"1 to {MAX_SLOTS}", self.slots)
        _require("clock_hz", self.clock_hz >= LEAST_CLOCK, f"at least {LEAST_CLOCK}", self.clock_hz)
        for names in _GROUPS:
            there = names & self.registers.keys()
            _require("registers", not there or there == names, " and ".join(sorted(names)), there)
        _require("registers", "control" in self.registers, "with control", [*self.registers])
        for name, (address, width) in self.registers.items():
            _require(name, address < ROM_ADDRESS and 1 <= width <= 128, "a register", address)
        if self.request:
            _require("key", self.request["key"] >= 1, "at least 1 bit", self.request["key"])
            _require("seen", self.result["seen"] == 1, "1 bit", self.result["seen"])
            widest = max(sum(self.result[one] for one in names) for _, names in self.result_parts)
            _require("result", widest <= 62, "at most 62 bits in each part", widest)
            _require("key_bits", self.record_bytes <= MAX_PAYLOAD,
                     f"at most {8 * (MAX_PAYLOAD - 1 - self.longest_bytes)} for a serial link",
                     self.key_bits)  # fmt: skip
        elif not isinstance(self.spec["key_bits"], int):
            raise TypeError

    @property
    def specification(self) -> Specification:
        """Specification of the filter.

        Errors: SpecificationError if this version does not support the family.
        """
        return Specification.from_dict(self.spec)


def _require(name: str, holds: bool, rule: str, value: Any) -> None:
    if not holds:
        raise ProtocolError(f"{name}: must be {rule}, not {value!r:.40}")


def _octets(words: NDArray[Any], count: int) -> NDArray[np.uint8]:
    """Return the lowest `count` bytes of each number; its 64-bit words have shape (n, k)."""
    return np.ascontiguousarray(words, "<u8").view(np.uint8)[:, :count]
