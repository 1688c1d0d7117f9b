"""Compares the speed of the golden models with that of filters from other libraries."""

import ctypes
import math
import os
import statistics
import subprocess
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    BlockedGEBF,
    PartitionedTimingFilter,
    SlidingFilter,
    WindowDictionary,
    c_header,
)
from lately.golden.spec import BlockedGEBFSpec, GEBFSpec
from lately.golden.spec.ring import GuardedEpochSpec

from .engine import Campaign, Point, Records, Result
from .options import select
from .speed import peak_bytes, processor
from .workers import tell

BATCH = 1 << 16  # keys per call of a golden model
REPEATED = 0.1  # fraction of keys that repeat within the window
CHUNK = 1 << 20  # insertions of a long stream between two groups of queries
PARTS = 10  # number of separately timed parts of a long stream

LIBRARIES = {"rbloom": "rbloom", "fastbloom_rs": "fastbloom-rs", "probables": "pyprobables",
             "cachetools": "cachetools"}  # fmt: skip
"""Modules whose filters are measured if they are installed, and their distributions."""

Check = Callable[[Iterable[Any]], Iterable[Any]]
"""Checks and inserts the argument of each call, a key or a batch of keys, and yields its answer."""


@dataclass(frozen=True)
class Contestant:
    name: str
    call: str  # format of the keys, one of `FORMS`
    build: Callable[[], tuple[int | None, Check]]  # returns memory in bits, None if exact
    share: int = 1  # it processes only the first 1/share of the keys
    window: int = 0  # of the filter, if it is longer than that of the stream
    touched: Callable[[], int] | None = None  # returns the words of memory that a key touches


def _strings(some: NDArray[np.uint64]) -> list[str]:
    return [f"{key:016x}" for key in some.tolist()]


FORMS: dict[str, Callable[[NDArray[np.uint64]], Any]] = {
    "batch": np.asarray,
    "int": lambda some: some.tolist(),
    "signed int": lambda some: some.view(np.int64).tolist(),
    "str": _strings,
    "list of str": _strings,
    "Arrow strings": lambda some: import_module("pyarrow").array(_strings(some)),
    "bytes": lambda some: [key.to_bytes(8, "little") for key in some.tolist()],
}
"""Functions that convert keys, shape (n,), to the argument of a filter before timing starts."""

BATCHES = ("batch", "list of str", "Arrow strings")  # forms whose calls have many keys


@dataclass(frozen=True)
class KeyStream:
    window: int
    keys: NDArray[np.uint64]
    repeated: NDArray[np.bool_]


def draw_stream(count: int, window: int, seed: int) -> KeyStream:
    random = np.random.default_rng(seed)
    keys = random.integers(0, 1 << 64, count, np.uint64)
    source = np.arange(count)
    distances = random.integers(1, window + 1, count)
    repeated = (random.random(count) < REPEATED) & (source >= distances)
    source[repeated] -= distances[repeated]
    # A key may repeat a key that is a repeat itself.
    while not np.array_equal(source, source[source]):
        source = source[source]
    return KeyStream(window, keys[source], repeated)


def take(contestant: Contestant, stream: KeyStream, batch: int = BATCH) -> dict[str, Any]:
    count = max(1, len(stream.keys) // contestant.share)
    keys, repeated = stream.keys[:count], stream.repeated[:count]
    form, several = FORMS[contestant.call], contestant.call in BATCHES
    batches = [form(keys[start : start + batch]) for start in range(0, count, batch)]
    bits, check = contestant.build()
    began = time.process_time()
    answers = [*check(batches if several else chain.from_iterable(batches))]
    seconds = time.process_time() - began
    seen = np.concatenate(answers) if several else np.array(answers)
    fresh = ~repeated & (np.arange(count) >= 2 * max(stream.window, contestant.window))
    return {
        "memory_bits": bits,
        "keys": count,
        "seconds": seconds,
        "false_positives": int((seen & fresh).sum()),
        "fresh": int(fresh.sum()),
        "false_negatives": int((repeated & ~seen).sum()),
        "repeated": int(repeated.sum()),
    }


# Our filters


def models(window: int, bits: int) -> dict[str, Callable[[], SlidingFilter]]:
    gebf: dict[str, Any] = {"window": window, "bits": bits, "digest": "siphash"}
    blocked = gebf | {"epochs": 4, "hashes": 7, "block_bits": 512, "partitioned": False}

    def apbbf(k: int, l: int, block_bits: int, hashes: int) -> Callable[[], APBBF]:
        blocks, generation = bits // (k + l) // block_bits, -(-window // l)
        return lambda: APBBF(k=k, l=l, block_bits=block_bits, hashes_per_block=hashes,
                             blocks=blocks, generation=generation)  # fmt: skip

    return {
        "GEBF r=6 k=6": lambda: GEBF(**gebf, epochs=6, hashes=6),
        "GEBF r=6 k=8": lambda: GEBF(**gebf, epochs=6, hashes=8),
        "BlockedGEBF r=4 k=7 B=512": lambda: BlockedGEBF(**blocked),
        "APBBF k=2 l=7 B=64 b=4": apbbf(2, 7, 64, 4),
        "APBBF k=1 l=5 B=512 b=8": apbbf(1, 5, 512, 8),
        "APBF k=6 l=14": lambda: APBF(
            k=6, l=14, slice_bits=bits // 20, generation=-(-window // 14)
        ),
    }


def ours(window: int, bits: int) -> list[Contestant]:
    rings: dict[str, Callable[[], Any]] = dict(models(window, bits))
    windows = {f"GEBF for {n:,}": n for n in (10**6, 10**7)}
    large: dict[str, Any] = {name: lambda n=n: GEBF.for_window(n) for name, n in windows.items()}
    windows["BlockedGEBF B=64 for 10,000,000"] = 10**7
    large["BlockedGEBF B=64 for 10,000,000"] = lambda: BlockedGEBF(
        window=10**7, epochs=5, hashes=8, bits=254_100_000, block_bits=64, digest="siphash"
    )
    sized = {
        kind.__name__: lambda kind=kind: kind.for_window(window, 0.01)
        for kind in (WindowDictionary, PartitionedTimingFilter)
    }
    every = {"batch": rings | sized | large, "int": rings | sized}
    texts = ("str", "list of str", *(["Arrow strings"] if find_spec("pyarrow") else []))
    every |= {call: {"GEBF r=6 k=6": rings["GEBF r=6 k=6"]} for call in texts}
    return [
        Contestant(name, call, partial(_model, build), 1 if call == "batch" else 4,
                   windows.get(name, 0), partial(touched, build))
        for call, builds in every.items()
        for name, build in builds.items()
    ]  # fmt: skip


def touched(build: Callable[[], Any]) -> int:
    match model := build():
        case WindowDictionary():
            return int(model.columns)
        case PartitionedTimingFilter():
            return int(model.hashes)
        case GEBF() | BlockedGEBF():
            return int(model.spec.parts)
    joint = getattr(model.spec, "block_bits", 65) <= 64
    return int(model.spec.ring_segments * (1 if joint else model.spec.parts))


def _model(build: Callable[[], Any]) -> tuple[int, Check]:
    model = build()
    check = model.check_and_insert
    return model.storage_bits, lambda calls: (check(argument) for argument in calls)


# Other libraries


def peers(window: int, bits: int) -> list[Contestant]:
    """Return the filters of other libraries, if they are installed, and exact windows.

    If a filter has no window, the contestant is two generations of `window` keys, each with half of
    the memory.
    """
    rate = math.exp(-bits / 2 / window * math.log(2) ** 2)
    every = [
        Contestant("rbloom, two", "int", partial(_two_rblooms, window, rate), 4),
        Contestant("rbloom, two", "str", partial(_two_rblooms, window, rate), 4),
        Contestant("fastbloom_rs, two", "signed int", partial(_two_fastblooms, window, rate), 4),
        Contestant("probables, RotatingBloomFilter", "bytes", partial(_rotating, window, rate), 20),
        Contestant("cachetools, LRUCache", "int", partial(_cache, window), 20),
        Contestant("dict and deque", "int", lambda: (None, partial(_counted, window)), 4),
        Contestant("OrderedDict", "int", lambda: (None, partial(_ordered, window)), 4),
    ]
    return [peer for peer in every if peer.name.split(",")[0] not in missing()]


def missing() -> list[str]:
    return [name for name in LIBRARIES if find_spec(name) is None]


def _counted(window: int, keys: Iterable[int]) -> Iterator[bool]:
    last: dict[int, int] = {}
    order: deque[int] = deque()
    for now, key in enumerate(keys):
        yield key in last
        last[key] = now
        order.append(key)
        if now >= window:
            old = order.popleft()
            if last[old] == now - window:
                del last[old]


def _ordered(window: int, keys: Iterable[int]) -> Iterator[bool]:
    last: OrderedDict[int, None] = OrderedDict()
    for key in keys:
        yield key in last
        last[key] = None
        last.move_to_end(key)
        if len(last) > window:
            last.popitem(last=False)


def _cache(window: int) -> tuple[None, Check]:
    from cachetools import LRUCache

    last: Any = LRUCache(window)

    def check(keys: Iterable[int]) -> Iterator[bool]:
        for key in keys:
            yield key in last
            last[key] = None

    return None, check


def _two_rblooms(window: int, rate: float) -> tuple[int, Check]:
    from rbloom import Bloom

    filters = Bloom(window, rate), Bloom(window, rate)

    def check(keys: Iterable[Any]) -> Iterator[bool]:
        young, old = filters
        filled = 0
        for key in keys:
            yield key in young or key in old
            if filled == window:
                young, old = old, young
                young.clear()
                filled = 0
            filled += 1
            young.add(key)

    return 2 * filters[0].size_in_bits, check


def _two_fastblooms(window: int, rate: float) -> tuple[int, Check]:
    from fastbloom_rs import FilterBuilder

    filters = [FilterBuilder(window, rate).build_bloom_filter() for _ in range(2)]

    def check(keys: Iterable[int]) -> Iterator[bool]:
        young, old = filters
        filled = 0
        for key in keys:
            yield young.contains_int(key) or old.contains_int(key)
            if filled == window:
                young, old = old, young
                young.clear()
                filled = 0
            filled += 1
            young.add_int(key)

    return 2 * 8 * len(filters[0].get_bytes()), check


def _rotating(window: int, rate: float) -> tuple[int, Check]:
    from probables import BloomFilter, RotatingBloomFilter

    model = RotatingBloomFilter(est_elements=window, false_positive_rate=rate, max_queue_size=2)

    def check(keys: Iterable[bytes]) -> Iterator[bool]:
        for key in keys:
            yield model.check(key)
            model.add(key, force=True)

    half = BloomFilter(est_elements=window, false_positive_rate=rate)
    return 2 * half.number_bits, check


def longest_calls(window: int) -> dict[str, float]:
    """Time 2,000 calls to a GEBF, one of which shifts the ring.

    Returns the longest and the median CPU time of a call.
    """
    model = GEBF.for_window(window)
    random = np.random.default_rng(1)
    before = model.generation - 1000
    for start in range(0, before, CHUNK):
        model.insert(random.integers(0, 1 << 63, min(CHUNK, before - start), np.uint64))
    calls, shifts = [], model.shifts
    for key in random.integers(0, 1 << 63, 2000, np.uint64).tolist():
        began = time.thread_time_ns()
        model.check_and_insert(key)
        calls.append(time.thread_time_ns() - began)
    if model.shifts != shifts + 1:
        raise AssertionError("one of the calls must shift the ring")
    return {"longest_ms": max(calls) / 1e6, "median_ms": statistics.median(calls) / 1e6}


def points(
    *,
    window: int = 20_000,
    bits_per_key: int = 14,
    keys: int = 2_000_000,
    rounds: int = 5,
    seed: int = 1,
    turning: int = 100_000_000,
) -> list[Point]:
    return [{"window": window, "bits_per_key": bits_per_key, "keys": keys,
             "rounds": rounds, "seed": seed, "turning": turning}]  # fmt: skip


def run(point: Point) -> Result:
    window = point["window"]
    stream = draw_stream(point["keys"], window, point["seed"])
    bits = window * point["bits_per_key"]
    contestants = [*ours(window, bits), *peers(window, bits)]
    taken: dict[Contestant, list[dict[str, Any]]] = {contestant: [] for contestant in contestants}
    for number in range(point["rounds"]):
        for done, (contestant, results) in enumerate(taken.items()):
            tell(f"round {number + 1}, {contestant.name}", done / len(taken))
            results.append(take(contestant, stream))
    filters = []
    for contestant, results in taken.items():
        rates = [result["keys"] / max(result.pop("seconds"), 1e-9) for result in results]
        counts = results[0]
        rate = counts["false_positives"] / counts["fresh"] if counts["fresh"] else None
        measured = {"keys_per_second": statistics.median(rates), "range": [min(rates), max(rates)]}
        filters.append(
            {"filter": contestant.name, "call": contestant.call, "false_positive_rate": rate}
            | counts | measured
            | {"touched": contestant.touched() if contestant.touched else None}
        )  # fmt: skip
    return {
        "filters": filters,
        "turn": longest_calls(point["turning"]),
        "missing": missing(),
        "processor": processor(),
    }


def rows(records: Records) -> list[dict[str, object]]:
    for name in dict.fromkeys(name for record in records for name in record.result["missing"]):
        print(f"{LIBRARIES[name]} is not installed; it is in the extra bench", file=sys.stderr)
    return [
        {"filter": row["filter"], "call": row["call"],
         "M keys/s": f"{row['keys_per_second'] / 1e6:.2f}",
         "false positives": row["false_positive_rate"],
         "false negatives": row["false_negatives"], "bits": row["memory_bits"]}
        for record in records
        for row in record.result["filters"]
    ]  # fmt: skip


TOOLS = ("numpy", *LIBRARIES.values())

GOLDEN = Campaign(
    name="golden",
    about="""Compare the speed of the golden models with filters of other libraries.

    All filters process the same stream, one filter after another in each round. Every tenth key is
    a repeat within the window. Ratios apply to other machines too; absolute figures do not.
    """,
    packages=("lately.golden", "campaigns"),
    tools=TOOLS,
    points=points,
    run=run,
    label=lambda point: f"window {point['window']:,}",
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
) -> list[Point]:
    return [
        {"model": name, "window": window, "bits_per_key": bits_per_key,
         "insertions": insertions, "queries": queries, "seed": seed}
        for name in select(model, models(window, window * bits_per_key))
    ]  # fmt: skip


def run_stream(point: Point) -> Result:
    window, insertions, queries = (point[name] for name in ("window", "insertions", "queries"))
    filter = models(window, window * point["bits_per_key"])[point["model"]]()
    before = peak_bytes()
    began = time.process_time()
    parts = []
    for number in range(PARTS):
        begin, end = (insertions * at // PARTS for at in (number, number + 1))
        asked = queries * (number + 1) // PARTS - queries * number // PARTS
        tell(f"{begin:,} insertions", number / PARTS)
        parts.append(_part(filter, window, range(begin, end), asked, point["seed"]))
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
    filter: SlidingFilter, window: int, insertions: range, queries: int, seed: int
) -> dict[str, Any]:
    counts = ("queries_of_the_window", "queries_of_others", "false_negatives", "false_positives")
    figures = {"cpu_seconds": 0.0, "insertions": len(insertions)} | dict.fromkeys(counts, 0)
    recent = np.empty(0, np.uint64)
    for start in insertions[::CHUNK]:
        stop = min(start + CHUNK, insertions.stop)
        random = np.random.default_rng([seed, start])
        keys = random.integers(0, 1 << 64, stop - start, np.uint64)
        done = [queries * (at - insertions.start) // len(insertions) for at in (start, stop)]
        fresh = random.integers(0, 1 << 64, done[1] - done[0], np.uint64)
        recent = np.concatenate([recent, keys])[-window:]
        known = recent[random.integers(0, len(recent), len(fresh) - len(fresh) // 2)]
        fresh = fresh[: len(fresh) // 2]
        began = time.process_time()
        filter.insert(keys)
        answers = filter.query(np.concatenate([known, fresh]))
        figures["cpu_seconds"] += time.process_time() - began
        figures["queries_of_the_window"] += len(known)
        figures["queries_of_others"] += len(fresh)
        figures["false_negatives"] += int((~answers[: len(known)]).sum())
        figures["false_positives"] += int(answers[len(known) :].sum())
    return figures | {"peak_bytes": peak_bytes()}


STREAM = Campaign(
    name="stream",
    about="""Insert and query a long stream; measure CPU time and memory of each tenth.

    Keys are random and drawn in batches. Half of the queries are for keys in the window, all of
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
    rows=lambda records: [
        {"part": number} | part
        for record in records
        for number, part in enumerate(record.result["parts"], 1)
    ],
)


# A window of Boost filters

BOOST_FILTERS = 5  # number of Boost filters in a window: four full generations, and the current one
WINDOWS = (20_000, 10**6, 10**7)
BITS = {0.01: (18.0, 15.7, 9), 0.001: (28.0, 21.3, 12)}
"""By rate: bits per key of Boost and the blocked ring, then bits per key and hashes of the GEBF."""

CheckBatch = Callable[[NDArray[np.uint64]], NDArray[np.bool_]]

_SIZE = ctypes.c_size_t
_FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")
_SINGLE = """\
#include "ring.h"
static ring_filter filter;
void start(void) { ring_init(&filter); }
void single(const uint64_t *keys, size_t count, uint8_t *seen) {
    for (size_t i = 0; i < count; i++) {
        seen[i] = (uint8_t)ring_check_and_insert(&filter, keys[i]);
    }
}
"""


def boost_include() -> str | None:
    folders = [os.environ.get("BOOST_INCLUDE", ""), "/usr/include", "/usr/local/include"]
    return next((path for path in folders if path and Path(path, "boost/bloom.hpp").exists()), None)


def _compiled(compiler: str, source: Path, *options: str) -> ctypes.CDLL:
    with TemporaryDirectory() as folder:
        library = Path(folder, "library.so")
        subprocess.run([compiler, *_FLAGS, *options, str(source), "-o", library], check=True)
        return ctypes.CDLL(str(library))


def _check(function: Callable[..., None], *model: ctypes.c_void_p) -> CheckBatch:
    def check(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        seen = np.empty(len(keys), np.bool_)
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in (keys, seen))
        function(*model, next(pointers), _SIZE(len(keys)), next(pointers))
        return seen

    return check


def boost(window: int, bits_per_key: float) -> tuple[int, CheckBatch]:
    source = Path(__file__).with_name("rolling_filter.cpp")
    library = _compiled("g++", source, "-std=c++17", f"-I{boost_include()}")
    library.rolling_new.restype = ctypes.c_void_p
    library.rolling_bits.restype = _SIZE
    generation = -(-window // (BOOST_FILTERS - 1))
    sizes = (_SIZE(generation), _SIZE(BOOST_FILTERS), _SIZE(int(window * bits_per_key)))
    model = ctypes.c_void_p(library.rolling_new(*sizes))
    return library.rolling_bits(model), _check(library.rolling_check_and_insert, model)


def single(spec: GuardedEpochSpec) -> tuple[int, CheckBatch]:
    with TemporaryDirectory() as folder:
        Path(folder, "ring.h").write_text(c_header.header(spec, "ring"), "utf-8")
        (source := Path(folder, "single.c")).write_text(_SINGLE, "utf-8")
        library = _compiled("gcc", source, "-std=c99", f"-I{folder}")
    library.start()
    return spec.memory_bits, _check(library.single)


def contestants(window: int, rate: float) -> dict[tuple[str, str], tuple[int, CheckBatch]]:
    per_key, gebf_bits, hashes = BITS[rate]
    blocked = BlockedGEBFSpec(
        window=window, epochs=4, hashes=8, bits=int(window * per_key), block_bits=256
    )
    gebf = GEBFSpec(window=window, epochs=6, hashes=hashes, bits=int(window * gebf_bits))
    every: dict[tuple[str, str], tuple[int, CheckBatch]] = {}
    if boost_include():
        name = f"Boost, {BOOST_FILTERS} filters, `fast_multiblock32`"
        every[name, "C++, one key"] = boost(window, per_key)
    names = {BlockedGEBF: "`BlockedGEBF`, k = 8, B = 256", GEBF: f"`GEBF`, k = {hashes}"}
    for kind, spec in ((BlockedGEBF, blocked), (GEBF, gebf)):
        model = kind.from_spec(spec)
        every[names[kind], "Python, batch"] = spec.memory_bits, model.check_and_insert
    every[names[BlockedGEBF], "C, one key"] = single(blocked)
    return every


def rolling_points(*, keys: int = 2_000_000, rounds: int = 7, seed: int = 1) -> list[Point]:
    return [
        {"window": window, "rate": rate, "keys": keys, "rounds": rounds, "seed": seed}
        for window in WINDOWS
        for rate in BITS
    ]


def run_rolling(point: Point) -> Result:
    window, count = point["window"], point["keys"]
    full = 2 * window
    stream = draw_stream(full + point["rounds"] * count, window, point["seed"])
    filters = contestants(window, point["rate"])
    rounds: dict[tuple[str, str], list[tuple[float, ...]]] = {name: [] for name in filters}
    for number in range(-1, point["rounds"]):
        tell(f"round {number + 1}", (number + 1) / point["rounds"])
        begin = full + number * count if number >= 0 else 0
        end = full + (number + 1) * count
        keys, repeated = stream.keys[begin:end], stream.repeated[begin:end]
        for name, (_, check) in filters.items():
            began = time.process_time_ns()
            parts = [check(keys[at : at + BATCH]) for at in range(0, len(keys), BATCH)]
            taken = time.process_time_ns() - began
            if number >= 0:
                seen = np.concatenate(parts)
                wrong = (seen & ~repeated).sum(), (repeated & ~seen).sum()
                rounds[name].append((taken / count, *map(int, wrong)))
    fresh = int(np.count_nonzero(~stream.repeated[full:]))
    rows = []
    for (title, call), (bits, _) in filters.items():
        times, positives, negatives = zip(*rounds[title, call], strict=True)
        rows.append({
            "filter": title, "call": call, "bits_per_key": bits / window,
            "ns": statistics.median(times), "range": [min(times), max(times)],
            "false_positive_rate": sum(positives) / fresh, "false_negatives": sum(negatives),
        })  # fmt: skip
    return {"filters": rows, "processor": processor()}


def rolling_rows(records: Records) -> list[dict[str, object]]:
    if not boost_include():
        print("Boost 1.89 not found; set $BOOST_INCLUDE to the folder of its headers",
              file=sys.stderr)  # fmt: skip
    return [
        {"window": record.point["window"], "rate": record.point["rate"], "filter": row["filter"],
         "call": row["call"], "bits per key": f"{row['bits_per_key']:.1f}",
         "ns": f"{row['ns']:.2f}", "false positives": row["false_positive_rate"],
         "false negatives": row["false_negatives"]}
        for record in records
        for row in record.result["filters"]
    ]  # fmt: skip


ROLLING = Campaign(
    name="rolling",
    about="""Compare the speed of rings with a window of Boost.Bloom filters.

    All filters process the same stream, one after another in each round, with the same number of
    bits per key. Ratios apply to other machines too; absolute figures do not.
    """,
    packages=("lately.golden", "campaigns"),
    points=rolling_points,
    run=run_rolling,
    label=lambda point: f"window {point['window']:,}, rate {point['rate']}",
    wrong=lambda result: (
        f"{row['filter']}: {row['false_negatives']} false negatives"
        for row in result["filters"]
        if row["false_negatives"]
    ),
    rows=rolling_rows,
)
