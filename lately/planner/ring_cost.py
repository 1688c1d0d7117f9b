"""Cost of many rings at once: their block RAMs, and features for LUTs and flip-flops."""

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

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
from .cost import TAG_BITS, Area, Floats, Ints, predicted
from .requirement import Requirement, Span
from .space import Shapes, aged_generations, clear_width, part_bits

if TYPE_CHECKING:
    from ..boards.flow.devices import Device


def _rules() -> Any:
    """Return the rules of inferred memories. They load slowly, and a count of bits needs none."""
    from ..boards.flow import inference

    return inference


def area(shapes: Shapes, size: Ints, device: "Device", key_bits: int) -> Area:
    """Predict the area of filters with keys of `key_bits` on a device.

    The `size` of each is a power of two, shape (n,).
    """
    blocks = block_rams(shapes, size, device, key_bits)
    found = predicted("ring", device, features(shapes, size, device, key_bits), blocks)
    assert found is not None
    return found


def block_rams(shapes: Shapes, size: Ints, device: "Device", key_bits: int) -> Ints:
    """Count block RAMs of all parts of all segments, including the spare, and of small memories.

    Parameters and result: as for `area`, shape (n,).
    """
    family = device.family
    if _rules().is_inferred(family):
        bits = part_bits(shapes, size)
        width = np.minimum(clear_width(shapes, size), bits)
        powers = (np.log2(values).round().astype(int) for values in (bits // width, width))
        blocks = _memories(shapes) * _segment_blocks(family)[tuple(powers)]
    else:
        blocks = memory_blocks(shapes, size, device.bram_bits)
    if not _rules().has_lut_memory(family):
        places = _places(shapes, size, key_bits)
        for each in (TAG_BITS, _verdict_bits(shapes), _time_bits(shapes)):
            blocks += _inferred_blocks(family, places, each)
        blocks += _time_blocks(shapes, family)
    return blocks


def memory_blocks(shapes: Shapes, size: Ints, block_bits: int = BLOCK_BITS) -> Ints:
    """Count memories of `block_bits` for segments and spare of each `size`, shape (n,)."""
    columns, rows = _columns_rows(shapes, size, block_bits)
    return _memories(shapes) * columns * rows


def of_spec(spec: FilterSpec, requirement: Requirement | None = None) -> tuple[Shapes, Ints]:
    """Return shape and size of a specification, as arrays of one element.

    With a `requirement`, the generation follows from the window, as in all shapes. Without a
    requirement, all generations of the window are filled.
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


def features(shapes: Shapes, size: Ints, device: "Device", key_bits: int) -> dict[str, Floats]:
    """Return the features for LUTs and flip-flops, each with shape (n,).

    Parameters: as for `area`.
    """
    segments = shapes.ring_segments + 1
    hashing = hash_latency(key_bits, levels=device.levels)
    timed = np.full(len(shapes), shapes.span is not None)
    in_lut_memory = (
        _rules().has_lut_memory(device.family) or _time_blocks(shapes, device.family) == 0
    )
    named: dict[str, Any] = {
        "unit": np.ones(len(shapes)),
        "key bits": np.full(len(shapes), key_bits),
        "registers of the hash": np.full(len(shapes), hashing * key_bits),
        **_memory_features(shapes, size, device),
        "segments": segments,
        "segments to turn": segments * ceil_log(2, segments),
        "runs": segments * ceil_log(4, shapes.run),
        "ages": shapes.generations * np.log2(shapes.generations + 1),
        "generation bits": np.log2(shapes.generation + 1),
        "places of results": _places(shapes, size, key_bits)
        * (TAG_BITS + _verdict_bits(shapes) + _time_bits(shapes)),
        "window in time": timed,
        "bits of times": timed * _stamp_bits(shapes),
        "bits of settled times": timed * in_lut_memory * _stamp_bits(shapes) * shapes.generations,
    }
    return {name: np.asarray(values, np.float64) for name, values in named.items()}


def _memory_features(shapes: Shapes, size: Ints, device: "Device") -> dict[str, Any]:
    memories, segments = _memories(shapes), shapes.ring_segments + 1
    address = np.log2(part_bits(shapes, size))
    swept = np.minimum(np.log2(clear_width(shapes, size)), address)
    # Families whose memories yosys infers have the scaled costs of an ECP5.
    block_bits = BLOCK_BITS if _rules().is_inferred(device.family) else device.bram_bits
    columns, rows = _columns_rows(shapes, size, block_bits)
    blocks = columns * rows
    # As in the pipeline, on every device.
    wide, deep = _columns_rows(shapes, size)
    selected = wide * deep
    # Registers behind the clear; registers before it are shared.
    registers = np.minimum(2, address_registers(memories * selected))
    functions = segments if shapes.partitioned else np.ones_like(segments)
    # Address bits that the parts of a segment share, and address bits of each part.
    common = np.log2(size) if shapes.blocked else np.zeros_like(address)
    own = address - common
    low = np.minimum(swept, own)
    picked = shapes.parts * own + common
    # A clear drives these, and therefore every segment has them.
    driven = segments * (shapes.parts * own + common)
    undriven = functions * (shapes.parts * low)
    return {
        "index bits": functions * picked,
        "memories": memories,
        "bits of words": memories * blocks * np.minimum(2**swept, BLOCK_CLEAR_BITS),
        "block RAMs": memories * blocks,
        "further block RAMs": memories * (blocks - 1),
        "driven address bits": driven,
        "registers of driven address bits": driven * registers,
        "registers of other address bits": undriven * registers,
        "registers of block RAMs": memories * selected * registers,
        "delays of memories": memories * (_memory_latency(shapes, size) - 2),
    }


@cache
def _segment_blocks(family: str) -> Ints:
    """Block RAMs of a part of a segment where yosys infers memories, by log2 of depth and width."""
    inferred = _rules().inferred_memory
    return np.array(
        [
            [
                inferred(
                    family,
                    depth=1 << depth,
                    width=1 << width,
                    reads=[range(1 << width)],
                    forced=True,
                ).blocks
                for width in range(49)
            ]
            for depth in range(49)
        ]
    )


def _verdict_bits(shapes: Shapes) -> Ints:
    return 1 + ceil_log(2, shapes.generations + 1)


def _stamp_bits(shapes: Shapes) -> int:
    return 0 if shapes.span is None else stamp_bits(shapes.span.ticks)


def _time_blocks(shapes: Shapes, family: str) -> Ints:
    """Block RAMs for the times of generations, on devices without memories in LUTs."""
    depth = 1 << ceil_log(2, shapes.generations + 1)
    return _inferred_blocks(family, depth, _stamp_bits(shapes))


def _inferred_blocks(family: str, depth: Ints, width: Ints | int) -> Ints:
    """Block RAMs for memories with one read port, as in `inferred_memory`."""
    sizes = np.stack(np.broadcast_arrays(depth, width), axis=1)
    different, which = np.unique(sizes, axis=0, return_inverse=True)
    blocks = [
        _rules().inferred_memory(family, depth=depth, width=width, reads=[range(width)]).blocks
        for depth, width in different.tolist()
    ]
    return np.array(blocks)[which]


def _time_bits(shapes: Shapes) -> int:
    """Bits of status and time in each result."""
    return 0 if shapes.span is None else STATUS_BITS + _stamp_bits(shapes)


def _memory_latency(shapes: Shapes, size: Ints) -> Ints:
    # As the pipeline counts block RAMs on every device.
    wide, deep = _columns_rows(shapes, size)
    return memory_latency(
        bits=part_bits(shapes, size),
        clear=clear_width(shapes, size),
        registers=address_registers(_memories(shapes) * wide * deep),
    )


def _places(shapes: Shapes, size: Ints, key_bits: int) -> Ints:
    """Places in the result queue, from the latency."""
    detector = detector_latency(
        parts=shapes.parts,
        segments=shapes.ring_segments + 1,
        run=shapes.run,
        generations=shapes.generations,
    )
    hashing, timed = max(CONTROL_LAG, hash_latency(key_bits)), shapes.span is not None
    memory = _memory_latency(shapes, size)
    return result_places(hashing + memory + detector + timed + QUEUE_LATENCY - 1)


def _memories(shapes: Shapes) -> Ints:
    return (shapes.ring_segments + 1) * shapes.parts


def _columns_rows(shapes: Shapes, size: Ints, block_bits: int = BLOCK_BITS) -> tuple[Ints, Ints]:
    bits, clear = part_bits(shapes, size), clear_width(shapes, size)
    return memory_shape(bits=bits, clear=clear, block_bits=block_bits)
