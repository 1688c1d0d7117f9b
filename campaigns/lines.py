"""Lines without repeats: `lately uniq` beside awk, sort and a set."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .engine import Campaign, Point, Result
from .machine import processor, run_program

BACK = 900_000
"""Lines by which a repeat is back at most, fewer than `lately uniq` remembers by default."""

REPEATS = 0.29  # share of lines that repeat another line

_SET = (
    "import sys\nseen = set()\nfor line in sys.stdin.buffer:\n"
    " if line not in seen: seen.add(line); sys.stdout.buffer.write(line)"
)
PROGRAMS = {
    "lately uniq": (sys.executable, "-c", "from lately.cli.app import main; main()", "uniq"),
    "mawk '!seen[$0]++'": ("mawk", "!seen[$0]++"),
    "gawk '!seen[$0]++'": ("gawk", "!seen[$0]++"),
    "sort -u": ("sort", "-u"),
    "a Python set": (sys.executable, "-c", _SET),
}
"""Commands that read lines from standard input, by name."""

_CHUNK = 100_000


def line_points(*, lines: int = 10_000_000, seed: int = 1, quick: bool = False) -> list[Point]:
    """Return a point for each installed program."""
    count = lines // 100 if quick else lines
    return [
        {"program": name, "lines": count, "seed": seed}
        for name, command in PROGRAMS.items()
        if shutil.which(command[0])
    ]


def made_lines(count: int, seed: int) -> Iterator[bytes]:
    """Yield the lines of a stream, in chunks: `REPEATS` of them repeat one at most `BACK` back."""
    draw = np.random.default_rng(seed)
    fresh = _fresh(draw, count)
    back = np.minimum(draw.integers(1, BACK, count), np.arange(count)).tolist()
    numbers = np.cumsum(fresh).tolist()
    for place in np.flatnonzero(~fresh).tolist():
        numbers[place] = numbers[place - back[place]]
    for begin in range(0, count, _CHUNK):
        yield b"".join(
            b"10.%d.%d.%d GET /item/%08x/%d 200\n"
            % (n >> 16 & 255, n >> 8 & 255, n & 255, n * 2654435761 & 0xFFFFFFFF, n)
            for n in numbers[begin : begin + _CHUNK]
        )


def _fresh(draw: np.random.Generator, count: int) -> NDArray[np.bool_]:
    """Draw which lines repeat no other line; the first one never does."""
    fresh: NDArray[np.bool_] = draw.random(count) >= REPEATS
    fresh[0] = True
    return fresh


def run_lines(point: Point) -> Result:
    """Filter a stream with a program, and count CPU time, memory and the lines that are lost."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "lines", Path(folder) / "kept"
        with path.open("wb") as file:
            file.writelines(made_lines(point["lines"], point["seed"]))
        with path.open("rb") as source, output.open("wb") as sink:
            used = run_program(PROGRAMS[point["program"]], stdin=source, stdout=sink)
        # As many as fresh draws, each of which has a number of its own.
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
    about="""Filter lines with `lately uniq` beside awk, sort and a Python set.

    A share of the lines repeats an earlier one. The figures are seconds of CPU time with the start
    of the program, the largest resident memory, and distinct lines that were lost.
    """,
    packages=("lately.golden", "lately"),
    points=line_points,
    run=run_lines,
    label=lambda point: point["program"],
    worse=lambda now, before: (),
)
