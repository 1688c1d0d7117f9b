"""Operations per clock of units of one and of several lanes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately import __version__
from lately.golden import FilterSpec, from_spec
from lately.golden.hash.keys import text_keys
from lately.golden.ring.layout import Layout
from lately.replay.traces import open_trace

SEED = 1
"""Seed of the random keys."""

HOT = 0.5
"""Share of the operations of the stream `hot key` that are on one key."""


def drawn_streams(
    operations: int, specs: Iterable[FilterSpec] = ()
) -> dict[str, NDArray[np.uint64]]:
    """Return streams of 64-bit keys that no file holds.

    Returns
    -------
    dict of str to ndarray of uint64, shape (operations,)
        "random": all different. "hot key": the share `HOT` on one key, at random.
        "one key": nothing else. "one shard": different, but the first shard's in each
        of the specifications, as an adversary who knows the hash would choose them.
    """
    random = np.random.default_rng(SEED)
    keys = random.integers(0, 1 << 64, operations, np.uint64)
    hot = np.where(random.random(operations) < HOT, keys[0], keys)
    hashes = [Layout.of(spec, True).hash for spec in specs if spec.shards > 1]
    chosen = np.empty(0, np.uint64)
    while len(chosen) < operations:
        drawn = random.integers(0, 1 << 64, operations, np.uint64)
        for key_hash in hashes:
            states = key_hash.state(key_hash.check_keys(drawn))
            drawn = drawn[key_hash.shard(states) == 0]
        chosen = np.concatenate([chosen, drawn])
    one = np.full(operations, keys[0])
    return {"random": keys, "hot key": hot, "one key": one, "one shard": chosen[:operations]}


def file_streams(paths: Iterable[str]) -> Iterator[tuple[str, NDArray[np.uint64]]]:
    """Read files at `paths` as `lately run` does; yield name and keys, shape (n,), of each.

    Raises
    ------
    TraceError
        If a file is damaged, or none of its lines parses.
    OSError
        If a file cannot be read.
    """
    for path in paths:
        with open_trace(path) as trace:
            yield os.path.basename(path), text_keys([text for text, _ in trace], key_bits=64)


def measure(
    specs: Mapping[str, FilterSpec],
    streams: Mapping[str, NDArray[np.uint64]],
    *,
    progress: Callable[[str, str], None] = lambda name, stream: None,
) -> dict[str, Any]:
    """Check and insert streams in compiled hardware, with all lanes full, beside golden.

    Units have keys of 64 bits. Before each stream, of shape (n,), they are reset, and clear
    themselves, which is not counted. `progress` takes the names of unit and stream before each run.

    Returns
    -------
    dict
        ``runs``, each with ``name``, ``lanes``, ``stream``, ``operations``,
        ``clocks``, ``operations_per_clock`` and ``mismatches``; ``seed`` and ``versions``.

    Errors: as `lately.sim.compiled_unit`.
    """
    from lately.sim import compiled_unit
    from lately.sim.toolchain import verilator_version

    runs = []
    for name, spec in specs.items():
        with compiled_unit(spec) as unit:
            for stream, keys in streams.items():
                progress(name, stream)
                unit.reset()
                unit.idle(unit.profile.clear_cycles + unit.profile.latency)
                before = unit.cycles
                seen = unit.check_and_insert(keys)
                clocks = unit.cycles - before
                run = {
                    "name": name,
                    "lanes": spec.lanes,
                    "stream": stream,
                    "operations": len(keys),
                    "clocks": clocks,
                    "operations_per_clock": len(keys) / clocks,
                    "mismatches": int((seen != from_spec(spec).check_and_insert(keys)).sum()),
                }
                runs.append(run)
    versions = {"lately": __version__, "verilator": verilator_version()}
    return {"runs": runs, "seed": SEED, "versions": versions}
