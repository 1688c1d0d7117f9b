"""Compiled timing filters beside their golden models, on mixed random operations."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden import Operation, from_spec

from .soak_course import Course

SPELLS = 4
"""Mean spells in each chunk, each with a rate of insertions of its own and after a silence."""

SILENCE = 1 << 19
"""Clocks of a silence at most."""

PERIODS = (1, 1, 2, 5)
"""Clocks from one tick to the next, over the least: one is drawn for each spell."""


class CountedTimingCourse(Course):
    """A comparison of timing filters with a clock of insertions; see `Course`.

    The pool has a fifth of the window; a query asks for any window. If tables of thresholds answer,
    it is of any class, and a new table comes before each chunk, and after a reset.
    """

    SHARES: ClassVar = {
        Operation.NONE: 0.01,
        Operation.QUERY: 0.15,
        Operation.INSERT: 0.1,
        Operation.CHECK_AND_INSERT: 0.74,
    }
    TOLD: ClassVar = {**Course.TOLD, "oldest": "oldest"}
    MEMORY = "memory_cells"

    def __init__(self, unit: Any, spec: Any, seed: int, ticks: str | None = None) -> None:
        super().__init__(unit, spec, seed, ticks)
        self._expired = self._now = self._tables = 0

    def figures(self) -> dict[str, Any]:
        """Return what was compared and counted, as JSON can hold it."""
        ticks = self._past["ticks"] + self._now
        figures = {
            "expired": self._expired,
            "ticks": ticks,
            "rounds_of_stamps": ticks >> self._spec.stamp_bits,
        }
        return super().figures() | figures | ({"tables": self._tables} if self._tables else {})

    @property
    def _pool(self) -> int:
        return int(self._spec.window) // 5

    @property
    def _held(self) -> int:
        return int(self._spec.hashes * self._spec.cells)

    def _new_model(self) -> Any:
        return from_spec(self._spec)

    def _interrupt(self) -> None:
        super()._interrupt()
        self._past["ticks"] += self._now
        self._now = 0

    def _rekey(self) -> None:
        """Load a new table, if tables answer."""
        if self._spec.classes is not None:
            shape, most = self._spec.table_shape, self._spec.hashes + 1
            table = self._random.integers(0, most + 1, shape)
            self._unit.decide_by(table)
            self._model.decide_by(table)
            self._tables += 1

    def _asked(self, count: int) -> NDArray[np.int64]:
        """Draw what each query asks for: a window, or a class."""
        spec, draw = self._spec, self._random.integers
        if spec.classes is not None:
            return draw(0, spec.classes, count)
        return draw(0, spec.window_blocks + 1, count) * int(spec.block_units)

    def _both(self, codes: NDArray[np.uint8], keys: Any) -> tuple[Any, Any]:
        found, expected = self._performed(codes, keys, self._asked(len(codes)))
        self._expired += int((expected.age > self._spec.window_blocks).sum())
        # Of a CLEAR the unit tells nothing.
        for name in ("age", "oldest"):
            where = codes == Operation.CLEAR
            getattr(found, name)[where] = getattr(expected, name)[where]
        return found, expected

    def _performed(
        self, codes: NDArray[np.uint8], keys: Any, asked: NDArray[np.int64]
    ) -> tuple[Any, Any]:
        found = self._unit.perform(codes, keys, windows=asked, **self._pauses())
        expected = self._model.perform(codes, keys, None, asked)
        self._now = self._model.counters["insertions"] // self._spec.block
        return found, expected


class TimingCourse(CountedTimingCourse):
    """A comparison of timing filters with a clock of ticks.

    Ticks come as close as they may, or less often. Spells differ in the share of the operations
    that insert, from all to one in ten thousand, as a tick has at least as many clocks as a part
    has cells; between them nothing comes, for up to `SILENCE` clocks.
    """

    @property
    def _pool(self) -> int:
        return int(self._spec.cells) // 5

    def compare_memory(self) -> None:
        """Compare all cells, unless the unit makes its own ticks, which do not stop for a read."""
        if self._ticks != "period":
            super().compare_memory()

    def _memory(self) -> NDArray[Any]:
        return self._model.memory_at(self._unit.ticks * self._spec.period)

    def _add_events(self, codes: NDArray[np.uint8]) -> None:
        random, count = self._random, len(codes)
        self._spells = np.unique([0, *random.integers(0, count, random.poisson(SPELLS))])
        shares = 10 ** random.uniform(-4, 0, len(self._spells))
        stays = random.random(count) < np.repeat(shares, np.diff(self._spells, append=count))
        codes[~stays] = Operation.QUERY
        super()._add_events(codes)

    def _performed(
        self, codes: NDArray[np.uint8], keys: Any, asked: NDArray[np.int64]
    ) -> tuple[Any, Any]:
        spec, unit, pauses = self._spec, self._unit, self._pauses()
        least = unit.profile.least_period
        told = []
        for start, stop in zip(self._spells, [*self._spells[1:], len(codes)], strict=True):
            own = slice(start, stop)
            period = least * int(self._random.choice(PERIODS))
            self.met["period"] += period > least
            before = unit.ticks if self._ticks == "tick" else self._now
            answers = unit.perform_freely(
                codes[own], keys[own], asked[own], period=period, **pauses
            )
            self._now = unit.ticks if self._ticks == "tick" else int(answers.time[-1])
            self._check_times(answers.time, before, self._now)
            told.append(answers)
            silence = int(self._random.integers(0, SILENCE + 1))
            if self._ticks == "tick":
                unit.pass_ticks(silence // least)
                self._now = unit.ticks
            else:
                unit.idle(silence)
        found = type(told[0])(*map(np.concatenate, zip(*told, strict=True)))
        times = np.maximum.accumulate(found.time) * spec.period
        return found, self._model.perform(codes, keys, times, asked)
