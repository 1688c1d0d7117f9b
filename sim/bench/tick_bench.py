"""What the benches of units with ticks share: how time goes on."""

from collections.abc import Callable

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge
from cocotb.utils import get_sim_time

from ...hdl.latencies import TICKS_WAITING
from .unit_bench import TICKS, UnitBench


class TickingBench(UnitBench):
    """A unit out of reset whose time can go on.

    Attributes
    ----------
    period : int
        Clocks from one tick to the next, at least.
    tick_settled : int
        Clocks for which a tick may wait for the unit.
    ticks : list of float
        When each tick of the port came, in ns.
    time : int
        Time of the requests to come, where they carry it.
    """

    period: int
    tick_settled: int = 0

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.ticks: list[float] = []
        self.time = 0
        self._flow: cocotb.task.Task | None = None

    async def tick(self) -> None:
        """Let one tick come in this clock; starts and ends after an edge."""
        self.dut.tick.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.tick.value = 0
        self.ticks.append(get_sim_time("ns"))

    async def go_on(self, ticks: int) -> None:
        """Let time go on for some ticks; at the least period if they come by themselves."""
        if TICKS == "time":
            self.time += ticks
        elif TICKS == "period":
            await ClockCycles(self.dut.clk, ticks * self.period)
        else:
            for _ in range(ticks):
                await self.tick()
                await ClockCycles(self.dut.clk, self.period - 1)

    async def load_unit(self) -> None:
        """Let ticks come and wait under load; the second reset sets the time to 0."""
        self.flow(lambda: self.random.choice((1, self.period)))
        await super().load_unit()
        if self._flow is not None:
            self._flow.cancel()
            self._flow = None
        self.stop_time()
        self.ticks.clear()
        self.time = 0

    def flow(self, distance: Callable[[], int]) -> None:
        """Let time go on by itself, with so many clocks from one tick of the port to the next."""

        async def pulses() -> None:
            while True:
                await ClockCycles(self.dut.clk, distance() - 1)
                await self.tick()

        if TICKS == "tick":
            self._flow = cocotb.start_soon(pulses())

    async def stand_still(self) -> None:
        """Let no more ticks come, if possible, and all have their effect; between edges."""
        if self._flow is not None:
            self._flow.cancel()
            self._flow = None
        self.stop_time()
        await ClockCycles(self.dut.clk, self.tick_settled + (TICKS_WAITING + 2) * self.period)
