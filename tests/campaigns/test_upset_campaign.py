"""Campaigns of upsets: what is promised, how a run is judged, and that a campaign can go on."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from campaigns import upsets
from campaigns.upsets import (
    END,
    FRAME_OPTIONS,
    FRAME_SPEC,
    KINDS,
    OUTCOMES,
    frame_mismatches,
    guaranteed,
    guaranteed_marks,
    judge,
    judge_frames,
)
from lately.golden import Operation, SpecificationError, any_preset, preset
from lately.golden.packets.frame_deduplicator import Sent
from lately.golden.spec.timestamp import TimedTimingSpec
from lately.sim import compiled_unit
from lately.sim.replay import frames, upset_elements
from lately.sim.replay.beats import RawResults
from lately.sim.replay.frames import CompiledFrames, LeavingFrames, frame_digest
from lately.sim.replay.upset_elements import Element
from lately.sim.replay.upset_runs import SentBeats, UpsetOutcomes

CHECK = Operation.CHECK_AND_INSERT
BEATS = 20


def sent(*operations, numbers=0):
    """A sequence of operations on keys, as the driver takes it."""
    codes, keys = zip(*operations, strict=True)
    count = len(codes)
    return SentBeats(
        np.zeros(count, np.uint8),
        np.array(codes, np.uint8) | np.uint8(0x80),
        np.array(keys, np.uint64)[:, None],
        np.broadcast_to(numbers, count).astype(np.uint64),
    )


def reported(count):
    """Answers that report every key."""
    return RawResults.nothing(count)._replace(seen=np.full(count, 2, np.uint8))


def promises(spec, sequence, results=None):
    results = reported(len(sequence.codes)) if results is None else results
    return np.flatnonzero(guaranteed(spec, sequence, results)).tolist()


def test_promised_by_insertions():
    spec = preset("tiny")
    others = [(Operation.INSERT, key) for key in range(2, 10)]
    window = spec.guaranteed_window
    assert len(others) == window
    # The query comes as late as it may, and one insertion later.
    first, query = (Operation.INSERT, 1), (Operation.QUERY, 1)
    assert promises(spec, sent(first, *others[:-1], query)) == [window]
    assert promises(spec, sent(first, *others, query)) == []


def test_promised_after_other_operations():
    spec = preset("tiny")
    first, query = (Operation.INSERT, 1), (Operation.QUERY, 1)
    assert promises(spec, sent(first, (Operation.NONE, 1), (Operation.QUERY, 2), query)) == [3]
    assert promises(spec, sent(first, (Operation.CLEAR, 1), query)) == []
    assert promises(spec, sent(query, (CHECK, 1), (CHECK, 1))) == [2]
    # What is not reported was not promised: a SHIFT came.
    unseen = RawResults.nothing(2)._replace(seen=np.ones(2, np.uint8))
    assert promises(spec, sent(first, query), unseen) == []
    removal = sent(first, (Operation.REMOVE, 1), query, numbers=40)
    assert promises(any_preset("dictionary-tiny"), removal) == []


@pytest.mark.parametrize(("asked", "due"), [(2, [2, 4]), (1, [2]), (0, [])])
def test_promised_by_a_window_that_is_asked_for(asked, due):
    query = (Operation.QUERY, 1)
    operations = [(Operation.INSERT, 1), (Operation.NONE, 0), query, (Operation.INSERT, 2), query]
    sequence = sent(*operations, numbers=asked)
    assert promises(any_preset("dictionary-tiny"), sequence) == due
    assert promises(any_preset("timing-counted-tiny"), sequence) == due


def test_promised_by_ticks():
    spec = any_preset("timing-tiny")
    assert isinstance(spec, TimedTimingSpec)
    sequence = sent((Operation.INSERT, 1), (Operation.QUERY, 1), (Operation.QUERY, 1), numbers=7)
    results = reported(3)._replace(time=np.array([5, 12, 13], np.uint32))
    assert promises(spec, sequence, results) == [1]
    ring = any_preset("timed-tiny")
    numbers = [5, 5 + ring.span, 6 + ring.span]
    assert promises(ring, sent(*[(Operation.INSERT, 1), *[(Operation.QUERY, 1)] * 2],
                               numbers=numbers)) == [1]  # fmt: skip


def judged(promise=(), reported=False, healed=True, beats=BEATS, operation=CHECK, **changes):
    """Judge one run in which some answers changed, of a sequence in which every second is seen."""
    sequence = sent(*[(operation, 0)] * 40)
    seen = np.tile(np.array([1, 2], np.uint8), 20)
    reference = RawResults.nothing(40)._replace(seen=seen, tag=np.arange(40, dtype=np.uint8))
    results = RawResults(*(array[None, 10 : 10 + BEATS].copy() for array in reference))
    for name, (at, value) in changes.items():
        getattr(results, name)[0, at] = value
    outcome = UpsetOutcomes(
        np.array([10]), np.array([beats]), np.array([reported]), np.array([healed]), results
    )
    due = np.zeros(40, np.bool_)
    due[list(promise)] = True
    ranks, tells = judge(sequence, reference, due, outcome, BEATS)
    return list(OUTCOMES)[ranks[0]], bool(tells[0])


EVERY, HALF = slice(BEATS - END, BEATS), slice(BEATS - END // 2, BEATS)
MORE = slice(BEATS - END // 2 - 1, BEATS)


@pytest.mark.parametrize(
    ("outcome", "runs"),
    [
        ("masked", [{}, {"reported": True}, {"age": (4, 3)}]),  # A key not reported has no age.
        ("latent", [{"healed": False}]),
        ("false positive", [
            {"seen": (4, 2)}, {"seen": (4, 2), "healed": False}, {"seen": (4, 2), "age": (4, 3)},
        ]),
        ("other", [
            {"seen": (5, 1)}, {"seen": (5, 1), "promise": [13, 17]}, {"age": (5, 3)},
            {"status": (4, 99)}, {"time": (4, 99)}, {"tag": (4, 99)}, {"tag": (HALF, 99)},
            {"seen": (4, 2), "status": (4, 1)}, {"operation": Operation.INSERT, "seen": (4, 2)},
        ]),
        ("false negative", [
            {"seen": (5, 1), "promise": [15]}, {"seen": (5, 1), "promise": [15], "reported": True},
            # A status excuses only the answer that it comes with.
            {"seen": (5, 1), "status": (4, 1), "promise": [15]},
        ]),
        ("lost result", [
            {"beats": BEATS - 1}, {"tag": (EVERY, 99)}, {"tag": (MORE, 99)},
            {"seen": (EVERY, 0), "promise": [29]},
        ]),
    ],
)  # fmt: skip
def test_outcomes(outcome, runs):
    for run in runs:
        assert judged(**run) == (outcome, run.get("reported", False)), run
    assert judged(seen=(5, 1), status=(5, 1), promise=[15]) == ("false negative", True)


FRAMES = LeavingFrames(
    np.arange(20, dtype=np.uint64), np.tile([False, True], 10), np.arange(0, 60, 3)
)


def judged_frames(promise=(), left=20, **changes):
    """Judge a run in which some frames changed, of a sequence in which every second is marked."""
    frames_left = LeavingFrames(*(part.copy() for part in FRAMES))
    for name, (at, value) in changes.items():
        getattr(frames_left, name)[at] = value
    due = np.zeros(20, np.bool_)
    due[list(promise)] = True
    return list(OUTCOMES)[
        judge_frames(FRAMES, due, LeavingFrames(*(part[:left] for part in frames_left)))
    ]


def test_outcomes_of_frames():
    half, more = slice(20 - END // 2, 20), slice(20 - END // 2 - 1, 20)
    for outcome, run in (
        ("masked", {}),
        ("masked", {"cycles": (3, 99)}),
        ("false positive", {"marked": (4, True)}),
        ("other", {"digests": (4, 99)}),
        ("other", {"marked": (5, False)}),
        ("false negative", {"marked": (5, False), "promise": [5]}),
        # Nobody is promised a mark on a damaged frame.
        ("other", {"marked": (5, False), "digests": (5, 99), "promise": [5]}),
        ("lost result", {"left": 19}),
        ("other", {"digests": (half, 99)}),
        ("lost result", {"digests": (more, 99)}),
    ):
        assert judged_frames(**run) == outcome, run


def test_marks_that_are_promised():
    span = FRAME_SPEC.span
    times = [1, 2, 1 + span, 2 + span + 1]
    assert guaranteed_marks([b"a", b"b", b"a", b"b"], times).tolist() == [False, False, True, False]


def test_frames_that_differ_from_golden():
    frames = [b"first", b"second", b"first"]
    expected = [Sent(frame, at == 2) for at, frame in enumerate(frames)]
    digests = np.array([frame_digest(frame) for frame in frames], np.uint64)
    left = LeavingFrames(digests, np.array([False, False, True]), np.arange(3))
    assert frame_mismatches(left, expected) == 0
    wrong = frame_mismatches(left._replace(marked=~left.marked), expected)
    # An integer that JSON can hold.
    assert (wrong, type(wrong)) == (3, int)
    assert frame_mismatches(left._replace(digests=digests[::-1]), expected) == 0
    assert frame_mismatches(left._replace(digests=np.roll(digests, 1)), expected) == 2
    assert frame_mismatches(LeavingFrames(*(part[:2] for part in left)), expected) == 1
    assert len({frame_digest(content) for content in (b"", b"\0", b"\0\0", b"\1", b"\1\0")}) == 5


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(upsets, "BATCH", 40)
    monkeypatch.setattr(upsets, "LOAD", 200)
    monkeypatch.setattr("lately.sim.compiled_unit", partial(compiled_unit, optimisation=1))


def run(name="tiny", **options):
    (point,) = upsets.points(preset=(name,), **options)
    return upsets.run(point)


@pytest.mark.rtl
def test_campaign():
    whole = run(upsets=100)
    assert (whole["done"], whole["mismatches"]) == (100, 0)
    assert sum(row["silent"] + row["told"] for row in whole["found"]) == 100
    assert sum(whole["bits"].values()) > 1000
    again = run(upsets=100)
    assert again | {"seconds": 0} == whole | {"seconds": 0}
    assert run(upsets=100, seed=2)["found"] != whole["found"]
    memory = run(upsets=40, kind=("memory",))
    assert {row["kind"] for row in memory["found"]} == {"memory"} == memory["bits"].keys()
    assert [*upsets.mismatches(whole | {"mismatches": 3})] == ["mismatches: must be 0, not 3"]


def test_points_differ_in_their_labels():
    assert KINDS == upset_elements.KINDS
    labels = [upsets.label(point) for point in upsets.points()]
    assert len(labels) == len({*labels}) == 36
    assert {"tiny", "tiny parity memory buffer", "tiny check", "frames-64"} <= {*labels}
    (point,) = upsets.points(preset=("tiny",), seed=2, kind=("memory",))
    assert upsets.label(point) == "tiny memory seed 2"


def test_points_wrong(monkeypatch):
    """A campaign would pass without any upset of a kind that the unit lacks."""
    struck = SimpleNamespace(elements=[Element(("top", "accepted"), 1, 1, False)], digest="")
    unit = SimpleNamespace(upsets=struck)
    monkeypatch.setattr("lately.sim.compiled_unit", lambda *_, **__: nullcontext(unit))
    tables = replace(any_preset("timing-tiny"), classes=3).to_dict()
    for options, changes, message in (
        ({"preset": ("frames-64",), "protect": "parity"}, {},
         "preset: must be a filter if protect or self_check is set, not 'frames-64'"),
        ({"preset": ("tiny",), "kind": ("memory", "register")}, {},
         r"kind: must be one of register, not 'memory'"),
        ({"preset": ("timing-tiny",)}, {"spec": tables},
         "classes: must be unset for upsets, not 3"),
    ):  # fmt: skip
        (point,) = upsets.points(**options)
        with pytest.raises(SpecificationError, match=f"^{message}$"):
            upsets.run(point | changes)


def test_registers_of_one_name_are_summed_up():
    elements = [
        SimpleNamespace(name=name, kind=kind, bits=4)
        for name, kind in (("core.a", "register"), ("core.a$7", "register"), ("m", "memory"))
    ]
    (point,) = upsets.points(preset=("tiny",))
    tally = upsets._Tally(
        point | {"kinds": ["register", "memory"]}, SimpleNamespace(elements=elements)
    )
    missed, masked = upsets.MISSED, 0
    tally.add([0, 0, 1, 1, 2], np.array([missed, masked, missed, missed, missed]),
              np.array([0, 0, 1, 0, 0]), np.array([1, 0, 0, 1, 0]), 0)  # fmt: skip
    assert tally.figures()["registers"] == {"core.a": [8, 4, 2, 2, 2]}


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", FRAME_OPTIONS)
def test_campaigns_of_frames(name, monkeypatch):
    # A path in a string would find the function `lately.sim.replay`.
    monkeypatch.setattr(frames, "CompiledFrames", partial(CompiledFrames, optimisation=1))
    monkeypatch.setattr(upsets, "BATCH", 300)
    figures = run(name, upsets=600, seed=3, kind=("buffer", "register"))
    assert figures["mismatches"] == 0
    silent = {(row["kind"], row["outcome"]): row["silent"] for row in figures["found"]}
    assert silent["buffer", "false negative"] > 0
    assert silent["buffer", "other"] > 0
    assert silent["register", "masked"] > 0
    assert run(name, upsets=600, seed=3, kind=("buffer", "register"))["found"] == figures["found"]


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in upsets.FILTERS if name != "tiny"])
def test_campaigns_of_all_units(name, monkeypatch):
    monkeypatch.setattr(upsets, "BATCH", 1000)
    figures = run(name, upsets=1000, seed=3)
    assert figures["mismatches"] == 0
    silent = {(row["kind"], row["outcome"]): row["silent"] for row in figures["found"]}
    assert silent["register", "masked"] > 100
    assert silent["register", "false negative"] > 10
    assert silent["buffer", "other"] > 0


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("name", upsets.CHECKED)
def test_campaigns_of_protected_units(name, monkeypatch):
    """No upset of a memory bit loses a key silently, or a result."""
    monkeypatch.setattr(upsets, "BATCH", 1000)
    figures = run(name, upsets=1000, seed=4, protect="parity")
    assert figures["mismatches"] == 0
    rows = {(row["kind"], row["outcome"]): row for row in figures["found"]}
    assert rows["memory", "masked"]["silent"] > 0
    for kind in ("memory", "buffer"):
        missed, lost = rows[kind, "false negative"], rows[kind, "lost result"]
        assert missed["silent"] == lost["silent"] == 0
        # The stash of a dictionary may overflow, which the status reports.
        assert name.startswith("dictionary") or missed["told"] == 0
