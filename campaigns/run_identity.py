"""Everything that determines the figures of one run."""

import hashlib
from functools import cache
from math import ceil

from amaranth.back import rtlil

from lately.boards.flow.devices import Device, own_memory
from lately.boards.flow.floorplan import SITES, options_for
from lately.boards.flow.limits import unit_limit
from lately.boards.flow.timing_harness import Harness
from lately.boards.flow.tools import versions
from lately.golden import Specification
from lately.hdl.build import filter_unit, unit_profile
from lately.hdl.target_clocks import levels, target_mhz

from .measurements import Identity


def identity(spec: Specification, target: Device, seed: int) -> Identity:
    """Return everything that determines the figures of a run, the hardware as a hash of its text.

    The `seed` is that of place and route.

    Raises
    ------
    SynthesisError
        If a tool is not installed.
    SpecificationError
        If the hardware cannot hold the specification.
    """
    numbers = (ceil(unit_limit(target.name).mhz), *target.pins)
    placement = (*target.place_and_route, *map(str, numbers))
    if target.place_and_route[1] in SITES:
        options = options_for(target.place_and_route, shards=unit_profile(spec).lanes > 1)
        placement = (*options, *map(str, numbers), "near places")
    fast = levels(target.name, target_mhz(target.name))
    return Identity(
        spec=spec,
        device=target.name,
        seed=seed,
        rtlil=_fingerprint(spec, own_memory(target, spec), fast),
        flow=" ".join((synthesis_flow(target), *placement)),
        versions=tuple(sorted(versions(target).items())),
    )


def synthesis_flow(target: Device) -> str:
    """Return the options by which yosys makes cells of a device, in one line."""
    options = (*target.synthesis, target.mapping, str(target.delay_ps or ""), target.pads)
    return " ".join(filter(None, options))


@cache
def _fingerprint(spec: Specification, memory: str, levels: int) -> str:
    # Whether the harness has a reset follows from the device, which is told apart anyway.
    harness = Harness(filter_unit(spec, memory=memory, levels=levels), reset=False)
    text = rtlil.convert(harness, name="top", ports=harness.ports, emit_src=False)
    return hashlib.sha256(text.encode()).hexdigest()
