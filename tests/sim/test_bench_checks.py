"""The bench finds a unit that is wrong in one thing, for each thing that it compares."""

import re
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from clockwork import Clockwork, use
from stub_unit import Port, StubMemory, StubUnit

from lately.golden import Operation, any_preset, preset
from lately.golden.spec.base import Specification
from lately.sim.bench import contract, parts, testplan, unit
from lately.sim.bench.parts import Beat, Scoreboard, Stalls
from lately.sim.bench.reference import reference
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


@dataclass(frozen=True)
class Kind:
    """A kind of units, and the fields, ports and orders that the bench compares."""

    spec: Specification
    fields: str = ""
    ports: str = ""
    orders: str = ""


RING, CELLS = "operations insertions hits shifts", "operations insertions hits"
KINDS = {
    "ring": Kind(preset("tiny"), "seen age tag", RING, "clear"),
    "lanes": Kind(preset("two-lanes-tiny"), "valid seen age tag", RING, "clear"),
    "time": Kind(preset("timed-tiny"), "seen age tag status time",
                 f"{RING} shortened overfilled covered", "clear tick"),
    "ticks": Kind(any_preset("timing-tiny"), "seen age oldest tag time", CELLS, "clear tick"),
    "insertions": Kind(any_preset("timing-counted-tiny"), "seen age oldest tag", CELLS, "clear"),
    "tables": Kind(replace(any_preset("timing-tiny"), classes=2),
                   "seen age oldest tag time", CELLS, "clear tick swap"),
    "dictionary": Kind(any_preset("dictionary-tiny"), "seen age tag status",
                       f"{CELLS} lost guaranteed", "clear"),
    "moves": Kind(any_preset("dictionary-ring-tiny"), "seen age tag status",
                  f"{CELLS} guaranteed", "clear cells"),
    "secret": Kind(preset("siphash-tiny"), orders="secret"),
    "secret of lanes": Kind(replace(preset("two-lanes-tiny"), hash="siphash"), orders="secret"),
    "secret of a dictionary": Kind(replace(any_preset("dictionary-tiny"), hash="siphash"),
                                   orders="secret"),
}  # fmt: skip

DAILY = ("time", "dictionary", "secret")
DIFFERS = r"^result \d+: expected "
FAULTS = {
    "missing": DIFFERS, "surplus": DIFFERS, "swapped": DIFFERS,
    "changes": r"^result \d+ changed while it waited", "withdrawn": r"^result \d+ changed",
    "memory": "^memory differs", "last field": DIFFERS, "last missing": "^1 results are missing",
    "last surplus": r"^result \d+: expected none, got",
}  # fmt: skip
"""Faults of all kinds, with the start of the message."""


def faults(kind):
    """Return the faults that the bench of a kind finds, each with a pattern of its message."""
    found = {f"field {name}": "^result AT: expected " for name in kind.fields.split()}
    # An answer at another time is as good; that of the next operation, or the last time, is not.
    found |= {"field time": DIFFERS} if "time" in kind.fields else {}
    found |= {"field status": f"{DIFFERS}|lost: expected 1"} if "status" in kind.fields else {}
    found |= {f"port {name}": f"^{name}: expected|guaranteed" for name in kind.ports.split()}
    found |= {f"no {name}": f"{DIFFERS}|differs" for name in kind.orders.split()}
    if "tick" in kind.orders:
        found |= {"early tick": DIFFERS, "late tick": DIFFERS}
    return found | (FAULTS if kind.fields else {})


@pytest.fixture
def perform(request, monkeypatch):
    """Let the bench compare a unit with a fault; return its last result, and the message."""
    spec = KINDS[request.param].spec
    settings = Settings(spec, unit_options(spec), seed=5)
    # The unit in Python never pauses.
    monkeypatch.setattr(UnitUnderTest, "settled", 40)
    lead = UnitUnderTest.secret_lead.fget(type("", (), {"settings": settings,
                                                        "unit": settings.unit}))  # fmt: skip
    many = MANY if getattr(spec, "moves", None) else []

    async def course(stub, found):
        bench = await UnitUnderTest.start(stub, settings)
        bench.ticks.start(lambda: bench.ticks.period)
        if "secret" in settings.traits:
            found["at"] = stub.arm()
            await bench.load_secret(0x1234567)
            await unit.ClockCycles(stub.clk, 40)
        found["at"] = stub.arm()
        if "tables" in settings.traits:
            # By which no key is reported.
            await bench.tables.load(bench.tables.filled(settings.spec.hashes + 1))
            await bench.tables.swap()
        bench.monitor.stalls = Stalls(0.4, 1)
        await bench.perform(*OPERATIONS, *many, stalls=bench.stalls(0.8))
        found["last"] = stub.results - 1

    def run(fault="", at=MIDDLE):
        stub, found = StubUnit(settings, lead=lead, fault=fault, at=at), {}
        clockwork = Clockwork(stub)
        use(monkeypatch, clockwork, UnitMemory=StubMemory)
        try:
            clockwork.run(course(stub, found))
        except AssertionError as error:
            return str(error).replace(f"result {found['at']}:", "result AT:"), found
        return "", found

    return run


@pytest.mark.parametrize(
    ("perform", "patterns"),
    [
        pytest.param(name, faults(kind), id=name, marks=[pytest.mark.slow] * (name not in DAILY))
        for name, kind in KINDS.items()
    ],
    indirect=["perform"],
)
def test_each_fault_of_a_unit_is_found(perform, patterns):
    said, right = perform()
    assert said == ""
    found = {}
    for fault in patterns:
        at = right["last"] - right["at"] + MIDDLE if fault.startswith("last ") else MIDDLE
        kind = fault.removeprefix("last ")
        found[fault], _ = perform("field seen" if kind == "field" else kind, at)
    print(*found.items(), sep="\n")
    patterns = {fault: text.replace(r"\d+", r"(\d+|AT)") for fault, text in patterns.items()}
    assert not [fault for fault, text in found.items() if not re.search(patterns[fault], text)]


@pytest.mark.parametrize("name", ["ring", "lanes", "ticks", "moves"])
def test_latency_is_exact(name, monkeypatch):
    """A unit that is a cycle faster or slower than its figures fails."""
    settings = Settings(KINDS[name].spec, unit_options(KINDS[name].spec), seed=5)
    monkeypatch.setattr(UnitUnderTest, "settled", 40 + settings.unit.latency)
    for more in (0, 1, -1):
        stub = StubUnit(settings, lead=-1, latency=settings.unit.latency + more,
                        poll=getattr(settings.unit, "poll", 1))  # fmt: skip
        wrong = pytest.raises(AssertionError, match="cycles, and not") if more else nullcontext()
        with monkeypatch.context() as patch, wrong:
            use(patch, clockwork := Clockwork(stub), UnitMemory=StubMemory)
            clockwork.run(testplan.check(contract.latency_is_as_specified, stub, settings))


MAY = {
    # The key was inserted: seen, age, status, and an error of the tag.
    "right": (3, (1, 0, 0, 0), True),
    "missing": (3, (0, 0, 0, 0), False),
    "missing, and reported": (3, (0, 0, 1, 0), True),
    "right, and reported": (3, (1, 0, 1, 0), True),
    "of another age, and reported": (3, (1, 1, 1, 0), False),
    "missing with another tag, and reported": (3, (0, 0, 1, 1), False),
    # It was not.
    "false, and reported": (4, (1, 0, 1, 0), False),
    "right without the key, and reported": (4, (0, 0, 1, 0), True),
}
"""Results of a query that a dictionary with moves gives, and whether it may."""


@pytest.mark.parametrize("case", MAY)
@pytest.mark.parametrize("asks", [True, False])
def test_dictionary_with_moves_may_miss_what_it_reports(case, asks, monkeypatch):
    """A status is allowed for queries alone."""
    key, (seen, age, status, tag), allowed = MAY[case]
    monkeypatch.setattr(parts, "get_sim_time", lambda _: 0)
    spec = any_preset("dictionary-ring-tiny")
    board = Scoreboard(reference(spec, Settings(spec).unit.signature))

    def item(operation, key, tag):
        return Beat(0, ({"operation": int(operation), "key": key, "tag": tag, "window": 5},))

    board.expect(item(Operation.INSERT, 3, 8), 0)
    board.compare([{"seen": 0, "age": 0, "status": 0, "tag": 8}], 0)
    board.expect(item(QUERY if asks else Operation.NONE, key, 9), 0)
    outcome = {"seen": seen, "age": age, "status": status, "tag": 9 ^ tag}
    allowed = allowed if asks else (seen, age, status, tag) == (0, 0, 0, 0)
    if not allowed:
        with pytest.raises(AssertionError, match=r"^result 1: expected "):
            board.compare([outcome], 0)
        return
    board.compare([outcome], 0)
    assert board.compared == 2
    # The counter of the unit has only the hits that it gave.
    assert board.reference.golden.counters["hits"] == (seen if asks else 0)


LOSSES = {
    # Queries of the keys 1 to 3, which were inserted in this order: window, seen and status; the
    # port `guaranteed`, and the counter `lost`.
    "nothing": ([(1, 5, 1, 0), (2, 5, 1, 0)], 30, 0, ""),
    "one loss": ([(1, 5, 0, 1), (2, 2, 1, 0), (1, 5, 0, 1)], 2, 1, ""),
    "a status without a loss": ([(1, 5, 1, 1)], 30, 1, "^30 guaranteed"),
    "a loss that is not counted": ([(1, 5, 1, 1)], 2, 0, "^lost: expected 1 to 4, got 0"),
    "two of one loss": ([(1, 5, 0, 1), (2, 5, 0, 1)], 1, 1, "^lost: expected 2 to 4, got 1"),
    "a younger one": ([(1, 5, 1, 1), (3, 2, 1, 0), (3, 2, 1, 1)], 1, 1, "^lost: expected 2 to"),
    "too many": ([], 30, 9, "^lost: expected 0 to 4, got 9"),
    "a status that ends": ([(1, 3, 0, 1), (1, 3, 1, 0)], 2, 1, "status': 1"),
    "a key that comes back": ([(1, 3, 0, 1), (1, 3, 1, 1)], 2, 1, "seen': 0"),
    "a window that is too long": ([(1, 3, 0, 1)], 3, 1, "^3 guaranteed"),
}


@pytest.mark.parametrize("case", LOSSES)
def test_statuses_of_a_dictionary_with_moves_agree_with_its_losses(case):
    queries, guaranteed, lost, message = LOSSES[case]
    spec = any_preset("dictionary-ring-tiny")
    spec = replace(spec, window=30, stash=4)
    model = reference(spec, Settings(spec).unit.signature)

    def perform(key, window, **given):
        item = {"operation": int(QUERY if given else Operation.INSERT), "key": key}
        due = model.perform(item | {"window": window, "tag": 0}, given, 0.0)
        assert not given or {name: due[name] for name in given} == given, f"expected {due}"

    for key in (1, 2, 3):
        perform(key, 30)
    wrong = pytest.raises(AssertionError, match=message) if message else nullcontext()
    with wrong:
        for key, window, seen, status in queries:
            perform(key, window, seen=seen, status=status)
        outputs = model.outputs | {"guaranteed": guaranteed, "lost": lost}
        model.check_outputs(SimpleNamespace(**{n: Port(32, v) for n, v in outputs.items()}))
