"""Register map of an exported unit: the words on the bus, and the fields of each word.

A unit has every register of `lately.hdl.registers` that corresponds to a port or property of the
unit. This module does not import Amaranth.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...golden.spec.base import Specification
from ..registers import REGISTERS, WORD_BITS, Access, Register

WORD_BYTES = WORD_BITS // 8
ADDRESS_BITS = 8  # width of a byte address
OVERRUN = "overrun"  # port of units without back-pressure that refuse requests
_READABLE = (Access.READ, Access.READ_WRITE, Access.STICKY)


@dataclass(frozen=True, kw_only=True)
class BusField:
    name: str
    low: int  # lowest bit in the word
    width: int
    access: Access
    reset: int | None  # value after reset; None if the unit determines it
    constant: bool  # whether the bits always have their value after reset
    signal: str  # register or register field that the bits belong to
    signal_low: int  # lowest bit in the signal
    meaning: str

    @property
    def mask(self) -> int:
        return (1 << self.width) - 1 << self.low


@dataclass(frozen=True, kw_only=True)
class BusWord:
    name: str  # name of the register, with the number of the word if there are several words
    address: int  # byte address
    register: Register
    fields: tuple[BusField, ...]

    @property
    def readable(self) -> bool:
        return any(field.access in _READABLE for field in self.fields)

    @property
    def writable(self) -> bool:
        return any(field.access is not Access.READ for field in self.fields)


@dataclass(frozen=True, kw_only=True)
class RegisterMap:
    words: tuple[BusWord, ...]  # in the order of their addresses
    registers: Mapping[str, int]  # widths of the registers, by name

    def find(self, name: str) -> list[BusWord]:
        return [word for word in self.words if word.register.name == name]

    def signals(self) -> dict[str, tuple[BusField, int]]:
        """Return, for each signal, the field that holds the lowest bits, and the total width."""
        signals: dict[str, tuple[BusField, int]] = {}
        for word in self.words:
            for field in word.fields:
                first, width = signals.get(field.signal, (field, 0))
                signals[field.signal] = first, width + field.width
        return signals


def register_map(
    unit: Any,  # component with a `UnitSignature`, or with other ports that have registers
    *,
    spec: Specification,
    version: tuple[int, int, int],  # version of Lately
    tag_bits: int,  # width of the tag in requests, which a register reports
    others: Collection[str] = (),  # ports in addition to the ports of the unit, such as `OVERRUN`
) -> RegisterMap:
    members = {**unit.signature.members}
    major, minor, patch = version
    constants = {
        "id": None,
        "version": major << 16 | minor << 8 | patch,
        "digest": int.from_bytes(spec.fingerprint, "big"),
        "widths": spec.key_bits | tag_bits << 16 | getattr(unit.signature, "lanes", 1) << 24,
    }
    words, widths = [], {}
    for row in REGISTERS:
        if row.name in constants:
            value = row.reset if constants[row.name] is None else constants[row.name]
            row_words, width = list(_constant(row, value)), row.width
        elif row.fields:
            row_words, width = list(_parts(row, {*members, *others})), row.width
        elif row.name in members:
            width = _width(getattr(unit, row.name))
            row_words = list(_whole(row, width, _reset(row, members[row.name], width)))
        else:
            row_words = []
        words += row_words
        widths |= {row.name: width} if row_words else {}
    return RegisterMap(words=tuple(sorted(words, key=lambda word: word.address)), registers=widths)


def _width(port: Any) -> int:
    payload = getattr(port, "payload", port)
    return len(getattr(payload, "as_value", lambda: payload)())


def _reset(row: Register, member: Any, width: int) -> int | None:
    """Return the value of a register after reset.

    A writable register starts at the initial value of its port, or at the maximum if that is 0.
    """
    if row.access is not Access.READ_WRITE:
        return row.reset
    return member.init or (1 << width) - 1


def _whole(
    row: Register, width: int, reset: int | None, *, constant: bool = False
) -> Iterator[BusWord]:
    count = -(-width // WORD_BITS)
    for number in range(count):
        low = number * WORD_BITS
        part = None if reset is None else reset >> low & (1 << WORD_BITS) - 1
        field = BusField(
            name="value",
            low=0,
            width=min(WORD_BITS, width - low),
            access=row.access,
            reset=part,
            constant=constant,
            signal=row.name,
            signal_low=low,
            meaning=row.meaning,
        )
        name = f"{row.name}_{number}" if count > 1 else row.name
        address = row.address + number * WORD_BYTES
        yield BusWord(name=name, address=address, register=row, fields=(field,))


def _constant(row: Register, value: int) -> Iterator[BusWord]:
    if row.fields:
        yield from _parts(row, set(), value)
    else:
        assert row.width is not None
        yield from _whole(row, row.width, value, constant=True)


def _parts(row: Register, held: set[str], value: int | None = None) -> Iterator[BusWord]:
    """Yield the word of a register with fields, if the unit has any of the fields.

    If `value` is given, it is the constant content of the word.
    """
    fields = tuple(
        BusField(
            name=field.name,
            low=field.low,
            width=field.width,
            access=field.access,
            reset=field.reset if value is None else value >> field.low & (1 << field.width) - 1,
            constant=value is not None,
            signal=f"{row.name}_{field.name}",
            signal_low=0,
            meaning=field.meaning,
        )
        for field in row.fields
        if not field.needs or field.needs in held
    )
    if fields:
        yield BusWord(name=row.name, address=row.address, register=row, fields=fields)
