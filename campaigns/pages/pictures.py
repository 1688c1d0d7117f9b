"""Draws the pictures for docs/how-it-works.md and docs/gallery.md.

The pictures for docs/how-it-works.md show the state of small golden models, cell by cell. The
pictures for docs/gallery.md show a few events that the examples filter.
"""

import runpy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from lately.golden import PartitionedTimingSpec, WindowDictionarySpec, from_spec
from lately.golden.spec import APBFSpec, BlockedGEBFSpec
from lately.replay.drawing import COLOURS, blank_figure

from .blocks import DOCS, ROOT, Drawing, Page, bare_axes

RING = APBFSpec(k=2, l=3, slice_bits=16, generation=4)
BLOCKED = BlockedGEBFSpec(window=24, epochs=3, hashes=2, bits=512, block_bits=16)
TIMING = PartitionedTimingSpec(window=12, block=4, hashes=3, cells=8, stamp_bits=4)
DICTIONARY = WindowDictionarySpec(window=12, columns=3, rows=8, digest_bits=12)

KEY, FIRST, COUNT = 7, 1, 14
"""The key in the pictures; the `COUNT` other keys are the integers from `FIRST` on."""

FACES = {"set": "blue", "found": "green", "new": "orange", "old": "grid"}
"""Colours of cells, by state; cells without a state are white."""


class Row(NamedTuple):
    """A row of cells, with a state and a text for each cell; `marked` cells have an outline."""

    label: str
    states: Sequence[str]
    note: str = ""
    texts: Sequence[str] = ()
    marked: Sequence[int] = ()


class Picture(NamedTuple):
    rows: Sequence[Row]
    legend: dict[str, str]  # texts by state


def model(spec: Any, count: int = COUNT, *keys: int) -> Any:
    filter = from_spec(spec)
    filter.insert(np.array([*range(FIRST, FIRST + count), *keys], np.uint64))
    return filter


def ages(ring: Any) -> list[int]:
    segments = ring.spec.segments
    return [(segment - ring.ring_position) % segments for segment in range(segments)]


def role(spec: Any, age: int) -> str:
    return "spare" if age == spec.ring_segments else f"age {age}"


@cache
def cells_of(spec: Any, key: int) -> dict[int, list[int]]:
    """Return the cells that a key sets in each physical segment of an empty ring."""
    ring, cells = from_spec(spec), {}
    for _ in range(spec.segments):
        ring.shift()
        ring.insert(np.array([key], np.uint64))
        cells[ring.ring_position] = np.flatnonzero(ring.segment(0)).tolist()
    return cells


def in_ring(ring: Any) -> Iterable[tuple[int, int, Any]]:
    for age, segment in sorted((age, segment) for segment, age in enumerate(ages(ring))):
        yield age, segment, ring.memory[segment].ravel()


def states(masks: Mapping[str, Any]) -> list[str]:
    """Return the state of each cell: the name of the first mask that contains the cell, or ""."""
    return np.select([*masks.values()], [*masks], "").tolist()


def insertion() -> Picture:
    before, after = model(RING), model(RING, COUNT, KEY + 100)
    rows = []
    for age, segment, bits in in_ring(after):
        cells = cells_of(RING, KEY + 100)[segment] if age < RING.k else []
        new = np.isin(np.arange(len(bits)), cells)
        assert (bits == before.memory[segment].ravel() | new).all()
        note = "written" if cells else ""
        rows.append(Row(role(RING, age), states({"new": new, "set": bits}), note))
    return Picture(rows, {"new": "bit of the new key", "set": "set earlier"})


def lookup() -> Picture:
    ring = model(RING)
    rows = []
    for age, segment, bits in in_ring(ring):
        cells = cells_of(RING, KEY)[segment] if age < RING.ring_segments else []
        matched = bits[cells].all()
        mine = np.isin(np.arange(len(bits)), cells)
        shown = states({"found": mine & matched, "": mine, "set": bits})
        note = ("match" if matched else "no match") if cells else ""
        rows.append(Row(role(RING, age), shown, note, marked=cells))
    matches = [row.note == "match" for row in rows[:-1]]
    assert matches == ring.matches(np.array([KEY], np.uint64))[:, 0].tolist()
    return Picture(rows, {"found": "bit of the key, set", "set": "other bits"})


def turn() -> Picture:
    before, after = model(RING), model(RING)
    after.shift()
    rows = []
    for segment, (old, new) in enumerate(zip(ages(before), ages(after), strict=True)):
        masks = {"set": after.memory[segment].ravel(), "old": before.memory[segment].ravel()}
        note = f"{role(RING, old)} to {role(RING, new)}"
        rows.append(Row(f"segment {segment}", states(masks), note))
    return Picture(rows, {"set": "set", "old": "set before, now cleared"})


def blocks() -> Picture:
    ring = model(BLOCKED, 6, KEY)
    fresh = from_spec(BLOCKED)
    fresh.insert(np.array([KEY], np.uint64))
    key_bits, bits = (
        each.segment(0).reshape(BLOCKED.hashes, -1, BLOCKED.block_bits // BLOCKED.hashes)
        .transpose(1, 0, 2).reshape(-1, BLOCKED.block_bits)
        for each in (fresh, ring)
    )  # fmt: skip
    rows = []
    for number, (word, mine) in enumerate(zip(bits, key_bits, strict=True)):
        note = "this key" if mine.any() else ""
        rows.append(Row(f"word {number}", states({"found": mine, "set": word}), note))
    return Picture(rows, {"found": "bit of the key", "set": "other bits"})


def stamps() -> Picture:
    timing = model(TIMING)
    fresh = from_spec(TIMING)
    fresh.insert(np.array([KEY], np.uint64))
    expired, rows = timing.expired_age, []
    for part, line in enumerate(timing.memory):
        cells = np.flatnonzero(fresh.memory[part] != expired).tolist()
        shown = states({"old": line == expired, "found": np.isin(np.arange(len(line)), cells)})
        texts = ["" if age == expired else str(age) for age in line]
        rows.append(Row(f"hash {part}", shown, f"age {line[cells[0]]}", texts, cells))
    oldest = max(int(row.note.split()[1]) for row in rows)
    assert timing.look_up(np.array([KEY], np.uint64)).age[0] == oldest
    return Picture(rows, {"found": "cell of the key", "old": "expired"})


def rows_of(key: int) -> list[int]:
    rows: list[int] = []
    taken: list[int] = []

    def landing(*keys: int) -> tuple[int, int]:
        dictionary = from_spec(DICTIONARY)
        dictionary.insert(np.array(keys, np.uint64))
        column, row = np.argwhere(dictionary.memory[0] == 1)[0]  # The entry of the last insertion.
        return int(column), int(row)

    for column in range(DICTIONARY.columns):
        where = landing(*taken, key)
        assert where[0] == column
        rows.append(where[1])
        if column < DICTIONARY.columns - 1:
            taken.append(next(n for n in range(1000, 2000) if landing(*taken, n) == where))
    return rows


def columns() -> Picture:
    dictionary = model(DICTIONARY)
    (live, _), key_rows, rows = dictionary.memory, rows_of(KEY), []
    age = int(dictionary.look_up(np.array([KEY], np.uint64)).age[0])
    for column, codes in enumerate(live):
        mine = (np.arange(len(codes)) == key_rows[column]) & (codes == age + 1)
        texts = [str(code - 1) if code else "" for code in codes]
        note = "holds the key" if mine.any() else ""
        shown = states({"found": mine, "set": codes > 0})
        rows.append(Row(f"column {column}", shown, note, texts, [key_rows[column]]))
    assert sum("found" in row.states for row in rows) == 1
    return Picture(rows, {"found": "entry of the key", "set": "other entries"})


PICTURES = {"insert": insertion, "query": lookup, "shift": turn, "blocked": blocks,
            "timing": stamps, "dictionary": columns}  # fmt: skip


WIDTH = 4.3  # width of a picture in inches, so that its texts are legible on a phone

_LEFT, _RIGHT, _LINE = 0.8, 1.1, 0.25  # in inches: widths of labels and notes, and row height


def drawn(picture: Picture) -> Any:
    rows = len(picture.rows)
    unit = (WIDTH - _LEFT - _RIGHT) / len(picture.rows[0].states)
    across = (-_LEFT / unit, (WIDTH - _LEFT) / unit)
    figure, axes = bare_axes(WIDTH, _LINE * (rows + 1.8), xlim=across, ylim=(rows + 1.5, -0.3))
    write = partial(axes.text, va="center", fontsize=9, color=COLOURS["ink"])
    cells = [(x, y, s) for y, row in enumerate(picture.rows) for x, s in enumerate(row.states)]
    for state in sorted({state for _, _, state in cells}):
        face = COLOURS[FACES[state]] if state else "white"
        corners = [(x, y) for x, y, other in cells if other == state]
        axes.add_patch(_patch(corners, facecolor=face, edgecolor=COLOURS["grid"], linewidth=0.6))
    marked = [(n, y) for y, row in enumerate(picture.rows) for n in row.marked]
    axes.add_patch(_patch(marked, facecolor="none", edgecolor=COLOURS["ink"], linewidth=1.6))
    for y, row in enumerate(picture.rows):
        write(-0.15 / unit, y + 0.5, row.label, ha="right")
        write((WIDTH - _LEFT - _RIGHT + 0.1) / unit, y + 0.5, row.note, ha="left")
        for x, text in enumerate(row.texts):
            ink = "white" if row.states[x] in ("set", "found") else COLOURS["ink"]
            write(x + 0.5, y + 0.5, text, ha="center", fontsize=8, color=ink)
    left = 0.0
    for state, text in picture.legend.items():
        axes.add_patch(_patch([(left, rows + 0.4)], facecolor=COLOURS[FACES[state]], linewidth=0))
        write(left + 1.2, rows + 0.9, text)
        left += 2 + len(text) * 0.075 / unit
    return figure


def _patch(cells_of: Iterable[tuple[float, float]], **style: Any) -> PathPatch:
    """Draw squares at these positions as one path, which keeps the file small."""
    corners = [
        [(x + 0.06, y + 0.06), (x + 0.94, y + 0.06), (x + 0.94, y + 0.94), (x + 0.06, y + 0.94)]
        for x, y in cells_of
    ]
    outlines = [Outline([*four, four[0]], closed=True) for four in corners]
    return PathPatch(Outline.make_compound_path(*outlines), **style)


SEGMENT = 0
SHIFTS = 9  # segment shown in the picture of the spare, and number of generations


def life() -> list[tuple[int, int]]:
    ring, course = from_spec(RING), []
    for key in range(SHIFTS * RING.generation):
        ring.insert(np.array([key], np.uint64))
        course.append((ages(ring)[SEGMENT], int(ring.memory[SEGMENT].sum())))
    return course


def spare(course: Sequence[tuple[int, int]]) -> Any:
    figure = blank_figure(WIDTH, 2.2)
    axes = figure.subplots()
    axes.step(range(1, len(course) + 1), [bits for _, bits in course], where="post",
              color=COLOURS["blue"])  # fmt: skip
    starts = [n + 1 for n, (age, _) in enumerate(course) if age == RING.ring_segments]
    for start in starts:
        axes.axvspan(start, start + 1, color=COLOURS["grid"], alpha=0.6, zorder=0, linewidth=0)
    axes.set_xlabel("insertions", fontsize=9)
    axes.set_ylabel("bits set", fontsize=9)
    axes.set_ylim(0, None)
    axes.text(starts[0] + 0.3, axes.get_ylim()[1] * 0.85, "spare", fontsize=9)
    return figure


HOW_IT_WORKS = Page(
    DOCS / "how-it-works.md",
    drawings=[
        *(Drawing(f"how-{name}", picture, drawn) for name, picture in PICTURES.items()),
        Drawing("how-spare", life, spare),
    ],
)


# Examples

EXAMPLES = ROOT / "examples"

Rows = Mapping[str, Sequence[float]]  # Label of a row -> times of its events.


def example(name: str) -> Any:
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


@dataclass(frozen=True)
class Story:
    rows: Rows
    # Whether an event passes, given its row number and time; called in time order.
    decide: Callable[[int, float], bool]
    band: tuple[float, float]  # range of ages in which an earlier event decides
    refreshed: bool  # whether events that do not pass also affect later ones
    unit: str  # of time
    verbs: tuple[str, str] = ("passes", "dropped")

    def events(self) -> list[tuple[int, float, bool]]:
        order = sorted((at, row) for row, times in enumerate(self.rows.values()) for at in times)
        return [(row, at, self.decide(row, at)) for at, row in order]


def mirror_port() -> Story:
    module = example("mirror_port")
    port, frames = module.MirrorPort(), [frame for frame, _ in module.generated(3)]
    rows: Rows = {"frame A": [0, 2, 25, 27], "frame B": [1, 3], "frame C": [8, 10.5]}
    return Story(rows, lambda row, at: port.forwards(frames[row], int(at * 1e6)),
                 (0, 10), True, "ms")  # fmt: skip


def log_stream() -> Story:
    log = example("log_stream").LogStream()
    rows: Rows = {
        "disk full": [0, 2, 4, 6, 8, 12, 14, 16, 18, 20, 22, 24, 26],
        "link down": [3, 4],
        "job done": [1, 15],
    }
    lines = [f"2026-03-01T12:{{:02}}:00Z {name}" for name in rows]
    return Story(rows, lambda row, at: log.shows(lines[row].format(int(at))),
                 (0, 10), False, "minutes")  # fmt: skip


def syn_check() -> Story:
    module = example("syn_check")
    check = module.SynCheck()
    rows: Rows = {
        "client": [0.2, 1.2],
        "random": [0.7],
        "too early": [0.3, 0.6, 1],
        "too late": [0.5, 4],
    }

    def decide(row: int, at: float) -> bool:
        (passed,) = check.passes(np.array([[row, 1]], np.uint64), np.array([round(at * 1000)]))
        return bool(passed)

    band = module.MIN_AGE * module.TICK / 1000, 2.6
    return Story(rows, decide, band, True, "s")


def early_data() -> Story:
    module = example("early_data")
    register = module.EarlyDataRegister(module.FilterSpec.from_toml(module.SPEC), started=0)
    rows: Rows = {"hello A": [12, 14, 19, 21], "hello B": [4, 6], "hello C": [16, 25]}

    def decide(row: int, at: float) -> bool:
        expected = list(rows.values())[row][0] + 4
        return bool(register.accept(bytes([row]) * 32, expected * 1000, round(at * 1000)))

    return Story(rows, decide, (0, 10), False, "s", ("accepted", "rejected"))


STORIES = {"gallery-mirror": mirror_port, "gallery-log": log_stream, "gallery-syn": syn_check,
           "gallery-replay": early_data}  # fmt: skip


def story_events(name: str) -> list[tuple[int, float, bool]]:
    return STORIES[name]().events()


def story_drawn(name: str, events: Sequence[tuple[int, float, bool]]) -> Any:
    story = STORIES[name]()
    end = max(at for _, at, _ in events)
    figure = blank_figure(4.6, 0.9 + 0.34 * len(story.rows))
    axes = figure.subplots()
    youngest, oldest = story.band
    for row, at, passed in events:
        if passed or story.refreshed:
            axes.barh(row, oldest - youngest, 0.62, at + youngest, color=COLOURS["grid"], zorder=1)
    for wanted, colour, marker in ((True, "blue", "o"), (False, "orange", "X")):
        chosen = [(at, row) for row, at, passed in events if passed == wanted]
        axes.plot(*zip(*chosen, strict=True), marker, color=COLOURS[colour], markersize=8,
                  label=story.verbs[not wanted], zorder=3)  # fmt: skip
    band = "same key is remembered" if youngest == 0 else "age between the limits"
    axes.barh(0, 0, color=COLOURS["grid"], label=band)
    axes.set_yticks(range(len(story.rows)), list(story.rows))
    axes.set(ylim=(len(story.rows) - 0.5, -0.5), xlim=(-0.03 * end, 1.06 * end))
    axes.set_xlabel(f"time in {story.unit}")
    axes.grid(visible=False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, handletextpad=0.3,
                columnspacing=1.2)  # fmt: skip
    return figure


GALLERY = Page(
    DOCS / "gallery.md",
    drawings=[
        Drawing(name, partial(story_events, name), partial(story_drawn, name)) for name in STORIES
    ],
)
