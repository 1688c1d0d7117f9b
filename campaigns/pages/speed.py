"""docs/speed.md, from results/speed.json and results/stream.json.

They are what `python -m campaigns golden --out` and `python -m campaigns stream --out` left.
"""

from typing import Any

from lately.replay.texts import rate_text

from .blocks import DOCS, NOTHING, Page, load, table

OURS = ("compiled", "numpy")

SETUP = """\
Check-and-insert of {keys:,} random 64-bit keys on one thread, one tenth of which come again after 1
to {window:,} insertions; {bits_per_key} bits for each key of the window. Two generations change
places after every {window:,} insertions; of ours, a call takes {batch:,} keys. Time is CPU time,
the median of {rounds} rounds. On {processor}, with {tools}, seed {seed}.

{table}"""

STREAM = """\
{insertions:,} insertions and {queries:,} queries of a {model} of {kib:.0f} KiB, window {window:,}:
the time of each tenth is that of all others, and memory stays where it was.

{table}
{total:.1f} s of CPU time in all, and {cpu_seconds:.1f} s with drawing the keys.
{before:.0f} MiB of memory were taken before the first insertion, most of them by numba, and
{peak:.0f} MiB at most. Of {known:,} queries for keys of the window {negatives} were answered
wrongly. On {processor}, seed {seed}."""

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
    return table(["path", "import, s", "first answers, s"], rows)


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
    return table([*header, "false negatives", "bits"], rows)


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
    return table(header, rows)


def blocks() -> dict[str, str]:
    """Return the blocks of the page."""
    speed, stream = load("speed.json"), load("stream.json")
    tools = ", ".join(f"{name} {number}" for name, number in speed["versions"].items())
    parts = stream["parts"]
    return {
        "first": first_table(speed),
        "speed": SETUP.format(**speed, table=speed_table(speed), tools=tools),
        "stream": STREAM.format(
            **stream,
            table=stream_table(stream),
            kib=stream["memory_bits"] / 8192,
            total=sum(part["cpu_seconds"] for part in parts),
            before=stream["peak_bytes_before"] / 2**20,
            peak=stream["peak_bytes"] / 2**20,
            known=sum(part["queries_of_the_window"] for part in parts),
            negatives=stream["false_negatives"] or "none",
        ),
    }


PAGE = Page(DOCS / "speed.md", blocks)
