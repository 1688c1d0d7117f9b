"""The machine that a measurement ran on."""

import platform
import sys


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
