"""Compares the speed of rings with a window of Boost.Bloom filters."""

import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from lately.golden import GEBF, BlockedGEBF, c_header
from lately.golden.spec import BlockedGEBFSpec, GEBFSpec
from lately.golden.spec.ring import GuardedEpochSpec

from .engine import Campaign, Point, Records, Result
from .golden_speed import BATCH, draw_stream
from .speed import processor
from .workers import tell

FILTERS = 5  # number of Boost filters in a window: four full generations, and the current one
WINDOWS = (20_000, 10**6, 10**7)
BITS = {0.01: (18.0, 15.7, 9), 0.001: (28.0, 21.3, 12)}
"""By rate: bits per key of Boost and the blocked ring, then bits per key and hashes of the GEBF."""

Check = Callable[[NDArray[np.uint64]], NDArray[np.bool_]]

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


def _check(function: Callable[..., None], *model: ctypes.c_void_p) -> Check:
    def check(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        seen = np.empty(len(keys), np.bool_)
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in (keys, seen))
        function(*model, next(pointers), _SIZE(len(keys)), next(pointers))
        return seen

    return check


@cache
def _boost() -> ctypes.CDLL:
    source = Path(__file__).with_name("rolling_filter.cpp")
    library = _compiled("g++", source, "-std=c++17", f"-I{boost_include()}")
    library.rolling_new.restype = ctypes.c_void_p
    library.rolling_bits.restype = _SIZE
    return library


def boost(window: int, bits_per_key: float) -> tuple[int, Check]:
    library, generation = _boost(), -(-window // (FILTERS - 1))
    sizes = (_SIZE(generation), _SIZE(FILTERS), _SIZE(int(window * bits_per_key)))
    model = ctypes.c_void_p(library.rolling_new(*sizes))
    return library.rolling_bits(model), _check(library.rolling_check_and_insert, model)


def single(spec: GuardedEpochSpec) -> tuple[int, Check]:
    with TemporaryDirectory() as folder:
        Path(folder, "ring.h").write_text(c_header.header(spec, "ring"), "utf-8")
        (source := Path(folder, "single.c")).write_text(_SINGLE, "utf-8")
        library = _compiled("gcc", source, "-std=c99", f"-I{folder}")
    library.start()
    return spec.memory_bits, _check(library.single)


def contestants(window: int, rate: float) -> dict[tuple[str, str], tuple[int, Check]]:
    per_key, gebf_bits, hashes = BITS[rate]
    blocked = BlockedGEBFSpec(
        window=window, epochs=4, hashes=8, bits=int(window * per_key), block_bits=256
    )
    gebf = GEBFSpec(window=window, epochs=6, hashes=hashes, bits=int(window * gebf_bits))
    every: dict[tuple[str, str], tuple[int, Check]] = {}
    if boost_include():
        name = f"Boost, {FILTERS} filters, `fast_multiblock32`"
        every[name, "C++, one key"] = boost(window, per_key)
    names = {BlockedGEBF: "`BlockedGEBF`, k = 8, B = 256", GEBF: f"`GEBF`, k = {hashes}"}
    for kind, spec in ((BlockedGEBF, blocked), (GEBF, gebf)):
        model = kind.from_spec(spec)
        every[names[kind], "Python, batch"] = spec.memory_bits, model.check_and_insert
    every[names[BlockedGEBF], "C, one key"] = single(blocked)
    return every


def points(*, keys: int = 2_000_000, rounds: int = 7, seed: int = 1) -> list[Point]:
    return [
        {"window": window, "rate": rate, "keys": keys, "rounds": rounds, "seed": seed}
        for window in WINDOWS
        for rate in BITS
    ]


def run(point: Point) -> Result:
    window, count = point["window"], point["keys"]
    full = 2 * window
    stream = draw_stream(full + point["rounds"] * count, window, point["seed"])
    filters = contestants(window, point["rate"])
    times: dict[tuple[str, str], list[float]] = {name: [] for name in filters}
    wrong = {name: [0, 0] for name in filters}
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
                times[name].append(taken / count)
                wrong[name][0] += int(np.count_nonzero(seen & ~repeated))
                wrong[name][1] += int(np.count_nonzero(repeated & ~seen))
    fresh = int(np.count_nonzero(~stream.repeated[full:]))
    return {
        "filters": [
            {
                "filter": name, "call": call, "bits_per_key": bits / window,
                "ns": statistics.median(times[name, call]),
                "range": [min(times[name, call]), max(times[name, call])],
                "false_positive_rate": wrong[name, call][0] / fresh,
                "false_negatives": wrong[name, call][1],
            }
            for (name, call), (bits, _) in filters.items()
        ],
        "processor": processor(),
    }  # fmt: skip


def rows(records: Records) -> list[dict[str, object]]:
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
    points=points,
    run=run,
    label=lambda point: f"window {point['window']:,}, rate {point['rate']}",
    wrong=lambda result: (
        f"{row['filter']}: {row['false_negatives']} false negatives"
        for row in result["filters"]
        if row["false_negatives"]
    ),
    rows=rows,
)
