"""Pictures for docs/gallery.md, in which each example filters a few events."""

import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from lately.replay.drawing import COLOURS, blank_figure

from .blocks import DOCS, ROOT, Drawing, Page

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


def drawn(name: str, events: Sequence[tuple[int, float, bool]]) -> Any:
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


PAGE = Page(
    DOCS / "gallery.md",
    drawings=[
        Drawing(name, lambda story=story: story().events(), partial(drawn, name))
        for name, story in STORIES.items()
    ],
)
