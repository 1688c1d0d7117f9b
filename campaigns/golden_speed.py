"""How fast the golden models are beside filters of other libraries, at equal memory.

One stream goes through all of them: random keys, of which every tenth comes
again within the window. A filter answers for each key and takes it in, whatever
it answered, so that a key counts from its last appearance on.
"""

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import APBBF, APBF, GEBF, BlockedGEBF, SlidingFilter, compilation

from .engine import Campaign, Point, Records, Result
from .machine import peak_bytes, processor
from .options import select
from .workers import tell

BATCH = 1 << 16
"""Keys that a golden model takes in a call."""

REPEATED = 0.1
"""Share of the keys that come again within the window."""

CHUNK = 1 << 20
"""Insertions of a long stream between two rounds of queries."""

PARTS = 10
"""Parts of a long stream, each timed."""

FIRST = "first answers"
"""Point that measures imports and first answers."""

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
class KeyStream:
    """The `keys`, shape (n,), and which of them are `repeated` within the window, in insertions."""

    window: int
    keys: NDArray[np.uint64]
    repeated: NDArray[np.bool_]


def draw_stream(count: int, window: int, seed: int) -> KeyStream:
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
    return KeyStream(window, keys[source], repeated)


def take(contestant: Contestant, stream: KeyStream, batch: int = BATCH) -> dict[str, Any]:
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
    """Return the golden models, compiled where the extension is built, and in numpy.

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
        Seconds to import, then seconds to the first answers: "numpy", and "compiled".
    """
    found = {"numpy": _first({compilation.VARIABLE: "0"})}
    if compilation.importable():
        found["compiled"] = _first({compilation.VARIABLE: "1"})
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


# The campaigns


def points(
    *,
    window: int = 20_000,
    bits_per_key: int = 14,
    keys: int = 4_000_000,
    rounds: int = 3,
    batch: int = BATCH,
    seed: int = 1,
    quick: bool = False,
) -> list[Point]:
    """Return a point for each filter, and one for the first answers."""
    count = keys // 40 if quick else keys
    names = [(one.name, one.runs) for one in _contestants(window, bits_per_key, count)]
    how = {"window": window, "bits_per_key": bits_per_key, "keys": count, "rounds": rounds,
           "batch": batch, "seed": seed}  # fmt: skip
    return [{"filter": name, "runs": runs} | how for name, runs in [*names, (FIRST, "")]]


def _contestants(window: int, bits_per_key: int, keys: int) -> list[Contestant]:
    return [*ours(window, bits_per_key, keys), *peers(window, bits_per_key, keys)]


def run(point: Point) -> Result:
    """Measure keys per second of CPU time, false positives and false negatives of a filter.

    Of several rounds, the median counts. All filters take the same stream in the same memory.
    """
    if point["filter"] == FIRST:
        return {"first_answer": first_answers(), "processor": processor()}
    given = _contestants(*(point[name] for name in ("window", "bits_per_key", "keys")))
    wanted = (point["filter"], point["runs"])
    (contestant,) = (one for one in given if (one.name, one.runs) == wanted)
    stream = draw_stream(point["keys"], point["window"], point["seed"])
    results = [take(contestant, stream, point["batch"]) for _ in range(point["rounds"])]
    rates = [result["keys"] / result.pop("seconds") for result in results]
    found = results[0]
    rate = found["false_positives"] / found["fresh"] if found["fresh"] else None
    return found | {
        "false_positive_rate": rate,
        "keys_per_second": statistics.median(rates),
        "range": [min(rates), max(rates)],
        "processor": processor(),
    }


def rows(records: Records) -> list[dict[str, object]]:
    """Return a row for each filter."""
    return [
        {
            "filter": record.point["filter"],
            "runs": record.point["runs"],
            "M keys/s": f"{run['keys_per_second'] / 1e6:.2f}",
            "false positives": run["false_positive_rate"],
            "false negatives": run["false_negatives"],
            "bits": run["memory_bits"],
        }
        for record in records
        if "keys_per_second" in (run := record.result)
    ]


TOOLS = ("numpy", "pyprobables", "rbloom", "fastbloom-rs")

GOLDEN = Campaign(
    name="golden",
    about="""Time the golden models beside filters of other libraries.

    All filters have the same memory and take the same stream, in which every tenth key is repeated
    within the window. Ratios carry over to other machines; single figures do not. Use one job, so
    that nothing else runs at the same time.
    """,
    packages=("lately.golden", "campaigns"),
    tools=TOOLS,
    points=points,
    run=run,
    label=lambda point: f"{point['filter']} {point['runs']}".strip(),
    worse=lambda now, before: (),
    rows=rows,
)


def stream_points(
    *,
    model: tuple[str, ...] = ("GEBF r=6 k=8",),
    window: int = 20_000,
    bits_per_key: int = 14,
    insertions: int = 200_000_000,
    queries: int = 20_000_000,
    seed: int = 1,
    quick: bool = False,
) -> list[Point]:
    """Return a point for each model."""
    small = 1000 if quick else 1
    return [
        {"model": name, "window": window, "bits_per_key": bits_per_key,
         "insertions": insertions // small, "queries": queries // small, "seed": seed}
        for name in select(model, models(window, window * bits_per_key))
    ]  # fmt: skip


def run_stream(point: Point) -> Result:
    """Insert and query a long stream of random keys; measure CPU time and memory of each tenth.

    Half of the queries are for keys of the window, and half for keys that were never inserted.
    """
    window, insertions, queries = (point[name] for name in ("window", "insertions", "queries"))
    filter = models(window, window * point["bits_per_key"])[point["model"]]()
    before = peak_bytes()
    began = time.process_time()
    parts = []
    for number in range(PARTS):
        begin, end = (insertions * at // PARTS for at in (number, number + 1))
        asked = queries * (number + 1) // PARTS - queries * number // PARTS
        tell(stage=f"{begin:,} insertions", share=number / PARTS)
        parts.append(_part(filter, window, (begin, end), asked, point["seed"]))
    return {
        "compiled": filter.compiled,
        "memory_bits": filter.spec.memory_bits,
        "cpu_seconds": time.process_time() - began,
        "parts": parts,
        "false_negatives": sum(part["false_negatives"] for part in parts),
        "peak_bytes_before": before,
        "peak_bytes": peak_bytes(),
        "processor": processor(),
    }


def _part(
    filter: SlidingFilter,
    window: int,
    bounds: tuple[int, int],
    queries: int,
    seed: int,
) -> dict[str, Any]:
    """Perform the insertions within `bounds`, with queries after each chunk of them."""
    counts = ("queries_of_the_window", "queries_of_others", "false_negatives", "false_positives")
    begin, end = bounds
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
    return found | {"peak_bytes": peak_bytes()}


STREAM = Campaign(
    name="stream",
    about="""Insert and query a long stream; measure CPU time and memory of each tenth.

    Keys are random and drawn in batches. Half of the queries are for keys of the window, all of
    which must be reported.
    """,
    packages=("lately.golden", "campaigns"),
    tools=TOOLS,
    points=stream_points,
    run=run_stream,
    label=lambda point: point["model"],
    wrong=lambda result: (
        [f"false negatives: must be 0, not {count}"] if (count := result["false_negatives"]) else []
    ),
    worse=lambda now, before: (),
    rows=lambda records: [
        {"part": number} | part
        for record in records
        for number, part in enumerate(record.result["parts"], 1)
    ],
)
