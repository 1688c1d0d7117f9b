"""Drawings of the pages: units, rings, windows in time, deduplicators, and clock against area."""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from lately.golden import Operation, from_spec, preset
from lately.golden.spec import GEBFSpec
from lately.hdl.build import filter_unit
from lately.hdl.queue import ResultQueue
from lately.hdl.ring.core import FilterCore, ring_core
from lately.replay.drawing import save
from lately.replay.plots import COLOURS, blank_figure, style

from ..hardware import Summary
from . import waves
from .blocks import DOCS, IMAGES, Page

BLOCKS = IMAGES / "unit.svg"
RING = IMAGES / "ring.svg"
FRAMES = IMAGES / "deduplicator.svg"
GENERATIONS = 9
"""Columns of the picture of the ring."""

UNIT = preset("default")


def _core() -> FilterCore:
    return ring_core(UNIT)


def stages() -> list[tuple[str, str]]:
    """Return the parts of the pipeline, and what each is or takes."""
    core = _core()
    parts = (("hash", core.hashes[0]), ("store", core.store), ("detector", core.detector))
    found = [("front end", "gate, schedule")]
    found += [(name, f"{part.latency} cycles") for name, part in parts]
    return [*found, ("result queue", f"{ResultQueue.LATENCY} cycles")]


def unit_words() -> str:
    """Put the block diagram into words."""
    return ", ".join(f"{name}: {what}" for name, what in stages())


ARROW = {"arrowstyle": "-|>", "color": COLOURS["ink"], "linewidth": 1.1}
"""Properties of the arrows between blocks."""


def block_axes(
    width: float, height: float, across: tuple[float, float], up: tuple[float, float]
) -> tuple[Any, Any, Any]:
    """Return a figure for blocks, its bare axes with these limits, and what places a text."""
    figure = blank_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(*across)
    axes.set_ylim(*up)
    return figure, axes, partial(axes.annotate, ha="center", va="center", fontsize=8)


def draw_unit() -> None:
    """Draw a unit as blocks."""
    with style():
        figure, axes, place = block_axes(8.4, 2.1, (-1.1, 9.3), (-1.1, 1.2))
        for number, (name, what) in enumerate(stages()):
            draw_box(axes, 2 * number, 0, f"{name}\n{what}", "blue")
        labels = ("i", "key", "addresses", "matches", "verdict", "o")
        for number, label in enumerate(labels):
            place("", (2 * number - 0.75, 0), (2 * number - 1.2, 0), arrowprops=ARROW)
            place(label, (2 * number - 1, 0.3))
        for y, start, end, text in ((0.9, 0, 8, "tag"), (-0.9, 8, 0, "credits: room for results")):
            near = 0.5 * y
            axes.plot((start, start, end), (near, y, y), color=COLOURS["ink"], linewidth=1.1)
            place("", (end, near), (end, y), arrowprops=ARROW)
            place(text, (4, y + 0.15))
        place(f"{UNIT.ring_segments} segments and the spare", (4, -0.5))
        save(figure, BLOCKS, unit_words())


def draw_box(axes: Any, x: float, y: float, text: str, colour: str) -> None:
    """Draw a box with text in it, in the middle of `x` and `y`."""
    edge = COLOURS[colour]
    box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": edge, "linewidth": 1.4}
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, linespacing=1.5)


def roles(k: int, l: int) -> Iterator[tuple[int, int, int, str]]:
    """Yield generation, physical segment, age and role of all segments of a ring."""
    segments = k + l + 1
    for generation in range(GENERATIONS):
        for segment in range(segments):
            age = (generation - segment) % segments
            role = "written" if age < k else "read" if age < k + l else "spare"
            yield generation, segment, age, role


def draw_ring(k: int = 2, l: int = 3) -> None:
    """Draw which segments are written, read and cleared in each generation."""
    colours = {"written": COLOURS["blue"], "read": COLOURS["green"], "spare": COLOURS["grid"]}
    names = {"written": "written and read", "read": "read", "spare": "spare, being cleared"}
    with style():
        figure = blank_figure(6.6, 2.6)
        axes = figure.subplots()
        for generation, segment, age, role in roles(k, l):
            ink = COLOURS["ink"] if role == "spare" else "white"
            axes.barh(segment, 0.94, 0.86, generation - 0.47, color=colours[role])
            text = "" if role == "spare" else str(age)
            axes.text(generation, segment, text, ha="center", va="center", color=ink, fontsize=8)
        for role, name in names.items():
            axes.barh(0, 0, color=colours[role], label=name)
        axes.grid(False)
        axes.set_ylim(k + l + 0.6, -0.6)
        axes.set_xticks(range(GENERATIONS))
        axes.set_yticks(range(k + l + 1))
        axes.set_xlabel("generation; each shift moves every segment up by one age")
        axes.set_ylabel("segment of the memory")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        save(figure, RING, ring_words(k, l))


def ring_words(k: int = 2, l: int = 3) -> str:
    """Put the ring into words."""
    return f"An APBF with k = {k} and l = {l} over {GENERATIONS} generations: " + " ".join(
        f"{segment}{role[0]}" for _, segment, _, role in roles(k, l)
    )


def frames_words() -> str:
    """Put the deduplicator of frames into words."""
    return "s_axis, widen, intake, store, narrow, m_axis; beside the store: digest, filter, verdict"


def draw_frames() -> None:
    """Draw the deduplicator of frames as blocks."""
    above = ("widen\n8 to 64 bits", "intake\nwhole or not at all", "store\nring of block RAM",
             "narrow\n64 to 8 bits")  # fmt: skip
    with style():
        figure, axes, place = block_axes(8.4, 2.3, (-1.6, 8.7), (-1.8, 0.7))
        for number, text in enumerate(above):
            draw_box(axes, 2.3 * number, 0, text, "blue")
        draw_box(axes, 3.4, -1.3, "digest\nkeyed, 64 bits", "green")
        draw_box(axes, 5.8, -1.3, "filter\nspan and window", "green")
        for start, end, text in (
            (-1.5, -0.7, "s_axis"), (0.75, 1.45, ""), (3.15, 3.85, ""), (5.4, 6.1, ""),
            (7.7, 8.5, "m_axis"),
        ):  # fmt: skip
            place("", (end, 0), (start, 0), arrowprops=ARROW)
            place(text, ((start + end) / 2, 0.25))
        place("", (2.9, -0.95), (2.5, -0.4), arrowprops=ARROW)
        place("", (5.0, -1.3), (4.3, -1.3), arrowprops=ARROW)
        place("", (5.0, -0.4), (5.5, -0.95), arrowprops=ARROW)
        place("verdict", (5.75, -0.65))
        place("registers: AXI4-Lite or Wishbone", (0.6, -1.3))
        save(figure, FRAMES, frames_words())


@cache
def _diagrams() -> dict[str, dict[str, Any]]:
    return {name: diagram.wave_json() for name, diagram in waves.DIAGRAMS.items()}


def _hardware_drawings() -> dict[Any, str]:
    timing = {IMAGES / f"{name}.svg": waves.description(d) for name, d in _diagrams().items()}
    return {BLOCKS: unit_words()} | timing


def draw_hardware() -> None:
    """Draw the block diagram and the timing diagrams."""
    draw_unit()
    for name, diagram in _diagrams().items():
        waves.draw(diagram, IMAGES / f"{name}.svg")


# Windows in time, timing filters and dictionaries

SPANS = IMAGES / "spans.svg"
PART = IMAGES / "timing-part.svg"
COLUMNS = IMAGES / "dictionary-columns.svg"

TIMED = GEBFSpec(window=64, epochs=4, hashes=2, bits=640, span=40, generation_span=11)
"""Ring of the picture of windows in time."""

SILENCE = range(34, 62)
INSERTIONS = (*range(SILENCE.start), *range(SILENCE.stop, 80))
"""Times of its insertions: one a tick, but in the silence."""

Arrow = tuple[tuple[float, float], tuple[float, float], str]
"""Where an arrow begins and ends, and what is written above it."""


@cache
def generations() -> tuple[tuple[int, int], ...]:
    """Return the times of the first and last insertion of each generation, as golden has them."""
    ring: Any = from_spec(TIMED)
    found: list[tuple[int, int]] = []
    for number, time in enumerate(INSERTIONS):
        shifts = ring.shifts
        ring.insert(np.array([number], np.uint64), np.array([time]))
        if ring.shifts > shifts or not found:
            found.append((time, time))
        found[-1] = (found[-1][0], time)
    return tuple(found)


def spans_words() -> str:
    """Put the picture of windows in time into words."""
    told = ", ".join(
        f"{first} to {last}, counts to {last + TIMED.span}" for first, last in generations()
    )
    return f"Generations of a ring with a span of {TIMED.span} ticks: {told}"


def draw_spans() -> None:
    """Draw how long the segments of a ring receive insertions, and how long they count."""
    with style():
        figure = blank_figure(7.4, 2.3)
        axes = figure.subplots()
        for number, (first, last) in enumerate(generations()):
            whole = last + TIMED.span
            axes.barh(number, last + 1 - first, 0.7, first, color=COLOURS["blue"])
            axes.barh(number, whole - last - 1, 0.7, last + 1, color=COLOURS["green"])
        axes.barh(0, 0, color=COLOURS["blue"], label="receives insertions")
        axes.barh(0, 0, color=COLOURS["green"], label="settled, counts")
        shade: dict[str, Any] = {"color": COLOURS["grid"], "alpha": 0.5, "zorder": 0}
        axes.axvspan(SILENCE.start, SILENCE.stop, label="silence", **shade)
        axes.grid(visible=False)
        axes.set_ylim(len(generations()) - 0.4, -0.6)
        axes.set_yticks(range(len(generations())))
        axes.set_xlabel("time in ticks")
        axes.set_ylabel("generation")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        save(figure, SPANS, spans_words())


SHOWN = 5
"""Operations of the timing diagram of a tick, one in each cycle."""


def tick_times(cycle: int) -> list[int]:
    """Return the times of the results of `SHOWN` queries, with a tick in a `cycle` of theirs."""
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

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return times


def tick_diagram(cycle: int = 2) -> str:
    """Return the timing diagram of a tick in a `cycle`: the operations, and when it counts."""
    times, names = tick_times(cycle), "ABCDE"
    after = times.index(times[0] + 1)
    rows = {
        "cycle": range(SHOWN),
        "operation": names,
        "tick": ["^" if number == cycle else "" for number in range(SHOWN)],
        "time of result": [7 + time - times[0] for time in times],
    }
    lines = [f"{name:<16}" + "".join(f"{one!s:<5}" for one in row) for name, row in rows.items()]
    lines[2] += f"takes effect between {names[after - 1]} and {names[after]}"
    return "\n".join(["```text", *(line.rstrip() for line in lines), "```"])


def _draw_blocks(
    path: Path,
    size: tuple[float, float],
    boxes: Sequence[tuple[float, float, str, str]],
    arrows: Sequence[Arrow],
    words: str,
    notes: Sequence[tuple[float, float, str]] = (),
) -> None:
    """Draw boxes, as place, text and colour, arrows between them, and notes, in inches."""
    with style():
        figure, axes, place = block_axes(*size, (0, size[0]), (0, size[1]))
        for x, y, text, colour in boxes:
            draw_box(axes, x, y, text, colour)
        for start, end, text in arrows:
            place("", end, start, arrowprops=ARROW)
            place(text, ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.14))
        for x, y, text in notes:
            place(text, (x, y))
        save(figure, path, words)


def part_words() -> str:
    """Put the picture of a part of a timing filter into words."""
    return (
        "key, hash, memory of stamps: port A reads for operations, port B writes for them or is "
        "the sweep's; ages, oldest cell, verdict"
    )


def draw_part() -> None:
    """Draw a part of a timing filter between the hash and the answer."""
    boxes = (
        (1.2, 1.65, "hash", "blue"),
        (3.5, 1.65, "memory of stamps\nport A: reads", "blue"),
        (3.5, 0.45, "port B: writes,\nor the sweep's", "green"),
        (6.0, 1.65, "age: now less\nthe stamp", "blue"),
        (7.9, 1.65, "oldest\ncell", "blue"),
        (6.0, 0.45, "sweep\nexpired: restamp", "green"),
        (1.2, 0.45, "ticks\nnow", "green"),
    )
    arrows = (
        ((0.1, 1.65), (0.8, 1.65), "key"),
        ((1.6, 1.65), (2.65, 1.65), "cell"),
        ((4.35, 1.65), (5.35, 1.65), "stamp"),
        ((6.65, 1.65), (7.45, 1.65), ""),
        ((8.35, 1.65), (9.3, 1.65), "age, seen"),
        ((1.65, 0.45), (2.75, 0.45), "stamp"),
        ((5.2, 0.45), (4.25, 0.45), "free clocks"),
        ((3.5, 0.75), (3.5, 1.3), ""),
    )
    _draw_blocks(PART, (9.5, 2.1), boxes, arrows, part_words())


def columns_words() -> str:
    """Put the picture of the columns of a dictionary into words."""
    return (
        "digest, a row in each of the columns; one that has it, or the first that is free, is "
        "written, otherwise the stash; with moves the stash and a column exchange entries"
    )


def draw_columns() -> None:
    """Draw the columns of a dictionary, their stash and what is exchanged."""
    texts = [f"column {at}\nin use, time, rest" for at in range(3)]
    boxes = (
        (0.95, 1.65, "digest\nof the key", "blue"),
        *((3.0 + 1.55 * at, 1.65, text, "blue") for at, text in enumerate(texts)),
        (4.55, 0.4, "stash: entries without a cell", "green"),
        (8.1, 1.65, "verdict\nand age", "blue"),
    )
    arrows = (
        ((1.5, 1.65), (2.25, 1.65), "rows"),
        ((6.85, 1.65), (7.55, 1.65), "cells"),
        ((8.65, 1.65), (9.3, 1.65), ""),
        ((4.3, 1.3), (4.3, 0.7), ""),
        ((4.8, 0.7), (4.8, 1.3), ""),
        ((6.0, 0.5), (7.9, 1.25), ""),
    )
    notes = ((3.6, 0.95, "no cell is free"), (5.3, 0.95, "exchanged"))
    _draw_blocks(COLUMNS, (9.5, 2.1), boxes, arrows, columns_words(), notes)


# Clock and area


def image(path: Path, text: str) -> str:
    """Return the Markdown of a drawing with a description."""
    return f"```{{image}} images/{path.name}\n:alt: {text}\n```"


def area_words(summaries: Sequence[Summary]) -> str:
    """Put the drawing of clock and area into words, for people and for the check of pages."""
    points: dict[str, list[str]] = {}
    for median in (summary.median for summary in summaries):
        points.setdefault(median.device, []).append(f"{median.fmax_mhz:.1f} {median.lut}")
    devices = (f"{device}: {', '.join(found)}" for device, found in points.items())
    return "Usable clock and area of units, in MHz and LUTs. " + "; ".join(devices)


def draw_area(summaries: Sequence[Summary], path: Path) -> None:
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
        save(figure, path, area_words(summaries))


PAGES = (
    Page(DOCS / "hardware.md", dict, drawings=_hardware_drawings, draw=draw_hardware),
    Page(DOCS / "filters.md", dict, drawings=lambda: {RING: ring_words()}, draw=draw_ring),
    Page(
        DOCS / "deduplicator.md", dict, drawings=lambda: {FRAMES: frames_words()}, draw=draw_frames
    ),
    Page(
        DOCS / "time-limited.md",
        lambda: {"tick": tick_diagram()},
        drawings=lambda: {SPANS: spans_words()},
        draw=draw_spans,
    ),
    Page(DOCS / "timing.md", dict, drawings=lambda: {PART: part_words()}, draw=draw_part),
    Page(DOCS / "cuckoo.md", dict, drawings=lambda: {COLUMNS: columns_words()}, draw=draw_columns),
)
