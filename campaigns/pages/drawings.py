"""Draws block diagrams, rings, time-based windows, timing diagrams and charts for the pages."""

import io
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from lately.captures.capture_files import CaptureFiles
from lately.captures.two_taps import MadePackets, Taps, tap
from lately.dedup.copy_report import CopyReport, picture
from lately.dedup.deduplicate import Deduplication, deduplicate
from lately.dedup.window import dedup_spec
from lately.golden import Operation, PartitionedTimingSpec, WindowDictionarySpec, from_spec, preset
from lately.golden.spec import APBFSpec, GEBFSpec
from lately.hdl.build import filter_unit, unit_profile
from lately.hdl.bus.flat import AxisUnit
from lately.hdl.queue import ResultQueue
from lately.hdl.ring.core import ring_core
from lately.replay.drawing import COLOURS, blank_figure

from ..hardware import Summary, summarise
from .blocks import DOCS, Drawing, Page, bare_axes, records
from .pictures import WIDTH, ages

GENERATIONS = 9  # number of columns in the picture of the ring

UNIT = preset("default")


def stages() -> list[tuple[str, str]]:
    core = ring_core(UNIT, unit_profile(UNIT))
    parts = (("hash", core.hashes[0]), ("store", core.store), ("detector", core.detector))
    blocks = [("front end", "gate, schedule")]
    blocks += [(name, f"{part.latency} cycles") for name, part in parts]
    return [*blocks, ("result queue", f"{ResultQueue.LATENCY} cycles")]


ARROW = {"arrowstyle": "-|>", "color": COLOURS["ink"], "linewidth": 1.1}

PLACED = {"ha": "center", "va": "center", "fontsize": 8}  # text properties for blocks


def unit(parts: Sequence[tuple[str, str]]) -> Any:
    figure, axes = bare_axes(8.4, 2.1, xlim=(-1.1, 9.3), ylim=(-1.1, 1.2))
    annotate = partial(axes.annotate, **PLACED)
    for number, (name, text) in enumerate(parts):
        draw_box(axes, 2 * number, 0, f"{name}\n{text}", "blue")
    labels = ("i", "key", "addresses", "matches", "verdict", "o")
    for number, label in enumerate(labels):
        annotate("", (2 * number - 0.75, 0), (2 * number - 1.2, 0), arrowprops=ARROW)
        annotate(label, (2 * number - 1, 0.3))
    for y, start, end, text in ((0.9, 0, 8, "tag"), (-0.9, 8, 0, "credits: room for results")):
        near = 0.5 * y
        axes.plot((start, start, end), (near, y, y), color=COLOURS["ink"], linewidth=1.1)
        annotate("", (end, near), (end, y), arrowprops=ARROW)
        annotate(text, (4, y + 0.15))
    annotate(f"{UNIT.ring_segments} segments and the spare", (4, -0.5))
    return figure


def draw_box(axes: Any, x: float, y: float, text: str, colour: str) -> None:
    edge = COLOURS[colour]
    box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": edge, "linewidth": 1.4}
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, linespacing=1.5)


RINGS = {
    "ring": APBFSpec(k=2, l=3, slice_bits=16),
    "gebf": GEBFSpec(window=12, epochs=3, hashes=2, bits=128),
}


def roles(spec: Any) -> list[tuple[int, int, int, str]]:
    ring: Any = from_spec(spec)
    rows = []
    for generation in range(GENERATIONS):
        for segment, age in enumerate(ages(ring)):
            role = "written" if age < spec.run else "read"
            rows.append((generation, segment, age, role if age < spec.ring_segments else "spare"))
        ring.shift()
    return rows


def ring(rows: Sequence[tuple[int, int, int, str]]) -> Any:
    colours = {"written": COLOURS["blue"], "read": COLOURS["green"], "spare": COLOURS["grid"]}
    names = {"written": "written and read", "read": "read", "spare": "spare, being cleared"}
    segments = 1 + max(segment for _, segment, _, _ in rows)
    figure = blank_figure(WIDTH, 0.5 + 0.4 * segments)
    axes = figure.subplots()
    for generation, segment, age, role in rows:
        ink = COLOURS["ink"] if role == "spare" else "white"
        axes.barh(segment, 0.94, 0.86, generation - 0.47, color=colours[role])
        text = "" if role == "spare" else str(age)
        axes.text(generation, segment, text, ha="center", va="center", color=ink, fontsize=8)
    for role, name in names.items():
        axes.barh(0, 0, color=colours[role], label=name)
    axes.grid(False)
    axes.set_ylim(segments - 0.4, -0.6)
    axes.set_xticks(range(GENERATIONS))
    axes.set_yticks(range(segments))
    axes.set_xlabel("generation; the numbers are ages", fontsize=9)
    axes.set_ylabel("segment", fontsize=9)
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=3, fontsize=8)
    return figure


SLACK = {
    "APBF, l = 3": APBFSpec(k=2, l=3, slice_bits=4096, generation=4),
    "GEBF, r = 3": GEBFSpec(window=12, epochs=3, hashes=4, bits=1 << 15),
    "timing filter, B = 4": PartitionedTimingSpec(window=12, block=4, hashes=4, cells=4096),
    "dictionary": WindowDictionarySpec(window=12, columns=3, rows=64, digest_bits=38),
}
"""Filters in the picture of slack, each with a window of 12 insertions."""


def reported() -> dict[str, tuple[int, int]]:
    """For each filter, return how long a key must be reported, and how long it may be reported.

    Both are numbers of insertions after the key's own insertion. They are the minimum and the
    maximum over all positions of a generation or block at which the key can be inserted.
    """
    distances = {}
    for name, spec in SLACK.items():
        ends = []
        for before in range(24, 36):
            model: Any = from_spec(spec)
            model.insert(np.arange(before, dtype=np.uint64))
            model.insert(key := np.array([1 << 40], np.uint64))
            distance = 0
            while model.query(key)[0]:
                distance += 1
                model.insert(np.array([1000 + distance], np.uint64))
            ends.append(distance - 1)
        distances[name] = min(ends), max(ends)
    return distances


def slack(distances: dict[str, tuple[int, int]]) -> Any:
    figure = blank_figure(WIDTH, 2)
    axes = figure.subplots()
    for number, (always, sometimes) in enumerate(distances.values()):
        axes.barh(number, always + 1, 0.6, color=COLOURS["green"])
        axes.barh(number, sometimes - always, 0.6, always + 1, color=COLOURS["orange"])
    axes.barh(0, 0, color=COLOURS["green"], label="always reported")
    axes.barh(0, 0, color=COLOURS["orange"], label="slack: may be reported")
    axes.grid(visible=False)
    axes.set_xlim(0, 22)
    axes.set_ylim(len(distances) - 0.5, -0.5)
    axes.set_yticks(range(len(distances)), list(distances))
    axes.set_xlabel("insertions since the key was inserted", fontsize=9)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
    return figure


BLOCKS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("drawings.toml").read_text("utf-8")
)


def blocks(about: dict[str, Any]) -> Any:
    width, height = about["size"]
    across, up = about.get("across", (0, width)), about.get("up", (0, height))
    figure, axes = bare_axes(width, height, xlim=across, ylim=up)
    annotate = partial(axes.annotate, **PLACED)
    for box in about["boxes"]:
        draw_box(axes, *box)
    for start, end, text in about["arrows"]:
        annotate("", end, start, arrowprops=ARROW)
        middle = (start[1] + end[1]) / 2 + about.get("lift", 0.14)
        annotate(text, ((start[0] + end[0]) / 2, middle))
    for x, y, text in about.get("notes", ()):
        annotate(text, (x, y))
    return figure


def block_drawing(name: str) -> Drawing:
    about = BLOCKS[name]
    return Drawing(name, lambda: about["words"], lambda _: blocks(about))


SPEC = preset("apbbf-tiny")  # of the unit in timing diagrams
NAMES = {Operation.QUERY: "query", Operation.INSERT: "insert", Operation.CHECK_AND_INSERT: "check"}
AXIS = [f"{side}_axis_{end}" for side in "sm" for end in ("tvalid", "tready", "tdata", "tuser")]

Trace = list[dict[str, Any]]  # values by cycle and signal; payloads only where they are valid


@dataclass(frozen=True)
class Diagram:
    requests: Sequence[tuple[Operation, int]]  # with keys, from cycle 0 on
    signals: Sequence[str]  # those of `record` that are drawn
    stalled: range = range(0)  # cycles in which no result is accepted
    margin: int = 1  # cycles shown before and after a signal change
    end: int | None = None  # first cycle that is not shown; by default, until all is quiet

    def wave_json(self) -> dict[str, Any]:
        trace = record(self.requests, self.stalled)[: self.end]
        return wave_json(trace, self.signals, shown(trace, self.signals, self.margin))


def record(requests: Sequence[tuple[Operation, int]], stalled: range) -> Trace:
    unit = filter_unit(SPEC, tag_bits=8, statistics_bits=0)
    core = unit.core
    trace: Trace = []

    async def bench(ctx: Any) -> None:
        while not ctx.get(unit.i.ready):
            await ctx.tick()
        await ctx.tick().repeat(4 * unit.latency)
        number, idle = 0, 0
        while idle < 4:
            waiting = number < len(requests)
            operation, key = requests[number] if waiting else (Operation.NONE, 0)
            ctx.set(unit.i.valid, waiting)
            ctx.set(unit.i.p.operation, operation.value)
            ctx.set(unit.i.p.key, key)
            ctx.set(unit.i.p.tag, number)
            ctx.set(unit.o.ready, len(trace) not in stalled)
            valid, ready = ctx.get(unit.i.valid), ctx.get(unit.i.ready)
            out, taken = ctx.get(unit.o.valid), ctx.get(unit.o.ready)
            row = {"i.valid": valid, "i.ready": ready, "o.valid": out, "o.ready": taken}
            row["shift"] = ctx.get(core.control.shift)
            if valid:
                row |= {"operation": NAMES[operation], "key": f"{key:02x}", "i tag": str(number)}
            if out:
                results = {"seen": unit.o.p.seen, "age": unit.o.p.age, "o tag": unit.o.p.tag}
                row |= {name: str(ctx.get(signal)) for name, signal in results.items()}
            trace.append(row)
            number += valid and ready
            busy = waiting or out or len(trace) <= number + unit.latency
            idle = 0 if busy else idle + 1
            await ctx.tick()

    simulate(unit, bench, clock=True)
    return trace


def simulate(unit: Any, bench: Callable[[Any], Any], *, clock: bool) -> None:
    simulator = Simulator(unit)
    if clock:
        simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def axis() -> dict[str, Any]:
    unit = AxisUnit(filter_unit(SPEC, tag_bits=8, statistics_bits=0))
    keys = [0x2A, 0x2A, 0x51]
    trace: Trace = []

    async def cycle(ctx: Any) -> None:
        for level in (1, 0):
            ctx.set(unit.aclk, level)
            await ctx.delay(1e-6)

    async def bench(ctx: Any) -> None:
        ctx.set(unit.m_axis_tready, 1)
        for ready in (0, 1):  # in reset, and until the memories are clear
            ctx.set(unit.aresetn, ready)
            await cycle(ctx)
        while not ctx.get(unit.s_axis_tready):
            await cycle(ctx)
        sent = results = 0
        while results < len(keys):
            ctx.set(unit.s_axis_tvalid, sent < len(keys))
            if sent < len(keys):
                ctx.set(unit.s_axis_tdata, keys[sent])
                ctx.set(unit.s_axis_tuser, Operation.CHECK_AND_INSERT.value | sent << 3)
            row: dict[str, Any] = {}
            for name in AXIS:
                row[name] = ctx.get(getattr(unit, name))
                if name.endswith(("tdata", "tuser")):
                    valid = row[f"{name[0]}_axis_tvalid"]
                    row[name] = f"{row[name]:02x}" if valid else None
            trace.append(row)
            sent += row["s_axis_tvalid"] and row["s_axis_tready"]
            results += row["m_axis_tvalid"]
            await cycle(ctx)

    simulate(unit, bench, clock=False)
    return wave_json(trace, AXIS, shown(trace, AXIS, 1))


def shown(trace: Trace, names: Iterable[str], margin: int) -> list[int]:
    steps = [name for name in names if "tag" not in name]
    values = [[row.get(name) for name in steps] for row in trace]
    changes = {0} | {n for n in range(1, len(trace)) if values[n] != values[n - 1]}
    return [n for n in range(len(trace)) if changes & {*range(n - margin, n + margin + 1)}]


def wave_json(trace: Trace, names: Sequence[str], cycles: Sequence[int]) -> dict[str, Any]:
    gaps = {n for before, n in pairwise(cycles) if n != before + 1}
    rows = [{"name": "cycle", **_lane([str(n) for n in cycles], cycles, gaps)}]
    rows += [
        {"name": name, **_lane([trace[n].get(name) for n in cycles], cycles, gaps)}
        for name in names
    ]
    return {"signal": rows}


def _lane(values: Sequence[Any], cycles: Sequence[int], gaps: set[int]) -> dict[str, Any]:
    wave = ""
    data: list[str] = []
    last: Any = object()
    for value, cycle in zip(values, cycles, strict=True):
        if cycle in gaps:
            wave, last = wave + "|", object()
        if value == last:
            wave += "."
        elif isinstance(value, str):
            wave, data = wave + "=", [*data, value]
        else:
            wave += "x" if value is None else str(int(value))
        last = value
    return {"wave": wave} | ({"data": data} if data else {})


def drawn(diagram: Mapping[str, Any]) -> Any:
    """Draw a diagram in WaveDrom's format; only the parts that `wave_json` uses are supported."""
    rows = diagram["signal"]
    figure, axes = bare_axes(0.6 + 0.42 * len(rows[0]["wave"]), 0.3 * len(rows))
    for number, row in enumerate(rows):
        _draw_row(axes, row, -number)
    return figure


def _draw_row(axes: Any, row: Mapping[str, Any], y: float) -> None:
    axes.text(-0.2, y, row["name"], ha="right", va="center")
    wave, data = row["wave"], iter(row.get("data", ()))
    level: list[tuple[float, float]] = []
    x = 0
    while x < len(wave):
        end = x + 1
        while end < len(wave) and wave[end] == ".":
            end += 1
        if wave[x] in "01":
            height = y + (0.28 if wave[x] == "1" else -0.28)
            level += [(x, height), (end, height)]
        else:
            level.append((x, np.nan))
        if wave[x] == "=":
            corners = [(x, y), (x + 0.1, y + 0.28), (end - 0.1, y + 0.28), (end, y)]
            corners += [(end - 0.1, y - 0.28), (x + 0.1, y - 0.28), (x, y)]
            axes.plot(*zip(*corners, strict=True), color=COLOURS["muted"], linewidth=0.9)
            axes.text((x + end) / 2, y, next(data), ha="center", va="center", fontsize=8)
        elif wave[x] == "|":
            axes.text(x + 0.5, y, "\N{MIDLINE HORIZONTAL ELLIPSIS}", ha="center", va="center")
        x = end
    if level:
        axes.plot(*zip(*level, strict=True), color=COLOURS["blue"], linewidth=1.4)


INSERT, QUERY, CHECK = Operation.INSERT, Operation.QUERY, Operation.CHECK_AND_INSERT
REQUEST = ("i.valid", "i.ready", "operation", "key")
DIAGRAMS = {
    "operation": Diagram(
        [(INSERT, 0x2A), (CHECK, 0x2A), (QUERY, 0x51)],
        [*REQUEST, "o.valid", "o.ready", "seen", "o tag"],
    ),
    "shift": Diagram(
        [*((INSERT, 0x10 + n) for n in range(SPEC.generation + 1)), (QUERY, 0x10), (QUERY, 0x14)],
        [*REQUEST, "shift", "o.valid", "seen", "age"],
    ),
    "stall": Diagram(
        [(QUERY, n) for n in range(100)],
        ["i.valid", "i.ready", "i tag", "o.valid", "o.ready", "o tag"],
        stalled=range(90),
        end=104,
    ),
}


TIMED = GEBFSpec(window=64, epochs=4, hashes=2, bits=640, span=40, generation_span=11)

SILENCE = range(34, 62)
INSERTIONS = (*range(SILENCE.start), *range(SILENCE.stop, 80))
"""Times of the insertions into `TIMED`: one per tick, except during the silence."""


def generations() -> list[tuple[int, int]]:
    ring: Any = from_spec(TIMED)
    bounds: list[tuple[int, int]] = []
    for number, time in enumerate(INSERTIONS):
        shifts = ring.shifts
        ring.insert(np.array([number], np.uint64), np.array([time]))
        if ring.shifts > shifts or not bounds:
            bounds.append((time, time))
        bounds[-1] = (bounds[-1][0], time)
    return bounds


def time_spans(bounds: Sequence[tuple[int, int]]) -> Any:
    figure = blank_figure(7.4, 2.3)
    axes = figure.subplots()
    for number, (first, last) in enumerate(bounds):
        axes.barh(number, last + 1 - first, 0.7, first, color=COLOURS["blue"])
        axes.barh(number, TIMED.span - 1, 0.7, last + 1, color=COLOURS["green"])
    axes.barh(0, 0, color=COLOURS["blue"], label="receives insertions")
    axes.barh(0, 0, color=COLOURS["green"], label="settled, counts")
    edges = SILENCE.start, SILENCE.stop
    axes.axvspan(*edges, label="silence", color=COLOURS["grid"], alpha=0.5, zorder=0)
    axes.grid(visible=False)
    axes.set_ylim(len(bounds) - 0.4, -0.6)
    axes.set_yticks(range(len(bounds)))
    axes.set_xlabel("time in ticks")
    axes.set_ylabel("generation")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


SHOWN = 5  # operations in the timing diagram of a tick, one per cycle


def tick_times(cycle: int) -> list[int]:
    """Simulate one query per cycle and a tick in `cycle`; return the times in the results."""
    unit = filter_unit(preset("timed-tiny"), statistics_bits=0)
    times: list[int] = []

    async def bench(ctx: Any) -> None:
        ctx.set(unit.o.ready, 1)
        ctx.set(unit.i.p.operation, Operation.QUERY.value)
        await ctx.tick().until(unit.i.ready)
        for number in range(SHOWN):
            ctx.set(unit.i.valid, 1)
            ctx.set(unit.tick, number == cycle)
            *_, ready = await ctx.tick().sample(unit.i.ready)
            assert ready
        ctx.set(unit.i.valid, 0)
        ctx.set(unit.tick, 0)
        while len(times) < SHOWN:
            *_, valid, time = await ctx.tick().sample(unit.o.valid, unit.o.p.time)
            times.extend([time] * valid)

    simulate(unit, bench, clock=True)
    return times


def tick_diagram(cycle: int = 2) -> str:
    times, names = tick_times(cycle), "ABCDE"
    after = times.index(times[0] + 1)
    rows = {
        "cycle": range(SHOWN),
        "operation": names,
        "tick": ["^" if number == cycle else "" for number in range(SHOWN)],
        "time of result": [7 + time - times[0] for time in times],
    }
    lines = [
        f"{name:<16}" + "".join(f"{value!s:<5}" for value in row) for name, row in rows.items()
    ]
    lines[2] += f"takes effect between {names[after - 1]} and {names[after]}"
    return "\n".join(["```text", *(line.rstrip() for line in lines), "```"])


STREAM = Taps(delay=40_000, jitter=60_000, hops=1, repeats=0.1, repeat_after=200_000_000)
"""Two taps with a router between them; some packets are retransmitted."""


@cache
def copy_report() -> tuple[CopyReport, float]:
    span, window, output = 10_000_000, 65_536, io.BytesIO()
    tap(MadePackets(14_000, rate=20_000), output, STREAM)
    spec, tick = dedup_spec(span, window, 1e-6)
    settings = Deduplication(span=span, window=window, spec=spec, tick=tick)
    report = CopyReport(settings, ["taps.pcap"])
    with tempfile.NamedTemporaryFile() as file:
        file.write(output.getvalue())
        file.flush()
        with CaptureFiles([file.name]) as capture:
            deduplicate(capture, [report], settings)
    return report, span / 1e9


COPIES = Drawing(
    "copies",
    lambda: copy_report()[0].figures()["distances"],
    lambda _: picture(*copy_report()),
)


def clocks(summaries: Sequence[Summary]) -> dict[str, list[tuple[float, int]]]:
    points: dict[str, list[tuple[float, int]]] = {}
    for median in (summary.median for summary in summaries):
        points.setdefault(median.device, []).append((round(median.fmax_mhz, 1), median.lut))
    return points


def area(points: dict[str, list[tuple[float, int]]]) -> Any:
    figure = blank_figure(7, 4)
    axes = figure.subplots()
    for family, colour in (("ecp5", "blue"), ("ice40", "orange"), ("gowin", "green")):
        units = [unit for name in points if name.startswith(family) for unit in points[name]]
        speeds, sizes = zip(*units, strict=True)
        axes.plot(sizes, speeds, "o", color=COLOURS[colour], markersize=5, label=family)
    axes.set_xlabel("LUTs")
    axes.set_ylabel("usable clock in MHz")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


CLOCKS = Drawing("clock-area", lambda: clocks(summarise(records("hardware"), "units")), area)

FILTERS = [Drawing(name, partial(roles, spec), ring) for name, spec in RINGS.items()]
FILTERS.append(Drawing("slack", reported, slack))

HARDWARE = [Drawing("unit", stages, unit)]
HARDWARE += [Drawing(name, diagram.wave_json, drawn) for name, diagram in DIAGRAMS.items()]

PAGES = (
    Page(DOCS / "dedup.md", drawings=[COPIES]),
    Page(DOCS / "index.md", drawings=[block_drawing("window")]),
    Page(
        DOCS / "time-limited.md",
        lambda: {"tick": tick_diagram()},
        drawings=[Drawing("spans", generations, time_spans)],
    ),
    Page(DOCS / "timing.md", drawings=[block_drawing("timing-part")]),
    Page(DOCS / "cuckoo.md", drawings=[block_drawing("dictionary-columns")]),
)
