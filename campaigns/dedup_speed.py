"""How fast captures are deduplicated, and what is found, beside editcap of Wireshark."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lately.captures.capture_reader import CaptureReader
from lately.captures.made_packets import MadePackets
from lately.captures.two_taps import Taps, tap

from .machine import processor

SPAN = "5ms"
"""Span in which copies are looked for; `WINDOW` packets come in it."""

WINDOW = 1000
"""Packets among which `editcap -D` looks for copies, and the filter keeps at least."""

RATE = 200_000.0
"""Packets per second of each tap."""

STREAMS = {"equal frames": Taps(), "a router between the taps": Taps(hops=1)}
"""Streams of two taps by what they are."""

_LATELY = (sys.executable, "-c", "from lately.cli.app import main; main()", "dedup")
_OURS = ("--span", SPAN, "--window", str(WINDOW))
_SECONDS = str(int(SPAN.removesuffix("ms")) / 1000)


@dataclass(frozen=True)
class Contestant:
    """A program: its name for people, and its command before and after the two files."""

    name: str
    before: Sequence[str]
    after: Sequence[str] = ()


CONTESTANTS = (
    Contestant("lately dedup", _LATELY, _OURS),
    Contestant("lately dedup --fields frame", _LATELY, (*_OURS, "--fields", "frame")),
    Contestant(f"editcap -D {WINDOW}", ("editcap", "-D", str(WINDOW))),
    Contestant(f"editcap -w {_SECONDS}", ("editcap", "-w", _SECONDS)),
)
"""Programs that are measured."""


def measure(
    *,
    packets: int = 500_000,
    rounds: int = 1,
    seed: int = 1,
    progress: Callable[[str, str], None] = lambda name, stream: None,
) -> dict[str, Any]:
    """Deduplicate streams of two taps with each program.

    The streams are of `packets` random ones, drawn with a `seed`. Of several `rounds` the fastest
    counts. `progress` is called with the program and the stream that are next. Programs that are
    not installed are left out, and named.

    Returns
    -------
    dict
        For each program and stream: packets, copies among them, packets dropped, seconds of CPU
        and by the clock, both with the start of the program, and packets per second of CPU.
    """
    runs = []
    there = [one for one in CONTESTANTS if shutil.which(one.before[0])]
    with tempfile.TemporaryDirectory() as folder:
        for stream, taps in STREAMS.items():
            path = Path(folder) / "taps.pcap"
            with path.open("wb") as file:
                made = tap(MadePackets(packets, rate=RATE, seed=seed), file, taps)
            for one in there:
                progress(one.name, stream)
                found = [_run(one, path) for _ in range(rounds)]
                best = min(found, key=lambda run: run["cpu_seconds"])
                total = made.first + made.second
                best |= {"name": one.name, "stream": stream, "packets": total}
                best |= {"copies": made.copies, "dropped": total - best.pop("kept")}
                runs.append(best | {"packets_per_second": total / best["cpu_seconds"]})
    return {
        "runs": runs,
        "absent": sorted({one.before[0] for one in CONTESTANTS} - {one.before[0] for one in there}),
        "rounds": rounds,
        "seed": seed,
        "processor": processor(),
        "editcap": _version(),
    }


def _run(one: Contestant, path: Path) -> dict[str, Any]:
    output = path.with_name("unique.pcap")
    before = _cpu_seconds()
    began = time.perf_counter()
    command = [*one.before, str(path), str(output), *one.after]
    subprocess.run(command, check=True, capture_output=True)
    seconds, cpu = time.perf_counter() - began, _cpu_seconds() - before
    with CaptureReader(output) as capture:
        while capture.read() is not None:
            pass
        return {"cpu_seconds": cpu, "seconds": seconds, "kept": capture.packets}


def _cpu_seconds() -> float:
    """CPU time of the programs that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _version() -> str | None:
    if not shutil.which("editcap"):
        return None
    text = subprocess.run(["editcap", "--version"], capture_output=True, text=True).stdout
    match = re.search(r"\d+\.\d+\.\d+", text)
    return match[0] if match else None
