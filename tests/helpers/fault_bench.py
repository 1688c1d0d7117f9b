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
from lately.sim.bench.parts import Stalls
from lately.sim.bench.runner import unit_options
from lately.sim.bench.unit import Settings, UnitMemory, UnitUnderTest

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
    """A kind of units, and the groups of faults, the fields and the ports that are its own."""

    spec: Specification
    groups: str = ""
    fields: str = ""
    ports: str = ""

    @cached_property
    def settings(self) -> Settings:
        return Settings(self.spec, unit_options(self.spec), seed=5)


CELLS = "operations insertions hits"
KINDS = {
    "timed": Kind(any_preset("timed-tiny"), "streams clear tick latency",
                  "seen age tag status time", f"{CELLS} shifts shortened overfilled covered"),
    "dictionary": Kind(any_preset("dictionary-tiny"), "", "status", f"{CELLS} lost guaranteed"),
    "lanes": Kind(any_preset("two-lanes-tiny"), "clear latency", "valid seen"),
    "secret": Kind(any_preset("siphash-tiny"), "secret"),
    "tables": Kind(replace(any_preset("timing-tiny"), classes=2), "tick swap", "oldest", CELLS),
    "counted": Kind(any_preset("timing-counted-tiny"), "clear", "", CELLS),
    "moves": Kind(any_preset("dictionary-ring-tiny"), "clear", "status", f"{CELLS} guaranteed"),
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
    values, names = [], kind.ports.split()
    for way, size, port in ports:
        to_unit = way == "input"
        lines += [f"{'reg' if to_unit else 'wire'} {size}{port};", f"wire {size}unit_{port};"]
        target, value = (f"unit_{port}", port) if to_unit else (port, f"unit_{port}")
        value += f" + (fault == PORT && at == {names.index(port)})" if port in names else ""
        values.append(f"assign {target} = {_VALUES.get(port, value)};")
    unit = f"{inner} unit({', '.join(f'.{port}(unit_{port})' for *_, port in ports)});"
    return "\n".join([text, f"module {name};", *lines, _SHIM, *values, unit, "endmodule\n"])


def verilog_of(kinds: list[str]) -> str:
    """Return a top with a shim of each kind; it costs less to start one simulator than several."""
    shims = [_with_shim(name, KINDS[name]) for name in kinds]
    return "\n".join([*shims, f"module {TOP};", *(f"{name} {name}();" for name in kinds),
                      "endmodule\n"])  # fmt: skip


# Faults


class Fault(NamedTuple):
    """A fault of a shim, a pattern of the bench's message, and `at`; the last result by default."""

    name: str
    message: str
    at: int | None = None


DIFFERS = r"^result \d+: expected "
GROUPS = {
    "streams": {
        "missing": Fault("missing", DIFFERS, MIDDLE),
        "surplus": Fault("surplus", DIFFERS, MIDDLE),
        "swapped": Fault("swapped", DIFFERS, MIDDLE),
        "changes": Fault("changes", r"^result \d+ changed while it waited: \d", 0),
        "withdrawn": Fault("withdrawn", r"^result \d+ changed while it waited: None", 0),
        "last_field": Fault("field", DIFFERS),
        "last_missing": Fault("missing", "^1 results are missing"),
        "last_surplus": Fault("surplus", r"^result \d+: expected none, got"),
        "ready": Fault("ready", "^beat 0: not accepted within 100 cycles", 0),
        "no_reset": Fault("held", r"^result \d+: expected none, got", 0),
    },
    "clear": {"no_clear": Fault("request", DIFFERS, OPERATIONS.index((CLEAR, 0)))},
    "tick": {
        "no_tick": Fault("tick", DIFFERS, NEVER),
        "early_tick": Fault("tick", DIFFERS, 0),
        "late_ticks": Fault("delay", DIFFERS, 72),  # Two periods, or more.
    },
    "swap": {
        "no_swap": Fault("held", DIFFERS, 0),
        "ready": Fault("ready", "^an entry would be accepted during a swap", 0),
    },
    "secret": {"no_secret": Fault("held", DIFFERS, 0)},
}
"""Faults, by a name, that end a run of the bench; their groups concern some kinds."""


def faults(name: str) -> dict[str, Fault]:
    """Return all faults of a kind that end a run."""
    kind = KINDS[name]
    # Before it are the results of the queries before the first table.
    number = MIDDLE + (2 * kind.spec.classes if name == "tables" else 0)
    # A dictionary may report losses, which it must then have counted.
    message = f"^result {number}: expected " + ("|^lost: expected 1" if name == "moves" else "")
    result = {field: Fault("field", message, MIDDLE) for field in kind.fields.split()}
    return result | {
        fault: row for group in kind.groups.split() for fault, row in GROUPS.get(group, {}).items()
    }


def mask_of(kind: Kind, fault: str) -> int:
    """Return a bit of a field of the first lane's result, or what makes NONE of a CLEAR."""
    signature = kind.settings.unit.signature
    several = signature.lanes > 1
    if fault == "no_clear":
        return pack(signature.request, {"alone" if several else "operation": CLEAR})
    lane = {fault if fault in kind.fields.split() else "tag": 1}
    return pack(signature.result, {"lanes": [lane]} if several else lane)


def cases(kinds: list[str]) -> list[tuple[str, str]]:
    """Return kind and fault of each run; a run without fault ends without a message."""
    return [(name, fault) for name in kinds for fault in ("", *faults(name))]


CASES = cases(os.environ.get("LATELY_KINDS", "").split())


def choose(dut, name, at=0, mask=0):
    """Choose the fault of a shim."""
    dut.fault.value, dut.at.value, dut.mask.value = FAULTS.index(name), at, mask


@cocotb.test()
@cocotb.parametrize(case=range(len(CASES)))
async def run(top, case):
    name, fault = CASES[case]
    dut, kind = getattr(top, name), KINDS[name]
    choose(dut, "none")
    bench = await UnitUnderTest.start(dut, kind.settings)
    bench.memory = UnitMemory(dut.unit, bench.unit, variant="portable", netlist=False)
    traits = kind.settings.traits
    operations = [*OPERATIONS, *(MANY if "moves" in traits else ())]
    chosen, _, at = faults(name).get(fault, Fault("none", ""))
    if not fault and "latency" in kind.groups:
        await find_other_latencies(bench)
    if chosen in ("held", "ready"):
        choose(dut, chosen)
    if fault == "no_reset":
        await bench.interrupt(bench.beats(operations), cycles=MIDDLE)
    if "secret" in traits:
        await bench.load_secret(0x1234567)
        await ClockCycles(dut.clk, 40)
    if "tables" in traits:
        # By which no key is reported.
        await bench.tables.load(bench.tables.filled(kind.spec.hashes + 1))
        await bench.tables.swap()
    if at is None:
        at = len(bench.beats(operations)) - 1 + ("ticks" in traits)
    elif fault == "no_clear":
        at //= bench.signature.lanes
    choose(dut, chosen, at, mask_of(kind, fault))
    bench.ticks.start(lambda: bench.ticks.period)
    bench.monitor.stalls = Stalls(0.4, 1)
    if fault == "last_missing":
        # The bench would wait for 20,000 cycles.
        bench.settle = lambda: ClockCycles(dut.clk, bench.settled + 100)
    await bench.perform(*operations, stalls=bench.stalls(0.8))
    if not fault:
        await find_wrong_ports(bench, kind.ports.split())
        choose(dut, "none")
        await find_wrong_cells(bench)


async def find_other_latencies(bench):
    """A unit that is a cycle faster or slower than its figures fails."""
    unit = bench.unit
    for more, fault in (1, "none"), (0, "late"):
        bench.unit = SimpleNamespace(
            latency=unit.latency + more, poll=getattr(unit, "poll", 1), profile=unit.profile
        )
        choose(bench.dut, fault)
        bench.ticks.start(lambda: bench.ticks.period)
        with pytest.raises(AssertionError, match="latencies in cycles: expected"):
            await latency_is_as_specified(bench)
    bench.unit = unit


async def find_wrong_cells(bench):
    """A cell with a wrong bit, and empty cells, differ from those of golden."""
    memories = bench.unit.memory_map.memories
    arrays = [reduce(lambda handle, name: handle[name], memory.path, bench.dut.unit)
              for memory in memories]  # fmt: skip
    words = [word for array in arrays for word in array]
    values = [int(word.value) for word in words]
    settle = bench.settle

    def write(values):
        for word, value in zip(words, values, strict=True):
            word.value = value

    used = [number for number, value in enumerate(values) if value]
    one_bit = [*values]
    # One that no kind takes for expired.
    one_bit[used[-2]] ^= 1
    for wrong in (one_bit, [0] * len(words)):

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
