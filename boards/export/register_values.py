"""Values for the register files of an exported unit."""

from typing import Any

from ...hdl.bus.register_map import ADDRESS_BITS, WORD_BYTES, BusField, RegisterMap
from ...hdl.registers import Access
from .design import Design

SOFTWARE = {
    Access.READ: "r",
    Access.WRITE: "w",
    Access.READ_WRITE: "rw",
    Access.PULSE: "w",
    Access.STICKY: "rw",
}
"""Access by software, in terms of SystemRDL."""


def register_values(design: Design) -> dict[str, Any]:
    """Return the values for the templates of registers; empty without a bus.

    Parameters
    ----------
    design : Design
    """
    registers = design.registers
    if registers is None:
        return {}
    return {
        "registers": registers.words,
        "named": _named(registers),
        "struct": _struct(registers),
        "software": {access.name: value for access, value in SOFTWARE.items()},
        "hardware": _hardware,
        # The least range of Vivado's block designer; the bus ignores the upper address bits.
        "address_range": max(4096, 1 << ADDRESS_BITS),
        "end": registers.words[-1].address + WORD_BYTES,
    }


def _hardware(field: BusField) -> str:
    """Return the access by hardware, in terms of SystemRDL."""
    if field.constant:
        return "na"
    return "w" if field.access in (Access.READ, Access.STICKY) else "r"


def _named(registers: RegisterMap) -> dict[str, tuple[int, int]]:
    """Return addresses and widths of the registers, by their names."""
    found = {word.register.name: word.address for word in reversed(registers.words)}
    return {name: (found[name], registers.registers[name]) for name in reversed(found)}


def _struct(registers: RegisterMap) -> list[tuple[str, str]]:
    """Return types and names of the members of a C struct of all words, including gaps."""
    members, end = [], 0
    for word in registers.words:
        if word.address > end:
            gap = f"RESERVED_{end:x}_{word.address - 1:x}[{word.address - end:#x}]"
            members.append(("uint8_t", gap))
        members.append(("uint32_t", word.name))
        end = word.address + WORD_BYTES
    return members
