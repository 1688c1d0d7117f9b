"""The registers of exported units in docs/export.md."""

from collections.abc import Iterator

from lately.hdl.bus.controlled import COUNTER_BITS
from lately.hdl.registers import REGISTERS, Register

from .blocks import DOCS, Page, table


def blocks() -> dict[str, str]:
    """Return the blocks of the page."""
    held = [one for one in REGISTERS if one.address is not None]
    found = [row for one in sorted(held, key=lambda one: one.address or 0) for row in rows(one)]
    return {"registers": table(["address", "register", "bits", "access", "meaning"], found)}


def rows(one: Register) -> Iterator[list[str]]:
    """Yield the rows of a register: its own, or one for each of its fields."""
    address, name = f"`{one.address:#04x}`", f"`{one.name}`"
    if not one.fields:
        bits = COUNTER_BITS if one.event else one.width or "as specified"
        yield [address, name, str(bits), one.access.value, one.meaning]
    for field in one.fields:
        last = field.place + field.width - 1
        bits = f"{last}:{field.place}" if field.width > 1 else str(field.place)
        yield [address, f"{name}, {field.name}", bits, field.access.value, field.meaning]
        address = ""


PAGE = Page(DOCS / "export.md", blocks)
