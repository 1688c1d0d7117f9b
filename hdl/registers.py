"""Registers of units and boards: one table that hardware, protocol, host and documents read.

A row makes a register. The unit counts the events of its rows, a board counts
those of the line, the serial protocol's STATISTICS answers all that can be
read, in the order of the table, and `registers_header` tells C programs the
same. New rows go to the end, so that the words of older ones keep their
places. Nothing of Amaranth is imported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .latencies import PERIOD_BITS

WORD_BITS = 32
"""Width of a register that is read: counts are modulo ``2**32``."""


class Access(Enum):
    """Ways to access a register from outside."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read, write"


class Holder(Enum):
    """Part of a board that holds a register."""

    UNIT = "unit"
    WINDOW = "window"
    """Unit and source of ticks of a window in time."""
    LINE = "line"


@dataclass(frozen=True, kw_only=True)
class Register:
    """A register.

    Attributes
    ----------
    name : str
        Also of the unit's port, if the unit holds it.
    access : Access
    width : int or None
        Bits; None if the specification determines them.
    reset : int or None
        Value after reset; None if the specification determines it.
    meaning : str
        One sentence.
    holder : Holder
    event : str
        Signal that is counted; empty if nothing is.

    Raises
    ------
    ValueError
        If the name is no identifier, or the width is out of range.
    """

    name: str
    access: Access = Access.READ
    width: int | None = WORD_BITS
    reset: int | None = 0
    meaning: str
    holder: Holder = Holder.UNIT
    event: str = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"Name must be an identifier, not {self.name!r}")
        if self.width is not None and self.width < 1:
            raise ValueError(f"Width must be at least 1, not {self.width}")
        if self.readable and (self.width or 0) > WORD_BITS:
            raise ValueError(f"Width must be at most {WORD_BITS} to be read, not {self.width}")

    @property
    def readable(self) -> bool:
        """Whether it can be read."""
        return self.access is not Access.WRITE


REGISTERS = (
    Register(name="operations", event="valid", meaning="Operations that were performed."),
    Register(name="insertions", event="insert", meaning="Keys that were inserted."),
    Register(name="hits", event="hit", meaning="Queries that reported their key."),
    Register(name="shifts", event="shift", meaning="Generations that were begun by a shift."),
    Register(name="frames_good", event="good", holder=Holder.LINE,
             meaning="Frames that came undamaged."),
    Register(name="frames_bad", event="bad", holder=Holder.LINE,
             meaning="Frames that came damaged."),
    Register(name="frames_dropped", event="dropped", holder=Holder.LINE,
             meaning="Frames that came while all slots were full."),
    Register(name="frames_repeated", event="repeated", holder=Holder.LINE,
             meaning="Requests that were repeated, and answered again."),
    Register(name="frames_out_of_order", event="out_of_order", holder=Holder.LINE,
             meaning="Requests whose number was not expected."),
    Register(name="line_errors", event="error", holder=Holder.LINE,
             meaning="Bytes without a stop bit."),
    Register(name="generation", access=Access.READ_WRITE, width=None, reset=None,
             meaning="Insertions in a generation, from the next one on."),
    Register(name="secret", access=Access.WRITE, width=128,
             meaning="Secret of the hash, from the next clear or, with re-keying, shift on."),
    Register(name="shortened", event="shortened", holder=Holder.WINDOW,
             meaning="Shifts that retired a segment within the span."),
    Register(name="overfilled", event="overfilled", holder=Holder.WINDOW,
             meaning="Insertions beyond the capacity of their generation."),
    Register(name="period", access=Access.READ_WRITE, width=PERIOD_BITS, reset=None,
             holder=Holder.WINDOW,
             meaning="Clocks of a tick, from the next one on; at first a millisecond of them."),
    Register(name="covered", width=None, reset=None, holder=Holder.WINDOW,
             meaning="Ticks, the present one included, of which every key is still reported."),
)  # fmt: skip
"""All registers. The rows with an event are counters."""


def counters(holder: Holder) -> list[Register]:
    """Return the registers that count events.

    Parameters
    ----------
    holder : Holder
        Who holds the registers that are listed.
    """
    return [register for register in REGISTERS if register.event and register.holder is holder]


def readable(*, timed: bool = False) -> list[Register]:
    """Return the registers that boards read, in the order in which they do.

    Parameters
    ----------
    timed : bool
        Whether the window is one in time.
    """
    readable = [register for register in REGISTERS if register.readable]
    return [register for register in readable if timed or register.holder is not Holder.WINDOW]


def registers_header(unit: Any) -> str:
    """Return a C header with the registers of a board that has a unit.

    For each register ``LATELY_NAME_BITS``, ``LATELY_NAME_RESET`` unless the
    board determines it, and ``LATELY_NAME_WORD``, its place among the words
    that STATISTICS answers, if it can be read. Registers that such a board
    lacks are left out.

    Parameters
    ----------
    unit : FilterUnit or LaneUnit
    """
    timed = unit.spec.timed
    words = {register.name: word for word, register in enumerate(readable(timed=timed))}
    lines = ["#ifndef LATELY_REGISTERS_H", "#define LATELY_REGISTERS_H", "",
             f"#define LATELY_WORDS {len(words)}"]  # fmt: skip
    for register in REGISTERS:
        if register.name not in words and register.name not in unit.signature.members:
            continue
        width, reset = register.width, register.reset
        if width is None:
            member = unit.signature.members[register.name]
            width, reset = len(getattr(unit, register.name)), member.init
        prefix = f"LATELY_{register.name.upper()}"
        lines += ["", f"/* {register.access.value}: {register.meaning} */"]
        if register.name in words:
            lines.append(f"#define {prefix}_WORD {words[register.name]}")
        lines.append(f"#define {prefix}_BITS {width}")
        lines += [] if reset is None else [f"#define {prefix}_RESET {reset}"]
    return "\n".join([*lines, "", "#endif", ""])


def registers_table() -> Sequence[Sequence[str]]:
    """Return the rows of the boards' table: name, access, bits, reset value, meaning."""
    return [
        [f"`{one.name}`", one.access.value, _stated(one.width), _stated(one.reset), one.meaning]
        for one in REGISTERS
    ]


def _stated(value: int | None) -> str:
    return "as specified" if value is None else str(value)
