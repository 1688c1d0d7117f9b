"""Timing diagrams for docs/hardware.md, from simulations of a tiny unit."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from lately.golden import preset
from lately.golden.operations import Operation
from lately.hdl.build import filter_unit
from lately.hdl.bus.flat import AxisUnit
from lately.replay.drawing import COLOURS

from .blocks import bare_axes

SPEC = preset("apbbf-tiny")
NAMES = {Operation.QUERY: "query", Operation.INSERT: "insert", Operation.CHECK_AND_INSERT: "check"}
Trace = list[dict[str, Any]]


@dataclass(frozen=True)
class Diagram:
    requests: Sequence[tuple[Operation, int]]  # with keys, from cycle 0 on
    signals: Sequence[str]  # those of `record` that are drawn
    stalled: range = range(0)  # cycles in which no result is accepted
    margin: int = 1  # cycles shown before and after a signal change
    end: int | None = None  # first cycle that is not shown; by default, until all is quiet

    def wave_json(self) -> dict[str, Any]:
        trace = record(self.requests, self.stalled)[: self.end]
        return wave_json(trace, self.signals, shown(trace, self.signals, self.margin))


def record(requests: Sequence[tuple[Operation, int]], stalled: range) -> Trace:
    unit = filter_unit(SPEC, tag_bits=8, statistics_bits=0)
    core = unit.core
    trace: Trace = []

    async def bench(ctx: Any) -> None:
        while not ctx.get(unit.i.ready):
            await ctx.tick()
        await ctx.tick().repeat(4 * unit.latency)
        number, idle = 0, 0
        while idle < 4:
            waiting = number < len(requests)
            operation, key = requests[number] if waiting else (Operation.NONE, 0)
            ctx.set(unit.i.valid, waiting)
            ctx.set(unit.i.p.operation, operation.value)
            ctx.set(unit.i.p.key, key)
            ctx.set(unit.i.p.tag, number)
            ctx.set(unit.o.ready, len(trace) not in stalled)
            valid, ready = ctx.get(unit.i.valid), ctx.get(unit.i.ready)
            out = ctx.get(unit.o.valid)
            trace.append(
                {
                    "i.valid": valid,
                    "i.ready": ready,
                    "operation": NAMES.get(operation) if valid else None,
                    "key": f"{key:02x}" if valid else None,
                    "i tag": str(number) if valid else None,
                    "shift": ctx.get(core.control.shift),
                    "o.valid": out,
                    "o.ready": ctx.get(unit.o.ready),
                    "seen": str(ctx.get(unit.o.p.seen)) if out else None,
                    "age": str(ctx.get(unit.o.p.age)) if out else None,
                    "o tag": str(ctx.get(unit.o.p.tag)) if out else None,
                }
            )
            number += valid and ready
            busy = waiting or out or len(trace) <= number + unit.latency
            idle = 0 if busy else idle + 1
            await ctx.tick()

    simulate(unit, bench, clock=True)
    return trace


def simulate(unit: Any, bench: Callable[[Any], Any], *, clock: bool) -> None:
    simulator = Simulator(unit)
    if clock:
        simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def record_axis() -> Trace:
    unit = AxisUnit(filter_unit(SPEC, tag_bits=8, statistics_bits=0))
    keys, trace = [0x2A, 0x2A, 0x51], []

    async def cycle(ctx: Any) -> None:
        for level in (1, 0):
            ctx.set(unit.aclk, level)
            await ctx.delay(1e-6)

    async def bench(ctx: Any) -> None:
        ctx.set(unit.m_axis_tready, 1)
        for ready in (0, 1):  # in reset, and until the memories are clear
            ctx.set(unit.aresetn, ready)
            await cycle(ctx)
        while not ctx.get(unit.s_axis_tready):
            await cycle(ctx)
        sent = results = 0
        while results < len(keys):
            valid = sent < len(keys)
            user = Operation.CHECK_AND_INSERT.value | sent << 3
            ctx.set(unit.s_axis_tvalid, valid)
            ctx.set(unit.s_axis_tdata, keys[sent] if valid else 0)
            ctx.set(unit.s_axis_tuser, user if valid else 0)
            out = ctx.get(unit.m_axis_tvalid)
            trace.append(
                {
                    "s_axis_tvalid": valid,
                    "s_axis_tready": ctx.get(unit.s_axis_tready),
                    "s_axis_tdata": f"{keys[sent]:02x}" if valid else None,
                    "s_axis_tuser": f"{user:02x}" if valid else None,
                    "m_axis_tvalid": out,
                    "m_axis_tready": 1,
                    "m_axis_tdata": f"{ctx.get(unit.m_axis_tdata):02x}" if out else None,
                    "m_axis_tuser": f"{ctx.get(unit.m_axis_tuser):02x}" if out else None,
                }
            )
            sent, results = sent + bool(valid and ctx.get(unit.s_axis_tready)), results + out
            await cycle(ctx)

    simulate(unit, bench, clock=False)
    return trace


def axis() -> dict[str, Any]:
    trace = record_axis()
    return wave_json(trace, list(trace[0]), shown(trace, list(trace[0]), 1))


def shown(trace: Trace, names: Iterable[str], margin: int) -> list[int]:
    steps = [name for name in names if "tag" not in name]
    values = [[row[name] for name in steps] for row in trace]
    changes = {0} | {n for n in range(1, len(trace)) if values[n] != values[n - 1]}
    return [n for n in range(len(trace)) if changes & {*range(n - margin, n + margin + 1)}]


def wave_json(trace: Trace, names: Sequence[str], cycles: Sequence[int]) -> dict[str, Any]:
    gaps = {n for before, n in pairwise(cycles) if n != before + 1}
    rows = [{"name": "cycle", **_lane([str(n) for n in cycles], cycles, gaps)}]
    rows += [
        {"name": name, **_lane([trace[n][name] for n in cycles], cycles, gaps)} for name in names
    ]
    return {"signal": rows}


def _lane(values: Sequence[Any], cycles: Sequence[int], gaps: set[int]) -> dict[str, Any]:
    wave = ""
    data: list[str] = []
    last: Any = object()
    for value, cycle in zip(values, cycles, strict=True):
        if cycle in gaps:
            wave, last = wave + "|", object()
        if value == last:
            wave += "."
        elif isinstance(value, str):
            wave, data = wave + "=", [*data, value]
        else:
            wave += "x" if value is None else str(int(value))
        last = value
    return {"wave": wave} | ({"data": data} if data else {})


def drawn(diagram: Mapping[str, Any]) -> Any:
    """Draw a diagram in WaveDrom's format; only the parts that `wave_json` uses are supported."""
    rows = diagram["signal"]
    figure, axes = bare_axes(0.6 + 0.42 * len(rows[0]["wave"]), 0.3 * len(rows))
    for number, row in enumerate(rows):
        _draw_row(axes, row, -number)
    return figure


def _draw_row(axes: Any, row: Mapping[str, Any], y: float) -> None:
    axes.text(-0.2, y, row["name"], ha="right", va="center")
    wave, data = row["wave"], iter(row.get("data", ()))
    level: list[tuple[float, float]] = []
    x = 0
    while x < len(wave):
        end = x + 1
        while end < len(wave) and wave[end] == ".":
            end += 1
        if wave[x] in "01":
            height = y + (0.28 if wave[x] == "1" else -0.28)
            level += [(x, height), (end, height)]
        else:
            level.append((x, np.nan))
        if wave[x] == "=":
            corners = [(x, y), (x + 0.1, y + 0.28), (end - 0.1, y + 0.28), (end, y)]
            corners += [(end - 0.1, y - 0.28), (x + 0.1, y - 0.28), (x, y)]
            axes.plot(*zip(*corners, strict=True), color=COLOURS["muted"], linewidth=0.9)
            axes.text((x + end) / 2, y, next(data), ha="center", va="center", fontsize=8)
        elif wave[x] == "|":
            axes.text(x + 0.5, y, "\N{MIDLINE HORIZONTAL ELLIPSIS}", ha="center", va="center")
        x = end
    if level:
        axes.plot(*zip(*level, strict=True), color=COLOURS["blue"], linewidth=1.4)


INSERT, QUERY, CHECK = Operation.INSERT, Operation.QUERY, Operation.CHECK_AND_INSERT
REQUEST = ("i.valid", "i.ready", "operation", "key")
DIAGRAMS = {
    "operation": Diagram(
        [(INSERT, 0x2A), (CHECK, 0x2A), (QUERY, 0x51)],
        [*REQUEST, "o.valid", "o.ready", "seen", "o tag"],
    ),
    "shift": Diagram(
        [*((INSERT, 0x10 + n) for n in range(SPEC.generation + 1)), (QUERY, 0x10), (QUERY, 0x14)],
        [*REQUEST, "shift", "o.valid", "seen", "age"],
    ),
    "stall": Diagram(
        [(QUERY, n) for n in range(100)],
        ["i.valid", "i.ready", "i tag", "o.valid", "o.ready", "o tag"],
        stalled=range(90),
        end=104,
    ),
}
