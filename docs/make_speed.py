"""Writes speed.md from speed.json and stream.json: `python docs/make_speed.py`.

They are what `lately bench golden --out` and `lately bench stream --out` left.
"""

import json
from pathlib import Path
from typing import Any

from lately.golden.files import replace_file
from lately.replay.report import rate_text
from lately.studies.markdown import table as markdown

HERE = Path(__file__).parent
SPEED = HERE / "speed.json"
STREAM = HERE / "stream.json"
PAGE = HERE / "speed.md"

NOTHING = "\N{EN DASH}"
OURS = ("compiled", "numpy")

HEAD = """\
# Speed of the golden models

The models of the four filters that are hardware too (`APBF`, `APBBF`, `GEBF`, `BlockedGEBF`) run in
numpy alone, and in compiled loops where [numba](https://numba.pydata.org) can be imported:

    pip install 'lately[fast]'

## What is compiled

All operations: `insert`, `query`, `age`, `check_and_insert` and `apply` with every operation,
shifts, clears and new secrets among them, for keys of any width and both hashes. The classes, the
arguments and the answers are the same. What does not change with the path:

- every bit of `memory`, every counter, every age, every error;
- state files: what one path saves the other loads, and goes on with;
- the order: operations take effect one after another, repeated keys in one batch included.

`tests/test_fast.py` holds the two paths against each other on random specifications and operations,
and the tests that hold the models against their scalar twins draw the path at random.

Of `CuckooDictionary`, `TimingBloomFilter` and `BlockTimingBloomFilter` the insertions are compiled,
`insert` and `check_and_insert`, with the same promises. Left to numpy are rings of more than
{segments} segments, the spare included, queries of these three, keys of more than 64 bits in a
cuckoo dictionary, and the other models.

`LATELY_FAST=0` in the environment, when a filter is built, refuses the compiled path;
`filter.compiled` tells which one it takes. `import lately.golden` does not import numba, the first
filter does. A loop is compiled when it runs first, and kept in numba's cache on disk, beside the
package or in the user's cache folder (`NUMBA_CACHE_DIR` names another); where no folder can be
written, every process compiles anew. Import and the first answers of all models below, each in a
process of its own, took:

{first}

Memory: numpy holds a byte for each bit of every segment. Compiled, a guarded-epoch filter holds an
integer of 8, 16, 32 or 64 bits for each bit of a segment, which has a bit for every segment, and
the others 64-bit words. Both hold the spare, which the papers do not count.

Counters are integers of Python, and a batch is counted by itself, so none overflows: a filter that
has made 2**63 insertions goes on as any other. Ages are 16-bit integers, which `FilterSpec` keeps
generations within.

"""

TABLE = """\
## Beside other filters

Check-and-insert of {keys:,} random 64-bit keys on one thread, one tenth of which come again after 1
to {window:,} insertions; {bits} bits for each key of the window. Whatever a filter answers, it
takes the key in. *False positives* are fresh keys that were reported, *false negatives* keys of the
window that were not. Time is CPU time, the median of {rounds} rounds; what is not compiled took the
first part of the stream.

{table}

The other libraries have filters without a window. Two generations, which change places after every
{window:,} insertions, remember between one window and two; pyprobables has that built in, and is
told to insert keys that it knows (`force=True`). They take a key at a time from Python, which is
how they are called; of ours, a call takes {batch:,} keys. Calls have a price: with one key each
(`--batch 1`) ours answer some fifty thousand times a second compiled, and one to three thousand
times in numpy.

    lately bench golden --out docs/speed.json
    python docs/make_speed.py

On {processor}, with {versions}, seed {seed}. The ratios hold; other machines have other figures.

"""

LONG = """\
## A stream that does not end

{insertions:,} insertions and {queries:,} queries of a {model} of {kib:.0f} KiB, window {window:,}:
the time of each tenth is that of all others, and memory stays where it was.

{table}

{total:.1f} s of CPU time in all, and {cpu_seconds:.1f} s with drawing the keys.
{before:.0f} MiB of memory were taken before the first insertion, most of them by numba, and
{peak:.0f} MiB at most. Of {known:,} queries for keys of the window {negatives} were answered
wrongly.

    lately bench stream --out docs/stream.json

On {processor}, seed {seed}.
"""

FIRST = {
    "numpy": "numpy alone",
    "compiled": "compiled, with nothing in the cache",
    "cached": "compiled before",
}


def first_table(figures: dict[str, Any]) -> str:
    """Lay out how long the first answers take."""
    rows = [
        [FIRST[name], *(f"{second:.1f}" for second in seconds)]
        for name, seconds in figures["first_answer"].items()
    ]
    return markdown(["path", "import, s", "first answers, s"], rows)


def speed_table(figures: dict[str, Any]) -> str:
    """Lay out all filters: a row for each, and how it compares with the fastest of the others."""
    runs = figures["runs"]
    fastest = max(run["keys_per_second"] for run in runs if run["runs"] not in OURS)
    rows = []
    for run in runs:
        low, high = (f"{rate / 1e6:.2f}" for rate in run["range"])
        rate = run["false_positive_rate"]
        rows.append(
            [
                run["name"],
                run["runs"],
                f"{run['keys_per_second'] / 1e6:.2f} ({low} to {high})",
                f"{run['keys_per_second'] / fastest:.2f}",
                NOTHING if rate is None else rate_text(rate),
                f"{run['false_negatives']:,}",
                f"{run['memory_bits']:,}",
            ]
        )
    header = ["filter", "runs", "M keys/s", "of the fastest other", "false positives"]
    return markdown([*header, "false negatives", "bits"], rows)


def stream_table(figures: dict[str, Any]) -> str:
    """Lay out the parts of a long stream."""
    rows = []
    for number, part in enumerate(figures["parts"], 1):
        queries = part["queries_of_the_window"] + part["queries_of_others"]
        rows.append(
            [
                str(number),
                f"{part['insertions']:,}",
                f"{queries:,}",
                f"{part['cpu_seconds']:.2f}",
                f"{part['cpu_seconds'] / (part['insertions'] + queries) * 1e9:.1f}",
                str(part["false_negatives"]),
                f"{part['peak_bytes'] / 2**20:.0f}",
            ]
        )
    header = ["part", "insertions", "queries", "CPU s", "ns each", "false negatives", "peak MiB"]
    return markdown(header, rows)


def page() -> str:
    """Return the page."""
    from lately.golden.compiled import MOST_SEGMENTS

    speed = json.loads(SPEED.read_text("utf-8"))
    stream = json.loads(STREAM.read_text("utf-8"))
    versions = ", ".join(f"{name} {number}" for name, number in speed["versions"].items())
    parts = stream["parts"]
    return "".join(
        [
            HEAD.format(segments=MOST_SEGMENTS, first=first_table(speed)),
            TABLE.format(
                table=speed_table(speed),
                bits=speed["bits_per_key"],
                **{
                    name: speed[name]
                    for name in ("keys", "window", "rounds", "batch", "seed", "processor")
                },
                versions=versions,
            ),
            LONG.format(
                table=stream_table(stream),
                kib=stream["memory_bits"] / 8192,
                total=sum(part["cpu_seconds"] for part in parts),
                before=stream["peak_bytes_before"] / 2**20,
                peak=stream["peak_bytes"] / 2**20,
                known=sum(part["queries_of_the_window"] for part in parts),
                negatives=stream["false_negatives"] or "none",
                **{
                    name: stream[name]
                    for name in (
                        "insertions", "queries", "model", "window", "cpu_seconds", "seed",
                        "processor",
                    )
                },
            ),
        ]
    )  # fmt: skip


def out_of_date() -> str | None:
    """Return what to do if the page is not that of its data."""
    if PAGE.exists() and PAGE.read_text("utf-8") == page():
        return None
    return "out of date: docs/speed.md; run python docs/make_speed.py"


if __name__ == "__main__":
    with replace_file(PAGE) as target:
        target.write(page().encode())
