"""Verilog of a unit for simulators and replay."""

from typing import Any

from amaranth.back import verilog

from ..golden.spec.base import Specification, require
from .build import filter_unit, unit_profile

TAG_BITS = 8
"""Width of the tag of simulated units."""

TIME_BITS = 32
"""Width of the times of simulated units with ticks."""

LONGEST_SILENCE = (1 << TIME_BITS - 1) - 1
"""Maximum ticks between two operations of a simulated unit whose requests have times."""

TOP = "lately_unit"
"""Name of the top module."""


def time_options(
    spec: Specification, *, ticks: str | None = None, time_bits: int = TIME_BITS
) -> dict[str, Any]:
    """Return the options for the ticks of a simulated unit; empty without ticks.

    Parameters
    ----------
    spec : Specification
    ticks, time_bits
        As for `lately.hdl.profile.UnitOptions`; the width grows if the window needs more bits. By
        default, requests have times if the unit supports them.

    Raises
    ------
    SpecificationError
        If requests cannot be further apart than the span.
    """
    profile = unit_profile(spec)
    if not profile.ticks:
        return {}
    if "time" in profile.ticks:
        rule = f"must be below 2**{TIME_BITS - 1} - 1 ticks for simulated units"
        require(profile.spec.span < LONGEST_SILENCE, "span", rule, profile.spec.span)
    ticks = ticks or ("time" if "time" in profile.ticks else "tick")
    return {"ticks": ticks, "time_bits": max(time_bits, profile.time_bits)}


def unit_verilog(spec: Specification, **options: Any) -> str:
    """Return the Verilog of a unit; equal specifications give equal text.

    Parameters
    ----------
    spec : Specification
    options
        As for `lately.hdl.profile.UnitOptions`; ticks as for `time_options`.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    """
    ticks = {name: options.pop(name) for name in ("ticks", "time_bits") if name in options}
    unit = filter_unit(spec, tag_bits=TAG_BITS, **time_options(spec, **ticks), **options)
    text: str = verilog.convert(unit, name=TOP, emit_src=False)
    return text
