"""Pictures of windows in time, of a part of a timing filter, and of the columns of a dictionary.

Also the timing diagram of a tick, from a simulation.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from lately.golden import FilterSpec, Operation, from_spec, preset
from lately.hdl.unit import FilterUnit
from lately.replay.drawing import save
from lately.replay.plots import COLOURS, blank_figure, style

from .blocks import DOCS, IMAGES, Page
from .pictures import ARROW, block_axes, draw_box

SPANS = IMAGES / "spans.svg"
PART = IMAGES / "timing-part.svg"
COLUMNS = IMAGES / "dictionary-columns.svg"

TIMED = FilterSpec(
    family="gebf", window=64, epochs=4, hashes=2, bits=640, span=40, generation_span=11
)
"""Ring of the picture of windows in time."""

SILENCE = range(34, 62)
INSERTIONS = (*range(SILENCE.start), *range(SILENCE.stop, 80))
"""Times of its insertions: one a tick, but in the silence."""

Arrow = tuple[tuple[float, float], tuple[float, float], str]
"""Where an arrow begins and ends, and what is written above it."""


@cache
def generations() -> tuple[tuple[int, int], ...]:
    """Return the times of the first and last insertion of each generation, as golden has them."""
    ring = from_spec(TIMED)
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
        shade = {"color": COLOURS["grid"], "alpha": 0.5, "zorder": 0}
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
    unit = FilterUnit(preset("timed-tiny"), statistics_bits=0)
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


TIME_LIMITED = Page(
    DOCS / "time-limited.md",
    lambda: {"tick": tick_diagram()},
    drawings=lambda: {SPANS: spans_words()},
    draw=draw_spans,
)
TIMING = Page(DOCS / "timing.md", dict, drawings=lambda: {PART: part_words()}, draw=draw_part)
CUCKOO = Page(
    DOCS / "cuckoo.md", dict, drawings=lambda: {COLUMNS: columns_words()}, draw=draw_columns
)
