"""Long runs of the compiled hardware beside the golden model, on mixed random operations."""

import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from ..golden import FilterSpec, Operation, from_spec

CHUNK = 1 << 20
"""Operations between two comparisons of counters, and between two choices of keys."""

MEMORY_CHUNKS = 16
"""Chunks between two comparisons of every bit of memory."""

SHARES = {
    Operation.NONE: 0.01,
    Operation.QUERY: 0.15,
    Operation.INSERT: 0.1,
    Operation.CHECK_AND_INSERT: 0.74,
}
"""Of the operations that come at random."""

EVENTS = 16
"""In each chunk: forced shifts, a quarter of them right after another, and one clear."""


def soak(
    spec: FilterSpec,
    *,
    operations: int = 100_000_000,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Hold the compiled hardware against the golden model for a long time.

    Half the keys of a chunk come from a pool of a fifth of the window, so that
    hits of every age are frequent; the others are random. With re-keying, a new
    secret is loaded before every chunk.

    Parameters
    ----------
    spec : FilterSpec
        What to build.
    operations : int
        How many, in chunks of `CHUNK`.
    seed : int
        Of keys and operations.
    progress : callable, optional
        Called with the number of operations done since the last call.

    Returns
    -------
    dict
        Operations, how often each verdict and age was compared, mismatches of
        verdicts, ages, counters and memory bits, what happened (hits, by age,
        shifts, clears, wraps of the ring), clocks, seconds, and what it ran with.
        After an interrupt: of what was done until then.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification.
    """
    from ..sim import CompiledUnit, compiled_unit
    from ..sim.toolchain import verilator_version

    random = np.random.default_rng(seed)
    golden = from_spec(spec)
    counts = dict.fromkeys(("verdicts", "ages", "counters", "memory_bits"), 0)
    done = clears = rekeys = memories = 0
    ages = np.zeros(spec.window_generations + 1, np.int64)
    began = time.perf_counter()
    interrupted = False
    with compiled_unit(spec) as unit:
        try:
            while done < operations:
                count = min(CHUNK, operations - done)
                if isinstance(unit, CompiledUnit) and spec.rekey and golden.rekey_ready:
                    secret = int.from_bytes(random.bytes(16), "little")
                    golden.rekey(secret)
                    unit.rekey(secret)
                    rekeys += 1
                codes, keys = _choose(random, spec, count)
                found = unit.apply(codes, keys)
                expected = golden.apply(codes, keys)
                counts["verdicts"] += int((found.seen != expected.seen).sum())
                counts["ages"] += int((found.age != expected.age).sum())
                counted = unit.statistics
                counts["counters"] += sum(
                    counted[name] != getattr(golden, name) % (1 << 32) for name in counted
                )
                ages += np.bincount(expected.age[expected.seen], minlength=len(ages))
                clears += int((codes == Operation.CLEAR).sum())
                done += count
                if done == operations or done // CHUNK % MEMORY_CHUNKS == 0:
                    counts["memory_bits"] += int((unit.memory != golden.memory).sum())
                    memories += 1
                if progress is not None:
                    progress(count)
        except KeyboardInterrupt:
            interrupted = True
        cycles = unit.cycles
    return {
        "operations": done,
        "interrupted": interrupted,
        "seed": seed,
        "mismatches": counts,
        "hits": golden.hits,
        "hits_by_age": ages.tolist(),
        "insertions": golden.insertions,
        "shifts": golden.shifts,
        "ring_turns": golden.shifts // spec.segments,
        "clears": clears,
        "rekeys": rekeys,
        "memory_comparisons": memories,
        "memory_bits": spec.storage_bits,
        "cycles": cycles,
        "seconds": time.perf_counter() - began,
        "spec": spec.to_dict(),
        "versions": {
            "lately": version("lately"),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "verilator": verilator_version(),
        },
    }


def _choose(random: np.random.Generator, spec: FilterSpec, count: int) -> tuple[Any, Any]:
    """Draw operations and keys."""
    codes = random.choice(list(SHARES), count, p=list(SHARES.values())).astype(np.uint8)
    places = random.integers(0, count, EVENTS)
    codes[places] = Operation.SHIFT
    codes[(places[: EVENTS // 4] + 1) % count] = Operation.SHIFT
    codes[random.integers(0, count)] = Operation.CLEAR
    words = -(-spec.key_bits // 64)
    keys = random.integers(0, 1 << 64, (count, words), np.uint64)
    few = random.integers(0, 1 << 64, (max(2, spec.guaranteed_window // 5), words), np.uint64)
    repeated = random.random(count) < 0.5
    keys[repeated] = few[random.integers(0, len(few), int(repeated.sum()))]
    if spec.key_bits % 64:
        keys[:, -1] &= np.uint64((1 << spec.key_bits % 64) - 1)
    return codes, keys[:, 0] if words == 1 else keys
