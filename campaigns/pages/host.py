"""The table of registers in docs/host.md."""

from lately.hdl.registers import registers_table

from .blocks import DOCS, Page, table


def blocks() -> dict[str, str]:
    """Return the blocks of the page."""
    header = ["register", "access", "bits", "after reset", "meaning"]
    return {"registers": table(header, registers_table())}


PAGE = Page(DOCS / "host.md", blocks)
