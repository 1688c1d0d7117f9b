"""Cost of an endless stream: time and memory of each tenth of a long one."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lately.golden import SlidingFilter

from .golden_speed import models
from .machine import peak_bytes, processor

CHUNK = 1 << 20
"""Insertions between two rounds of queries; at least a window is drawn at a time."""

PARTS = 10
"""Parts of the stream, each timed."""


def measure(
    *,
    model: str,
    window: int = 20_000,
    bits_per_key: int = 14,
    insertions: int = 200_000_000,
    queries: int = 20_000_000,
    seed: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Insert and query a long stream of random keys, drawn piece by piece.

    Half of the queries ask for keys of the window, at any distance, and half
    for keys that have not come. The model is one of `models`, of that window
    and `bits_per_key`, the `seed` that of the keys; `progress` is called with
    the insertions since its last call.

    Returns
    -------
    dict
        CPU seconds of each tenth, and of all with drawing the keys, peak memory
        before and after, false negatives, false positives, and the shifts.
    """
    filter = models(window, window * bits_per_key)[model]()
    filter.insert([0])  # what is compiled is compiled before
    filter.query([0])
    before = peak_bytes()
    began = time.process_time()
    parts = []
    for part in range(PARTS):
        begin, end = (insertions * number // PARTS for number in (part, part + 1))
        asked = queries * (part + 1) // PARTS - queries * part // PARTS
        parts.append(_part(filter, window, begin, end, asked, seed, progress))
    return {
        "model": model,
        "compiled": filter.compiled,
        "window": window,
        "memory_bits": filter.spec.memory_bits,
        "insertions": insertions,
        "queries": queries,
        "seed": seed,
        "cpu_seconds": time.process_time() - began,
        "parts": parts,
        "false_negatives": sum(part["false_negatives"] for part in parts),
        "peak_bytes_before": before,
        "peak_bytes": peak_bytes(),
        "shifts": filter.shifts,
        "processor": processor(),
    }


def _part(
    filter: SlidingFilter,
    window: int,
    begin: int,
    end: int,
    queries: int,
    seed: int,
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Perform the insertions from `begin` to `end`, with queries after each chunk of them."""
    counts = ("queries_of_the_window", "queries_of_others", "false_negatives", "false_positives")
    found = {"cpu_seconds": 0.0, "insertions": end - begin} | dict.fromkeys(counts, 0)
    recent = np.empty(0, np.uint64)
    for start in range(begin, end, CHUNK):
        stop = min(start + CHUNK, end)
        random = np.random.default_rng([seed, start])
        keys = random.integers(0, 1 << 64, stop - start, np.uint64)
        asked = [queries * (at - begin) // (end - begin) for at in (start, stop)]
        fresh = random.integers(0, 1 << 64, asked[1] - asked[0], np.uint64)
        recent = np.concatenate([recent, keys])[-window:]
        known = recent[random.integers(0, len(recent), len(fresh) - len(fresh) // 2)]
        fresh = fresh[: len(fresh) // 2]
        both = np.concatenate([known, fresh])
        began = time.process_time()
        filter.insert(keys)
        answers = filter.query(both)
        found["cpu_seconds"] += time.process_time() - began
        found["queries_of_the_window"] += len(known)
        found["queries_of_others"] += len(fresh)
        found["false_negatives"] += int((~answers[: len(known)]).sum())
        found["false_positives"] += int(answers[len(known) :].sum())
        progress(stop - start)
    return found | {"peak_bytes": peak_bytes()}
