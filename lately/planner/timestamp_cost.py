"""Cost on a device of filters whose cells hold timestamps: dictionaries and timing filters."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from ..boards.flow.devices import Device
from ..boards.flow.synthesis import own_memory
from ..golden.spec.dictionary_sizes import WindowDictionarySpec
from ..golden.spec.timestamp import PartitionedTimingSpec, StampedPartsSpec, TimedTimingSpec
from ..hdl.build import unit_kind, unit_profile
from ..hdl.latencies import ACCEPT_LAG, ceil_log, hash_latency
from ..hdl.target_clocks import levels, target_mhz
from .cost import TAG_BITS, Area

StampSpec = WindowDictionarySpec | TimedTimingSpec | PartitionedTimingSpec
"""Specifications of filters whose cells hold timestamps."""


def stamp_area(spec: StampSpec, device: Device) -> Area:
    """Predict what a filter takes of a device; arrays of one element.

    Parameters
    ----------
    spec : WindowDictionarySpec or StampedPartsSpec
    device : Device
        Of one of `lately.planner.abilities.STAMPED_ON`.
    """
    model = stamp_models()[device.family][spec.family]
    named = stamp_features(spec, device)
    lut, ff = (
        np.array([sum(model[kind][name] * value for name, value in named.items())])
        for kind in ("lut", "ff")
    )
    blocks = np.array([stamp_block_rams(spec, device)])
    return Area(blocks, lut, ff, model["lut_error"], model["ff_error"])


@cache
def stamp_models() -> Mapping[str, Any]:
    """Return coefficients and errors by family of devices and family of filters."""
    text = resources.files(__package__).joinpath("timestamp_costs.json").read_text("utf-8")
    return json.loads(text)


def stamp_block_rams(spec: StampSpec, device: Device) -> int:
    """Count block RAMs, those of the cells; parameters as for `stamp_area`."""
    return unit_profile(spec, memory=own_memory(device, spec)).block_rams


def _result_bits(spec: StampSpec) -> tuple[int, ...]:
    """Widths of a verdict, and of the time beside it."""
    if isinstance(spec, WindowDictionarySpec):
        return (2 + (spec.window - 1).bit_length(),)
    verdict = 1 + (spec.window_blocks + 1).bit_length() + spec.hashes.bit_length()
    return (verdict, spec.stamp_bits) if isinstance(spec, TimedTimingSpec) else (verdict,)


def _places(spec: StampSpec, device: Device) -> int:
    """Places in the result queue, which the latency takes."""
    latency = unit_profile(spec, levels=levels(device.name, target_mhz(device.name))).latency
    return 1 << int(ceil_log(2, latency + ACCEPT_LAG + 1))


def stamp_features(spec: StampSpec, device: Device) -> dict[str, float]:
    """Return what LUTs and flip-flops are counted by; parameters as for `stamp_area`."""
    most = unit_kind(spec).most_levels
    depth = hash_latency(
        spec.key_bits, levels=min(most, levels(device.name, target_mhz(device.name)))
    )
    named = {
        "unit": 1,
        "key bits": spec.key_bits,
        "registers of the hash": depth * spec.key_bits,
        "places of results": _places(spec, device) * (TAG_BITS + sum(_result_bits(spec))),
    }
    named |= _dictionary(spec) if isinstance(spec, WindowDictionarySpec) else _timing(spec)
    return {name: float(value) for name, value in named.items()}


def _dictionary(spec: WindowDictionarySpec) -> dict[str, int]:
    return {
        "digest bits": spec.digest_bits,
        "columns": spec.columns,
        "row bits of columns": spec.columns * spec.row_bits,
        "rest bits of columns": spec.columns * spec.rest_bits,
        "time bits of columns": spec.columns * spec.timestamp_bits,
        "bits of the stash": spec.stash * (spec.digest_bits + spec.timestamp_bits),
    }


def _timing(spec: StampedPartsSpec) -> dict[str, int]:
    return {
        "window bits": spec.window_blocks.bit_length(),
        "parts": spec.hashes,
        "address bits of parts": spec.hashes * (spec.cells.bit_length() - 1),
        "stamp bits of parts": spec.hashes * spec.stamp_bits,
        "age bits of parts": spec.hashes * spec.window_blocks.bit_length(),
    }
