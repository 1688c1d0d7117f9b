"""The Verilog that every simulator and replay is given."""

from typing import Any, cast

from amaranth.back import verilog

from ..golden.spec import FilterSpec
from ..golden.spec.base import Specification, require
from .build import filter_unit
from .latencies import stamp_bits

TAG_BITS = 8
"""Width of the tag of simulated units."""

TIME_BITS = 32
"""Width of the times of simulated units whose window is one in time."""

LONGEST_SILENCE = (1 << TIME_BITS - 1) - 1
"""Most ticks between two operations of a simulated unit whose window is one in time."""

TOP = "lately_unit"
"""Name of the top module."""


def time_options(
    spec: Specification, *, ticks: str = "time", time_bits: int = TIME_BITS
) -> dict[str, Any]:
    """Return the options of a simulated unit that ticks need, if it has any.

    Parameters
    ----------
    spec : Specification
    ticks : str
        As for `lately.hdl.unit.FilterUnit` and `lately.hdl.timing.unit.TimingUnit`.
    time_bits : int
        As for these; more where the window of a `FilterUnit` needs them.

    Raises
    ------
    SpecificationError
        If a silence could not be longer than the span.
    """
    if not spec.timed:
        return {}
    if spec.kind == "timing":
        return {"ticks": ticks, "time_bits": time_bits}
    span = cast(FilterSpec, spec).span
    rule = f"must be below 2**{TIME_BITS - 1} - 1 ticks for simulated units"
    require(span < LONGEST_SILENCE, "span", rule, span)
    return {"ticks": ticks, "time_bits": max(time_bits, stamp_bits(span))}


def unit_verilog(
    spec: Specification,
    *,
    memory: str = "portable",
    statistics_bits: int = 32,
    ticks: str = "time",
    time_bits: int = TIME_BITS,
    **options: Any,
) -> str:
    """Return a unit as Verilog, the same text for the same specification.

    Parameters
    ----------
    spec : Specification
    memory, statistics_bits
        As for `lately.hdl.build.filter_unit`.
    ticks, time_bits
        As for `time_options`.
    options
        Others of the unit.

    Raises
    ------
    SpecificationError
        If the hardware cannot hold the specification.
    """
    unit = filter_unit(
        spec,
        tag_bits=TAG_BITS,
        memory=memory,
        statistics_bits=statistics_bits,
        **time_options(spec, ticks=ticks, time_bits=time_bits),
        **options,
    )
    text: str = verilog.convert(unit, name=TOP, emit_src=False)
    return text
