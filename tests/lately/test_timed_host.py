# amaranth: UnusedElaboratable=no
"""Boards whose window is one in time: ticks, times, and golden at the times that they tell."""

import json
import re
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from board_commands import RATES, lately

from lately.boards.link.link import Link
from lately.boards.link.protocol import TIME_BITS, Check, Request
from lately.cli import board_stream
from lately.golden import FilterSpec, Operation, PoolStatus, SpecificationError, from_spec
from lately.hdl.profile import HardwareProfile
from lately.host import Host, window_seconds
from lately.session import HostError

pytestmark = pytest.mark.rtl

SPAN = 6
SPEC = FilterSpec(
    family="apbbf", k=2, l=2, block_bits=16, hashes_per_block=2, blocks=16, clear=8, key_bits=20,
    span=SPAN,
)  # fmt: skip
LEAST = HardwareProfile(SPEC).least_period
SEED = 31415
COUNTED = ("operations", "insertions", "hits", "shifts", "shortened", "overfilled")
QUERY, INSERT = int(Operation.QUERY), int(Operation.INSERT)


@pytest.fixture(scope="module")
def spec():
    return SPEC


def ticks(host):
    """The time now."""
    return int(host.perform([Operation.NONE], [0]).time[0])


def mixed(rng, count, *, keys=60):
    """Operations of all kinds, and keys that come again."""
    codes = rng.choice(6, count, p=[0.02, 0.28, 0.28, 0.406, 0.01, 0.004]).astype(np.uint8)
    return codes, rng.integers(0, keys, count, np.uint64) * np.uint64(16661)


def assert_same(found, golden, codes, keys):
    """Have the model perform the same at the times that were told."""
    expected = []
    for code, key, time in zip(codes, keys, found.time, strict=True):
        if code == Operation.CLEAR:
            # The status of the answer is that before it.
            expected.append((False, -1, golden.status(int(time)).code))
            golden.clear()
            continue
        told = golden.perform([code], [key], [time])
        expected.append((told.seen[0], told.age[0], told.status[0]))
    for name, column in zip(("seen", "age", "status"), zip(*expected, strict=True), strict=True):
        assert getattr(found, name).tolist() == [int(value) for value in column], name


# Operations


def test_operations_match_golden(board, host):
    rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    golden = from_spec(SPEC)
    statuses, last = set(), 0
    none = np.zeros(0, np.uint8)
    assert host.perform(none, none).time.shape == (0,)
    for count, period, silence in (
        (60, LEAST, 0), (200, 3000, 0), (500, 100_000, 0), (200, 15_000, 9000), (24, LEAST, 5000),
        (26, 1 << 23, 0),
    ):  # fmt: skip
        host.configure(period=period)
        board.idle(silence)
        codes, keys = mixed(rng, count)
        found = host.perform(codes, keys)
        assert found.time[0] >= last
        assert (np.diff(found.time) >= 0).all()
        last = int(found.time[-1])
        statuses |= set(found.status.tolist())
        assert_same(found, golden, codes, keys)
    assert statuses == {PoolStatus.OK.code, PoolStatus.WINDOW_SHORTENED.code}
    # No tick comes any more for a third of a second.
    counted = host.statistics()
    assert [counted[name] for name in COUNTED] == [getattr(golden, name) for name in COUNTED]
    assert counted["covered"] == golden.guaranteed_span(last) + 1
    # How often depends on the clocks that pass while the host is away.
    assert golden.shortened > 0
    assert golden.hits > 50


def test_key_is_reported_to_the_end_of_the_span_and_no_longer(host):
    period = 20_000
    host.configure(period=period)
    # The period counts from the next tick on.
    begin = ticks(host)
    while ticks(host) < begin + 2:
        pass
    inserted = int(host.perform([INSERT], [77]).time[0])
    told = {}
    while max(told, default=0) < inserted + SPAN + 2:
        found = host.perform([QUERY], [77])
        told.setdefault(int(found.time[0]), set()).add(bool(found.seen[0]))
    print(inserted, told)
    assert told[inserted + SPAN] == {True}
    assert told[inserted + SPAN + 1] == {False}
    assert all(seen == {time <= inserted + SPAN} for time, seen in told.items())


def test_no_silence_brings_a_key_back(board, host):
    """The board compares times of few bits, which silences of these lengths would wrap."""
    golden = from_spec(SPEC)
    host.configure(period=LEAST)
    board.idle(30_000)
    for silence in (*range(8, 40), 1000):
        before = host.perform([INSERT], [5])
        began = board.cycles
        board.idle(silence * LEAST)
        after = host.perform([QUERY], [5])
        passed = int(after.time[0] - before.time[0])
        assert silence <= passed <= (board.cycles - began) / LEAST + 200
        assert not after.seen[0]
        assert_same(before, golden, [INSERT], [5])
        assert_same(after, golden, [QUERY], [5])
    assert host.statistics()["covered"] == SPAN + 1


def test_shortened_window_is_told(host):
    host.configure(period=1 << 23)
    first = 5 * SPEC.generation
    found = host.perform(np.full(first, INSERT), np.arange(first))
    assert found.status[0] == PoolStatus.OK.code
    # The first turn but l retires a segment that counts.
    turned = (SPEC.window_generations + 1) * SPEC.generation
    assert (found.status == PoolStatus.WINDOW_SHORTENED.code).tolist() == [
        number > turned for number in range(first)
    ]
    counted = host.statistics()
    assert (counted["shortened"], counted["overfilled"]) == (4 - SPEC.window_generations, 0)
    assert counted["covered"] < SPAN + 1


def test_apply_tells_no_times(host):
    found = host.apply([INSERT, QUERY], [3, 3])
    assert (found.seen.tolist(), found.age.tolist()) == ([False, True], [-1, 0])
    assert host.query([3]).seen.all()
    host.clear()
    assert not host.check_and_insert([3]).seen.any()


# Settings and self-test


def test_period(host):
    assert host.statistics()["period"] == 24_000
    for period in (LEAST, (1 << 24) - 1):
        host.configure(period=period)
        assert host.statistics()["period"] == period
    with pytest.raises(HostError, match=r"value: must be one that .* not too short for it$"):
        host.configure(period=LEAST - 1)
    for period in (0, 1 << 24):
        message = rf"^period: must be 1 to {(1 << 24) - 1} for this board, not {period}$"
        with pytest.raises(ValueError, match=message):
            host.configure(period=period)
    with pytest.raises(TypeError, match=r"^period: must be an integer, not 1.5$"):
        host.configure(period=1.5)
    with pytest.raises(HostError, match="value: must be one that the board can count to"):
        host._ask(Request.PERIOD, struct.pack("<I", 1 << 24))
    with pytest.raises(HostError, match="request: must have the length that the board expects"):
        host._ask(Request.PERIOD, bytes(3))
    assert host.statistics()["period"] == (1 << 24) - 1


def test_more_operations_than_an_answer_has_room_for(host):
    record = struct.pack("<I", 5 << 8 | INSERT)
    assert len(host._ask(Request.OPERATIONS, record * 25)) == 125
    with pytest.raises(HostError, match="request: must have the length that the board expects"):
        host._ask(Request.OPERATIONS, record * 26)
    assert host.statistics()["insertions"] == 25


def test_period_after_reset_is_at_least_the_least():
    spec = FilterSpec(
        family="apbbf", k=2, l=118, block_bits=16, hashes_per_block=2, blocks=16, clear=8, span=400
    )  # fmt: skip
    link = Link(spec, clock_hz=921_600, baud=115_200)
    least = HardwareProfile(spec).least_period
    assert least > 922
    assert link.elaborate(None).submodules.registers.period.init == least


def test_time_stands_still_in_the_self_test(board, host):
    host.configure(period=LEAST)
    host.insert(range(100))
    before = ticks(host)
    # The span is a small part of the test, which would miss the keys that expire.
    assert host.self_test() == Check(0)
    assert ticks(host) > before
    assert not host.query(range(100)).seen.any()
    assert not board.leds["fault"]


def test_times_are_those_of_the_board_over_its_wraps(monkeypatch):
    """Times of 30 bits, statuses above them; nothing but the steps between them counts."""
    host = Host.__new__(Host)
    information = Link(SPEC, **RATES).information
    host.information = information
    host._time, host.port = 0, "port"
    whole = 1 << TIME_BITS
    times = np.array(
        [whole - 3, whole - 1, whole, whole + 9, 2 * whole + 8, 2 * whole + 8, 3 * whole]
    )
    statuses = np.array([0, 1, 2, 0, 1, 0, 2])
    stamps = iter(times % whole | statuses << TIME_BITS)

    def answers(request, payloads):
        for payload in payloads:
            yield b"".join(struct.pack("<BI", 0x81, next(stamps)) for _ in range(len(payload) // 4))

    monkeypatch.setattr(host, "_exchange", answers)
    found = [host.perform(np.ones(count, np.uint8), np.zeros(count, np.uint64)) for count in (5, 2)]
    assert np.concatenate([one.time for one in found]).tolist() == times.tolist()
    assert np.concatenate([one.status for one in found]).tolist() == statuses.tolist()
    assert all(one.seen.all() and (one.age == 1).all() for one in found)


def test_covered_seconds():
    information = SimpleNamespace(timed=True, clock_hz=1_000_000)
    assert window_seconds(information, {"period": 500, "covered": 41}) == {
        "tick_seconds": 0.0005, "covered_seconds": 0.02,
    }  # fmt: skip
    assert window_seconds(information, {"period": 500, "covered": 0})["covered_seconds"] == 0
    assert window_seconds(SimpleNamespace(timed=False), {}) == {}


# Commands


@pytest.fixture
def files(tmp_path, monkeypatch):
    SPEC.to_toml(tmp_path / "spec.toml")
    monkeypatch.setattr(board_stream, "CHUNK", 100)
    keys = np.random.default_rng(SEED).integers(0, 40, 400)
    (tmp_path / "keys").write_text("".join(f"{key}\n" for key in keys))
    return tmp_path


def test_commands(board):
    # 240.5 clocks.
    lately(board.port, "configure", "--tick", "10.02us")
    info = json.loads(lately(board.port, "info", "--json"))
    assert (info["time_bits"], info["tick_seconds"]) == (TIME_BITS, 241 / 24e6)
    assert info["covered_seconds"] == SPAN * 241 / 24e6
    text = lately(board.port, "statistics")
    assert re.search(r"^period +241$", text, re.MULTILINE)
    assert re.search(rf"^covered +{SPAN + 1}$", text, re.MULTILINE)
    assert re.search(r"^tick seconds +1.004e-05$", text, re.MULTILINE)
    message = lately(board.port, "configure", "--tick", "10", status=1)
    assert "tick: must be a number above 0 and one of ns, us, ms, s, min, h" in message
    assert "period: must be 1 to" in lately(board.port, "configure", "--tick", "1s", status=1)
    message = lately(board.port, "configure", "--tick", "1us", status=1)
    assert "value: must be one that the board can count to" in message


def test_stream_is_checked_at_the_times_of_the_board(board, files):
    lately(board.port, "configure", "--tick", "100us")
    arguments = ("stream", files / "keys", "--check", "--spec", files / "spec.toml", "--json")
    found = json.loads(lately(board.port, *arguments, "--out", files / "out.csv"))
    assert (found["operations"], found["mismatches"], found["error"]) == (400, 0, None)
    assert found["seen"] > 50
    header, *rows = (files / "out.csv").read_text().splitlines()
    assert header == "index,key,seen,age,time,status"
    times, statuses = np.array([row.split(",")[4:] for row in rows], int).T
    assert (np.diff(times) >= 0).all()
    assert times[-1] > times[0]
    assert set(statuses) <= {0, 1}
    message = lately(board.port, *arguments, "--skip", 10, status=2)
    assert "--check must not be given with --skip for a window in time" in message


@pytest.mark.parametrize("wrong", ["status", "time"])
def test_stream_that_differs_in_time_or_status_is_found(board, files, monkeypatch, wrong):
    performed = Host.perform

    def falsify(host, operations, keys, windows=None, **options):
        found = performed(host, operations, keys, windows, **options)
        # All keys far apart, or an answer that was never given.
        changed = found.time + 100 * np.arange(len(keys)) if wrong == "time" else found.status ^ 2
        return found._replace(**{wrong: changed})

    monkeypatch.setattr(Host, "perform", falsify)
    arguments = ("stream", files / "keys", "--limit", 100, "--check", "--spec", files / "spec.toml")
    assert "mismatches: must be 0, not " in lately(board.port, *arguments, status=1)


def test_window_in_insertions_has_no_ticks():
    host = Host.__new__(Host)
    host.information = SimpleNamespace(timed=False, keyed=False, generation=10)
    host.port = "port"
    with pytest.raises(
        SpecificationError, match=r"^period: must not be given for the filter of port"
    ):
        host.configure(period=500)
