"""The bench finds a unit that is wrong in one thing, for each thing that it compares."""

import re
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from fault_bench import cases, faults, verilog_of

from lately.golden import Operation, any_preset
from lately.sim.bench import parts
from lately.sim.bench.parts import Beat, Scoreboard
from lately.sim.bench.reference import reference
from lately.sim.bench.runner import run_bench
from lately.sim.bench.unit import Settings


@pytest.mark.rtl
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param("timed dictionary", id="daily"),
        pytest.param("lanes secret tables counted moves", id="nightly", marks=pytest.mark.slow),
    ],
)
def test_each_fault_of_a_unit_is_noticed(kinds, tmp_path, capfd):
    run_bench(verilog_of(kinds.split()), ["fault_bench"], "icarus", tmp_path,
              environment={"LATELY_SEED": "5", "LATELY_KINDS": kinds})  # fmt: skip
    failures = [
        case.find("failure") for case in ElementTree.parse(tmp_path / "icarus.xml").iter("testcase")
    ]
    messages = ["" if failure is None else failure.get("message") for failure in failures]
    reported = dict(zip(cases(kinds.split()), messages, strict=True))
    print(*reported.items(), sep="\n")
    patterns = {
        (kind, fault): faults(kind)[fault].message if fault in faults(kind) else "^$"
        for kind, fault in reported
    }
    assert not [
        case for case, message in reported.items() if not re.search(patterns[case], message)
    ]


MOVES = any_preset("dictionary-ring-tiny")
SIGNATURE = Settings(MOVES).unit.signature
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
    board = Scoreboard(reference(MOVES, SIGNATURE))

    def item(operation, key, tag):
        return Beat(0, ({"operation": int(operation), "key": key, "tag": tag, "window": 5},))

    board.expect(item(Operation.INSERT, 3, 8), 0)
    board.compare([{"seen": 0, "age": 0, "status": 0, "tag": 8}], 0)
    board.expect(item(Operation.QUERY if asks else Operation.NONE, key, 9), 0)
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


class Port(SimpleNamespace):
    """An output of 32 bits."""

    def __len__(self):
        return 32


LOSSES = {
    # Queries of the keys 1 to 3, which were inserted in this order: window, seen and status; the
    # port `guaranteed`, and the counter `lost`.
    "nothing": ([(1, 5, 1, 0), (2, 5, 1, 0)], 30, 0, ""),
    "one loss": ([(1, 5, 0, 1), (2, 2, 1, 0), (1, 5, 0, 1)], 2, 1, ""),
    "a status without a loss": ([(1, 5, 1, 1)], 30, 1, "^guaranteed: 30 "),
    "a loss that is not counted": ([(1, 5, 1, 1)], 2, 0, "^lost: expected 1 to 4, got 0"),
    "two of one loss": ([(1, 5, 0, 1), (2, 5, 0, 1)], 1, 1, "^lost: expected 2 to 4, got 1"),
    "a younger one": ([(1, 5, 1, 1), (3, 2, 1, 0), (3, 2, 1, 1)], 1, 1, "^lost: expected 2 to"),
    "too many": ([], 30, 9, "^lost: expected 0 to 4, got 9"),
    "a status that ends": ([(1, 3, 0, 1), (1, 3, 1, 0)], 2, 1, "status': 1"),
    "a key that comes back": ([(1, 3, 0, 1), (1, 3, 1, 1)], 2, 1, "seen': 0"),
    "a window that is too long": ([(1, 3, 0, 1)], 3, 1, "^guaranteed: 3 "),
}


@pytest.mark.parametrize("case", LOSSES)
def test_statuses_of_a_dictionary_with_moves_agree_with_its_losses(case):
    queries, guaranteed, lost, message = LOSSES[case]
    spec = replace(MOVES, window=30, stash=4)
    model = reference(spec, SIGNATURE)

    def perform(key, window, **given):
        item = {"operation": int(Operation.QUERY if given else Operation.INSERT), "key": key}
        due = model.perform(item | {"window": window, "tag": 0}, given, 0.0)
        assert not given or {name: due[name] for name in given} == given, f"expected {due}"

    for key in (1, 2, 3):
        perform(key, 30)
    wrong = pytest.raises(AssertionError, match=message) if message else nullcontext()
    with wrong:
        for key, window, seen, status in queries:
            perform(key, window, seen=seen, status=status)
        outputs = model.outputs | {"guaranteed": guaranteed, "lost": lost}
        model.check_outputs(SimpleNamespace(**{n: Port(value=v) for n, v in outputs.items()}))
