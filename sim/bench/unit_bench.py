"""What the benches of units share: the unit that the environment names, brought out of reset.

The environment names the specification (LATELY_SPEC, a TOML file), the seed
of all random choices (LATELY_SEED) and the variant of the memories
(LATELY_MEMORY), and, where there are ticks, the options of
`lately.hdl.verilog.time_options` (LATELY_TIME, in JSON). LATELY_NETLIST
says that the unit is a netlist, in which a portable memory cannot be found:
its bits are not compared then, and the log says so. LATELY_COVERAGE names a
file to which the situations that the tests brought about are added.
"""

import json
import os
import random
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import cocotb
from amaranth.hdl import UnusedElaboratable
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotb.utils import get_sim_time

from ...golden import Specification
from .parts import Pattern, Scoreboard, Stalls

SPEC: Any = Specification.from_toml(os.environ["LATELY_SPEC"])
KEYED = getattr(SPEC, "hash", "h3") == "siphash"
SEED = int(os.environ.get("LATELY_SEED", "1"))
MEMORY = os.environ.get("LATELY_MEMORY", "portable")
TIME_OPTIONS: dict[str, Any] = json.loads(os.environ.get("LATELY_TIME", "{}"))
TICKS = TIME_OPTIONS.get("ticks", "")
"""Source of the ticks; empty if there are none."""
NETLIST = os.environ.get("LATELY_NETLIST", "0") == "1"
COVERAGE = os.environ.get("LATELY_COVERAGE", "")
PERIOD_NS = 10

# Units are built for their figures only.
warnings.filterwarnings("ignore", category=UnusedElaboratable)


LOADED = 50
"""Clocks from the first operation to the second reset."""


class UnitBench(ABC):
    """A unit with its driver, monitor and scoreboard.

    Attributes
    ----------
    streams : tuple of str
        Input streams of the unit.
    secret_lead : int
        Cycles from a secret's acceptance to the first operation that it applies to.
    settled : int
        Clocks after reset, and after the last result, until all that is cleared is clear.
    """

    streams: tuple[str, ...] = (
        ("i", "secret") if getattr(SPEC, "hash", "h3") == "siphash" else ("i",)
    )
    secret_lead: int
    settled: int

    def __init__(self, dut, scoreboard: Scoreboard, driver: Any, monitor: Any) -> None:
        self.dut = dut
        self.scoreboard: Any = scoreboard
        self.driver = driver
        self.monitor = monitor
        self.random = random.Random(SEED)
        dut._log.info("seed %d", SEED)

    async def reset(self) -> Self:
        """Start the clock, reset the unit twice, start the monitor and wait for the first clear.

        Operations flow before the second reset, so that memories hold what no test has written.
        """
        dut = self.dut
        self.scoreboard.forget()
        dut.rst.value = 1
        Clock(dut.clk, PERIOD_NS, unit="ns", impl="gpi").start()
        # Icarus runs an `always @*` only when an input changes, so every input has to.
        for level in (1, 0):
            for stream in self.streams:
                payload = getattr(dut, f"{stream}__payload")
                payload.value = -level % (1 << len(payload))
                getattr(dut, f"{stream}__valid").value = level
            await ClockCycles(dut.clk, 2)
        dut.rst.value = 0
        cocotb.start_soon(self.monitor.run())
        await self.load_unit()
        await ClockCycles(dut.clk, self.settled)
        return self

    @abstractmethod
    def operations(self, count: int) -> Sequence[Any]:
        """Return random operations, or beats."""

    async def load_unit(self) -> None:
        """Reset the unit in mid-stream, and forget what came before; starts and ends after an edge.

        A secret, if the unit takes any, is loaded under load.
        """
        dut, monitor, driver = self.dut, self.monitor, self.driver
        monitor.stalls = Stalls(0.2, SEED)
        sending = cocotb.start_soon(driver.send(self.operations(self.settled + LOADED)))
        while not driver.accepted:
            await RisingEdge(dut.clk)
        loading = None
        if "secret" in self.streams:
            loading = cocotb.start_soon(self.load_secret(self.random.getrandbits(128)))
        await ClockCycles(dut.clk, LOADED)
        if loading is not None:
            loading.cancel()
            dut.secret__valid.value = 0
        await self.cut(sending)
        for notes in (driver.waits, driver.times, monitor.outcomes, monitor.times):
            notes.clear()
        monitor.held, monitor.stalls = 0, Stalls()

    def stop_time(self) -> None:
        """Let no tick come; those of a period cannot be stopped."""
        if TICKS == "tick":
            self.dut.tick.value = 0
        elif TICKS == "period":
            self.dut.period.value = 0

    async def load_secret(self, secret: int) -> None:
        """Load a secret when the unit takes it, and tell the reference; starts after an edge."""
        dut = self.dut
        dut.secret__payload.value = secret
        dut.secret__valid.value = 1
        await FallingEdge(dut.clk)
        for _ in range(10_000):
            if dut.secret__ready.value:
                break
            await FallingEdge(dut.clk)
        else:
            raise AssertionError("no secret is taken")
        self.scoreboard.rekey(get_sim_time("ns") + self.secret_lead * PERIOD_NS, secret)
        await RisingEdge(dut.clk)
        dut.secret__valid.value = 0

    def key(self) -> int:
        """Return a random key, often one of a few."""
        few = self.random.random() < 0.5
        return self.random.randrange(min(1 << SPEC.key_bits, 24 if few else 1 << 64))

    async def drain(self) -> None:
        """Wait until all results have come, and all that follows them is settled."""
        for _ in range(1000):
            if not self.scoreboard.outstanding:
                break
            await ClockCycles(self.dut.clk, 20)
        await ClockCycles(self.dut.clk, self.settled)
        await FallingEdge(self.dut.clk)

    async def finish(self) -> None:
        """Wait for all results and check that as many came as operations, or beats, were sent."""
        await self.drain()
        board, sent = self.scoreboard, len(self.driver.accepted)
        assert board.outstanding == 0, f"{board.outstanding} results are missing"
        assert board.compared == sent, f"sent {sent}, compared {board.compared}"

    async def perform(self, items: Sequence[Any], *, stalls: Stalls | None = None) -> None:
        """Send all of this, and check what comes as `finish` does."""
        await self.driver.send(items, stalls=stalls)
        await self.finish()

    async def perform_with_pauses(
        self, items: Callable[[], Sequence[Any]], taking: Pattern, *, unpaused: int
    ) -> None:
        """Send new items with pauses of each length, then without; take results with others."""
        self.monitor.stalls = taking
        for length in range(1, 10):
            await self.driver.send(items(), stalls=Pattern([length]))
        for _ in range(unpaused):
            await self.driver.send(items())
        assert taking.rounds > 1, "the output did not pause in all ways"
        self.monitor.stalls = Stalls()
        await self.finish()

    async def perform_blocked(self, items: Sequence[Any], *, clocks: int) -> int:
        """Send items, for some clocks with nobody taking results; return what was accepted then.

        After a reset with all places taken, the unit has to accept as many again.
        """
        self.monitor.stalls = Stalls(1.0)
        before = await self.interrupt(items, clocks=clocks)
        await ClockCycles(self.dut.clk, self.settled)
        sending = cocotb.start_soon(self.driver.send(items))
        await ClockCycles(self.dut.clk, clocks)
        accepted = len(self.driver.accepted)
        assert accepted == before, f"accepted {before} operations, and {accepted} after a reset"
        self.monitor.stalls = Stalls()
        await sending
        await self.finish()
        return accepted

    async def interrupt(self, items: Sequence[Any], *, clocks: int) -> int:
        """Reset the unit when it was sent items for some clocks; return what it had accepted."""
        sending = cocotb.start_soon(self.driver.send(items))
        await ClockCycles(self.dut.clk, clocks)
        return await self.cut(sending)

    async def cut(self, sending: cocotb.task.Task) -> int:
        """Reset the unit while it is sent items; return what it had accepted."""
        sending.cancel()
        self.driver.release()
        accepted = len(self.driver.accepted)
        self.driver.accepted.clear()
        self.dut.rst.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self.scoreboard.forget()
        return accepted

    def check_counts(self, **counts: int) -> None:
        """Hold counters of the unit, by name, against what they are to have counted."""
        for name, count in counts.items():
            counter = getattr(self.dut, name)
            counted, expected = int(counter.value), count % (1 << len(counter))
            assert counted == expected, f"{name}: expected {expected}, got {counted}"

    @property
    def shows_memory(self) -> bool:
        """Whether the memory can be read; the log says if not."""
        shown = not NETLIST or MEMORY != "portable"
        if not shown:
            self.dut._log.warning("a netlist of the portable memory: its bits are not compared")
        return shown
