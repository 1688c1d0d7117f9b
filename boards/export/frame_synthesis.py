"""Area and clock of a deduplicator of frames, with its registers behind AXI4-Lite."""

from math import ceil
from typing import Any

from ...golden.spec.base import Specification
from ...hdl.bus.controlled import COUNTER_BITS
from ...hdl.packets.axis_frames import ControlledDeduplicator
from ...hdl.packets.deduplicator import Deduplicator
from ...hdl.target_clocks import levels
from ..flow.devices import Device
from ..flow.synthesis import SynthesisReport, own_memory, synthesize
from .design import release

LINE_MHZ = {8: 125.0, 64: 156.25}
"""Clocks of 1 and 10 Gb/s Ethernet, by the bits of the streams."""


def synthesize_frames(
    spec: Specification,
    *,
    width: int,
    device: Device,
    strict: bool = False,
    protect: str = "none",
    **options: Any,
) -> SynthesisReport:
    """Synthesise, place and route a deduplicator with a filter in it, and time it.

    Parameters
    ----------
    spec : Specification
        Of the filter.
    width : int
        Bits of the streams, one of `LINE_MHZ`, whose clock is strived for unless another is named.
    device : Device
    strict : bool
        As for `lately.boards.flow.synthesis.own_memory`.
    protect : str
        As for `lately.hdl.build.filter_unit`.
    options
        ``seed``, ``directory``, ``target_mhz``, ``time_limit`` and ``progress``, as for
        `lately.boards.flow.synthesis.synthesize`.

    Raises
    ------
    SpecificationError
        If there is no deduplicator with such a filter.

    Others: as `lately.boards.flow.synthesis.synthesize`.
    """
    clock = options.pop("target_mhz", None) or ceil(LINE_MHZ[width])
    unit = Deduplicator(
        spec,
        width=width,
        memory=own_memory(device, spec, strict=strict),
        levels=levels(device.name, clock),
        protect=protect,
        statistics_bits=COUNTER_BITS,
    )
    controlled = ControlledDeduplicator(unit, bus="axi4-lite", version=release())
    return synthesize(controlled, device=device, target_mhz=clock, **options)
