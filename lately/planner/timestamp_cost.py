"""Cost on a device of filters whose cells hold timestamps: dictionaries and timing filters."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from ..boards.flow.devices import Device, own_memory
from ..boards.flow.inference import INFERRED, Inferred, inferred_memory
from ..golden.spec.dictionary_sizes import WindowDictionarySpec
from ..golden.spec.timestamp import PartitionedTimingSpec, StampedPartsSpec, TimedTimingSpec
from ..hdl.build import unit_kind, unit_profile
from ..hdl.latencies import ACCEPT_LAG, PAGE_WORDS, ceil_log, hash_latency
from ..hdl.target_clocks import levels, target_mhz
from .cost import TAG_BITS, WITHOUT_TABLES, Area

StampSpec = WindowDictionarySpec | TimedTimingSpec | PartitionedTimingSpec
"""Specifications of filters whose cells hold timestamps."""


def stamp_area(spec: StampSpec, device: Device) -> Area:
    """Predict what a filter takes of a device; arrays of one element.

    Parameters
    ----------
    spec : WindowDictionarySpec or StampedPartsSpec
    device : Device
    """
    model = stamp_models()[device.family][kind(spec)]
    named = stamp_features(spec, device)
    lut, ff = (
        sum(model[what][name] * value for name, value in named.items()) for what in ("lut", "ff")
    )
    return Area(
        np.array([stamp_block_rams(spec, device)]),
        np.array([lut + cell_tables(spec, device)]),
        np.array([ff]),
        model["lut_error"],
        model["ff_error"],
    )


@cache
def stamp_models() -> Mapping[str, Any]:
    """Return coefficients and errors by family of devices and kind of filters."""
    text = resources.files(__package__).joinpath("timestamp_costs.json").read_text("utf-8")
    return json.loads(text)


def kind(spec: StampSpec) -> str:
    """Return the kind of a filter whose cost is predicted apart: its family, and how it moves."""
    return f"{spec.family}, moves" if getattr(spec, "moves", None) else spec.family


def stamp_block_rams(spec: StampSpec, device: Device) -> int:
    """Count block RAMs: those of the cells, and on iCE40 of what waits.

    Parameters as for `stamp_area`.
    """
    if device.family not in INFERRED:
        return unit_profile(spec, memory=own_memory(device, spec)).block_rams
    blocks = memories(spec) * _inferred(spec, device).blocks
    if device.family == WITHOUT_TABLES:
        for depth, width in _waiting(spec, device):
            reads = [range(width)]
            waits = inferred_memory(device.family, depth=depth, width=width, reads=reads, new=True)
            blocks += waits.blocks
    return blocks


def cell_tables(spec: StampSpec, device: Device) -> int:
    """Count the look-up tables of cells, if yosys chooses them, which no coefficient is for.

    Parameters as for `stamp_area`.
    """
    return memories(spec) * _inferred(spec, device).tables if device.family in INFERRED else 0


def _inferred(spec: StampSpec, device: Device) -> Inferred:
    """Return what each memory of cells takes where yosys chooses its block RAMs."""
    return inferred_memory(
        device.family, depth=_depth(spec), width=_cell_bits(spec), reads=_reads(spec)
    )


def memories(spec: StampSpec) -> int:
    """Return the memories of a filter."""
    return spec.columns if isinstance(spec, WindowDictionarySpec) else spec.hashes


def _depth(spec: StampSpec) -> int:
    return spec.rows if isinstance(spec, WindowDictionarySpec) else spec.cells


def _cell_bits(spec: StampSpec) -> int:
    return spec.cell_bits if isinstance(spec, WindowDictionarySpec) else spec.stamp_bits


def _reads(spec: StampSpec) -> list[range]:
    """Bits that are used of what each port of a memory reads."""
    whole = range(_cell_bits(spec))
    if isinstance(spec, PartitionedTimingSpec):
        return [whole]
    if isinstance(spec, WindowDictionarySpec) and not spec.moves:
        # The sweep looks at whether a cell is used, and at its time.
        return [whole, range(1 + spec.timestamp_bits)]
    return [whole, whole]


def _waiting(spec: StampSpec, device: Device) -> Iterator[tuple[int, int]]:
    """Yield words and width of memories in which tags and results wait, and windows of queries."""
    places = _places(spec, device)
    yield from ((places, width) for width in (TAG_BITS, *_result_bits(spec)))
    if isinstance(spec, StampedPartsSpec):
        terms = _profile(spec, device).latency_terms
        left = terms["hash"] + terms["cells"]
        while (cycles := min(left, PAGE_WORDS + 1)) > 1:
            yield cycles - 1, spec.window_blocks.bit_length()
            left -= cycles


def _result_bits(spec: StampSpec) -> tuple[int, ...]:
    """Widths of a verdict, and of the time beside it."""
    if isinstance(spec, WindowDictionarySpec):
        return (2 + (spec.window - 1).bit_length(),)
    verdict = 1 + (spec.window_blocks + 1).bit_length() + spec.hashes.bit_length()
    return (verdict, spec.stamp_bits) if isinstance(spec, TimedTimingSpec) else (verdict,)


def _places(spec: StampSpec, device: Device) -> int:
    """Places in the result queue, which the latency takes."""
    return 1 << int(ceil_log(2, _profile(spec, device).latency + ACCEPT_LAG + 1))


def _profile(spec: StampSpec, device: Device) -> Any:
    return unit_profile(spec, levels=levels(device.name, target_mhz(device.name)))


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
