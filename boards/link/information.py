"""What a board tells of itself in its answer to HELLO, and which filters it can have."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise
from typing import NamedTuple, Self, cast

from ...golden.spec.base import Specification
from ...golden.timestamp.decisions import entry_fields
from ...hdl.latencies import STATUS_BITS
from ...hdl.registers import REGISTERS, Register, readable
from .protocol import (
    LEAST_CLOCK,
    MAX_AGE,
    MAX_ANSWER,
    MAX_PAYLOAD,
    MAX_SLOTS,
    TIME_BITS,
    VERSION,
    ProtocolError,
)

_INFORMATION = struct.Struct("<BBHHI8sI?BI")
_MORE = struct.Struct("<IBBB?Q")
_TABLE = struct.Struct("<HIBB")
_FIRST = 9
"""Fields of `Information` that every board tells."""

_AS_FOR_RINGS = cast(int, None)
"""Value of a field that is that of a ring."""


def register_mask(registers: Iterable[Register]) -> int:
    """Return a number whose bits tell which rows of the table some `registers` are."""
    return sum(1 << REGISTERS.index(register) for register in registers)


class TableShape(NamedTuple):
    """Shape of a table of thresholds, and of its entries in requests."""

    classes: int = 0
    """Classes of queries; 0 if no table answers."""
    ages: int = 0
    """Ages, that of expired cells included."""
    phase_bits: int = 0
    """Digits of the phase."""
    hashes: int = 0
    """Cells of a key: a threshold is one more at most."""

    @property
    def field_bits(self) -> tuple[int, int, int, int]:
        """Bits of the phase, the age, the class and the threshold of an entry."""
        return entry_fields(self.thresholds, self.hashes)

    @property
    def entry_bits(self) -> int:
        """Bits of an entry."""
        return sum(self.field_bits)

    @property
    def entry_bytes(self) -> int:
        """Bytes of an entry in a request."""
        return whole_bytes(self.entry_bits)

    @property
    def thresholds(self) -> tuple[int, int, int]:
        """Shape of the thresholds of a table: classes, ages and phases."""
        return self.classes, self.ages, 1 << self.phase_bits


_NO_TABLE = TableShape()


@dataclass(frozen=True)
class Information:
    """Description of a board, as its answer to HELLO has it.

    What follows `self_test_cycles` has the value that it has for rings unless it is told. Boards
    leave it out if that is right, so that those with rings tell what they always told.

    Attributes
    ----------
    slots : int
        Requests that may be under way.
    key_bits : int
        Width of a key.
    window_generations : int
        Generations in the window, and thus the highest age; 0 without generations.
    generation : int
        Insertions in a generation as specified; 0 without generations.
    digest : bytes
        Of the specification.
    clock_hz : int
        Cycles in a second.
    keyed : bool
        Whether the filter takes a secret.
    time_bits : int
        Bits of the times in its answers; 0 if the window is counted in insertions.
    self_test_cycles : int
        Cycles that a self-test takes at most.
    window : int
        Longest window of a query, in the unit of the hardware: ticks, insertions or blocks of
        them; 0 if queries have no window.
    age_bits : int
        Bits of the ages in its answers: one less than some bytes have.
    oldest_bits, status_bits : int
        Bits of the number of oldest cells and of the status in its answers, 0 if there are none.
    removes : bool
        Whether keys can be removed.
    registers : int
        Rows of `lately.hdl.registers.REGISTERS` that STATISTICS answers, a bit for each.
    table : TableShape
        Of the tables of thresholds that answer, if they do: queries have a class then, and no
        window.
    """

    slots: int
    key_bits: int
    window_generations: int
    generation: int
    digest: bytes
    clock_hz: int
    keyed: bool
    time_bits: int
    self_test_cycles: int
    window: int = 0
    age_bits: int = 7
    oldest_bits: int = 0
    status_bits: int = _AS_FOR_RINGS
    removes: bool = False
    registers: int = _AS_FOR_RINGS
    table: TableShape = _NO_TABLE

    def __post_init__(self) -> None:
        if self.status_bits is _AS_FOR_RINGS:
            object.__setattr__(self, "status_bits", STATUS_BITS if self.timed else 0)
        if self.registers is _AS_FOR_RINGS:
            object.__setattr__(self, "registers", register_mask(readable(timed=self.timed)))

    @property
    def timed(self) -> bool:
        """Whether there are ticks, of which the window is a span."""
        return self.time_bits > 0

    @property
    def statistics(self) -> list[str]:
        """Names of the registers that STATISTICS answers, as far as they are known here."""
        rows = enumerate(REGISTERS)
        return [one.name for row, one in rows if self.registers >> row & 1]

    @property
    def frames(self) -> bool:
        """Whether the board has a deduplicator of frames, with registers at addresses."""
        return "frames" in self.statistics

    @property
    def most_asked(self) -> int:
        """Longest window of a query or, where a table answers, greatest class."""
        return self.table.classes - 1 if self.table.classes else self.window

    @property
    def asked_bytes(self) -> int:
        """Bytes of the window, or of the class, of an operation in a request."""
        return whole_bytes(self.most_asked.bit_length())

    @property
    def record_bytes(self) -> int:
        """Bytes of an operation in a request."""
        return 1 + whole_bytes(self.key_bits) + self.asked_bytes

    @property
    def verdict_parts(self) -> tuple[int, int, int]:
        """Bytes of the parts of an answer to an operation: verdict, oldest, time and status."""
        bits = (1 + self.age_bits, self.oldest_bits, self.time_bits + self.status_bits)
        verdict, oldest, beside = map(whole_bytes, bits)
        return verdict, oldest, beside

    @property
    def verdict_bytes(self) -> int:
        """Bytes of an answer to an operation."""
        return sum(self.verdict_parts)

    @property
    def batch_operations(self) -> int:
        """Most operations in one request."""
        return min(MAX_PAYLOAD // self.record_bytes, MAX_ANSWER // self.verdict_bytes)

    @property
    def self_test_seconds(self) -> float:
        """Seconds that a self-test takes at most."""
        return self.self_test_cycles / self.clock_hz

    def pack(self) -> bytes:
        """Return the bytes that `unpack` reads."""
        *values, table = (getattr(self, one.name) for one in fields(self))
        first, more = values[:_FIRST], values[_FIRST:]
        *others, cycles = first
        packed = _INFORMATION.pack(VERSION, *others, min(cycles, (1 << 32) - 1))
        if Information(*first) == self:
            return packed
        packed += _MORE.pack(*more)
        return packed + _TABLE.pack(*table) if table.classes else packed

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read the `data` that `pack` wrote.

        Raises
        ------
        ProtocolError
            If the length or the version is another, or no board can be as it says.
        """
        sizes = list(accumulate(one.size for one in (_INFORMATION, _MORE, _TABLE)))
        if len(data) not in sizes:
            *some, most = sizes
            lengths = f"{', '.join(map(str, some))} or {most}"
            raise ProtocolError(f"information: must be {lengths} bytes, not {len(data)}")
        first, more, table = (data[start:stop] for start, stop in pairwise([0, *sizes]))
        version, *values = _INFORMATION.unpack(first)
        if version != VERSION:
            raise ProtocolError(f"protocol: must be version {VERSION}, not {version}")
        values += _MORE.unpack(more) if more else ()
        if table:
            values.append(TableShape(*_TABLE.unpack(table)))
        found = cls(*values)
        found._check(tells_table=bool(table))
        return found

    def _check(self, *, tells_table: bool) -> None:
        """Refuse what no board is: the host would wait for ever, or have no room for a key."""
        classes, ages, _, hashes = self.table
        fits = self.record_bytes <= MAX_PAYLOAD and self.verdict_bytes <= MAX_ANSWER
        room = "such that operations and answers fit into frames"
        for name, value, possible, rule in (
            ("slots", self.slots, 1 <= self.slots <= MAX_SLOTS, f"1 to {MAX_SLOTS}"),
            ("key_bits", self.key_bits, self.key_bits >= 1, "at least 1"),
            ("clock_hz", self.clock_hz, self.clock_hz >= LEAST_CLOCK, f"at least {LEAST_CLOCK:,}"),
            ("records", self.record_bytes, fits, room),
            ("classes", classes, classes >= tells_table, "at least 1"),
            ("ages", ages, ages > 1 or not tells_table, "at least 2"),
            ("hashes", hashes, hashes >= tells_table, "at least 1"),
            ("window", self.window, not (tells_table and self.window), "0 where a table answers"),
            ("entry_bits", self.table.entry_bits, self.table.entry_bits <= 64, "at most 64"),
        ):
            if not possible:
                raise ProtocolError(f"information: {name} must be {rule}, not {value:,}")


def whole_bytes(bits: int) -> int:
    """Return the bytes of some `bits`."""
    return -(-bits // 8)


def check_slots(slots: int) -> None:
    """Refuse a number of slots that a board cannot have.

    Raises
    ------
    ValueError
        If it is no power of two, or out of range.
    """
    if not isinstance(slots, int) or not 2 <= slots <= MAX_SLOTS or slots & (slots - 1):
        raise ValueError(f"Slots must be a power of two, 2 to {MAX_SLOTS}, not {slots!r}")


def check_spec(spec: Specification, *, asked: int = 0) -> None:
    """Refuse a filter that the protocol cannot speak of.

    Parameters
    ----------
    spec : Specification
    asked : int
        Greatest window or class of a query, `most_asked` of `Information`.

    Raises
    ------
    ProtocolError
        If a key does not fit into a frame, an age of generations into 7 bits, a generation
        into 4 bytes, or an age in ticks into `TIME_BITS`, or there are several lanes.
    """
    limits = (
        ("key_bits", 8 * (MAX_PAYLOAD - 1 - whole_bytes(asked.bit_length()))),
        ("lanes", 1),
        ("window_generations", MAX_AGE),
        ("generation", (1 << 30) - 1),
        # `lately.hdl.latencies.stamp_bits` of it.
        ("span", (1 << TIME_BITS - 1) - 1),
    )
    for name, most in limits:
        value = getattr(spec, name, None) or 0
        if value > most:
            shown = name.replace("window_generations", "generations in the window")
            raise ProtocolError(f"{shown}: must be at most {most} for a serial link, not {value}")
