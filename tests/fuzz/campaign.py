"""Damaged inputs by the million: each parser in a process of its own, which may crash or hang."""

import json
import multiprocessing
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .parsers import PARSERS, REFUSALS, Parser

SLOW = 5.0
"""Seconds within which an input is read or refused."""

SILENT = 60.0
"""Seconds without a word after which a process counts as hung."""

MEMORY = 1 << 30
"""Bytes that parsing may take beside what the process has."""

BLOCK = 200
"""Inputs that are drawn from one seed."""


@dataclass
class Count:
    """Inputs of a parser: how many, how many of them were refused, and what failed."""

    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    failure: str = ""
    """Error, with the input in hexadecimal."""


class _SlowError(BaseException):
    """An input took too long; no parser may take this for an error of its own."""


def inputs(name: str, parser: Parser, seed: int, block: int) -> Iterator[bytes]:
    """Draw the inputs of a block, again and again the same."""
    draw = random.Random(f"{seed}/{name}/{block}")
    samples = _samples(parser)
    for _ in range(BLOCK):
        yield parser.draw(draw, samples)


@cache
def _samples(parser: Parser) -> list[bytes]:
    return parser.samples()


def try_input(parser: Parser, data: bytes) -> tuple[bool, str]:
    """Return whether an input was refused, and what was wrong with how, if anything."""
    signal.setitimer(signal.ITIMER_REAL, SLOW)
    try:
        parser.parse(data)
    except REFUSALS as error:
        lines = str(error).splitlines()
        return True, "" if len(lines) == 1 and lines[0] else f"{len(lines)} lines: {error}"
    except _SlowError:
        return False, f"took more than {SLOW} s"
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False, ""


def run_blocks(name: str, parser: Parser, seed: int, wanted: Callable[[Count], bool]) -> Count:
    """Try blocks of inputs as long as that is `wanted`, or until one fails."""
    count, began = Count(), time.monotonic()
    block = 0
    while not count.failure and wanted(count):
        for data in inputs(name, parser, seed, block):
            refused, failure = try_input(parser, data)
            count.inputs += 1
            count.refused += refused
            if failure:
                count.failure = f"{failure} <- {data.hex()}"
                break
        block += 1
        count.seconds = time.monotonic() - began
    return count


def limit() -> None:
    """Have slow inputs and those that take much memory fail, in this process."""

    def stop(*_: object) -> None:
        raise _SlowError

    signal.signal(signal.SIGALRM, stop)
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _work(name: str, seed: int, count: int, seconds: float, told: Connection) -> None:
    parser = PARSERS[name]
    # What is loaded late must not count as memory of an input.
    for sample in _samples(parser):
        parser.parse(parser.seal(sample))
    limit()

    def wanted(found: Count) -> bool:
        told.send(asdict(found))
        return found.inputs < count and found.seconds < seconds

    told.send(asdict(run_blocks(name, parser, seed, wanted)))


def run_parser(
    name: str, *, seed: int, count: int, seconds: float, silent: float = SILENT
) -> Count:
    """Give a parser so many inputs, or as many as it takes in some time."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    arguments = (name, seed, count, seconds, theirs)
    process = multiprocessing.get_context("fork").Process(target=_work, args=arguments)
    process.start()
    theirs.close()
    found = Count()
    try:
        while ours.poll(silent):
            found = Count(**ours.recv())
    except EOFError:
        process.join(10)
        if process.exitcode and not found.failure:
            found.failure = f"the process ended with {process.exitcode}"
        return found
    finally:
        process.kill()
        process.join()
        ours.close()
    block = found.inputs // BLOCK
    found.failure = f"nothing for {silent} s <- one of block {block} of seed {seed}"
    return found


def record(path: Path, name: str, seed: int, found: Count) -> None:
    """Add what was found of a parser to a file of counts."""
    counts: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"parsers": {}}
    before = counts["parsers"].get(name, {"inputs": 0, "refused": 0, "seconds": 0.0, "seeds": []})
    if seed in before["seeds"]:
        raise ValueError(f"seed: must be one that {name} has not had, not {seed}")
    counts["parsers"][name] = {
        "inputs": before["inputs"] + found.inputs,
        "refused": before["refused"] + found.refused,
        "seconds": round(before["seconds"] + found.seconds, 1),
        "seeds": [*before["seeds"], seed],
    }
    counts["inputs"] = sum(each["inputs"] for each in counts["parsers"].values())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(counts, indent=1) + "\n")
