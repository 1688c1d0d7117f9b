"""Registers of an exported unit: the words on its bus, with their fields.

A unit has the registers of `lately.hdl.registers` whose ports or properties it has. This
module does not import Amaranth.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...golden.spec.base import Specification
from ..registers import REGISTERS, WORD_BITS, Access, Register

WORD_BYTES = WORD_BITS // 8
"""Bytes of a word."""

ADDRESS_BITS = 8
"""Width of a byte address."""

OVERRUN = "overrun"
"""Port of units without back-pressure that refuse requests."""

_READABLE = (Access.READ, Access.READ_WRITE, Access.STICKY)


@dataclass(frozen=True, kw_only=True)
class BusField:
    """Bits of a word on the bus.

    Attributes
    ----------
    name : str
    place, width : int
        Lowest bit in the word, and number of bits.
    access : Access
    reset : int or None
        Value after reset; None if the unit determines it.
    constant : bool
        Whether the bits always have their value after reset.
    signal : str
        Register, or field of a register, to which the bits belong.
    low : int
        Position of the lowest bit in the signal.
    meaning : str
    """

    name: str
    place: int
    width: int
    access: Access
    reset: int | None
    constant: bool
    signal: str
    low: int
    meaning: str

    @property
    def mask(self) -> int:
        """Bits of the field in the word."""
        return (1 << self.width) - 1 << self.place


@dataclass(frozen=True, kw_only=True)
class BusWord:
    """A word on the bus.

    Attributes
    ----------
    name : str
        Name of the register, with the number of the word if there are several words.
    address : int
        Byte address.
    register : Register
    fields : tuple of BusField
    """

    name: str
    address: int
    register: Register
    fields: tuple[BusField, ...]

    @property
    def readable(self) -> bool:
        """Whether the word can be read."""
        return any(field.access in _READABLE for field in self.fields)

    @property
    def writable(self) -> bool:
        """Whether the word has writable bits."""
        return any(field.access is not Access.READ for field in self.fields)


@dataclass(frozen=True, kw_only=True)
class RegisterMap:
    """All words on the bus of a unit.

    Attributes
    ----------
    words : tuple of BusWord
        In the order of their addresses.
    registers : mapping of str to int
        Widths of the registers, by name.
    """

    words: tuple[BusWord, ...]
    registers: Mapping[str, int]

    def find(self, name: str) -> list[BusWord]:
        """Return the words of a register, the lowest bits first.

        Parameters
        ----------
        name : str
        """
        return [word for word in self.words if word.register.name == name]

    def signals(self) -> dict[str, tuple[BusField, int]]:
        """Return each signal's width, and the field with its lowest bits."""
        found: dict[str, tuple[BusField, int]] = {}
        for word in self.words:
            for field in word.fields:
                first, width = found.get(field.signal, (field, 0))
                found[field.signal] = first, width + field.width
        return found


def register_map(
    unit: Any,
    *,
    spec: Specification,
    version: tuple[int, int, int],
    tag_bits: int,
    others: Collection[str] = (),
) -> RegisterMap:
    """Return the words on the bus of a unit.

    Parameters
    ----------
    unit : Component
        Component with a `UnitSignature`, or with other ports that have registers.
    spec : Specification
        Specification of the unit.
    version : tuple of int
        Version of Lately.
    tag_bits : int
        Width of the tag in requests, which a register reports.
    others : collection of str
        Ports in addition to the ports of the unit, such as `OVERRUN`.

    Returns
    -------
    RegisterMap
        Words in the order of their addresses, and the width of each register in bits.
    """
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
            found, width = list(_constant(row, value)), row.width
        elif row.fields:
            found, width = list(_parts(row, {*members, *others})), row.width
        elif row.name in members:
            width = _width(getattr(unit, row.name))
            found = list(_whole(row, width, _reset(row, members[row.name], width)))
        else:
            found = []
        words += found
        widths |= {row.name: width} if found else {}
    return RegisterMap(words=tuple(sorted(words, key=lambda word: word.address)), registers=widths)


def _width(port: Any) -> int:
    """Return the bits of a port, or of a stream's payload."""
    payload = getattr(port, "payload", port)
    return len(getattr(payload, "as_value", lambda: payload)())


def _reset(row: Register, member: Any, width: int) -> int | None:
    """Return the value of a register after reset; for a period, the longest."""
    if row.access is not Access.READ_WRITE:
        return row.reset
    return member.init or (1 << width) - 1


def _whole(
    row: Register, width: int, reset: int | None, *, constant: bool = False
) -> Iterator[BusWord]:
    """Yield the words of a register without fields."""
    count = -(-width // WORD_BITS)
    for number in range(count):
        low = number * WORD_BITS
        part = None if reset is None else reset >> low & (1 << WORD_BITS) - 1
        field = BusField(
            name="value",
            place=0,
            width=min(WORD_BITS, width - low),
            access=row.access,
            reset=part,
            constant=constant,
            signal=row.name,
            low=low,
            meaning=row.meaning,
        )
        name = f"{row.name}_{number}" if count > 1 else row.name
        address = row.address + number * WORD_BYTES
        yield BusWord(name=name, address=address, register=row, fields=(field,))


def _constant(row: Register, value: int) -> Iterator[BusWord]:
    """Yield the words of a constant register."""
    if row.fields:
        yield from _parts(row, set(), value)
    else:
        assert row.width is not None
        yield from _whole(row, row.width, value, constant=True)


def _parts(row: Register, held: set[str], value: int | None = None) -> Iterator[BusWord]:
    """Yield the word of a register with fields; the fields of a `value` are constant."""
    fields = tuple(
        BusField(
            name=one.name,
            place=one.place,
            width=one.width,
            access=one.access,
            reset=one.reset if value is None else value >> one.place & (1 << one.width) - 1,
            constant=value is not None,
            signal=f"{row.name}_{one.name}",
            low=0,
            meaning=one.meaning,
        )
        for one in row.fields
        if not one.needs or one.needs in held
    )
    if fields:
        yield BusWord(name=row.name, address=row.address, register=row, fields=fields)
