"""What coverage counts, without a simulator."""

import json
from dataclasses import asdict, replace

import pytest

from campaigns import coverage_report
from campaigns.coverage_report import Point, Tally, passed, read_points, tally
from lately.golden import Operation
from lately.golden.packets.comparison import Field
from lately.golden.packets.frame_actions import Action
from lately.golden.packets.frame_deduplicator import FrameCounts
from lately.sim.bench.coverage import collect, count, missed, moments, unit_points
from lately.sim.bench.frame_coverage import frame_moments, frame_points
from lately.sim.bench.frames import FrameSettings, PassedFrame, Transfers
from lately.sim.bench.packets import LAYER2, TUNNELS
from lately.sim.bench.parts import Performed
from lately.sim.bench.runner import unit_options
from lately.sim.bench.runs import UNITS
from lately.sim.bench.unit import Settings

CHECK, QUERY, INSERT, CLEAR, SHIFT = (
    Operation[name] for name in ("CHECK_AND_INSERT", "QUERY", "INSERT", "CLEAR", "SHIFT")
)


def performed(operation, key=0, at=0, outcome=None, facts=None, **more):
    """An operation that was accepted in the cycle `at`."""
    fields = {name: more.pop(name) for name in ("wait", "held") if name in more}
    shown = {"seen": 0, "age": 0, "tag": 0} | (outcome or {})
    item = {"operation": int(operation), "key": key, "tag": 0, "window": 0} | more
    time = shown.get("time", 0)
    return Performed(item, shown, 10 * at, 0, time=time, facts=facts or {}, **fields)


def hit(name, *operations, secrets=()):
    """Return the situations of a unit that operations bring about."""
    unit = UNITS[name]
    settings = Settings(unit.spec, unit_options(unit.spec, **unit.options))
    hits = count(unit_points(settings), moments(operations, [*secrets]))
    assert 90 < len(hits) == len(missed(hits)) + sum(number > 0 for number in hits.values())
    return {situation for situation, number in hits.items() if number}


SEEN, STASHED = {"seen": 1, "age": 1}, {"lost": 0, "stashed": 4, "guaranteed_window": 40}
LOST = {"lost": 1, "stashed": 3, "guaranteed_window": 0}


@pytest.mark.parametrize(("unit", "operations", "expected", "others"), [
    ("apbf-tiny", (), set(), {"pair: QUERY, QUERY"}),
    ("apbf-tiny", (performed(1), performed(7, at=1), performed(7, at=2)),
     {"pair: QUERY, code 7", "pair: code 7, code 7"}, {"pair: code 7, QUERY"}),
    *(("apbf-tiny", (performed(INSERT, 7), performed(QUERY, 7, at=cycles)),
       {f"cycles from an insertion to a query of its key: {cycles}"}, set())
      for cycles in (1, 5, 10)),
    ("apbf-tiny", (performed(INSERT, 7), performed(QUERY, 8, at=5)), set(),
     {"cycles from an insertion to a query of its key: 5"}),
    ("apbf-tiny", (performed(1, wait=3, held=9),),
     {"cycles of a waiting operation: 3 to 7", "cycles of a waiting result: 8 or more"}, set()),
    ("apbf-tiny", (performed(1, outcome=SEEN),), {"age: 1"}, set()),
    ("apbf-tiny", (performed(1, outcome=SEEN | {"seen": 0}),), set(), {"age: 1"}),
    ("apbf-tiny", (performed(CHECK, facts={"shifts": 0}), performed(CHECK, facts={"shifts": 1}),
                   performed(SHIFT), performed(CLEAR)),
     {"turn by: CHECK_AND_INSERT", "right behind a SHIFT: CLEAR"}, {"turn by: INSERT"}),
    ("timed-tiny", (performed(CLEAR), performed(1, at=1, outcome={"time": 13}),
                    performed(1, at=9, outcome={"time": 40})),
     {"silence longer than: a window", "silence longer than: two windows",
      "tick right behind a CLEAR: True", "tick between operations of consecutive cycles: True"},
     set()),
    ("timing-tiny", (performed(QUERY, outcome={"seen": 1, "age": 3, "oldest": 2}, window=4),),
     {"age: 3", "oldest cells: 2", "window beyond the age: 1"}, set()),
    ("dictionary-tiny", [performed(9, outcome={"seen": n, "status": n}, facts=facts)
                         for n, facts in enumerate((STASHED, LOST))],
     {"removed key is present: True", "removed key is present: False", "entry is lost: True",
      "status: 1", "change of stashed: -1", "change of guaranteed_window: -1"}, set()),
    ("timing-tables", (performed(QUERY, facts={"table": 1, "phase": 0}, query_class=1),),
     {"class: 1", "phase: 0", "tables so far: 1"}, set()),
])  # fmt: skip
def test_situations_of_operations(unit, operations, expected, others):
    situations = hit(unit, *operations)
    assert expected <= situations
    assert not others & situations


def test_situation_of_a_secret():
    situations = hit("siphash-tiny", performed(1, at=3), secrets=[10])
    assert "cycles from a secret to an operation: 2" in situations


def frame(content=bytes(60), *counters, at=0, transfers=8, **changes):
    """A frame whose first transfer came in the cycle `at`, and what it counted."""
    came = Transfers(at, at + 7, transfers)
    facts = asdict(FrameCounts()) | dict.fromkeys(counters, 1)
    made = {"action": Action.DROP, "fields": Field.TOS, "secret": 0, "now": 0, "clears": 1}
    return PassedFrame(
        **made | {"frame": content, "facts": facts, "came": came, "left": came} | changes
    )


AGAIN = {"new again after: a clear", "new again after: its span"}
ONE = [frame(came=Transfers(at, at, 1)) for at in (3, 4)]
FOLLOWS = "follows in the next cycle: True"


@pytest.mark.parametrize(("name", "frames", "expected", "others"), [
    ("frames-64", (), set(), {"bytes: 60"}),
    ("frames-64", (frame(bytes(59), transfers=3), frame(at=8, left=None)),
     {"bytes: 59", "cycles of a pause at the input: 3 to 7",
      "cycles of a pause at the output: 3 to 7", FOLLOWS},
     {"one transfer follows one in the next cycle: True"}),
    ("frames-64", (frame(), frame(at=9)), set(), {FOLLOWS}),
    ("frames-64", ONE, {"one transfer follows one in the next cycle: True"}, set()),
    ("frames-64", (frame(bytes(60), "frames_ip6", "hits"), frame(bytes(60), "frames_errored")),
     {"frames: ip6", "action on a duplicate: DROP", "frames: errored"},
     {"action on a first frame: DROP", "frames: no_room"}),
    ("frames-64", (frame(action=Action.MARK),), {"action on a first frame: MARK"}, set()),
    ("frames-64-no-tready", (frame(bytes(60), "frames_no_room"),), {"frames: no_room"}, set()),
    ("frames-64", (frame(), frame(bytes(60), "hits", secret=1, now=2)),
     {"duplicate with tos compared: True", "duplicate with ttl compared: False",
      "new secret: True", "tick since the last frame: True", "duplicate after a tick: True"},
     AGAIN),
    ("frames-64", (frame(), frame(now=30)), {"new again after: its span"}, set()),
    ("frames-64", (frame(), frame(clears=2)), {"new again after: a clear"}, set()),
    ("frames-64", (frame(), frame(fields=Field.NONE)), set(), AGAIN),
    ("frames-64", (frame(bytes(60), "frames_errored"), frame(now=30)), set(), AGAIN),
    ("frames-64-inner",
     [*map(frame, (LAYER2["pseudo-wire with control word"], TUNNELS["VXLAN, IPv6"]))],
     {f"innermost layer 3 behind: {name}" for name in
      ("a label of MPLS", "content without a type", "a control word", "IPv6", "UDP", "VXLAN")},
     {"innermost layer 3 behind: GRE"}),
])  # fmt: skip
def test_situations_of_frames(name, frames, expected, others):
    options = {key: value for key, value in UNITS[name].options.items() if key != "count"}
    settings = FrameSettings(UNITS[name].spec, options)
    hits = count(frame_points(settings.frames), frame_moments(frames))
    situations = {situation for situation, number in hits.items() if number}
    assert expected <= situations
    assert not others & situations


def test_situations_of_a_test_are_added_to_a_file(tmp_path):
    path = tmp_path / "situations.json"
    for times in (1, 2):
        collect(str(path), {"a": 1, "b": 0})
        hits = json.loads(path.read_text())
        assert hits == {"a": times, "b": 0}
    assert missed(hits) == ["b"]


def test_points_of_the_file_of_a_simulator():
    counts = (
        "# SystemC::Coverage-3\n"
        "C '\1f\2top.v\1l\0022\1n\0021\1page\2v_toggle/lately_unit.core\1o\2__0241[0]:0->1"
        "\1h\2lately_unit.core.hash12.step3' 3\n"
        "C '\1f\2top.v\1l\0021\1page\2v_branch/lately_unit\1o\2if\1h\2lately_unit' 0\n"
        "C '\1f\2top.v\1l\0021\1page\2v_line/x\1o\2block\1h\2lately_unit.unit.unit.unit.f$5' 1\n"
        "C '\1f\2models.v\1l\0021\1page\2v_line/other\1o\2block\1h\2other' 0\n"
    )
    assert read_points(counts, "first\nsecond\n") == [
        Point("toggles", "core.hash.step", "$1[0]:0->1", "second", 3),
        Point("lines", "(unit)", "1 if", "first", 0),
        Point("lines", "f", "1 block", "first", 1),
    ]


def test_rules_exclude_only_what_was_not_reached(monkeypatch):
    monkeypatch.setattr(coverage_report, "RULES", [{"name": "a.*", "hash": "h3"}])
    points = [Point("toggles", "core", name, "", hits)
              for name, hits in (("a:0->1", 0), ("ab:0->1", 2), ("b:0->1", 0))]  # fmt: skip
    counted = tally(points, "h3")["toggles"]
    assert counted == Tally(reached=1, excluded=1, missed=["core: b:0->1"])
    assert counted.percent == 50
    assert tally(points, "siphash")["toggles"].excluded == 0


@pytest.mark.parametrize(("rises", "excluded"), [(0, 2), (1, 0)])
def test_rules_of_bits_that_never_change(monkeypatch, rises, excluded):
    monkeypatch.setattr(coverage_report, "RULES", [{"still": True}])
    rise = Point("toggles", "core", "a[0]:0->1", "", rises)
    points = [rise, rise._replace(name="a[0]:1->0", hits=0)]
    assert tally(points, "h3")["toggles"].excluded == excluded


def test_unit_with_an_unreached_situation_fails(capsys):
    whole = {"failed": [], "situations": 2, "missed": [], "lines": Tally(19, 4, ["front: 3 if"]),
             "toggles": Tally(1)}  # fmt: skip
    assert passed(whole)
    worse = [whole | {"missed": ["y"]}, whole | {"failed": ["span"]},
             whole | {"lines": replace(whole["lines"], reached=18)}]  # fmt: skip
    assert not any(map(passed, worse))
    coverage_report.report({"tiny": worse[0], "other": worse[1]})
    text = capsys.readouterr().out
    assert "1 of 2" in text
    assert "95.0 %" in text
    assert "tiny, missed: y" in text
    assert "other, failed: span" in text
