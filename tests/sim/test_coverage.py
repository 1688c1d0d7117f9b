"""What coverage counts, without a simulator."""

import dataclasses
import json
from dataclasses import asdict, replace

import pytest

from campaigns import coverage_report
from lately.golden import PRESETS, Operation, any_preset
from lately.golden.packets.comparison import Field
from lately.golden.packets.frame_actions import Action
from lately.golden.packets.frame_deduplicator import FrameCounts
from lately.sim.bench.code_coverage import (
    Exclusion,
    Point,
    Tally,
    module,
    read_points,
    tally,
    unescaped,
)
from lately.sim.bench.coverage import collect, count, merged, missed
from lately.sim.bench.encapsulated import LAYER2, TUNNELS
from lately.sim.bench.frame_coverage import frame_counts
from lately.sim.bench.frames import FrameSettings, PassedFrame, Transfers
from lately.sim.bench.parts import Performed
from lately.sim.bench.runner import unit_options
from lately.sim.bench.unit import Settings

SPEC = PRESETS["tiny"]
CHECK, QUERY, INSERT, CLEAR, SHIFT = (
    Operation[name] for name in ("CHECK_AND_INSERT", "QUERY", "INSERT", "CLEAR", "SHIFT")
)


def performed(operation, key=0, at=0, outcome=None, facts=None, **fields):
    """An operation that was accepted in the cycle `at`."""
    shown = {"seen": 0, "age": 0, "tag": 0} | (outcome or {})
    item = {"operation": int(operation), "key": key, "tag": 0, "window": 0} | fields
    time = shown.get("time", 0)
    return Performed(item, shown, 10 * at, 0, time=time, facts=facts or {})


def hit(spec, *operations, secrets=(), **options):
    """Names of the situations that operations bring about."""
    counts = count(Settings(spec, unit_options(spec, **options)), operations, [*secrets])
    return {name for name, row in counts.items() if row["count"]}


def test_nothing_is_hit_without_operations():
    counts = count(Settings(SPEC), [], [])
    assert missed(counts) == [*counts]
    assert len(counts) > 90


def test_pairs():
    found = hit(SPEC, performed(1), performed(7, at=1), performed(7, at=2))
    assert {"QUERY, then code 7", "code 7, then code 7"} <= found
    assert "code 7, then QUERY" not in found


@pytest.mark.parametrize("distance", [1, 5, 10])
def test_query_of_an_inserted_key(distance):
    other = performed(QUERY, 8, at=distance)
    found = hit(SPEC, performed(INSERT, 7), performed(QUERY, 7, at=distance))
    assert f"query of a key inserted {distance} cycles before" in found
    assert not [name for name in hit(SPEC, performed(INSERT, 7), other) if "inserted" in name]


def test_pauses():
    one = replace(performed(1), wait=3, held=9)
    assert {"operation waits, cycles: 3 to 7", "result waits, cycles: 8 or more"} <= hit(SPEC, one)


def test_ages_are_those_of_keys_that_are_seen():
    assert "age 1" in hit(SPEC, performed(1, outcome={"seen": 1, "age": 1}))
    assert "age 1" not in hit(SPEC, performed(1, outcome={"seen": 0, "age": 1}))


def test_turns():
    one = performed(CHECK, facts={"shifts": 0})
    found = hit(
        SPEC, one, performed(CHECK, facts={"shifts": 1}), performed(SHIFT), performed(CLEAR)
    )
    assert {"CHECK_AND_INSERT turns the ring", "CLEAR right behind a SHIFT"} <= found


def test_time():
    timed = PRESETS["timed-tiny"]
    later = performed(1, at=1, outcome={"time": 13})
    found = hit(timed, performed(CLEAR), later, performed(1, at=9, outcome={"time": 40}))
    assert {"silence longer than 12 ticks", "tick right behind a CLEAR"} <= found
    assert {"tick between operations of consecutive cycles", "silence longer than 24 ticks"} <= (
        found
    )


def test_windows_and_oldest_cells():
    spec = any_preset("timing-tiny")
    outcome = {"seen": 1, "age": 3, "oldest": 2, "time": 0}
    found = hit(spec, performed(QUERY, outcome=outcome, window=4))
    assert {"age 3", "oldest cells: 2", "window of a query: the age and 1"} <= found


def test_dictionary():
    spec = any_preset("dictionary-tiny")
    facts = [{"lost": 0, "stashed": 4, "guaranteed_window": 40},
             {"lost": 1, "stashed": 3, "guaranteed_window": 0}]  # fmt: skip
    found = hit(spec, *(performed(9, outcome={"seen": n, "status": n}, facts=facts[n])
                        for n in (0, 1)))  # fmt: skip
    assert {"removal of a key that is there: True", "removal of a key that is there: False",
            "entry is given up", "status 1", "stashed falls",
            "guaranteed_window falls"} <= found  # fmt: skip


def test_tables():
    spec = dataclasses.replace(any_preset("timing-tiny"), classes=2)
    one = performed(QUERY, facts={"table": 1, "phase": 0}, query_class=1)
    assert {"class 1", "phase 0", "tables so far: 1"} <= hit(spec, one)


def test_secret():
    found = hit(PRESETS["siphash-tiny"], performed(1, at=3), secrets=[10])
    assert "operation 2 cycles behind a secret" in found


def passed(frame=bytes(60), *counters, at=0, transfers=8, **how):
    """A frame whose first transfer came in the cycle `at`, and what it counted."""
    came = Transfers(at, at + 7, transfers)
    facts = asdict(FrameCounts()) | dict.fromkeys(counters, 1)
    made = {"action": Action.DROP, "fields": Field.TOS, "secret": 0, "now": 0, "clears": 1}
    return PassedFrame(**made | {"frame": frame, "facts": facts, "came": came, "left": came} | how)


def hit_frames(*frames, **options):
    """Names of the situations that frames bring about."""
    counts = frame_counts(FrameSettings(SPEC, {"width": 64} | options), frames)
    return {name for name, row in counts.items() if row["count"]}


def test_nothing_is_hit_without_frames():
    counts = frame_counts(FrameSettings(SPEC, {"width": 64}), [])
    assert missed(counts) == [*counts]
    assert len(counts) > 40


def test_lengths_and_pauses_of_frames():
    found = hit_frames(passed(bytes(59), transfers=3), passed(at=8, left=None))
    assert {"frame of 59 bytes", "pause in a frame at the input, cycles: 3 to 7",
            "pause in a frame at the output, cycles: 3 to 7", "frame of 60 bytes",
            "frames in consecutive cycles"} <= found  # fmt: skip
    assert "frames of one transfer in consecutive cycles" not in found
    assert "frames in consecutive cycles" not in hit_frames(passed(), passed(at=9))


def test_frames_of_one_transfer():
    ends = Transfers(3, 3, 1), Transfers(4, 4, 1)
    found = hit_frames(*(passed(came=end) for end in ends))
    assert "frames of one transfer in consecutive cycles" in found


def test_facts_of_frames():
    found = hit_frames(passed(bytes(60), "frames_ip6", "hits"), passed(bytes(60), "frames_errored"))
    assert {"frame is IPv6", "duplicate, action DROP", "frame is damaged"} <= found
    assert "first frame, action DROP" not in found
    assert "first frame, action MARK" in hit_frames(passed(action=Action.MARK))
    lost = passed(bytes(60), "frames_no_room")
    assert "frame is without room" in hit_frames(lost, when_full="drop")
    assert "frame is without room" not in hit_frames(lost)


def test_settings_of_frames():
    found = hit_frames(passed(), passed(bytes(60), "hits", secret=1, now=2))
    assert {"duplicate, tos compared: True", "duplicate, ttl compared: False",
            "new secret before a frame", "tick between two frames",
            "duplicate after a tick"} <= found  # fmt: skip
    assert not [name for name in found if "new again" in name]


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ({"now": 30}, {"frame is new again after its span"}),
        ({"clears": 2}, {"frame is new again after a clear"}),
        ({"fields": Field.NONE}, set()),
    ],
)
def test_frames_that_are_forgotten(later, expected):
    found = hit_frames(passed(), passed(**later))
    assert {name for name in found if "new again" in name} == expected
    assert not [name for name in hit_frames(passed(bytes(60), "frames_errored"), passed(**later))
                if "new again" in name]  # fmt: skip


def test_headers_around_frames():
    frames = [LAYER2["pseudo-wire with control word"], TUNNELS["VXLAN, IPv6"]]
    found = hit_frames(*map(passed, frames), inner=True)
    behind = {name.partition(" behind ")[2] for name in found if " behind " in name}
    assert behind == {"a label of MPLS", "content without a type", "a control word", "IPv6", "UDP",
                      "VXLAN"}  # fmt: skip
    assert not [name for name in hit_frames(*map(passed, frames)) if " behind " in name]


def test_goals():
    run = {"a": {"goal": 3, "count": 2}}
    assert missed(run) == ["a"]
    assert missed(merged([run, run])) == []


def test_situations_of_a_test_are_added_to_a_file(tmp_path):
    path = tmp_path / "situations.json"
    found = count(Settings(SPEC), [performed(1), performed(1)], [])
    for times in (1, 2):
        collect(str(path), found)
        assert json.loads(path.read_text())["QUERY, then QUERY"]["count"] == times


def test_unescaped():
    assert unescaped("__0243[0]:0->1") == "$3[0]:0->1"
    assert unescaped("control__02eadopt:0->1") == "control.adopt:0->1"


@pytest.mark.parametrize(
    ("instance", "kind"),
    [
        ("", "(unit)"),
        ("hits$55", "statistics"),
        ("core.store.segment3_part1", "core.store.segment_part"),
        ("core.hash1.fold", "core.hash.fold"),
        ("unit.bank", "bus.bank"),
        ("unit.unit.digest.parser.step0", "frames.digest.parser.step"),
        ("unit.unit.frames_in$148", "statistics"),
        ("unit.unit.unit.core.hash0", "core.hash"),
    ],
)
def test_module(instance, kind):
    assert module(instance) == kind


def test_read_points(tmp_path):
    path = tmp_path / "coverage.dat"
    path.write_text(
        "# SystemC::Coverage-3\n"
        "C '\1f\2top.v\1l\0022\1n\0021\1page\2v_toggle/lately_unit.core\1o\2__0241[0]:0->1"
        "\1h\2lately_unit.core' 3\n"
        "C '\1f\2top.v\1l\0021\1page\2v_branch/lately_unit\1o\2if\1h\2lately_unit' 0\n"
        "C '\1f\2models.v\1l\0021\1page\2v_line/other\1o\2block\1h\2other' 0\n"
    )
    assert read_points(path, "first\nsecond\n") == [
        Point("toggles", "core", "$1[0]:0->1", "second", 3),
        Point("lines", "", "1 if", "first", 0),
    ]


def test_exclusion_takes_only_what_was_not_reached(monkeypatch):
    rule = Exclusion("why", name=r"a.*", hash="h3")
    monkeypatch.setattr("lately.sim.bench.code_coverage.EXCLUSIONS", [rule])
    made = [Point("toggles", "issue", name, "", count) for name, count in
            [("a:0->1", 0), ("ab:0->1", 2), ("b:0->1", 0)]]  # fmt: skip
    modules, reasons = tally(SPEC, made)
    counted = modules["issue"]["toggles"]
    assert (counted.reached, counted.excluded, counted.missed) == (1, 1, ["issue: b:0->1"])
    assert reasons == {"why": 1}
    assert counted.percent == 50
    assert tally(PRESETS["siphash-tiny"], made)[1] == {}


@pytest.mark.parametrize(("rises", "excluded"), [(0, 2), (1, 0)])
def test_exclusion_of_still_bits(monkeypatch, rises, excluded):
    monkeypatch.setattr("lately.sim.bench.code_coverage.EXCLUSIONS", [Exclusion("why", still=True)])
    made = [
        Point("toggles", "issue", "a[0]:0->1", "", rises),
        Point("toggles", "issue", "a[0]:1->0", "", 0),
    ]
    modules, _ = tally(SPEC, made)
    assert modules["issue"]["toggles"].excluded == excluded


def test_report(capsys):
    counts = {"x": {"goal": 1, "count": 1}, "y": {"goal": 1, "count": 0}}
    lines = Tally(reached=9, missed=["issue: 3 if"])
    unit = coverage_report.UnitCoverage(
        failed=[], functional=counts, modules={"issue": {"lines": lines, "toggles": Tally()}},
        reasons={"why": 4},
    )  # fmt: skip
    coverage_report.print_report({"tiny": unit})
    text = capsys.readouterr().out
    assert "1 of 2" in text
    assert "90.0 % of 10" in text
    assert "situations missed: y" in text
    assert "lines not reached: issue: 3 if" in text
    assert not unit.passed
    assert unit.as_json()["total"]["lines"] == {
        "percent": 90.0, "reached": 9, "reachable": 10, "excluded": 0,
    }  # fmt: skip
    whole = dataclasses.replace(
        unit,
        functional={"x": {"goal": 1, "count": 1}},
        modules={"issue": {"lines": Tally(reached=1), "toggles": Tally()}},
    )
    assert whole.passed
