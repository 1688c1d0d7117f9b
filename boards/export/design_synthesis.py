"""Synthesise an exported unit with its bus, or as part of a frame deduplicator."""

from dataclasses import replace
from math import ceil
from typing import Any

from ...golden.spec.base import Specification
from ..flow.devices import Device, device_memory
from ..flow.synthesis import CountReport, SynthesisReport, synthesize
from .design import FRAMES, LINE_MHZ, NO_BUS, Design


def synthesize_design(
    spec: Specification,
    *,
    device: Device,
    wrap: str = "axis",
    bus: str = NO_BUS,
    memory: str | None = None,
    strict: bool = False,
    protect: str = "none",
    self_check: bool = False,
    **options: Any,
) -> SynthesisReport | CountReport:
    """Synthesise a unit together with its bus registers.

    `options` may contain `inner`, an option of deduplicators, and the options of `synthesize`.
    """
    frames = FRAMES.get(wrap)
    inner = options.pop("inner", False)
    clock = options.pop("target_mhz", None) or (frames and ceil(LINE_MHZ[frames]))
    design = Design(
        spec=spec,
        name="unit",
        wrap=wrap,
        bus=bus,
        memory=memory or device_memory(device, spec, strict=strict),
        target=device.name,
        levels=device.levels_at(clock),
        protect=protect,
        options={name: True for name, on in (("self_check", self_check), ("inner", inner)) if on},
    )
    report = synthesize(design.unit, device=device, target_mhz=clock, **options)
    if frames:
        return report
    return replace(report, lanes=design.profile.lanes, latency_cycles=design.profile.latency)
