"""Points that test_reproduction.py measures: apart from it, as each process imports this."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from campaigns.workers import tell
from lately.golden.errors import LatelyError


def squares(point):
    """Measure a point, once for each line of its log."""
    with open(point["log"], "a") as log:
        log.write(f"{point['number']}\n")
    return {"square": point["number"] ** 2, "pair": (1, 2)}


def dying(point):
    """Measure a point, with a process that dies as often as the point says."""
    with open(f"{point['log']}.{point['number']}", "a+") as deaths:
        if deaths.write("x") and deaths.tell() <= point["deaths"]:
            deaths.close()
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


def held(point):
    """Wait until it is released, but for the first point; draw from its own seed."""
    with open(point["log"], "a") as log:
        log.write(f"{point['number']} {os.getpid()}\n")
    while point["number"] and not Path(point["log"] + ".released").exists():
        time.sleep(0.02)
    draws = np.random.default_rng(point["number"]).random(1000)
    return {"square": point["number"] ** 2, "pair": (1, 2), "mean": float(draws.mean())}


def telling(point):
    """Tell of two stages."""
    tell("first", 0.25)
    tell("second", 0.5)
    time.sleep(0.5)  # What is told after the result may be lost.
    return point
