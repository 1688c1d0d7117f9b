"""Drivers for the additional inputs of some units: ticks, and tables of thresholds."""

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotb.utils import get_sim_time
from numpy.typing import NDArray

from ...golden import Operation
from ...golden.operations import OperationBit
from ...hdl.frontend.time_window import TimeWindow
from ...hdl.interface import pack
from ...hdl.latencies import ACCEPT_LAG, CONTROL_LAG, TICKS_WAITING
from .parts import PERIOD_NS
from .reference import Item


class TickSource:
    """Source of a unit's time: ticks at the port, periodic ticks, or times in the requests.

    The times that an operation may have are derived from the ticks that were sent.
    """

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self._dut = bench.dut
        self._source = bench.settings.ticks
        self._ring = bench.spec.kind == "ring"
        self._pulses: cocotb.task.Task | None = None
        self._periods: list[tuple[float, int]] = [(0.0, 0)]
        self.begin()

    @property
    def period(self) -> int:
        return int(self._bench.profile.min_period) or 1

    def start(self, distance: Callable[[], int] | None = None) -> None:
        """Drive ticks at the port, `distance()` cycles apart (default: 1 or 2 periods)."""
        choose = self._bench.random.choice
        between = distance or (lambda: choose((self.period, self.period, 2 * self.period)))

        async def pulses() -> None:
            while True:
                await self.tick(after=between() - 1)

        if self._source == "tick":
            self._pulses = cocotb.start_soon(pulses())

    def start_too_fast(self) -> None:
        distances = itertools.cycle((1, 1, 1, self.period))
        self.start(lambda: next(distances))

    def stop(self) -> None:
        if self._pulses is not None:
            self._pulses.cancel()
            self._pulses = None
        if self._source == "tick":
            self._dut.tick.value = 0

    async def tick(self, *, after: int = 0) -> None:
        """Send one tick after `after` cycles.

        The coroutine starts and ends just after a clock edge.
        """
        if after:
            await ClockCycles(self._dut.clk, after)
        self._dut.tick.value = 1
        await RisingEdge(self._dut.clk)
        self._dut.tick.value = 0
        self._give(get_sim_time("ns"))

    def set_period(self, cycles: int) -> None:
        self._dut.period.value = cycles
        self._periods.append((get_sim_time("ns"), cycles))

    async def advance(self, ticks: int) -> None:
        """Advance time by `ticks` ticks, which are one minimum period apart."""
        if self._source == "time":
            self.time += ticks
        elif self._source == "period":
            await ClockCycles(self._dut.clk, ticks * self.period)
        else:
            for _ in range(ticks):
                await self.tick()
                await ClockCycles(self._dut.clk, self.period - 1)

    def step(self) -> None:
        spec, draw = self._bench.spec, self._bench.random
        if self._source == "time" and draw.random() < 0.1:
            self.time += draw.choice((1, 1, 2, spec.generation_span, spec.span, spec.span + 1, 100))

    async def drain(self) -> None:
        self.stop()
        waiting = (TICKS_WAITING + 2) * self.period
        await ClockCycles(self._dut.clk, int(self._bench.profile.longest_pause) + waiting)

    def begin(self) -> None:
        self.time = 0  # of the next requests
        # Earliest and latest time at which each tick may take effect, in ns.
        self._earliest: list[float] = []
        self._latest: list[float] = []
        if self._source == "period":
            self._next = get_sim_time("ns") + self.period * PERIOD_NS
            self._periods = [(0.0, self._periods[-1][1])]

    def _give(self, time: float) -> None:
        # In a timing filter, ticks at the port take effect one period apart. A ring needs a period
        # for each tick, or only the cycles in which it finds the next expiry.
        minimum = TimeWindow.SETTLE if self._ring else self.period
        delay = self.period if self._ring else 0
        for effects, wait, distance in (
            (self._earliest, 0, minimum), (self._latest, delay, self.period),
        ):  # fmt: skip
            waiting = len(effects) - bisect_right(effects, time + PERIOD_NS / 2)
            if waiting <= TICKS_WAITING:
                before = effects[-1] if effects else -math.inf
                effects.append(max(time + wait * PERIOD_NS, before + distance * PERIOD_NS))

    def legal_times(self, item: Item, now: int, accepted: float) -> tuple[int, int]:
        """Return the minimum and maximum time that the unit may assign to an operation.

        `now` is the time of the previous operation, and `accepted` the time of acceptance in ns.
        """
        if self._source == "time":
            times = 1 << self._bench.settings.options["time_bits"]
            passed = (item["time"] - now) % times
            # A time before the current time counts as the current time.
            now += 0 if 2 * passed >= times else passed
            return now, now
        # In a ring, a tick takes effect after an operation in the same cycle. In a timing filter, a
        # key is CONTROL_LAG cycles behind the ticks, but ticks at a port are spaced first.
        lead = -1 if self._ring else CONTROL_LAG - 1 - (self._source == "tick")
        # Compare half a cycle after the edge, to be robust against rounding.
        edge = accepted + PERIOD_NS * (1 + lead)
        # SHIFT and CLEAR wait until the input is closed; SHIFT also waits for the spare of a ring.
        alone = bool(item["operation"] & OperationBit.ALONE)
        longest = int(self._bench.profile.longest_pause) if self._ring else ACCEPT_LAG
        last = edge + alone * longest * PERIOD_NS
        while self._source == "period" and self._next <= last:
            self._give(self._next)
            # The unit samples `period` in the cycle before a tick.
            registered = self._next - 1.5 * PERIOD_NS
            settings = [cycles for time, cycles in self._periods if time < registered]
            self._next += max(settings[-1], self.period) * PERIOD_NS
        return bisect_right(self._latest, edge), max(now, bisect_right(self._earliest, last))


class Tables:
    """Tables of thresholds, loaded entry by entry into the bank that is not in use."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self._dut = bench.dut
        self._ready = "table" in bench.signature.members

    def forget(self) -> None:
        if self._ready:
            # The contents of both banks, and the number of the bank in use.
            self.banks = [self.filled(0) for _ in range(2)]
            self.answers = 0

    async def begin(self) -> None:
        """Query while no table is loaded, then load a table and use it.

        The coroutine ends just after a clock edge.
        """
        self.forget()
        bench = self._bench
        await bench.send(*[(Operation.QUERY, bench.key())] * (2 * bench.spec.classes))
        await self.load(self.drawn())
        await self.swap()

    def filled(self, value: int) -> NDArray[np.int64]:
        return np.full(self._bench.spec.table_shape, value, np.int64)

    def drawn(self) -> NDArray[np.int64]:
        draw, highest = self._bench.random, self._bench.spec.hashes + 1
        shape = self._bench.spec.table_shape
        values = [draw.randint(0, highest) for _ in range(int(np.prod(shape)))]
        return np.array(values, np.int64).reshape(shape)

    async def load(self, table: NDArray[np.int64], *, fraction: float = 1.0) -> None:
        """Load a random fraction of a table's entries into the unused bank."""
        dut = self._dut
        entry = self._bench.signature.members["table"].signature.members["payload"].shape
        for (query_class, age, phase), threshold in np.ndenumerate(table):
            if self._bench.random.random() >= fraction:
                continue
            fields = {"phase": phase, "age": age, "query_class": query_class, "least": threshold}
            dut.table__payload.value = pack(entry, fields)
            dut.table__valid.value = 1
            await FallingEdge(dut.clk)
            while not dut.table__ready.value:
                await FallingEdge(dut.clk)
            self.banks[1 - self.answers][query_class, age, phase] = threshold
            await RisingEdge(dut.clk)
            dut.table__valid.value = 0

    async def swap(self) -> None:
        self._dut.swap.value = 1
        await FallingEdge(self._dut.clk)
        assert not self._dut.table__ready.value, "an entry would be accepted during a swap"
        self.answers = 1 - self.answers
        self._bench.reference.swap(get_sim_time("ns"), self.banks[self.answers])
        await RisingEdge(self._dut.clk)
        self._dut.swap.value = 0
