"""Real units in shims that bring one fault at a time, and the cocotb tests that drive them."""

import os
import re
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from types import SimpleNamespace
from typing import NamedTuple

import cocotb
import pytest
from cocotb.triggers import ClockCycles

from lately.golden import Operation, any_preset
from lately.golden.spec.base import Specification
from lately.hdl.interface import pack
from lately.hdl.verilog import TOP, unit_verilog
from lately.sim.bench import parts
from lately.sim.bench.contract import latency_is_as_specified
from lately.sim.bench.memory import UnitMemory
from lately.sim.bench.parts import Stalls
from lately.sim.bench.runner import unit_options
from lately.sim.bench.unit import Settings, UnitUnderTest

CHECK, QUERY, CLEAR = Operation.CHECK_AND_INSERT, Operation.QUERY, Operation.CLEAR
KEYS = range(1, 6)
OPERATIONS = [
    *[(CHECK, key) for key in KEYS] * 2, (CLEAR, 0), *[(QUERY, key) for key in KEYS],
    *[(CHECK, key) for key in KEYS] * 2,
]  # fmt: skip
MANY = [(CHECK, key) for key in range(20, 32)]
"""As many keys as do not fit into a stash."""

MIDDLE = 7
"""Number of a result, and of a beat, to an operation with a key."""

NEVER = (1 << 16) - 1
"""Number of a cycle that no run reaches."""

# A unit that takes nothing is found soon.
parts.MAX_WAIT = 100

# Units


@dataclass(frozen=True)
class Kind:
    """A kind of units, and the fields, ports and groups of faults that concern it in particular."""

    spec: Specification
    fields: tuple[str, ...]
    ports: tuple[str, ...]
    groups: tuple[str, ...]

    @classmethod
    def of(cls, spec: Specification, groups: str = "", fields: str = "", ports: str = "") -> "Kind":
        return cls(spec, *(tuple(names.split()) for names in (fields, ports, groups)))

    @cached_property
    def settings(self) -> Settings:
        return Settings(self.spec, unit_options(self.spec), seed=5)


_CELLS = "operations insertions hits"
KINDS = {
    "timed": Kind.of(any_preset("timed-tiny"), "streams clear tick latency",
                     "seen age tag status time", f"{_CELLS} shifts shortened overfilled covered"),
    "dictionary": Kind.of(any_preset("dictionary-tiny"), "", "status", f"{_CELLS} lost guaranteed"),
    "lanes": Kind.of(any_preset("two-lanes-tiny"), "clear latency", "valid seen"),
    "secret": Kind.of(any_preset("siphash-tiny"), "secret"),
    "tables": Kind.of(replace(any_preset("timing-tiny"), classes=2), "tick swap", "oldest", _CELLS),
    "counted": Kind.of(any_preset("timing-counted-tiny"), "clear", ports=_CELLS),
    "moves": Kind.of(any_preset("dictionary-ring-tiny"), "clear", "status", f"{_CELLS} guaranteed"),
}  # fmt: skip


# Shims

FAULTS = ("none", "field", "missing", "surplus", "swapped", "changes", "withdrawn", "late",
          "request", "ready", "held", "tick", "delay", "port")  # fmt: skip
"""What a shim does, by the value of its variable `fault`; `at` counts from 0 when it is chosen.

`field`, `missing`, `surplus` and `swapped` concern the result numbered `at`: it is XORed with
`mask`, is absent, comes twice, or follows the next one. From there on, `changes` and `withdrawn`
concern each result that waits, and `late` delays each result by a cycle. `request` XORs the request
numbered `at` with `mask`. `ready` inverts each ready output when it matters; with `held`, reset,
secret and swap do not reach the unit. The first `tick` comes in the cycle numbered `at` instead;
`delay` delays all ticks by `at` cycles. `port` increments the output numbered `at`.
"""

_VALUES = {
    "i__valid": "i__valid && fault != READY",
    "i__ready": "unit_i__ready && fault != READY",
    "i__payload": "i__payload ^ (fault == REQUEST && requests == at ? mask : 0)",
    "o__valid": "after || unit_o__valid && !taken && !away",
    "o__ready": "taken || o__ready && !after && !again && !away",
    "o__payload": "after ? kept : unit_o__payload ^ (wrong ? mask : 0)",
    "rst": "rst && fault != HELD",
    "swap": "swap && fault != HELD",
    "secret__valid": "secret__valid && fault != HELD",
    "table__ready": "unit_table__ready && !swap || fault == READY",
    "tick": "fault == TICK ? cycles == at || tick && ticked : fault == DELAY ? line[at - 1] : tick",
}
"""Values of the ports that faults concern: inputs of the unit, and outputs of the shim."""

_SHIM = """
  reg [3:0] fault = 0;
  reg [15:0] at, requests, results, cycles;
  reg [127:0] mask, kept, line;
  reg done, waited, ticked;

  wire here = results == at, since = results >= at;
  wire taken = fault == MISSING && here || fault == SWAPPED && here;
  wire after = fault == SWAPPED && results == at + 2 && !done;
  wire again = fault == SURPLUS && here && !done;
  wire away = fault == WITHDRAWN && since && waited || fault == LATE && since && !waited;
  wire wrong = fault == FIELD && here || fault == CHANGES && since && waited;

  always @(posedge clk) begin
    waited <= unit_o__valid && !unit_o__ready;
    line <= fault == DELAY ? {line, tick} : 0;
    if (fault == NONE) {requests, results, cycles, done, ticked} <= 0;
    else begin
      requests <= requests + (i__valid && i__ready);
      results <= results + (unit_o__valid && unit_o__ready);
      cycles <= cycles + 1;
      done <= done || (after || again && unit_o__valid) && o__ready;
      ticked <= ticked || tick;
      if (taken && unit_o__valid) kept <= unit_o__payload;
    end
  end
"""


def _with_shim(name: str, kind: Kind) -> str:
    """Return the Verilog of a unit, and of its shim, a module with a `name`.

    The shim has no ports, but a variable for each input of the unit and a wire for each output.
    """
    inner = f"{name}_unit"
    text = unit_verilog(kind.spec, **{"ticks": "tick"} | kind.settings.options).replace(TOP, inner)
    head = text[text.index(f"module {inner}(") :].partition("endmodule")[0]
    ports = re.findall(r"\n  (input|output) (\[\d+:0\] )?(\w+);", head)
    lines = [f"localparam {fault.upper()} = {number};" for number, fault in enumerate(FAULTS)]
    lines += [] if "ticks" in kind.settings.traits else ["reg tick = 0;"]
    values = []
    for way, size, port in ports:
        kept, target, value = ("reg", f"unit_{port}", port) if way == "input" else (
            "wire", port, f"unit_{port}")  # fmt: skip
        if port in kind.ports:
            value += f" + (fault == PORT && at == {kind.ports.index(port)})"
        lines += [f"{kept} {size}{port};", f"wire {size}unit_{port};"]
        values += [f"assign {target} = {_VALUES.get(port, value)};"]
    unit = f"{inner} unit({', '.join(f'.{port}(unit_{port})' for *_, port in ports)});"
    return "\n".join([text, f"module {name};", *lines, _SHIM, *values, unit, "endmodule\n"])


def verilog_of(kinds: list[str]) -> str:
    """Return a top with a shim of each kind; it costs less to start one simulator than several."""
    shims = [_with_shim(name, KINDS[name]) for name in kinds]
    return "\n".join([*shims, f"module {TOP};", *(f"{name} {name}();" for name in kinds),
                      "endmodule\n"])  # fmt: skip


# Faults


class Fault(NamedTuple):
    """A fault of a shim, by default at the last result, and a pattern of the bench's message."""

    name: str
    message: str
    at: int | None = None
    mask: int = 1


def faults(name: str) -> dict[str, Fault]:
    """Return the faults of a kind, by a name, each of which ends a run of the bench."""
    kind, differs = KINDS[name], r"^result \d+: expected "
    signature, period = kind.settings.unit.signature, int(kind.settings.unit.profile.least_period)
    lanes = signature.lanes
    clear = pack(signature.request, {"alone" if lanes > 1 else "operation": CLEAR})
    groups = {
        "streams": {
            "missing": Fault("missing", differs, MIDDLE),
            "surplus": Fault("surplus", differs, MIDDLE),
            "swapped": Fault("swapped", differs, MIDDLE),
            "changes": Fault("changes", r"^result \d+ changed while it waited: \d", 0),
            "withdrawn": Fault("withdrawn", r"^result \d+ changed while it waited: None", 0),
            "last_field": Fault("field", differs),
            "last_missing": Fault("missing", "^1 results are missing"),
            "last_surplus": Fault("surplus", r"^result \d+: expected none, got"),
            "ready": Fault("ready", "^0: not taken in 100 cycles", 0),
            "no_reset": Fault("held", r"^result \d+: expected none, got", 0),
        },
        "clear": {"no_clear": Fault("request", differs, 2 * len(KEYS) // lanes, clear)},
        "tick": {
            "no_tick": Fault("tick", differs, NEVER),
            "early_tick": Fault("tick", differs, 0),
            "late_ticks": Fault("delay", differs, 2 * period),
        },
        "swap": {
            "no_swap": Fault("held", differs, 0),
            "ready": Fault("ready", "^an entry would be taken beside a swap", 0),
        },
        "secret": {"no_secret": Fault("held", differs, 0)},
    }
    found = {}
    for group in kind.groups:
        found |= groups.get(group, {})
    # Behind the results of the queries before the first table.
    number = MIDDLE + (2 * kind.spec.classes if "swap" in kind.groups else 0)
    for field in kind.fields:
        lane = {field: 1}
        wrong = {"lanes": [lane, *[{}] * (lanes - 1)]} if lanes > 1 else lane
        message = f"^result {number}: expected "
        # A dictionary may report a loss, which it must then have counted.
        message += "|^lost: expected 1 to" if name == "moves" else ""
        found[field] = Fault("field", message, MIDDLE, pack(signature.result, wrong))
    return found


def cases(kinds: list[str]) -> list[tuple[str, str]]:
    """Return kind and fault of each run; the runs "" and "latency" expect messages themselves."""
    return [
        (kind, fault)
        for kind in kinds
        for fault in ("", *({"latency"} & {*KINDS[kind].groups}), *faults(kind))
    ]


CASES = cases(os.environ.get("LATELY_KINDS", "").split())


def choose(dut, name, at, mask=0):
    """Choose the fault of a shim."""
    dut.fault.value, dut.at.value, dut.mask.value = FAULTS.index(name), at, mask


@cocotb.test()
@cocotb.parametrize(case=range(len(CASES)))
async def run(top, case):
    name, fault = CASES[case]
    dut, kind = getattr(top, name), KINDS[name]
    choose(dut, "none", 0)
    bench = await UnitUnderTest.start(dut, kind.settings)
    bench.memory = UnitMemory(dut.unit, bench.unit, variant="portable", netlist=False)
    if fault == "latency":
        await find_other_latencies(bench)
        return
    operations = [*OPERATIONS, *(MANY if "moves" in kind.settings.traits else ())]
    last = len(bench.beats(operations)) - 1 + ("ticks" in kind.settings.traits)
    chosen, _, at, mask = faults(name).get(fault, Fault("none", ""))
    if chosen in ("held", "ready"):
        choose(dut, chosen, 0)
    if fault == "no_reset":
        await bench.interrupt(bench.beats(operations), cycles=MIDDLE)
    if "secret" in kind.groups:
        await bench.load_secret(0x1234567)
        await ClockCycles(dut.clk, 40)
    if "swap" in kind.groups:
        # By which no key is reported.
        await bench.tables.load(bench.tables.filled(kind.spec.hashes + 1))
        await bench.tables.swap()
    choose(dut, chosen, last if at is None else at, mask)
    bench.ticks.start(lambda: bench.ticks.period)
    bench.monitor.stalls = Stalls(0.4, 1)
    if fault == "last_missing":
        # The bench would wait for 20,000 cycles.
        bench.settle = lambda: ClockCycles(dut.clk, bench.settled + 100)
    await bench.perform(*operations, stalls=bench.stalls(0.8))
    if not fault:
        await find_wrong_ports(bench, kind.ports)
        choose(dut, "none", 0)
        await find_wrong_cells(bench)


async def find_other_latencies(bench):
    """A unit that is a cycle faster or slower than its figures fails."""
    bench.ticks.start(lambda: bench.ticks.period)
    unit = bench.unit
    for more in (1, 0):
        bench.unit = SimpleNamespace(
            latency=unit.latency + more, poll=getattr(unit, "poll", 1), profile=unit.profile
        )
        choose(bench.dut, "none" if more else "late", 0)
        with pytest.raises(AssertionError, match="cycles, and not"):
            await latency_is_as_specified(bench)


async def find_wrong_cells(bench):
    """Cells with a wrong bit, and empty cells, differ from those of golden."""
    memories = bench.unit.memory_map.memories
    arrays = [reduce(lambda handle, name: handle[name], memory.path, bench.dut.unit)
              for memory in memories]  # fmt: skip
    words = [word for array in arrays for word in array]
    values = [int(word.value) for word in words]
    settle = bench.settle

    def write(values):
        for word, value in zip(words, values, strict=True):
            word.value = value

    for wrong in ([value and value ^ 1 for value in values], [0] * len(words)):

        async def settle_and_write(wrong=wrong):
            await settle()
            write(wrong)

        bench.settle = settle_and_write
        with pytest.raises(AssertionError, match=r"^memory differs"):
            await bench.perform()
        write(values)


async def find_wrong_ports(bench, ports):
    for number, port in enumerate(ports):
        choose(bench.dut, "port", number)
        with pytest.raises(AssertionError, match=f"^{port}: expected|^[0-9]+ guaranteed"):
            await bench.perform()
