"""Names that are valid in every hardware language."""

import re
from functools import cache
from importlib import resources

from ...golden.errors import LatelyError


class ExportError(LatelyError, ValueError):
    """A unit cannot be exported as requested; the message gives the reason."""


_NAME = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")


def check_name(name: str) -> None:
    """Reject a `name` that is not an identifier in Verilog, VHDL and Python."""
    if not _NAME.fullmatch(name):
        raise ExportError(
            "name: must begin with a letter and go on with letters, digits and single "
            f"underscores, not {name!r}"
        )
    if name.lower() in keywords():
        raise ExportError(f"name: must be no keyword of Verilog, VHDL or Python, not {name!r}")


@cache
def keywords() -> frozenset[str]:
    """Return the keywords of Verilog, SystemVerilog, VHDL and Python, in lower case."""
    text = resources.files(__package__).joinpath("keywords.txt").read_text("utf-8")
    return frozenset(text.lower().split())
