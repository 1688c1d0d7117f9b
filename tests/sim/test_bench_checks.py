"""Each bench finds a unit that is wrong in one thing, for each thing that the bench compares."""

import importlib
import json
import re
from dataclasses import dataclass, replace

import pytest
from clockwork import Clockwork, forget_benches, load_bench, use
from stub_unit import Port, StubUnit

from lately.golden import Operation, any_preset, preset
from lately.golden.compilation import VARIABLE
from lately.golden.spec.base import Specification
from lately.sim.bench import dictionary_parts, parts

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


@dataclass(frozen=True)
class Kind:
    """A kind of units: its bench, and the fields, ports and orders that the bench compares."""

    module: str
    spec: Specification
    fields: str = ""
    ports: str = ""
    orders: str = ""
    ticks: str = ""
    board: str = "Bench"


RING, CELLS = "operations insertions hits shifts", "operations insertions hits"
KINDS = {
    "ring": Kind("filter_bench", preset("tiny"), "seen age tag", RING, "clear"),
    "lanes": Kind("lane_bench", preset("two-lanes-tiny"), "valid seen age tag", RING, "clear"),
    "time": Kind("timed_bench", preset("timed-tiny"), "seen age tag status time",
                 f"{RING} shortened overfilled covered", "clear tick", "tick", "TimedBench"),
    "ticks": Kind("timing_bench", any_preset("timing-tiny"), "seen age oldest tag time", CELLS,
                  "clear tick", "tick"),
    "insertions": Kind("timing_bench", any_preset("timing-counted-tiny"), "seen age oldest tag",
                       CELLS, "clear"),
    "tables": Kind("deciding_bench", replace(any_preset("timing-tiny"), classes=2),
                   "seen age oldest tag time", CELLS, "clear tick swap", "tick", "DecidingBench"),
    "dictionary": Kind("dictionary_bench", any_preset("dictionary-tiny"), "seen age tag status",
                       f"{CELLS} lost guaranteed", "clear"),
    "moves": Kind("dictionary_bench", any_preset("dictionary-ring-tiny"), "seen age tag status",
                  f"{CELLS} guaranteed", "clear cells"),
    "secret": Kind("filter_bench", preset("siphash-tiny"), orders="secret"),
    "secret of lanes": Kind("lane_bench", replace(preset("two-lanes-tiny"), hash="siphash"),
                            orders="secret"),
    "secret of a dictionary": Kind(
        "dictionary_bench", replace(any_preset("dictionary-tiny"), hash="siphash"), orders="secret"
    ),
}  # fmt: skip

DIFFERS = r"^result \d+: expected "
FAULTS = {
    "missing": DIFFERS, "surplus": DIFFERS, "swapped": DIFFERS,
    "changes": r"^result \d+ changed while it waited", "withdrawn": r"^result \d+ changed",
    "memory": r"^memory differs|^part 0|^column 0|entries that golden has not",
    "last field": DIFFERS, "last missing": "^1 results are missing",
    "last surplus": r"^result \d+: expected none, got",
}  # fmt: skip
"""Faults of all kinds, with the start of the message."""


def faults(kind):
    """Return the faults that the bench of a kind finds, each with a pattern of its message."""
    found = {f"field {name}": rf"^result {MIDDLE}: expected " for name in kind.fields.split()}
    # An answer at another time is as good; that of the next operation, or the last time, is not.
    found |= {"field time": f"{DIFFERS}|ticks, told"} if "time" in kind.fields else {}
    found |= {"field status": f"{DIFFERS}|without a loss"} if "status" in kind.fields else {}
    found |= {f"port {name}": f"^{name}: expected|guaranteed|, not " for name in kind.ports.split()}
    found |= {
        f"no {name}": f"{DIFFERS}|ticks, told|differs|column 0|in no cell"
        for name in kind.orders.split()
    }
    return found | (FAULTS if kind.fields else {})


@pytest.fixture
def perform(request, tmp_path, monkeypatch):
    """Let a bench compare a unit with a fault, in the result `at`; return how many it had."""
    kind = KINDS[request.param]
    kind.spec.to_toml(tmp_path / "spec.toml")
    time = {"ticks": kind.ticks, "time_bits": 8} if kind.ticks else {}
    environment = {"LATELY_SPEC": str(tmp_path / "spec.toml"), "LATELY_SEED": "5",
                   "LATELY_TIME": json.dumps(time), VARIABLE: "0"}  # fmt: skip
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    module = load_bench(monkeypatch, kind.module)
    of_bench = getattr(module, kind.board)
    # The unit in Python never pauses.
    monkeypatch.setattr(of_bench, "settled", 40)

    def run(fault="", at=MIDDLE):
        unit = StubUnit(
            module.UNIT.signature, fault=fault, at=at, lead=getattr(of_bench, "secret_lead", 0),
            entry=getattr(module, "ENTRY", None),
        )  # fmt: skip
        clockwork = Clockwork(unit)
        use(monkeypatch, clockwork, read_memory=unit.memory, read_cells=unit.cells)
        clockwork.run(course(module, of_bench, unit))
        return unit.results

    yield run
    forget_benches()


async def course(module, of_bench, unit):
    """Send operations of all kinds, and check the results."""
    bench = await of_bench.start(unit)
    unit.begin(bench.scoreboard)
    if hasattr(bench, "begin"):
        await bench.begin()
    if hasattr(bench, "flow"):
        bench.flow(lambda: 3)
    if "secret" in bench.streams:
        await bench.load_secret(0x1234567)
        await module.ClockCycles(unit.clk, 40)
    bench.monitor.stalls = module.Stalls(0.4, 1)
    await bench.perform(items(module, bench))


def items(module, bench):
    many = MANY if getattr(module.SPEC, "moves", False) else []
    if hasattr(bench, "full"):
        half = OPERATIONS.index((CLEAR, 0))
        clear = bench.beat(turn=CLEAR)
        return [*bench.full(OPERATIONS[:half]), clear, *bench.full(OPERATIONS[half + 1 :])]
    if hasattr(bench, "item"):
        return [bench.item(*one) for one in (*OPERATIONS, *many)]
    return module.tagged(OPERATIONS)


def found(perform, fault, last):
    """Return what the bench says of a fault, or nothing."""
    at = last if fault.startswith("last ") else MIDDLE
    kind = fault.removeprefix("last ")
    try:
        perform("field seen" if kind == "field" else kind, at)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("perform", "patterns"),
    [pytest.param(name, faults(kind), id=name) for name, kind in KINDS.items()],
    indirect=["perform"],
)
def test_each_fault_of_a_unit_is_found(perform, patterns):
    last = perform() - 1
    said = {fault: found(perform, fault, last) for fault in patterns}
    print(*said.items(), sep="\n")
    assert not [fault for fault, text in said.items() if not re.search(patterns[fault], text)]


TOLD = {
    # The key was inserted: seen, age, status, and an error of the tag.
    "right": (3, (1, 0, 0, 0), True),
    "missing": (3, (0, 0, 0, 0), False),
    "missing, and told": (3, (0, 0, 1, 0), True),
    "right, and told": (3, (1, 0, 1, 0), True),
    "of another age, and told": (3, (1, 1, 1, 0), False),
    "missing with another tag, and told": (3, (0, 0, 1, 1), False),
    # It was not.
    "false, and told": (4, (1, 0, 1, 0), False),
    "right without the key, and told": (4, (0, 0, 1, 0), True),
}
"""Results of a query that a dictionary with moves gives, and whether it may."""


@pytest.mark.parametrize("case", TOLD)
@pytest.mark.parametrize("asks", [True, False])
def test_dictionary_with_moves_may_miss_what_it_says(case, asks, monkeypatch):
    """A status is allowed for queries alone."""
    key, (seen, age, status, tag), allowed = TOLD[case]
    monkeypatch.setattr(parts, "get_sim_time", lambda _: 0)
    monkeypatch.setattr(dictionary_parts, "get_sim_time", lambda _: 0)
    board = dictionary_parts.RingScoreboard(any_preset("dictionary-ring-tiny"))
    kind, result = dictionary_parts.DictionaryItem, dictionary_parts.DictionaryOutcome
    board.expect(kind(Operation.INSERT, 3, 8, 5))
    board.compare(result(False, 0, 0, 8))
    board.expect(kind(QUERY if asks else Operation.NONE, key, 9, 5))
    hits = board.counts["hits"]
    outcome = result(bool(seen), age, status, 9 ^ tag)
    allowed = allowed if asks else (seen, age, status, tag) == (0, 0, 0, 0)
    if not allowed:
        with pytest.raises(AssertionError, match=r"^result 1: expected "):
            board.compare(outcome)
        return
    board.compare(outcome)
    assert board.compared == 2
    # The counter of the unit has only the hits that it gave.
    assert board.counts["hits"] == hits - (case == "missing, and told" and asks)


class StubMemory:
    """A segment memory in Python, with one fault; `at` is the number of an access."""

    def __init__(self, latency, clear_bits, fault="", at=0):
        names = ("rst", "clk", "address", "set", "clear", "clear_address", "bit")
        vars(self).update({name: Port(32) for name in names})
        self._due = [0] * (latency - 1)
        self._ones, self._clear_bits, self._fault, self._at = set(), clear_bits, fault, at
        self.accesses = 0

    def edge(self, _now):
        here = self.accesses == self._at
        self.accesses += 1
        wrong = here and self._fault == "bit"
        self._due.append((self.address.value in self._ones) ^ wrong)
        word = self.clear_address.value * self._clear_bits
        if self.clear.value and not (self._fault == "clear" and word == self._clear_bits):
            self._ones -= {*range(word, word + self._clear_bits)}
        elif self.set.value and not (here and self._fault == "set"):
            self._ones.add(self.address.value)
        self.bit.value = int(self._due.pop(0))


@pytest.fixture
def accesses(monkeypatch):
    """Let the bench of a segment memory compare one with a fault; return how many it had."""
    for name, value in (("DEPTH", "64"), ("CLEAR_BITS", "8"), ("SEED", "5")):
        monkeypatch.setenv(f"LATELY_{name}", value)
    module = load_bench(monkeypatch, "segment_bench")

    async def course(memory):
        bench = await module.Bench.start(memory)
        for address in range(0, 64, 3):
            await bench.access(address, True)
        await bench.sweep()
        for address in range(0, 64, 7):
            await bench.access(address, True)
        await bench.finish()

    def run(*fault):
        memory = StubMemory(module.LATENCY, module.CLEAR_BITS, *fault)
        clockwork = Clockwork(memory)
        use(monkeypatch, clockwork)
        clockwork.run(course(memory))
        return memory.accesses

    yield run
    forget_benches()


def test_each_fault_of_a_segment_memory_is_found(accesses):
    # The first word is cleared at once, and the last access has its answer a latency later.
    last = accesses() - importlib.import_module("lately.sim.bench.segment_bench").LATENCY - 1
    for fault in (("bit", 20), ("bit", last), ("set", 42), ("clear",)):
        with pytest.raises(AssertionError, match=r"^access \d+: expected (True|False), got "):
            accesses(*fault)
