"""Writes lanes.md from lanes.json and performance.json: `python docs/make_lanes.py`.

lanes.json is what `lately bench lanes --out` left; the clocks are those of the group `lanes` of
`lately bench hardware`.
"""

import json
from pathlib import Path
from typing import Any

from make_performance import frequency, seeds_text

from lately.bench.cases import CASES
from lately.bench.measurements import Summary, load, summarise
from lately.golden.files import replace_file
from lately.studies.markdown import table as markdown

HERE = Path(__file__).parent
OPERATIONS = HERE / "lanes.json"
PERFORMANCE = HERE / "performance.json"
PAGE = HERE / "lanes.md"

NOTHING = "\N{EN DASH}"

GOAL = 1000
"""Millions of operations per second that are the aim with `GOAL_LANES` lanes."""

GOAL_LANES = 4

HEAD = """\
# Several keys a clock

A specification with `lanes = 2` or `lanes = 4` describes one filter, one window and one order of
operations, of which the hardware takes that many per clock: {py:class}`lately.hdl.LaneUnit`.

## What it means

**The order.** What comes in one clock is a *beat*: an operation for each lane, or none. Operations
take effect beat by beat, and in a beat lane by lane from lane 0 on, each as if all before it had
finished. A key that lane 1 inserts is seen by lane 2. A beat may also say that the ring turns, by a
shift or a clear, before its operations. Every beat gives one answer, in order, with an age, a
verdict and the tag of each lane.

**The generation** counts insertions of all lanes. The insertion that begins the next one turns the
ring, in whatever lane it comes: the lanes before it are of the old generation, its own query too,
and it and the lanes behind it are of the new one.

**The shards.** A key belongs to one of `spec.shards` shards, three for every two lanes, by twelve
further bits of its hash; in all segments it has its bits there. A shard has its share of the blocks
(of the bits of a slice or part) of every segment, and performs one operation per clock. The rings
of all shards turn at the same place of the order. The bits of a segment are those of its shards,
one after another, and all this is as true of the golden model, which knows nothing of clocks:
`tests/test_filters.py` holds it against as many separate filters that are shifted together, and the
tests of the unit hold every verdict, age and bit of memory against the golden model.

**What it costs a stream.** Nothing is ever wrong or lost. Operations wait in front of their shard;
`i.ready` falls for all lanes when more wait for one shard than it has places for. Three shards for
two lanes are two thirds busy with random keys, so that this does not happen. A stream of few keys
keeps few shards busy, down to one operation per clock for a single one; but an operation on a key
that an earlier lane of the same beat inserts needs no shard, as its outcome is known, and a single
key then flows in all lanes. Keys that an adversary chooses for their shard bring the unit to one
operation per clock.

A generation has at least `spec.minimum_generation` insertions, so that the spare can be cleared
meanwhile; it is fixed in the unit. The hash is "h3".

"""

RATES = """\
## Operations per clock

Check-and-insert with all lanes full, in simulation of the hardware; every verdict was equal to the
golden model's. `hot key` has half of its operations on one key, `one key` all of them, and `one
shard` different keys that belong to the same shard in all units; the files are real streams.
Clocks are counted from reset to the last answer.

{table}

    lately bench lanes examples/flights_2013.csv.gz --operations 1000000

"""

SPEED = """\
## Clock, area and their product

Static timing after placement and routing, nothing was measured on silicon
([what that leaves out](performance.md#what-static-timing-leaves-out)). The product is that of the
median clock and the operations per clock with random keys.
{goal}

{table}
Routing takes most of every path that binds: the shards fill the chip, and a wire from its middle to
a corner takes more than a clock. So no logic lies on the ways between the shards and what is in the
middle, every shard has registers of its own at its end of the way, and
`lately.boards.flow.floorplan` lays the block RAMs of a shard side by side, where nextpnr's placer
alone would scatter them.

    lately bench hardware --case lanes
    python docs/make_lanes.py

"""


def rates_table(figures: dict[str, Any]) -> str:
    """Lay out the operations per clock: a row per stream, a column per unit."""
    runs = figures["runs"]
    names = list(dict.fromkeys(run["name"] for run in runs))
    rows = []
    for stream in dict.fromkeys(run["stream"] for run in runs):
        of_stream = {run["name"]: run for run in runs if run["stream"] == stream}
        operations = next(iter(of_stream.values()))["operations"]
        rates = [f"{of_stream[name]['operations_per_clock']:.3f}" for name in names]
        rows.append([stream, f"{operations:,}", *rates])
    return markdown(["stream", "operations", *(f"`{name}`" for name in names)], rows)


def random_rates(figures: dict[str, Any]) -> dict[str, float]:
    """Return the operations per clock with random keys, of each unit."""
    return {
        run["name"]: run["operations_per_clock"]
        for run in figures["runs"]
        if run["stream"] == "random"
    }


def speed_table(summaries: list[Summary], rates: dict[str, float]) -> str:
    """Lay out clock, area and product of each unit."""
    header = ["unit", "device", "lanes", "window", "seeds", "MHz", "LUTs", "flip-flops"]
    rows = []
    for summary in summaries:
        case, median = summary.case, summary.median
        rate = rates.get(case.unit)
        product = NOTHING if rate is None else f"{median.fmax_mhz * rate:,.0f}"
        rows.append(
            [
                f"`{case.unit}`",
                case.device,
                str(case.spec.lanes),
                f"{case.spec.window:,}",
                seeds_text(summary),
                frequency(summary),
                *(f"{count:,}" for count in (median.lut, median.ff, median.bram)),
                f"{median.latency_cycles} clocks",
                product,
            ]
        )
    return markdown([*header, "block RAMs", "latency", "M ops/s"], rows)


def goal_text(summaries: list[Summary], rates: dict[str, float]) -> str:
    """Say whether the aim is reached, and with how many seeds."""
    aim = f"The aim is {GOAL:,} M ops/s with {GOAL_LANES} lanes"
    for summary in summaries:
        if summary.case.spec.lanes == GOAL_LANES and summary.case.unit in rates:
            needed = GOAL / rates[summary.case.unit]
            reached = sum(report.fmax_mhz >= needed for report in summary.reports)
            verdict = "reaches it" if summary.median.fmax_mhz >= needed else "does not reach it"
            return f"{aim}: the median {verdict}, {reached} of {len(summary.reports)} seeds do."
    return f"{aim}."


def page() -> str:
    """Return the page."""
    figures = json.loads(OPERATIONS.read_text("utf-8"))
    lanes = [case for case in CASES if case.group == "lanes"]
    summaries = summarise(lanes, load(PERFORMANCE))
    parts = [HEAD, RATES.format(table=rates_table(figures))]
    if summaries:
        rates = random_rates(figures)
        table, goal = speed_table(summaries, rates), goal_text(summaries, rates)
        parts.append(SPEED.format(table=table, goal=goal))
    return "".join(parts).rstrip() + "\n"


def out_of_date() -> str | None:
    """Return what to do if the page is not that of its data."""
    if PAGE.exists() and PAGE.read_text("utf-8") == page():
        return None
    return "out of date: docs/lanes.md; run python docs/make_lanes.py"


if __name__ == "__main__":
    with replace_file(PAGE) as target:
        target.write(page().encode())
