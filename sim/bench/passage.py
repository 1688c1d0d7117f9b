"""Further inputs of some units: ticks of a clock, and tables of answers."""

import itertools
from collections.abc import Callable
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotb.utils import get_sim_time
from numpy.typing import NDArray

from ...golden import Operation
from ...hdl.interface import pack
from ...hdl.latencies import TICKS_WAITING


class Passage:
    """The time of a unit: ticks of a port, ticks of a period, or times of the requests.

    Attributes
    ----------
    ticks : list of float
        Time of each tick at the port, in ns.
    time : int
        Time of the next requests, if requests carry times.
    """

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self._dut = bench.dut
        self._source = bench.settings.ticks
        self._flow: cocotb.task.Task | None = None
        self.ticks: list[float] = []
        self.time = 0

    @property
    def period(self) -> int:
        """Minimum cycles from one tick to the next."""
        return int(self._bench.profile.least_period) or 1

    def step(self) -> None:
        """Occasionally advance the time of requests, by small and large steps."""
        spec, draw = self._bench.spec, self._bench.random
        if self._source == "time" and draw.random() < 0.1:
            self.time += draw.choice((1, 1, 2, spec.generation_span, spec.span, spec.span + 1, 100))

    async def tick(self, *, after: int = 0) -> None:
        """Send one tick after `after` cycles; starts and ends after an edge."""
        if after:
            await ClockCycles(self._dut.clk, after)
        self._dut.tick.value = 1
        await RisingEdge(self._dut.clk)
        self._dut.tick.value = 0
        self.ticks.append(get_sim_time("ns"))

    async def go_on(self, ticks: int) -> None:
        """Advance time by some ticks, at the minimum distance."""
        if self._source == "time":
            self.time += ticks
        elif self._source == "period":
            await ClockCycles(self._dut.clk, ticks * self.period)
        else:
            for _ in range(ticks):
                await self.tick()
                await ClockCycles(self._dut.clk, self.period - 1)

    def flow(self, distance: Callable[[], int] | None = None) -> None:
        """Drive ticks at the port; by default as often as permitted, with some of them delayed.

        Parameters
        ----------
        distance : callable, optional
            Returns the cycles from one tick to the next.
        """
        choose = self._bench.random.choice
        between = distance or (lambda: choose((self.period, self.period, 2 * self.period)))

        async def pulses() -> None:
            while True:
                await self.tick(after=between() - 1)

        if self._source == "tick":
            self._flow = cocotb.start_soon(pulses())

    def crowd(self) -> None:
        """Send ticks to the port at such short distances that many of them wait."""
        distances = itertools.cycle((1, 1, 1, self.period))
        self.flow(lambda: next(distances))

    def stop(self) -> None:
        """Stop the ticks at the port; ticks of a period cannot be stopped."""
        if self._flow is not None:
            self._flow.cancel()
            self._flow = None
        if self._source == "tick":
            self._dut.tick.value = 0
        elif self._source == "period":
            self._dut.period.value = 0

    def forget(self) -> None:
        """Stop, and restart at 0, as the unit does at reset."""
        self.stop()
        self.ticks.clear()
        self.time = 0

    async def stand_still(self) -> None:
        """Send no more ticks, and wait until all have taken effect; ends after an edge."""
        self.stop()
        waiting = (TICKS_WAITING + 2) * self.period
        await ClockCycles(self._dut.clk, int(self._bench.profile.longest_pause) + waiting)

    def check(self) -> None:
        """Compare the time of the last result with the number of ticks."""
        if self._source == "tick":
            now, count = self._bench.reference.now, len(self.ticks)
            assert now == count, f"{count} ticks, and the unit says {now}"


class Tables:
    """Tables of answers: entries are loaded one by one into one bank while the other is in use."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self._dut = bench.dut
        self._ready = "table" in bench.signature.members

    def forget(self) -> None:
        """Restart, as the unit does at reset."""
        if self._ready:
            # The contents of each bank, and the number of the bank in use.
            self.banks = [self.filled(0) for _ in range(2)]
            self.answers = 0

    async def begin(self) -> None:
        """Query before a table exists, then load one; starts and ends after an edge."""
        self.forget()
        bench = self._bench
        await bench.send(*[(Operation.QUERY, bench.key())] * (2 * bench.spec.classes))
        await self.load(self.drawn())
        await self.swap()

    def filled(self, value: int) -> NDArray[np.int64]:
        """Return a table with one value in all entries."""
        return np.full(self._bench.spec.table_shape, value, np.int64)

    def drawn(self) -> NDArray[np.int64]:
        """Return random thresholds, from one that every key reaches to one that no key reaches."""
        draw, most = self._bench.random, self._bench.spec.hashes + 1
        shape = self._bench.spec.table_shape
        values = [draw.randint(0, most) for _ in range(int(np.prod(shape)))]
        return np.array(values, np.int64).reshape(shape)

    async def load(self, table: NDArray[np.int64], *, share: float = 1.0) -> None:
        """Load entries of a table, all or some of them; starts and ends after an edge."""
        dut = self._dut
        entry = self._bench.signature.members["table"].signature.members["payload"].shape
        for (query_class, age, phase), least in np.ndenumerate(table):
            if self._bench.random.random() >= share:
                continue
            fields = {"phase": phase, "age": age, "query_class": query_class, "least": least}
            dut.table__payload.value = pack(entry, fields)
            dut.table__valid.value = 1
            await FallingEdge(dut.clk)
            while not dut.table__ready.value:
                await FallingEdge(dut.clk)
            self.banks[1 - self.answers][query_class, age, phase] = least
            await RisingEdge(dut.clk)
            dut.table__valid.value = 0

    async def swap(self) -> None:
        """Swap the banks; starts and ends after an edge."""
        self._dut.swap.value = 1
        await FallingEdge(self._dut.clk)
        assert not self._dut.table__ready.value, "an entry would be taken beside a swap"
        self.answers = 1 - self.answers
        self._bench.reference.swap(get_sim_time("ns"), self.banks[self.answers])
        await RisingEdge(self._dut.clk)
        self._dut.swap.value = 0
