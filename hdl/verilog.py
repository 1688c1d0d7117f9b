"""Verilog of a unit for simulators and replay."""

import re
from typing import Any

from amaranth.back import verilog

from ..golden.spec.base import Specification, require
from .build import filter_unit, unit_profile

TAG_BITS = 8  # tag width of simulated units
TIME_BITS = 32  # width of the times of simulated units with ticks
# maximum ticks between two operations of a simulated unit whose requests have times
LONGEST_SILENCE = (1 << TIME_BITS - 1) - 1

TOP = "lately_unit"  # name of the top module
# Variable in yosys output; its only change starts the combinational processes.
_EVENT = re.compile(r"\\\$auto\$\S+:dump_module\$\d+ +")


def convert(component: Any, name: str = TOP) -> str:
    """Convert a component to Verilog that starts correctly in every simulator."""
    return with_start(verilog.convert(component, name=name, emit_src=False))


def with_start(text: str) -> str:
    """Return Verilog from yosys, changed so that every combinational process runs at the start.

    Otherwise, the outputs of a process whose inputs never change would stay X in Icarus Verilog.
    """
    # An immediate change may occur before the processes wait for it.
    text = _EVENT.sub("_start_ ", text)
    return re.sub(r"reg _start_ = 0;", "reg _start_;\n  initial _start_ <= 1'h1;", text)


def time_options(
    spec: Specification, *, ticks: str | None = None, time_bits: int = TIME_BITS
) -> dict[str, Any]:
    """Return the tick options of a simulated unit, or an empty dict if the unit has no ticks."""
    profile = unit_profile(spec)
    if not profile.ticks:
        return {}
    if "time" in profile.ticks:
        rule = f"must be below 2**{TIME_BITS - 1} - 1 ticks for simulated units"
        require(profile.spec.span < LONGEST_SILENCE, "span", rule, profile.spec.span)
    ticks = ticks or ("time" if "time" in profile.ticks else "tick")
    return {"ticks": ticks, "time_bits": max(time_bits, profile.time_bits)}


def unit_verilog(spec: Specification, **options: Any) -> str:
    """Return the Verilog of a unit; equal specifications and options give equal text."""
    ticks = {name: options.pop(name) for name in ("ticks", "time_bits") if name in options}
    unit = filter_unit(spec, tag_bits=TAG_BITS, **time_options(spec, **ticks), **options)
    return convert(unit)
