"""Benchmarks: how fast things run here, as ratios within one run."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lately.golden import from_spec
from lately.golden.hash.keys import random_keys
from lately.hdl.build import UnitSpec

from .soak import software

SEED = 1
"""Seed of the keys."""


def replay(spec: UnitSpec, *, operations: int = 1_000_000, rounds: int = 5) -> dict[str, Any]:
    """Measure the compiled replay beside the golden model, in turn, on random keys.

    Each has several rounds of as many check-and-inserts; the medians are compared.

    Returns
    -------
    dict
        Operations per second of both (median, lowest and highest), their
        ratio, clocks per operation, seconds to open the model (compiled now
        or found in the cache), mismatches, and what they were measured with.

    Errors: as `lately.sim.compiled_unit`.
    """
    from lately.sim import compiled_unit

    random = np.random.default_rng(SEED)
    golden: Any = from_spec(spec)
    # Windows in time stand still.
    now = [np.zeros(operations, np.int64)] if spec.timed else []
    began = time.perf_counter()
    with compiled_unit(spec) as unit:
        opened = time.perf_counter() - began
        rates: dict[str, list[float]] = {"replay": [], "golden": []}
        mismatches = 0
        for _ in range(rounds):
            keys = random_keys(random, operations, spec.key_bits)
            seen, seconds = _timed(unit.check_and_insert, keys)
            rates["replay"].append(operations / seconds)
            expected, seconds = _timed(golden.check_and_insert, keys, *now)
            rates["golden"].append(operations / seconds)
            mismatches += int((seen != expected).sum())
        cycles = unit.cycles
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "operations": operations,
        "rounds": rounds,
        "seed": SEED,
        "mismatches": mismatches,
        "cycles_per_operation": cycles / (operations * rounds),
        "open_seconds": opened,
        "replay_operations_per_second": medians["replay"],
        "golden_operations_per_second": medians["golden"],
        "ratio": medians["replay"] / medians["golden"],
        "range": {name: [min(values), max(values)] for name, values in rates.items()},
        "spec": spec.to_dict(),
        "versions": software(),
    }


def _timed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    result = call(*arguments)
    return result, time.perf_counter() - began
