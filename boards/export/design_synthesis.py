"""Area and clock of a unit as it is exported: behind a bus, or in a deduplicator of frames."""

from math import ceil
from typing import Any

from ...golden.spec.base import Specification
from ..flow.devices import Device, own_memory
from ..flow.synthesis import CountReport, SynthesisReport, synthesize
from .design import FRAMES, NO_BUS, Design

LINE_MHZ = {8: 125.0} | dict.fromkeys((64, 128, 256, 512), 156.25)
"""Clocks of 1 and 10 Gb/s Ethernet, by the bits of the streams; wider ones take more Gb/s."""


def synthesize_design(
    spec: Specification,
    *,
    device: Device,
    wrap: str = "axis",
    bus: str = NO_BUS,
    memory: str | None = None,
    strict: bool = False,
    protect: str = "none",
    check: bool = False,
    **options: Any,
) -> SynthesisReport | CountReport:
    """Synthesise, place and route a unit with its registers, and time it.

    Parameters
    ----------
    spec : Specification
        Of the filter.
    device : Device
    wrap, bus : str
        As for `lately.boards.export.design.Design`. Ports are wires, and take nothing. Of a
        deduplicator of frames the clock of its line is strived for unless another is named.
    memory, strict, protect, check
        As for `lately.boards.flow.synthesis.synthesize_unit`.
    options
        ``seed``, ``directory``, ``target_mhz``, ``time_limit`` and ``progress``, as for
        `lately.boards.flow.synthesis.synthesize`.

    Raises
    ------
    ExportError
        If there is no such bus.
    SpecificationError
        If there is no such unit or deduplicator.

    Others: as `lately.boards.flow.synthesis.synthesize`.
    """
    frames = FRAMES.get(wrap)
    clock = options.pop("target_mhz", None) or (frames and ceil(LINE_MHZ[frames]))
    design = Design(
        spec=spec,
        name="unit",
        wrap=wrap,
        bus=bus,
        memory=memory or own_memory(device, spec, strict=strict),
        target=device.name,
        levels=device.levels_at(clock),
        protect=protect,
        options={"self_check": True} if check else {},
    )
    if not frames:
        options |= {"lanes": design.profile.lanes, "latency_cycles": design.profile.latency}
    return synthesize(design.unit, device=device, target_mhz=clock, **options)
