"""Cost of a filter: bits, and on a device block RAMs, LUTs and flip-flops."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..boards.flow.devices import Device
from ..boards.flow.inference import inferred_memory
from ..golden import FilterSpec
from ..hdl.latencies import (
    BLOCK_BITS,
    BLOCK_CLEAR_BITS,
    CONTROL_LAG,
    QUEUE_LATENCY,
    STATUS_BITS,
    address_registers,
    ceil_log,
    detector_latency,
    hash_latency,
    memory_latency,
    memory_shape,
    result_places,
    stamp_bits,
)
from ..hdl.target_clocks import levels, target_mhz
from .rates import Floats
from .requirement import Requirement, Span
from .space import Ints, Shapes, aged_generations, clear_width, part_bits

WITHOUT_TABLES = "ice40"
"""Family of devices without memories in look-up tables: small ones are in block RAMs, the tags and
verdicts of results apart, or in registers."""

TAG_BITS = 8
"""Width of the tag of the units that were measured."""


@dataclass(frozen=True)
class Area:
    """Resources of a device that filters take, one array element each.

    Attributes
    ----------
    bram : ndarray of int, shape (n,)
        Block RAMs; exact.
    lut, ff : ndarray of float, shape (n,)
        Predicted LUTs and flip-flops.
    lut_error, ff_error : float
        Largest relative error of the predictions among the units that were measured.
    """

    bram: Ints
    lut: Floats
    ff: Floats
    lut_error: float
    ff_error: float

    def share(self, device: Device) -> Floats:
        """Shares of the device's block RAMs and of its LUTs, added: what is to be least.

        Returns
        -------
        ndarray of float, shape (n,)
        """
        return self.bram / device.bram + self.lut / device.lut

    def excess(self, device: Device) -> dict[str, NDArray[np.bool_]]:
        """Tell, for each resource, whether it is too scarce; predictions with their error added.

        Returns
        -------
        dict of str to ndarray of bool, shape (n,)
        """
        return {
            "block RAMs": self.bram > device.bram,
            "LUTs": self.lut * (1 + self.lut_error) > device.lut,
            "flip-flops": self.ff * (1 + self.ff_error) > device.ff,
        }


def area(shapes: Shapes, size: Ints, device: Device, key_bits: int) -> Area:
    """Predict what filters with keys of `key_bits` take of a device.

    The `size` of each is a power of two, shape (n,).
    """
    model = models()[device.family]
    named = features(shapes, size, device, key_bits)
    lut, ff = (
        sum((model[kind][name] * values for name, values in named.items()), np.zeros(len(shapes)))
        for kind in ("lut", "ff")
    )
    blocks = block_rams(shapes, size, device, key_bits)
    return Area(blocks, lut, ff, model["lut_error"], model["ff_error"])


def block_rams(shapes: Shapes, size: Ints, device: Device, key_bits: int) -> Ints:
    """Count block RAMs: of every part of every segment, the spare's too, and of small memories.

    Parameters and result: as for `area`, shape (n,).
    """
    blocks = memory_blocks(shapes, size, device.bram_bits)
    if device.family == WITHOUT_TABLES:
        places = _places(shapes, size, key_bits)
        for width in (TAG_BITS, _verdict_bits(shapes), _time_bits(shapes)):
            blocks += _small_blocks(places, width)
        blocks += _time_blocks(shapes)
    return blocks


def memory_blocks(shapes: Shapes, size: Ints, block_bits: int = BLOCK_BITS) -> Ints:
    """Count memories of `block_bits` for segments and spare of each `size`, shape (n,)."""
    columns, rows = _columns_rows(shapes, size, block_bits)
    return _memories(shapes) * columns * rows


def of_spec(spec: FilterSpec, requirement: Requirement | None = None) -> tuple[Shapes, Ints]:
    """Return shape and size of a specification, as arrays of one element.

    Its generation follows from its window as in all shapes for a `requirement`; without one, all
    generations of the window are filled.
    """
    size = spec.segment_blocks if spec.blocked else spec.cells
    block_bits = getattr(spec, "block_bits", 0)
    numbers = (spec.run, spec.window_generations, spec.parts, block_bits)
    run, generations, parts, block = (np.array([number]) for number in numbers)
    window, span, aged = spec.window, None, np.zeros(1, np.int64)
    if requirement is not None:
        span, aged = requirement.span, aged_generations(run, requirement)
    elif spec.timed:
        window, span = spec.guaranteed_window, Span(ticks=spec.span, tick=Fraction(1))
    shapes = Shapes(spec.family, window, span, run, generations, parts, block, aged)
    return shapes, np.array([size])


@cache
def models() -> Mapping[str, Any]:
    """Return the coefficients of each family of devices, by name of the feature, and the errors."""
    text = resources.files(__package__).joinpath("costs.json").read_text("utf-8")
    return json.loads(text)


def features(shapes: Shapes, size: Ints, device: Device, key_bits: int) -> dict[str, Floats]:
    """Return what LUTs and flip-flops are counted by, each of shape (n,).

    Parameters: as for `area`.
    """
    memories = _memories(shapes)
    segments = shapes.ring_segments + 1
    address = np.log2(part_bits(shapes, size))
    swept = np.minimum(np.log2(clear_width(shapes, size)), address)
    columns, rows = _columns_rows(shapes, size, device.bram_bits)
    blocks = columns * rows
    # As the pipeline counts them, on every device.
    wide, deep = _columns_rows(shapes, size)
    selected = wide * deep
    # Those behind the clear; what is ahead of it is shared.
    registers = np.minimum(2, address_registers(memories * selected))
    partitioned = shapes.family in ("apbf", "apbbf")
    functions = segments if partitioned else np.ones_like(segments)
    # What the parts of a segment have in common, and what each has of its own.
    common = np.log2(size) if shapes.blocked else np.zeros_like(address)
    own = address - common
    low = np.minimum(swept, own)
    picked = shapes.parts * own + common
    # Which a clear drives, and therefore every segment has.
    driven = segments * (shapes.parts * own + common)
    undriven = functions * (shapes.parts * low)
    stages = ceil_log(2, segments)
    hashing = hash_latency(key_bits, levels=levels(device.name, target_mhz(device.name)))
    memory = _memory_latency(shapes, size)
    named: dict[str, Any] = {
        "unit": np.ones(len(shapes)),
        "key bits": np.full(len(shapes), key_bits),
        "registers of the hash": np.full(len(shapes), hashing * key_bits),
        "index bits": functions * picked,
        "memories": memories,
        "bits of words": memories * blocks * np.minimum(2**swept, BLOCK_CLEAR_BITS),
        "block RAMs": memories * blocks,
        "further block RAMs": memories * (blocks - 1),
        "driven address bits": driven,
        "registers of driven address bits": driven * registers,
        "registers of other address bits": undriven * registers,
        "registers of block RAMs": memories * selected * registers,
        "delays of memories": memories * (memory - 2),
        "segments": segments,
        "segments to turn": segments * stages,
        "runs": segments * ceil_log(4, shapes.run),
        "ages": shapes.generations * np.log2(shapes.generations + 1),
        "generation bits": np.log2(shapes.generation + 1),
        "places of results": _places(shapes, size, key_bits)
        * (TAG_BITS + _verdict_bits(shapes) + _time_bits(shapes)),
    }
    timed = np.full(len(shapes), shapes.span is not None)
    beside = device.family != WITHOUT_TABLES or _time_blocks(shapes) == 0
    named |= {
        "window in time": timed,
        "bits of times": timed * _stamp_bits(shapes),
        "bits of settled times": timed * beside * _stamp_bits(shapes) * shapes.generations,
    }
    return {name: np.asarray(values, np.float64) for name, values in named.items()}


def _verdict_bits(shapes: Shapes) -> Ints:
    return 1 + ceil_log(2, shapes.generations + 1)


def _stamp_bits(shapes: Shapes) -> int:
    return 0 if shapes.span is None else stamp_bits(shapes.span.ticks)


def _time_blocks(shapes: Shapes) -> Ints:
    """Block RAMs for the times of generations, where there are no memories in tables."""
    return _small_blocks(1 << ceil_log(2, shapes.generations + 1), _stamp_bits(shapes))


def _small_blocks(depth: Ints, width: Ints | int) -> Ints:
    """Block RAMs for small memories of one port that reads, as `inferred_memory` has them."""
    sizes = np.stack(np.broadcast_arrays(depth, width), axis=1)
    different, which = np.unique(sizes, axis=0, return_inverse=True)
    blocks = [
        inferred_memory(WITHOUT_TABLES, depth=depth, width=width, reads=[range(width)]).blocks
        for depth, width in different.tolist()
    ]
    return np.array(blocks)[which]


def _time_bits(shapes: Shapes) -> int:
    """Bits of status and time in each result."""
    return 0 if shapes.span is None else STATUS_BITS + _stamp_bits(shapes)


def _memory_latency(shapes: Shapes, size: Ints) -> Ints:
    # As the pipeline counts block RAMs, on every device.
    wide, deep = _columns_rows(shapes, size)
    return memory_latency(
        bits=part_bits(shapes, size),
        clear=clear_width(shapes, size),
        registers=address_registers(_memories(shapes) * wide * deep),
    )


def _places(shapes: Shapes, size: Ints, key_bits: int) -> Ints:
    """Places in the result queue, which the latency takes."""
    memory = _memory_latency(shapes, size)
    detector = detector_latency(
        parts=shapes.parts,
        segments=shapes.ring_segments + 1,
        run=shapes.run,
        generations=shapes.generations,
    )
    hashing = max(CONTROL_LAG, hash_latency(key_bits))
    timed = shapes.span is not None
    return result_places(hashing + memory + detector + timed + QUEUE_LATENCY - 1)


def _memories(shapes: Shapes) -> Ints:
    return (shapes.ring_segments + 1) * shapes.parts


def _columns_rows(shapes: Shapes, size: Ints, block_bits: int = BLOCK_BITS) -> tuple[Ints, Ints]:
    bits, clear = part_bits(shapes, size), clear_width(shapes, size)
    return memory_shape(bits=bits, clear=clear, block_bits=block_bits)
