"""Writes performance.md, its data and its drawing: `python docs/make_performance.py [RESULTS]`.

RESULTS is what `lately bench hardware` left, build/hardware/results.json by default. What is in
performance.json already stays if it is of the present hardware and tools; all else is dropped.
"""

import argparse
import sys
from pathlib import Path

from lately.bench.cases import CASES, GEBF_BITS_PER_ITEM, GEBF_WINDOW, Case, best_gebf, gebf_choices
from lately.bench.hardware import plan
from lately.bench.measurements import Measurement, Summary, load, save, summarise
from lately.boards.flow.devices import device
from lately.golden.files import replace_file
from lately.replay.report import COLOURS
from lately.studies.markdown import table as markdown

HERE = Path(__file__).parent
DATA = HERE / "performance.json"
PAGE = HERE / "performance.md"
DRAWING = HERE / "images" / "growth.svg"
RESULTS = HERE.parent / "build" / "hardware" / "results.json"

NOTHING = "\N{EN DASH}"

HEAD = """\
# Performance

How fast the units are on devices, and how much of them they take, as yosys and nextpnr have it
after placement and routing. **The clock frequencies are those of static timing analysis. Nothing
was measured on silicon**; [what the model leaves out](#what-static-timing-leaves-out) is below.

`lately bench hardware` makes these measurements and `docs/make_performance.py` writes this page.
The clock is the median over the seeds of the placement, which move it by some percent; the same
seed and the same versions of the tools give the same figures. A unit accepts one operation per
clock and lane, so clock frequency is operations per second. The latency is that from the
acceptance of an operation to its result. LUTs are tables of four inputs, a carry cell counted as
two; all counts are the unit's own, without the harness that it is timed in.

"""

SPEED = """\
## Speed

'Least' and 'aim' are what is asked of the median, in MHz.

{table}
{caveats}"""

AREA = """\
## Area

Per segment: the whole unit divided by its segments, the spare's included. A lane is one
operation per clock.

{table}
{limits}"""

PATHS = """\
## Critical paths

The slowest path between registers with the seed of the median.

{table}
"""

TINY = """\
## Tiny units

Units of the `tiny` presets. They are no use to anybody; `make bench-check` holds every run
against this table, so that a change which costs clock or area does not go unnoticed.

{table}
"""

GROWTH = """\
## Growth

One shape, an APBBF with k = {spec.k}, l = {spec.l}, blocks of {spec.block_bits} bits and
{spec.hashes_per_block} hashes per block, on the {device} with seed {seeds}, from few blocks to
the most whose segments find room in the device's {bram} block RAMs. A part of a segment has
memories of its own, however small it is; past the size of one block RAM it takes several, and
what selects among them.

{drawing}{table}
"""

GEBF = """\
## Hash functions of the GEBF

A window of {window:,} insertions in {bits} bits per item gives each of the {segments} segments of
the ring {share:,} bits. Hardware has parts of a power of two bits, so a segment may take up to
{segment:,}, the next power of two, which is {most:.1f} bits per item, and each number of hash
functions gets the largest parts that this holds. The rate is that for distinct keys just before a
shift; the lowest is that of {hashes} hash functions, and this is the unit `gebf`.

{table}
"""

MODEL = """\
## What static timing leaves out

A frequency of this page says that, by the tool's model of the device, no path from one register
of the unit to the next takes longer than a clock.

- **The device's own limits.** The model sums delays along paths. It knows nothing of the highest
  frequency of the clock network and of the PLL, nor of the least pulse width and cycle time of
  block RAMs. They are in the data sheet of the device, and where they are below a figure of this
  page they bind, not the figure.
- **Jitter and uncertainty of the clock.** Nothing is set aside for them.
- **Voltage, temperature and process.** The delays are those of the corner that the tool's data
  has for the speed grade; no other was tried. The data come from projects that analysed the
  vendors' tools, not from the vendors.
- **Hold times.** Only the longest paths were looked at.
- **Pins.** The unit is timed between registers of a harness with three pins; the way from pins to
  the unit and back is left out on purpose, and so is whatever else would share the device with it.

## Measure it

    make performance

or, for a part of it,

    lately bench hardware --list
    lately bench hardware --case 'apbbf/*' --seeds 1-5
    python docs/make_performance.py

Every run is kept in `build/hardware/results.json` when it ends, and is made again only if the
hardware, the options of the device or the tools have changed: an interrupted measurement goes on
where it was. The page is written from `performance.json` beside it, which
`lately bench hardware --check` takes as a baseline: a lower clock frequency with the same seed,
or one LUT, flip-flop or block RAM more, is a regression.

Versions: {versions}.
"""


def group(summaries: list[Summary], name: str) -> list[Summary]:
    return [summary for summary in summaries if summary.case.group == name]


def seeds_text(summary: Summary) -> str:
    seeds = summary.seeds
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def or_nothing(value: object) -> str:
    return NOTHING if value is None else f"{value:,}"


def frequency(summary: Summary) -> str:
    """Median clock, and the range if there is one."""
    reports = summary.reports
    text = f"{summary.median.fmax_mhz:.1f}"
    if len(reports) == 1:
        return text
    return f"{text} ({reports[0].fmax_mhz:.1f} to {reports[-1].fmax_mhz:.1f})"


def start(case: Case) -> list[str]:
    return [f"`{case.unit}`", case.device]


def areas(values: dict[str, float], digits: int) -> str:
    return ", ".join(f"{value:,.{digits}f}" for value in values.values())


def speed_table(summaries: list[Summary]) -> str:
    header = ["unit", "device", "window", "seeds", "MHz", "least", "aim", "", "M ops/s"]
    rows = []
    for summary in summaries:
        case, median = summary.case, summary.median
        rows.append(
            [
                *start(case),
                f"{case.spec.window:,}",
                seeds_text(summary),
                frequency(summary),
                or_nothing(case.floor_mhz),
                or_nothing(case.aim_mhz),
                summary.verdicts.get("fmax_mhz", ""),
                f"{median.operations_per_second / 1e6:.1f}",
                f"{median.latency_cycles} clocks, {median.latency_ns:.0f} ns",
            ]
        )
    return markdown([*header, "latency"], rows)


def caveats(summaries: list[Summary]) -> str:
    """Lay out what is to be said of the timing of devices, each thing once."""
    devices: dict[str, dict[str, None]] = {}
    for report in (summary.median for summary in summaries):
        if report.caveat:
            devices.setdefault(report.caveat, {})[report.device] = None
    return "".join(f"**{', '.join(names)}:** {text}.\n\n" for text, names in devices.items())


def area_table(summaries: list[Summary]) -> str:
    names = "LUTs, flip-flops, block RAMs"
    header = ["unit", "device", *names.split(", "), "segments", f"{names} per segment", "per lane"]
    rows = [
        [
            *start(summary.case),
            *(f"{count:,}" for count in (summary.median.lut, summary.median.ff)),
            str(summary.median.bram),
            str(summary.case.spec.segments),
            areas(summary.per_segment(), 1),
            areas(summary.per_lane(), 0),
        ]
        for summary in summaries
    ]
    return markdown(header, rows)


def limits(summaries: list[Summary]) -> str:
    """Lay out the limits of the area, where there are any."""
    rows = []
    for summary in summaries:
        case, median, verdicts = summary.case, summary.median, summary.verdicts
        for name, noun, floor, aim in (
            ("lut", "LUTs", case.floor_lut, case.aim_lut),
            ("bram", "block RAMs", case.floor_bram, None),
        ):
            if name in verdicts:
                count = getattr(median, name)
                texts = [f"{count:,}", or_nothing(floor), or_nothing(aim), verdicts[name]]
                rows.append([*start(case), noun, *texts])
    if not rows:
        return ""
    header = ["unit", "device", "of", "taken", "most", "aim", ""]
    return f"Where the area has a limit:\n\n{markdown(header, rows)}\n"


def path_table(summaries: list[Summary]) -> str:
    rows = [[*start(s.case), str(s.median.seed), s.median.critical_path] for s in summaries]
    return markdown(["unit", "device", "seed", "path"], rows)


def tiny_table(summaries: list[Summary]) -> str:
    header = ["unit", "device", "seed", "MHz", "LUTs", "flip-flops", "block RAMs"]
    rows = [
        [
            *start(summary.case),
            seeds_text(summary),
            frequency(summary),
            *(f"{n:,}" for n in (summary.median.lut, summary.median.ff, summary.median.bram)),
        ]
        for summary in summaries
    ]
    return markdown(header, rows)


def growth_table(summaries: list[Summary]) -> str:
    header = ["blocks", "window", "bits stored", "MHz", "LUTs", "flip-flops", "block RAMs"]
    header.append("latency")
    rows = []
    for summary in summaries:
        spec, median = summary.case.spec, summary.median
        counts = (spec.blocks, spec.window, spec.storage_bits)
        area = (median.lut, median.ff, median.bram)
        rows.append(
            [
                *(f"{count:,}" for count in counts),
                frequency(summary),
                *(f"{count:,}" for count in area),
                f"{median.latency_cycles} clocks",
            ]
        )
    return markdown(header, rows)


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
        table=markdown(
            ["hash functions", "bits of a part", "bits per item", "false-positive rate"], rows
        ),
    )


def growth_section(summaries: list[Summary]) -> str:
    first = summaries[0]
    drawing = f"```{{image}} images/{DRAWING.name}\n:alt: {description(summaries)}\n```\n\n"
    return GROWTH.format(
        spec=first.case.spec,
        device=first.case.device,
        seeds=seeds_text(first),
        bram=device(first.case.device).bram,
        drawing=drawing if drawn(summaries) else "",
        table=growth_table(summaries),
    )


def model_section(measurements: list[Measurement]) -> str:
    reports = [entry.report for entry in measurements]
    versions = sorted({pair for report in reports for pair in report.versions.items()})
    return MODEL.format(
        versions=", ".join(f"{tool} {version}" for tool, version in versions),
    )


def page(measurements: list[Measurement]) -> str:
    """Return the page: the sections that there are measurements for."""
    summaries = summarise(CASES, measurements)
    units, tiny, growth = (group(summaries, name) for name in ("units", "tiny", "growth"))
    parts = [HEAD]
    if units:
        parts.append(SPEED.format(table=speed_table(units), caveats=caveats(units)))
        parts.append(AREA.format(table=area_table(units), limits=limits(units)))
        parts.append(PATHS.format(table=path_table(units)))
    if tiny:
        parts.append(TINY.format(table=tiny_table(tiny)))
    if growth:
        parts.append(growth_section(growth))
    return "".join([*parts, gebf_section(), model_section(measurements)])


# The drawing


def drawn(summaries: list[Summary]) -> bool:
    """A single size is no growth."""
    return len(summaries) > 1


def description(summaries: list[Summary]) -> str:
    """Put what is drawn into words; by these the drawing is known to be of these figures."""
    points = (
        f"{s.case.spec.window} insertions {s.median.fmax_mhz:.1f} MHz {s.median.lut} LUTs "
        f"{s.median.bram} block RAMs"
        for s in summaries
    )
    return "Clock frequency and area against the window. " + ", ".join(points)


def draw(summaries: list[Summary], path: Path) -> None:
    """Draw clock frequency and area against the window."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    windows = [summary.case.spec.window for summary in summaries]
    panels = (
        ("MHz", COLOURS["blue"], [summary.median.fmax_mhz for summary in summaries]),
        ("LUTs", COLOURS["orange"], [summary.median.lut for summary in summaries]),
        ("block RAMs", COLOURS["green"], [summary.median.bram for summary in summaries]),
    )
    style = {"svg.hashsalt": "lately", "svg.fonttype": "none", "font.size": 9}
    with mpl.rc_context(style):
        figure = Figure(figsize=(8, 5.5), layout="constrained")
        axes = figure.subplots(3, 1, sharex=True)
        for axis, (name, colour, values) in zip(axes, panels, strict=True):
            axis.plot(windows, values, "o-", color=colour, markersize=4)
            axis.set_ylabel(name)
            axis.set_ylim(0, 1.15 * max(values))
            axis.grid(color=COLOURS["grid"], linewidth=0.7)
            axis.spines[["top", "right"]].set_visible(False)
        axes[-1].set_xscale("log", base=2)
        axes[-1].set_xticks(windows, [f"{window:,}" for window in windows])
        axes[-1].minorticks_off()
        axes[-1].set_xlabel("window in insertions")
        metadata = {"Date": None, "Creator": None, "Description": description(summaries)}
        path.parent.mkdir(exist_ok=True)
        with replace_file(path) as file:
            figure.savefig(file, format="svg", facecolor="white", metadata=metadata)


# Files


def out_of_date() -> str | None:
    """Say what does not go with performance.json; None if all is well."""
    measurements = load(DATA)
    stale = []
    if not PAGE.exists() or PAGE.read_text("utf-8") != page(measurements):
        stale.append(PAGE)
    growth = group(summarise(CASES, measurements), "growth")
    if drawn(growth) and not (
        DRAWING.exists() and description(growth) in DRAWING.read_text("utf-8")
    ):
        stale.append(DRAWING)
    names = " and ".join(f"docs/{path.relative_to(HERE).as_posix()}" for path in stale)
    return f"out of date: {names}; run python docs/make_performance.py" if stale else None


def present(candidates: list[Measurement]) -> list[Measurement]:
    """Return those that are of the present hardware and tools, in the order of the cases."""
    found = {entry.identity: entry for entry in candidates}
    return [found[wanted] for wanted in plan(CASES).runs if wanted in found]


def write(measurements: list[Measurement]) -> None:
    """Write data, drawing and page."""
    save(DATA, measurements)
    growth = group(summarise(CASES, measurements), "growth")
    DRAWING.unlink(missing_ok=True)
    if drawn(growth):
        draw(growth, DRAWING)
    with replace_file(PAGE) as file:
        file.write(page(measurements).encode())


def main() -> None:
    """Take over the runs in RESULTS."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS, help="results.json")
    results = parser.parse_args().results
    candidates = load(DATA) if DATA.exists() else []
    # By default there need be none, for the page to be written anew from what it has.
    if results.exists() or results != RESULTS:
        candidates += load(results)
    kept = present(candidates)
    if not kept:
        sys.exit(f"{results}: has no run of the present hardware; run lately bench hardware first")
    write(kept)
    missing = len(plan(CASES).runs) - len(kept)
    print(f"{len(kept)} runs written, {missing} yet to be made")


if __name__ == "__main__":
    main()
