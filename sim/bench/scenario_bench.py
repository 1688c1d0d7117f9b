"""Play the steps of a scenario on a unit in cocotb, as a compiled unit would perform them.

Environment variables: those of `unit`, and LATELY_STEPS (JSON file with the steps).
"""

import json
import os
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from ...hdl.verilog import LONGEST_SILENCE
from ..replay.beats import Beats
from .parts import Beat, Stalls
from .unit import Settings, UnitUnderTest


@cocotb.test()
async def scenario(dut) -> None:
    bench = await UnitUnderTest.start(dut, Settings.of_environment())
    player = Player(bench)
    for number, (name, operands, options) in enumerate(
        json.loads(Path(os.environ["LATELY_STEPS"]).read_text())
    ):
        dut._log.info("step %d: %s", number, name)
        await getattr(player, name)(*operands, **options)
    await bench.finish()


class Player:
    """Methods of `CompiledUnit` as coroutines; each starts and ends just after a clock edge."""

    def __init__(self, bench: UnitUnderTest) -> None:
        self._bench = bench
        self._reached = 0  # the latest time in the scenario

    def _beats(
        self, codes: list[int], keys: list[int], numbers: Any, times: Any, **lanes: Any
    ) -> list[Beat]:
        bench = self._bench
        width = bench.signature.lanes
        flags = {name: np.array(flag) for name, flag in lanes.items()}
        beats = Beats(np.array(codes, np.uint8), width, **flags)
        rows: list[list[Any]] = [[None] * width for _ in beats.alone]
        for slot, code, key, number, time in zip(
            beats.slots, codes, keys, numbers, times, strict=True
        ):
            bench.ticks.time = time
            if slot >= 0:
                item = bench.item(code, key, number)
                rows[slot // width][slot % width] = item
                if "query_class" in item:
                    item["query_class"] = number
        return [Beat(int(alone), tuple(row)) for alone, row in zip(beats.alone, rows, strict=True)]

    async def perform(
        self, codes: list[int], keys: list[int], *, times: Any = None, windows: Any = None,
        pause_before: float = 0.0, pause_after: float = 0.0, seed: int = 1, period: int = 0,
        silence: int = 0, **lanes: Any,
    ) -> None:  # fmt: skip
        bench, now = self._bench, self._bench.ticks.time
        gaps = np.diff([self._reached, *times]) if times else np.zeros(len(codes), int)
        self._reached = times[-1] if times else self._reached
        given = now + np.cumsum(np.minimum(gaps, LONGEST_SILENCE))
        numbers = bench.spec.query_numbers(windows, len(codes)).tolist()
        beats = self._beats(codes, keys, numbers, given.tolist(), **lanes)
        if period and bench.settings.ticks == "tick":
            bench.ticks.start(lambda: period)
        elif period:
            bench.ticks.set_period(period)
        bench.monitor.stalls = Stalls(pause_after, seed)
        await bench.driver.send(beats, stalls=Stalls(pause_before, seed + 1))
        await bench.settle()
        if silence:
            await ClockCycles(bench.dut.clk, silence)
        if period:
            await bench.ticks.drain()

    perform_freely = perform

    async def interrupt(self, codes: list[int], keys: list[int], beats: int) -> None:
        """Reset the unit once `beats` beats have returned their results."""
        bench, count = self._bench, len(codes)
        numbers = bench.spec.query_numbers(None, count).tolist()
        items = self._beats(codes, keys, numbers, [bench.ticks.time] * count)
        bench.monitor.stalls = Stalls()
        enough = bench.scoreboard.compared + beats
        sending = cocotb.start_soon(bench.driver.send(items))
        while bench.scoreboard.compared < enough:
            await RisingEdge(bench.dut.clk)
        if "ring" in bench.settings.traits:
            minimum = bench.unit.minimum_generation if bench.signature.lanes > 1 else 1
            bench.dut.generation.value = bench.spec.generation
            bench.reference.generation = max(bench.spec.generation, minimum)
        await bench.cut(sending)
        await ClockCycles(bench.dut.clk, bench.settled)
        self._reached = 0

    async def set_generation(self, length: int) -> None:
        await self._bench.set_generation(length)

    async def rekey(self, secret: int) -> None:
        await self._bench.settle()
        await self._bench.load_secret(secret)
        await ClockCycles(self._bench.dut.clk, max(self._bench.secret_lead, 1))

    async def decide_by(self, table: Any) -> None:
        await self._bench.settle()
        await self._bench.tables.load(np.array(table))
        await self._bench.tables.swap()

    async def pass_ticks(self, ticks: int) -> None:
        await self._bench.ticks.advance(ticks)
        await self._bench.ticks.drain()

    async def idle(self, cycles: int) -> None:
        await ClockCycles(self._bench.dut.clk, max(cycles, 1))
