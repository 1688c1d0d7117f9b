"""How fast the golden models are beside filters of other libraries, at equal memory.

One stream goes through all of them: random keys, of which every tenth comes
again within the window. A filter answers for each key and takes it in, whatever
it answered, so that a key counts from its last appearance on.
"""

import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import APBBF, APBF, GEBF, BlockedGEBF, SlidingFilter, compilation

from .machine import processor

BATCH = 1 << 16
"""Keys that a golden model takes in a call."""

REPEATED = 0.1
"""Share of the keys that come again within the window."""

Step = Callable[[Any], Sequence[bool] | NDArray[np.bool_]]
"""Checks and inserts keys, one after another."""


@dataclass(frozen=True)
class Contestant:
    """A filter, by its name, in its memory."""

    name: str
    runs: str
    """What runs it: "compiled", "numpy" or a library."""
    build: Callable[[], tuple[int, Step]]
    """Returns its memory in bits and a `Step`, whose answers have shape (n,)."""
    keys: int
    """Number of keys from the beginning of the stream; fewer for slow filters."""
    form: Callable[[NDArray[np.uint64]], Any]
    """From an array of keys, shape (n,), to what the filter takes; not timed."""


@dataclass(frozen=True)
class Stream:
    """The `keys`, shape (n,), and which of them are `repeated` within the window, in insertions."""

    window: int
    keys: NDArray[np.uint64]
    repeated: NDArray[np.bool_]


def draw_stream(count: int, window: int, seed: int) -> Stream:
    """Draw a stream of `count` keys; how far back one comes again is uniform up to the window.

    Equal streams have an equal `seed`.
    """
    random = np.random.default_rng(seed)
    keys = random.integers(0, 1 << 64, count, np.uint64)
    source = np.arange(count)
    distances = random.integers(1, window + 1, count)
    repeated = (random.random(count) < REPEATED) & (source >= distances)
    source[repeated] -= distances[repeated]
    # A key may be the repetition of a repetition.
    while not np.array_equal(source, source[source]):
        source = source[source]
    return Stream(window, keys[source], repeated)


def measure(
    *,
    window: int = 20_000,
    bits_per_key: int = 14,
    keys: int = 4_000_000,
    rounds: int = 3,
    batch: int = BATCH,
    seed: int = 1,
    progress: Callable[[str, str], None] = lambda name, runs: None,
) -> dict[str, Any]:
    """Measure all filters in turn, in several rounds, whose medians are compared.

    The window is in insertions, with `bits_per_key` of memory; the stream, drawn with a `seed`, has
    `keys` keys, of which slow filters take the first, and a call has `batch` of them. `progress` is
    called with the name of the next filter, and how it runs.

    Returns
    -------
    dict
        For each filter keys per second of CPU time (median, lowest and
        highest), false-positive rate and false negatives; seconds to the first
        answer; and what they were measured with.
    """
    stream = draw_stream(keys, window, seed)
    contestants = [*ours(window, bits_per_key, keys), *peers(window, bits_per_key, keys)]
    runs: dict[Contestant, list[dict[str, Any]]] = {each: [] for each in contestants}
    for _ in range(rounds):
        for contestant in contestants:
            progress(contestant.name, contestant.runs)
            runs[contestant].append(run(contestant, stream, batch))
    return {
        "window": window,
        "bits_per_key": bits_per_key,
        "keys": keys,
        "repeated": REPEATED,
        "rounds": rounds,
        "batch": batch,
        "seed": seed,
        "runs": [_summary(each, results) for each, results in runs.items()],
        "first_answer": first_answers(),
        "processor": processor(),
        "versions": _versions(),
    }


def run(contestant: Contestant, stream: Stream, batch: int = BATCH) -> dict[str, Any]:
    """Let a filter take its part of the stream, `batch` keys in a call, and check its answers.

    Returns
    -------
    dict
        Memory, seconds of CPU time, and false answers with what they are out of.
    """
    count = min(contestant.keys, len(stream.keys))
    batches = [
        contestant.form(stream.keys[start : min(start + batch, count)])
        for start in range(0, count, batch)
    ]
    bits, step = contestant.build()
    contestant.build()[1](batches[0][:100])  # what is compiled is compiled before
    began = time.process_time()
    answers = [step(some) for some in batches]
    seconds = time.process_time() - began
    seen = np.concatenate([np.asarray(answer, np.bool_) for answer in answers])
    repeated = stream.repeated[:count]
    settled = np.arange(count) >= 2 * stream.window
    fresh = ~repeated & settled
    return {
        "memory_bits": bits,
        "keys": count,
        "seconds": seconds,
        "false_positives": int((seen & fresh).sum()),
        "fresh": int(fresh.sum()),
        "false_negatives": int((repeated & ~seen).sum()),
        "repeated": int(repeated.sum()),
    }


def _summary(contestant: Contestant, results: list[dict[str, Any]]) -> dict[str, Any]:
    rates = [result["keys"] / result.pop("seconds") for result in results]
    fresh = results[0]["fresh"]
    return {
        "name": contestant.name,
        "runs": contestant.runs,
        **results[0],
        "false_positive_rate": results[0]["false_positives"] / fresh if fresh else None,
        "keys_per_second": statistics.median(rates),
        "range": [min(rates), max(rates)],
    }


# Ours


def models(window: int, bits: int) -> dict[str, Callable[[], SlidingFilter]]:
    """Return what builds each golden model in so many bits, with so long a window.

    The shapes have about the fewest false positives at 14 bits for each key of
    the window, among those whose blocks are a word or a line of a cache; beside
    them stands a GEBF of half the hash functions.
    """
    shared: dict[str, Any] = {"window": window, "bits": bits}

    def apbbf(k: int, l: int, block_bits: int, hashes_per_block: int) -> APBBF:
        return APBBF(
            k=k,
            l=l,
            block_bits=block_bits,
            hashes_per_block=hashes_per_block,
            blocks=bits // (k + l) // block_bits,
            generation=-(-window // l),
        )

    return {
        "GEBF r=6 k=8": lambda: GEBF(**shared, epochs=6, hashes=8),
        "GEBF r=8 k=4": lambda: GEBF(**shared, epochs=8, hashes=4),
        "BlockedGEBF r=4 k=7 B=512": lambda: BlockedGEBF(
            **shared, epochs=4, hashes=7, block_bits=512, partitioned=False
        ),
        "APBBF k=2 l=7 B=64 b=4": lambda: apbbf(2, 7, 64, 4),
        "APBBF k=1 l=5 B=512 b=8": lambda: apbbf(1, 5, 512, 8),
        "APBF k=6 l=14": lambda: APBF(
            k=6, l=14, slice_bits=bits // 20, generation=-(-window // 14)
        ),
    }


def ours(window: int, bits_per_key: int, keys: int) -> list[Contestant]:
    """Return the golden models, compiled where numba is, and in numpy.

    Parameters as for `measure`.
    """
    paths = {"compiled": keys} if compilation.importable() else {}
    return [
        Contestant(name, path, _model(build, path), count, np.asarray)
        for name, build in models(window, window * bits_per_key).items()
        for path, count in (paths | {"numpy": max(1, keys // 8)}).items()
    ]


def _model(build: Callable[[], SlidingFilter], path: str) -> Callable[[], tuple[int, Step]]:
    def of_path() -> tuple[int, Step]:
        with taking(path):
            model = build()
        return model.spec.memory_bits, model.check_and_insert

    return of_path


@contextmanager
def taking(path: str) -> Iterator[None]:
    """Build models that take one path in the block: "compiled" or "numpy"."""
    before = os.environ.get(compilation.VARIABLE)
    os.environ[compilation.VARIABLE] = "0" if path == "numpy" else "1"
    try:
        yield
    finally:
        del os.environ[compilation.VARIABLE]
        if before is not None:
            os.environ[compilation.VARIABLE] = before


# Others


def peers(window: int, bits_per_key: int, keys: int) -> list[Contestant]:
    """Return filters of other libraries: two generations of `window` keys in half of the memory.

    The older generation is dropped when the younger is full, so that between
    one window and two are remembered. Parameters as for `measure`.
    """
    half = window * bits_per_key // 2
    rate = math.exp(-half / window * math.log(2) ** 2)
    return [
        Contestant(
            "rbloom, two generations",
            "rbloom",
            lambda: _two_rblooms(window, rate),
            max(1, keys // 4),
            lambda some: some.tolist(),
        ),
        Contestant(
            "fastbloom-rs, two generations",
            "fastbloom-rs",
            lambda: _two_fastblooms(window, rate),
            max(1, keys // 4),
            lambda some: some.view(np.int64).tolist(),
        ),
        Contestant(
            "pyprobables RotatingBloomFilter",
            "pyprobables",
            lambda: _rotating(window, rate),
            max(1, keys // 20),
            lambda some: [key.to_bytes(8, "little") for key in some.tolist()],
        ),
    ]


def _two_rblooms(window: int, rate: float) -> tuple[int, Step]:
    from rbloom import Bloom

    young, old = Bloom(window, rate), Bloom(window, rate)
    filled = 0

    def step(keys: list[int]) -> list[bool]:
        nonlocal young, old, filled
        seen = []
        for key in keys:
            seen.append(key in young or key in old)
            if filled == window:
                young, old = old, young
                young.clear()
                filled = 0
            young.add(key)
            filled += 1
        return seen

    return 2 * young.size_in_bits, step


def _two_fastblooms(window: int, rate: float) -> tuple[int, Step]:
    from fastbloom_rs import FilterBuilder

    young, old = (FilterBuilder(window, rate).build_bloom_filter() for _ in range(2))
    filled = 0

    def step(keys: list[int]) -> list[bool]:
        nonlocal young, old, filled
        seen = []
        for key in keys:
            seen.append(young.contains_int(key) or old.contains_int(key))
            if filled == window:
                young, old = old, young
                young.clear()
                filled = 0
            young.add_int(key)
            filled += 1
        return seen

    return 2 * 8 * len(young.get_bytes()), step


def _rotating(window: int, rate: float) -> tuple[int, Step]:
    from probables import BloomFilter, RotatingBloomFilter

    model = RotatingBloomFilter(est_elements=window, false_positive_rate=rate, max_queue_size=2)

    def step(keys: list[bytes]) -> list[bool]:
        seen = []
        for key in keys:
            seen.append(model.check(key))
            model.add(key, force=True)
        return seen

    one = BloomFilter(est_elements=window, false_positive_rate=rate)
    return 2 * one.number_bits, step


# First answers


_FIRST = """
import time
began = time.perf_counter()
import lately.golden
from campaigns.golden_speed import models
imported = time.perf_counter()
for build in models(2_000, 28_000).values():
    build().check_and_insert([1])
print(imported - began, time.perf_counter() - imported)
"""


def first_answers() -> dict[str, list[float]]:
    """Measure import and first answers of all models in processes of their own.

    Returns
    -------
    dict
        Seconds to import, then seconds to the first answers: "numpy",
        "compiled" with nothing in numba's cache, and "cached" after that.
    """
    found = {"numpy": _first({compilation.VARIABLE: "0"})}
    if compilation.importable():
        with tempfile.TemporaryDirectory() as cache:
            for name in ("compiled", "cached"):
                found[name] = _first({compilation.VARIABLE: "1", "NUMBA_CACHE_DIR": cache})
    return found


def _first(environment: dict[str, str]) -> list[float]:
    result = subprocess.run(
        [sys.executable, "-c", _FIRST],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in result.stdout.split()]


def _versions() -> dict[str, str]:
    names = ["lately", "numpy", "pyprobables", "rbloom", "fastbloom-rs"]
    names += ["numba"] if compilation.importable() else []
    return {name: version(name) for name in names} | {"python": platform.python_version()}
