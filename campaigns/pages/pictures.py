"""Pictures of a unit and its timing, of the ring over time, and of the deduplicator of frames."""

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from lately.golden import preset
from lately.hdl.queue import ResultQueue
from lately.hdl.ring.core import FilterCore, ring_core
from lately.replay.drawing import save
from lately.replay.plots import COLOURS, blank_figure, style

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


HARDWARE = Page(DOCS / "hardware.md", dict, drawings=_hardware_drawings, draw=draw_hardware)
FILTERS = Page(DOCS / "filters.md", dict, drawings=lambda: {RING: ring_words()}, draw=draw_ring)
DEDUPLICATOR = Page(
    DOCS / "deduplicator.md", dict, drawings=lambda: {FRAMES: frames_words()}, draw=draw_frames
)
