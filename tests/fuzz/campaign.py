"""Damaged inputs by the million: each parser in a process of its own, which may crash or hang."""

import json
import multiprocessing
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .parsers import PARSERS, REFUSALS, Parser

SLOW = 5.0
"""Seconds for one input."""

SILENT = 60.0
"""Seconds after its end at which a process counts as hung."""

MEMORY = 1 << 30
"""Bytes that parsing may use in addition to the memory of the process."""

BLOCK = 200
"""Inputs that are drawn from one seed."""


@dataclass
class Count:
    """Number of inputs of a parser and of refused inputs, and the first failure.

    Attributes
    ----------
    failure : str
        Error, with the input in hexadecimal.
    """

    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    failure: str = ""


class _SlowError(BaseException):
    """An input took too long; a parser must not handle this error."""


def inputs(name: str, parser: Parser, seed: int, block: int) -> Iterator[bytes]:
    """Draw the inputs of a block; a seed always draws the same inputs."""
    draw = random.Random(f"{seed}/{name}/{block}")
    samples = _samples(parser)
    for _ in range(BLOCK):
        yield parser.draw(draw, samples)


@cache
def _samples(parser: Parser) -> list[bytes]:
    return parser.samples()


def try_input(parser: Parser, data: bytes) -> tuple[bool, str]:
    """Return whether an input was refused, and the failure, if there is one."""
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
    """Try blocks of inputs while `wanted` returns true, or until an input fails."""
    count, began = Count(), time.monotonic()
    while wanted(count):
        for data in inputs(name, parser, seed, count.inputs // BLOCK):
            refused, failure = try_input(parser, data)
            count.inputs += 1
            count.refused += refused
            if failure:
                count.failure = f"{failure} <- {data.hex()}"
                return count
        count.seconds = time.monotonic() - began
    return count


def limit() -> None:
    """Make slow inputs and inputs that use much memory fail, in this process."""

    def stop(*_: object) -> None:
        raise _SlowError

    signal.signal(signal.SIGALRM, stop)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit_bytes = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


def run_parser(
    name: str, *, seed: int, count: int, seconds: float, silent: float = SILENT
) -> Count:
    """Try up to `count` inputs of a parser, for some seconds."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    block = fork.Value("q", 0)

    def work() -> None:
        parser = PARSERS[name]
        # Modules that are loaded late must not count as memory of an input.
        for sample in _samples(parser):
            parser.parse(parser.seal(sample))
        limit()

        def wanted(tally: Count) -> bool:
            block.value = tally.inputs // BLOCK
            return tally.inputs < count and tally.seconds < seconds

        theirs.send(run_blocks(name, parser, seed, wanted))

    process = fork.Process(target=work)
    process.start()
    theirs.close()
    try:
        if ours.poll(seconds + silent):
            return ours.recv()
        failure = f"no end after {silent} s"
    except EOFError:
        process.join(10)
        failure = f"the process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()
        ours.close()
    return Count(failure=f"{failure} <- an input of block {block.value} of seed {seed}")


def record(path: Path, name: str, seed: int, tally: Count) -> None:
    """Add the count of a parser to a file of counts."""
    counts: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"parsers": {}}
    before = counts["parsers"].get(name, {"inputs": 0, "refused": 0, "seconds": 0.0, "seeds": []})
    if seed in before["seeds"]:
        raise ValueError(f"seed: must be new for {name}, not {seed}")
    counts["parsers"][name] = {
        "inputs": before["inputs"] + tally.inputs,
        "refused": before["refused"] + tally.refused,
        "seconds": round(before["seconds"] + tally.seconds, 1),
        "seeds": [*before["seeds"], seed],
    }
    counts["inputs"] = sum(each["inputs"] for each in counts["parsers"].values())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(counts, indent=1) + "\n")
