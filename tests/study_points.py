"""Points that test_reproduction.py measures: apart from it, as each process imports this."""

import os
import signal
import time
from pathlib import Path

from lately.golden.errors import LatelyError


def squares(point):
    """Measure a point, once for each line of its log."""
    with open(point["log"], "a") as log:
        log.write(f"{point['number']}\n")
    return {"square": point["number"] ** 2, "pair": (1, 2)}


def dying(point):
    """Measure a point, with a process that dies at the first try, or always."""
    tried = Path(point["log"] + f".{point['number']}")
    if point["number"] == 2 and (point["always"] or not tried.exists()):
        tried.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return squares(point)


def failing(point):
    """Fail at one point."""
    if point["number"] == 2:
        raise LatelyError("no such stream")
    return squares(point)


def endless(point):
    """Infinity is nothing that JSON can hold."""
    return {"square": float("inf")}


def slow(point):
    """Take long, but for the first point."""
    if point["number"]:
        time.sleep(60)
    return squares(point)
