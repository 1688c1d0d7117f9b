"""The machine that a measurement ran on, and what programs take of it."""

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def processor() -> str:
    """Name of the processor, as the system reports it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as source:
            names = [line.partition(":")[2].strip() for line in source if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def peak_bytes() -> int:
    """Most memory that this process has had at a time."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def run_program(command: Sequence[str], **streams: Any) -> dict[str, float]:
    """Run a program; return the CPU time of all its processes, and its largest memory."""
    process = subprocess.Popen(command, **streams)
    ended, largest = 0, 0
    while not ended:
        # The largest memory that the system reports at the end is that before the start, too.
        status = Path(f"/proc/{process.pid}/status").read_text()
        if (found := re.search(r"VmHWM:\s+(\d+) kB", status)) is not None:
            largest = max(largest, int(found[1]) * 1024)
        time.sleep(0.02)
        ended, code, used = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return {"cpu_seconds": used.ru_utime + used.ru_stime, "memory_bytes": largest}
