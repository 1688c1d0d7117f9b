"""docs/performance.md, from results/performance.json: runs of `python -m campaigns hardware`.

What is on record already stays if it is of the present hardware and tools; all else is dropped.
"""

import sys
from pathlib import Path

from lately.boards.flow.devices import device
from lately.boards.flow.synthesis import SynthesisReport, with_limits
from lately.golden import TimedTimingSpec
from lately.replay.drawing import save as save_drawing
from lately.replay.plots import COLOURS, blank_figure, style

from ..cases import (
    CASES,
    GEBF_BITS_PER_ITEM,
    GEBF_WINDOW,
    GOALS,
    Case,
    best_gebf,
    gebf_choices,
)
from ..hardware import plan
from ..measurements import Measurement, Summary, save, summarise
from ..measurements import load as load_measurements
from .blocks import DOCS, IMAGES, RESULTS, Page, counts, load, table, versions

DATA = RESULTS / "performance.json"
BEFORE = "performance-before.json"
GROWTH_DRAWING = IMAGES / "growth.svg"
AREA_DRAWING = IMAGES / "clock-area.svg"

GROWTH = """\
One shape, an APBBF with k = {spec.k}, l = {spec.l}, blocks of {spec.block_bits} bits and
{spec.hashes_per_block} hashes per block, on the {device} with seed {seeds}, from few blocks to
the most whose segments find room in the device's {bram} block RAMs.

{drawing}

{table}"""

GEBF = """\
A window of {window:,} insertions in {bits} bits per item gives each of the {segments} segments of
the ring {share:,} bits. Hardware has parts of a power of two bits, so a segment may take up to
{segment:,}, the next power of two, which is {most:.1f} bits per item, and each number of hash
functions gets the largest parts that this holds. The rate is that for distinct keys just before a
shift; the lowest is that of {hashes} hash functions, and this is the unit `gebf`.

{table}"""


def measurements() -> list[Measurement]:
    """Return what is on record."""
    return load_measurements(DATA)


def group(summaries: list[Summary], name: str) -> list[Summary]:
    return [summary for summary in summaries if summary.case.group == name]


def seeds_text(summary: Summary) -> str:
    seeds = summary.seeds
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def clocks(summary: Summary) -> list[str]:
    """Return cells: static timing with its range, the limit, and the usable clock, in MHz."""
    reports, median = summary.reports, summary.median
    timing = f"{median.timing_mhz:.1f}"
    if len(reports) > 1:
        timing += f" ({reports[0].timing_mhz:.1f} to {reports[-1].timing_mhz:.1f})"
    return [timing, f"{median.limit_mhz:g}", f"{median.fmax_mhz:.1f}"]


CLOCKS = ["static timing", "limit", "usable clock"]
"""Heads of the columns of `clocks`."""

AREA = ["LUTs", "flip-flops", "block RAMs"]


def area(summary: Summary) -> list[str]:
    """Return cells of `AREA`."""
    median = summary.median
    return counts((median.lut, median.ff, median.bram))


def start(case: Case) -> list[str]:
    return [f"`{case.unit}`", case.device]


def areas(values: dict[str, float], digits: int) -> str:
    return ", ".join(f"{value:,.{digits}f}" for value in values.values())


FIGURES = [*AREA, "latency", "M ops/s", "per 1,000 LUTs"]
"""Heads of the columns of `figures`."""


def figures(report: SynthesisReport) -> list[str]:
    operations = report.operations_per_second / 1e6
    return [
        *counts((report.lut, report.ff, report.bram)),
        f"{report.latency_cycles} cycles, {report.latency_ns:.0f} ns",
        f"{operations:.1f}",
        f"{1000 * operations / report.lut:.1f}",
    ]


def window_text(spec):
    """Return the window of a unit: insertions, unless its clock is one of ticks alone."""
    if isinstance(spec, TimedTimingSpec):
        return f"{spec.window_blocks:,} ticks"
    return f"{spec.window:,}"


def speed_table(summaries: list[Summary]) -> str:
    header = ["unit", "device", "window", "seeds", *CLOCKS, "at the limit", *FIGURES]
    rows = [
        [
            *start(summary.case),
            window_text(summary.case.spec),
            seeds_text(summary),
            *clocks(summary),
            f"{summary.at_limit} of {len(summary.reports)}",
            *figures(summary.median),
        ]
        for summary in summaries
    ]
    return table(header, rows)


def before() -> dict[str, SynthesisReport]:
    """Return the medians of before the pipelines were laid out for the limits, by case."""
    return {name: SynthesisReport(**with_limits(run)) for name, run in load(BEFORE).items()}


def comparison(summaries: list[Summary]) -> str:
    """Lay out the medians of before and of now."""
    now = {summary.case.name: summary.median for summary in summaries}
    rows = []
    for name, then in before().items():
        unit, where = name.split("/")
        for when, report in (("before", then), ("now", now.get(name, then))):
            if when == "before" or report != then:
                mhz = (
                    f"{report.timing_mhz:.1f}",
                    f"{report.limit_mhz:g}",
                    f"{report.fmax_mhz:.1f}",
                )
                rows.append([f"`{unit}`", where, when, *mhz, *figures(report)])
    return table(["unit", "device", "", *CLOCKS, *FIGURES], rows)


def caveats(summaries: list[Summary]) -> str:
    """Say what is to be known of the timing of devices, each thing once."""
    devices: dict[str, dict[str, None]] = {}
    for report in (summary.median for summary in summaries):
        if report.caveat:
            devices.setdefault(report.caveat, {})[report.device] = None
    return "".join(f"**{', '.join(names)}:** {text}.\n\n" for text, names in devices.items())


def area_table(summaries: list[Summary]) -> str:
    names = ", ".join(AREA)
    rows = [
        [
            *start(summary.case),
            str(summary.case.profile.segments),
            areas(summary.per_segment(), 1),
            areas(summary.per_lane(), 0),
        ]
        for summary in summaries
    ]
    return table(["unit", "device", "segments or columns", f"{names} for each", "per lane"], rows)


def goals(summaries: list[Summary]) -> str:
    """Lay out the goals of the units, and which are met."""
    rows = [
        [*start(summary.case), GOALS[name], f"{getattr(summary.median, name):,}", f"{goal:,}",
         summary.verdicts[name]]
        for summary in summaries
        for name, goal in summary.case.goals.items()
    ]  # fmt: skip
    return table(["unit", "device", "", "reached", "goal", ""], rows) if rows else ""


def path_table(summaries: list[Summary]) -> str:
    rows = [[*start(s.case), str(s.median.seed), s.median.critical_path] for s in summaries]
    return table(["unit", "device", "seed", "path"], rows)


def tiny_table(summaries: list[Summary]) -> str:
    rows = [
        [*start(summary.case), seeds_text(summary), *clocks(summary), *area(summary)]
        for summary in summaries
    ]
    return table(["unit", "device", "seed", *CLOCKS, *AREA], rows)


def growth_table(summaries: list[Summary]) -> str:
    rows = [
        [
            *counts((spec.blocks, spec.window, spec.storage_bits)),
            *clocks(summary),
            *area(summary),
            f"{summary.median.latency_cycles} cycles",
        ]
        for summary in summaries
        for spec in (summary.case.spec,)
    ]
    return table(["blocks", "window", "bits stored", *CLOCKS, *AREA, "latency"], rows)


def gebf_section() -> str:
    best = best_gebf()
    rows = []
    for spec in gebf_choices():
        rate = f"{spec.worst_false_positive_rate:.4f}"
        bits = f"{spec.memory_bits / spec.window:.1f}"
        row = [str(spec.hashes), f"{spec.part_bits:,}", bits, rate]
        rows.append([f"**{cell}**" for cell in row] if spec == best else row)
    segment = max(spec.parts * spec.part_bits for spec in gebf_choices())
    return GEBF.format(
        window=GEBF_WINDOW,
        bits=GEBF_BITS_PER_ITEM,
        segments=best.ring_segments,
        share=GEBF_BITS_PER_ITEM * GEBF_WINDOW // best.ring_segments,
        segment=segment,
        most=segment * best.ring_segments / GEBF_WINDOW,
        hashes=best.hashes,
        table=table(
            ["hash functions", "bits of a part", "bits per item", "false-positive rate"], rows
        ),
    )


def growth_section(summaries: list[Summary]) -> str:
    first = summaries[0]
    return GROWTH.format(
        spec=first.case.spec,
        device=first.case.device,
        seeds=seeds_text(first),
        bram=device(first.case.device).bram,
        drawing=image(GROWTH_DRAWING, description(summaries)),
        table=growth_table(summaries),
    )


def blocks(measured: list[Measurement]) -> dict[str, str]:
    """Return the blocks of the page."""
    summaries = summarise(CASES, measured)
    units, tiny, growth = (group(summaries, name) for name in ("units", "tiny", "growth"))
    return {
        "speed": f"{speed_table(units)}\n{caveats(units)}",
        "before": comparison(group(summaries, "units") + group(summaries, "lanes")),
        "plot": image(AREA_DRAWING, area_description(units)) if units else "",
        "area": area_table(units),
        "goals": goals(units),
        "paths": path_table(units),
        "tiny": tiny_table(tiny),
        "growth": growth_section(growth) if growth else "",
        "gebf": gebf_section(),
        "versions": versions(entry.report.versions for entry in measured),
    }


# The drawings


def image(path: Path, text: str) -> str:
    return f"```{{image}} images/{path.name}\n:alt: {text}\n```"


def description(summaries: list[Summary]) -> str:
    """Put what is drawn into words; by these the drawing is known to be of these figures."""
    points = (
        f"{s.case.spec.window} insertions {s.median.fmax_mhz:.1f} MHz {s.median.lut} LUTs "
        f"{s.median.bram} block RAMs"
        for s in summaries
    )
    return "Usable clock and area against the window. " + ", ".join(points)


def draw(summaries: list[Summary], path: Path) -> None:
    """Draw usable clock and area against the window."""
    windows = [summary.case.spec.window for summary in summaries]
    panels = (
        ("MHz", COLOURS["blue"], [summary.median.fmax_mhz for summary in summaries]),
        ("LUTs", COLOURS["orange"], [summary.median.lut for summary in summaries]),
        ("block RAMs", COLOURS["green"], [summary.median.bram for summary in summaries]),
    )
    with style():
        figure = blank_figure(7, 5)
        axes = figure.subplots(3, 1, sharex=True)
        for axis, (name, colour, values) in zip(axes, panels, strict=True):
            axis.plot(windows, values, "o-", color=colour, markersize=4)
            axis.set_ylabel(name)
            axis.set_ylim(0, 1.15 * max(values))
        axes[-1].set_xscale("log", base=2)
        axes[-1].set_xticks(windows, [f"{window:,}" for window in windows])
        axes[-1].minorticks_off()
        axes[-1].set_xlabel("window in insertions")
        save_drawing(figure, path, description(summaries))


def area_description(summaries: list[Summary]) -> str:
    """Put the drawing of clock and area into words, as `description`."""
    points: dict[str, list[str]] = {}
    for median in (summary.median for summary in summaries):
        points.setdefault(median.device, []).append(f"{median.fmax_mhz:.1f} {median.lut}")
    devices = (f"{device}: {', '.join(found)}" for device, found in points.items())
    return "Usable clock and area of units, in MHz and LUTs. " + "; ".join(devices)


def draw_area(summaries: list[Summary], path: Path) -> None:
    """Draw the usable clock of units against their area."""
    families = {"ecp5": "blue", "ice40": "orange", "gowin": "green"}
    with style():
        figure = blank_figure(7, 4)
        axes = figure.subplots()
        for family, colour in families.items():
            own = [s.median for s in summaries if s.case.device.startswith(family)]
            sizes = [report.lut for report in own]
            speeds = [report.fmax_mhz for report in own]
            axes.plot(sizes, speeds, "o", color=COLOURS[colour], markersize=5, label=family)
        axes.set_xlabel("LUTs")
        axes.set_ylabel("usable clock in MHz")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend()
        save_drawing(figure, path, area_description(summaries))


# Files


def recorded(name: str) -> list[Summary]:
    """Return the summaries of a group that are on record."""
    return group(summarise(CASES, measurements()), name)


DRAWINGS = {
    GROWTH_DRAWING: ("growth", description, draw),
    AREA_DRAWING: ("units", area_description, draw_area),
}
"""Group, words and function of each drawing."""


def drawings() -> dict[Path, str]:
    """Return the words of each drawing, as far as there are measurements."""
    found = {path: (recorded(name), words) for path, (name, words, _) in DRAWINGS.items()}
    return {path: words(summaries) for path, (summaries, words) in found.items() if summaries}


def draw_all() -> None:
    """Write the drawings, as far as there are measurements."""
    for path, (name, _, write) in DRAWINGS.items():
        if summaries := recorded(name):
            write(summaries, path)


def present(candidates: list[Measurement]) -> list[Measurement]:
    """Return those that are of the present hardware and tools, in the order of the cases."""
    found = {entry.identity: entry for entry in candidates}
    return [found[wanted] for wanted in plan(CASES).runs if wanted in found]


def take(paths: list[Path]) -> None:
    """Take over runs, and drop those that are not of the present hardware."""
    known = measurements() if DATA.exists() else []
    kept = present([*known, *(entry for path in paths for entry in load_measurements(path))])
    if not kept:
        sys.exit("no run is of the present hardware; run python -m campaigns hardware first")
    save(DATA, kept)
    print(f"{len(kept)} runs on record, {len(plan(CASES).runs) - len(kept)} yet to be made")


PAGE = Page(
    DOCS / "performance.md",
    lambda: blocks(measurements()),
    drawings=drawings,
    draw=draw_all,
    take=take,
)
