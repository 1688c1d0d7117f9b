"""Speed of the product: compiled replay, lanes, and deduplication beside editcap."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import FilterSpec, Specification, any_preset, from_spec, preset
from lately.golden.hash.digests import KeyDigest
from lately.golden.hash.key_forms import octets
from lately.golden.hash.keys import random_keys
from lately.golden.ring.layout import Layout
from lately.replay.traces import open_trace

from .engine import Campaign, Point, Result, mismatches
from .machine import processor, run_program

# Lanes

SEED = 1  # seed of the random keys
HOT = 0.5  # share of the operations of the stream `hot key` that are on one key


def drawn_streams(
    operations: int, specs: Iterable[FilterSpec] = ()
) -> dict[str, NDArray[np.uint64]]:
    """Return streams of 64-bit keys that no file holds."""
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


@cache
def stream_keys(name: str, operations: int, units: tuple[str, ...]) -> NDArray[np.uint64]:
    """Return the keys of a stream: one of `drawn_streams`, or the keys of a file."""
    drawn = drawn_streams(operations, map(preset, units))
    if name in drawn:
        return drawn[name]
    with open_trace(name) as trace:
        return KeyDigest(64).of_bytes([octets(text) for text, _ in trace])[:, 0]


def lane_points(
    *,
    preset: tuple[str, ...] = ("default", "two-lanes", "four-lanes"),
    trace: tuple[str, ...] = ("examples/flights_2013.csv.gz",),
    operations: int = 1_000_000,
    quick: bool = False,
) -> list[Point]:
    """Return a point for each unit and stream."""
    names = ("random", "hot key", "one key", "one shard", *trace)
    return [
        {"unit": unit, "stream": name, "operations": 20_000 if quick else operations,
         "units": [*preset]}
        for unit in preset
        for name in names
    ]  # fmt: skip


def run_lanes(point: Point) -> Result:
    """Check and insert a stream with all lanes full, beside golden; count operations per cycle.

    The unit has keys of 64 bits. It is reset and clears itself first, which is not counted.
    """
    from lately.sim import compiled_unit

    spec = preset(point["unit"])
    keys = stream_keys(point["stream"], point["operations"], tuple(point["units"]))
    with compiled_unit(spec) as unit:
        unit.reset()
        unit.idle(unit.profile.clear_cycles + unit.profile.latency)
        before = unit.cycles
        seen = unit.check_and_insert(keys)
        cycles = unit.cycles - before
    return {
        "operations": len(keys),
        "cycles": cycles,
        "operations_per_cycle": len(keys) / cycles,
        "mismatches": int((seen != from_spec(spec).check_and_insert(keys)).sum()),
    }


LANES = Campaign(
    name="lanes",
    about="""Count the operations per cycle of units with one lane and with several.

    Keys are checked and inserted with all lanes full. The streams are random keys, random keys of
    which half are one hot key, a single key, the keys of a single shard, and traces. Every verdict
    is compared with the golden model.
    """,
    packages=("lately.golden", "lately.hdl", "lately.sim"),
    tools=("numpy", "amaranth", "verilator"),
    points=lane_points,
    run=run_lanes,
    label=lambda point: f"{point['unit']}, {os.path.basename(point['stream'])}",
    wrong=mismatches,
)


# Replay


def replay_points(
    *,
    preset: tuple[str, ...] = ("default",),
    spec: str = "",
    operations: int = 1_000_000,
    rounds: int = 5,
    quick: bool = False,
) -> list[Point]:
    """Return a point for each unit."""
    filters = {os.path.basename(spec): Specification.from_toml(spec)} if spec else {}
    filters |= {name: any_preset(name) for name in preset if not spec or name != "default"}
    count = operations // 100 if quick else operations
    return [
        {"unit": name, "spec": one.to_dict(), "operations": count, "rounds": rounds}
        for name, one in filters.items()
    ]


def run_replay(point: Point) -> Result:
    """Time the compiled replay and the golden model in turn, on random keys.

    Each has several rounds of as many check-and-inserts. The medians are compared.
    """
    from lately.sim import compiled_unit

    spec = Specification.from_dict(point["spec"])
    operations, rounds = point["operations"], point["rounds"]
    random = np.random.default_rng(SEED)
    golden: Any = from_spec(spec)
    # The time of a window in time does not advance.
    now = [np.zeros(operations, np.int64)] if spec.timed else []
    began = time.perf_counter()
    with compiled_unit(spec) as unit:
        opened = time.perf_counter() - began
        rates: dict[str, list[float]] = {"replay": [], "golden": []}
        wrong = 0
        for _ in range(rounds):
            keys = random_keys(random, operations, spec.key_bits)
            seen, seconds = _timed(unit.check_and_insert, keys)
            rates["replay"].append(operations / seconds)
            expected, seconds = _timed(golden.check_and_insert, keys, *now)
            rates["golden"].append(operations / seconds)
            wrong += int((seen != expected).sum())
        cycles = unit.cycles
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "mismatches": wrong,
        "cycles_per_operation": cycles / (operations * rounds),
        "open_seconds": opened,
        **{f"{name}_operations_per_second": rate for name, rate in medians.items()},
        "ratio": medians["replay"] / medians["golden"],
        "range": {name: [min(values), max(values)] for name, values in rates.items()},
    }


def _timed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    result = call(*arguments)
    return result, time.perf_counter() - began


REPLAY = Campaign(
    name="replay",
    about="""Time the compiled replay and the golden model in turn, on the same random keys.

    The ratio carries over to other machines; the single figures do not.
    """,
    packages=("lately.golden", "lately.hdl", "lately.sim"),
    tools=("numpy", "amaranth", "verilator"),
    points=replay_points,
    run=run_replay,
    label=lambda point: point["unit"],
    wrong=mismatches,
    worse=lambda now, before: (),
)


# Deduplication

SPAN = "5ms"  # span in which copies are looked for; `WINDOW` packets come in it
WINDOW = 1000  # packets among which `editcap -D` looks for copies, and the filter keeps at least
RATE = 200_000.0  # packets per second of each tap

STREAMS = {"equal frames": 0, "a router between the taps": 1}
"""Routers between the taps of each stream."""

_LATELY = (sys.executable, "-c", "from lately.cli.app import main; main()", "dedup", "IN", "OUT")
_OURS = ("--span", SPAN, "--window", str(WINDOW))
_SECONDS = str(int(SPAN.removesuffix("ms")) / 1000)


PROGRAMS: Mapping[str, Sequence[str]] = {
    "lately dedup": (*_LATELY, *_OURS),
    "lately dedup --fields frame": (*_LATELY, *_OURS, "--fields", "frame"),
    "lately dedup --inner": (*_LATELY, *_OURS, "--inner"),
    "lately dedup --jobs 2": (*_LATELY, *_OURS, "--jobs", "2"),
    "tcpdump -r -w, which drops nothing": ("tcpdump", "-r", "IN", "-w", "OUT"),
    "editcap -D 100": ("editcap", "-D", "100", "IN", "OUT"),
    f"editcap -D {WINDOW}": ("editcap", "-D", str(WINDOW), "IN", "OUT"),
    f"editcap -w {_SECONDS}": ("editcap", "-w", _SECONDS, "IN", "OUT"),
}
"""Commands that are measured, by name. IN and OUT stand for the files."""


def dedup_points(
    *, packets: int = 500_000, rounds: int = 1, seed: int = 1, quick: bool = False
) -> list[Point]:
    """Return a point for each installed program and each stream."""
    count = packets // 50 if quick else packets
    return [
        {"program": program, "stream": name, "packets": count, "rounds": rounds, "seed": seed}
        for name in STREAMS
        for program, command in PROGRAMS.items()
        if shutil.which(command[0])
    ]


def run_dedup(point: Point) -> Result:
    """Deduplicate a stream of two taps with a program; of several rounds, the fastest counts."""
    # Captures need the extra of compiled loops, and other campaigns do not.
    from lately.captures.made_packets import MadePackets
    from lately.captures.two_taps import Taps, tap

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "taps.pcap"
        with path.open("wb") as file:
            packets = MadePackets(point["packets"], rate=RATE, seed=point["seed"])
            made = tap(packets, file, Taps(hops=STREAMS[point["stream"]]))
        found = [_run(PROGRAMS[point["program"]], path) for _ in range(point["rounds"])]
    best = min(found, key=lambda run: run["cpu_seconds"])
    total = made.first + made.second
    return best | {
        "packets": total,
        "copies": made.copies,
        "dropped": total - best.pop("kept"),
        "packets_per_second": total / best["cpu_seconds"],
        "processor": processor(),
        "editcap": _version(),
    }


def _run(program: Sequence[str], path: Path) -> dict[str, Any]:
    from lately.captures.capture_reader import CaptureReader

    output = path.with_name("unique.pcap")
    files = {"IN": str(path), "OUT": str(output)}
    command = [files.get(word, word) for word in program]
    began = time.perf_counter()
    used = run_program(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    with CaptureReader(output) as capture:
        while capture.read() is not None:
            pass
        return used | {"seconds": seconds, "kept": capture.packets}


def _version() -> str | None:
    if not shutil.which("editcap"):
        return None
    text = subprocess.run(["editcap", "--version"], capture_output=True, text=True).stdout
    match = re.search(r"\d+\.\d+\.\d+", text)
    return match[0] if match else None


DEDUP = Campaign(
    name="dedup",
    about="""Deduplicate captures of two taps beside editcap.

    The frames of both taps are equal, or a router is between the taps. `lately dedup` runs beside
    editcap, of Wireshark, if it is installed. The figures are dropped packets, and packets per
    second of CPU time, with the start of the programs.
    """,
    packages=("lately.golden", "lately"),
    points=dedup_points,
    run=run_dedup,
    label=lambda point: f"{point['program']}, {point['stream']}",
    worse=lambda now, before: (),
)
