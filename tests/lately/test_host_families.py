# amaranth: UnusedElaboratable=no
"""Boards with all kinds of filters: windows, classes, ticks, tables, and golden."""

import dataclasses
import json
import re

import numpy as np
import pytest
from board_commands import RATES, lately

from lately.boards.link.link import FilterLink
from lately.cli import board_stream
from lately.golden import (
    DecisionTable,
    FilterSpec,
    Operation,
    PartitionedTimingSpec,
    SpecificationError,
    TimedTimingSpec,
    WindowDictionarySpec,
    from_spec,
    preset,
)
from lately.hdl.build import unit_profile
from lately.host import Board, golden_operands, window_seconds
from lately.session import HostError

pytestmark = pytest.mark.rtl

# Windows of two bytes, and of blocks and ticks of several units; keys with unused bits.
SPECS = {
    "timed ring": FilterSpec(family="apbbf", k=2, l=2, block_bits=16, hashes_per_block=2,
                             blocks=16, clear=8, key_bits=20, span=6),
    "table": PartitionedTimingSpec(window=32, block=4, hashes=3, cells=16, stamp_bits=6,
                                   key_bits=20, classes=3, phase_bits=2),
    "dictionary": WindowDictionarySpec(window=300, columns=2, rows=32, digest_bits=9, stash=4,
                                       key_bits=20),
    "counted": PartitionedTimingSpec(window=60, block=3, hashes=3, cells=16, stamp_bits=7,
                                     key_bits=20),
    "timed": TimedTimingSpec(span=40, period=2, hashes=3, cells=16, stamp_bits=6, key_bits=20),
    "one class": TimedTimingSpec(span=80, period=2, hashes=3, cells=16, stamp_bits=7, key_bits=20,
                                 classes=1),
}  # fmt: skip
SEED = 27182
FAST = ("one class",)


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in SPECS],
    scope="module",
)
def spec(request):
    return SPECS[request.param]


def random_table(rng, spec, **changed):
    thresholds = rng.integers(0, spec.hashes + 2, spec.table_shape).astype(np.uint8)
    fields = {"hashes": spec.hashes, "block": spec.block_units, "bits": spec.phase_bits}
    return DecisionTable(thresholds, **(fields | changed))


def mixed(rng, information, count):
    """Operations of all kinds, keys that come again, and windows or classes."""
    codes = [0, 1, 1, 2, 3, 3] + [8] * information.removes
    keys = rng.integers(0, 120, count, np.uint64) * np.uint64(8117)
    least = 0 if information.decides else 1
    return (
        rng.choice(codes, count).astype(np.uint8),
        keys,
        rng.integers(least, max(least, information.longest) + 1, count),
    )


def assert_same(information, golden, results, operands):
    """Have the model perform the same at the times of the board."""
    codes, keys, windows = operands
    asked = windows if information.longest or information.decides else None
    expected = golden.perform(codes, keys, *golden_operands(information, results.time, asked))
    for name in ("seen", "age", "status", "oldest"):
        assert (getattr(results, name) == getattr(expected, name)).all(), name


def test_operations_match_golden(board, host, spec):
    rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    found, golden = host.information, from_spec(spec)
    least = unit_profile(spec).least_period
    host.clear()
    golden.clear()
    for number, count in enumerate((0, 1, 40, 300, 100)):
        if found.timed:
            host.configure(period=max(least, 2000 + 5000 * (number % 2)))
            board.idle(9000 * number)
        if found.decides and number > 1:
            table = random_table(rng, spec)
            host.decide_by(table)
            golden.decide_by(table.thresholds)
        operands = mixed(rng, found, count)
        asked = operands[2] if found.longest or found.decides else None
        assert_same(found, golden, host.perform(*operands[:2], asked), operands)
    counted = host.statistics()
    for name, value in golden.counters.items():
        assert counted.get(name, value) == value, name
    assert golden.counters["hits"] > 20


def test_self_test(board, host, spec):
    period = unit_profile(spec).least_period + 5
    if host.information.timed:
        host.configure(period=period)
    host.insert(range(50))
    assert host.self_test().passed
    assert host.information.decides or not host.query(range(50)).seen.any()
    assert host.statistics().get("period", period) == period
    assert not board.leds["fault"]


def test_windows_and_classes_of_queries(host, spec):
    found = host.information
    host.clear()
    host.insert([7, 8])
    if not found.longest:
        if found.decides:
            assert host.query([7, 8], 0).seen.all()
        else:
            with pytest.raises(SpecificationError, match=r"^windows: must not be given for the bo"):
                host.query([7], 1)
        return
    name = "classes" if found.decides else "windows"
    assert host.query([7, 8], found.longest).seen.all()
    message = f"^{name}: must be at most {found.longest} for this board, not {found.longest + 1}$"
    with pytest.raises(ValueError, match=message):
        host.query([7], found.longest + 1)
    with pytest.raises(ValueError, match=name):
        host.query([7], -1)


def test_what_the_board_has_not(host, spec):
    found = host.information
    refused = [(lambda: host.configure(secret=5), "secret: must not be given .*, which takes none")]
    if not found.shifts:
        refused.append((host.shift, "shift: must not be given .*, which has no generations"))
    if not found.removes:
        refused.append((lambda: host.remove([1]), "remove: must not be .*, which removes no keys"))
    if not found.timed:
        refused.append((lambda: host.configure(period=500), "period: must not be given"))
    if not found.decides:
        refused.append((lambda: host.decide_by(None), "table: must not be given .*, which has no"))
    for refuse, message in refused:
        with pytest.raises(SpecificationError, match=message):
            refuse()
    for wanted in (preset("tiny"), dataclasses.replace(spec, seed=77)):
        with pytest.raises(HostError, match=r"must be .*, but the board has"):
            host.check_spec(wanted)


def test_period(host, spec):
    if not host.information.timed:
        return
    host.reset()
    assert host.statistics()["period"] == 24_000
    least = unit_profile(spec).least_period
    for period in (least, (1 << 24) - 1):
        host.configure(period=period)
        assert host.statistics()["period"] == period
    with pytest.raises(HostError, match="register: must take what is written"):
        host.configure(period=least - 1)
    for period in (0, 1 << 24):
        with pytest.raises(ValueError, match=r"^period: must be 1 to 16777215 for this board, not"):
            host.configure(period=period)
    with pytest.raises(TypeError, match=r"^period: must be an integer, not 1.5$"):
        host.configure(period=1.5)


def test_keys_are_reported_to_the_end_of_the_span(host, spec):
    """And no longer, after any silence."""
    if not host.information.timed or host.information.decides:
        return
    span = spec.span // getattr(spec, "block_units", 1)
    host.configure(period=20_000)
    host.clear()
    inserted = int(host.perform([Operation.CHECK_AND_INSERT], [77]).time[0])
    seen = {}
    while max(seen, default=0) < inserted + span + 2:
        found = host.perform([Operation.QUERY], [77])
        seen.setdefault(int(found.time[0]), set()).add(bool(found.seen[0]))
    # A tick may still have the earlier period.
    assert all(flags == {time <= inserted + span} for time, flags in seen.items())


def test_table_of_another_filter(host, spec):
    if not host.information.decides:
        return
    rng = np.random.default_rng(SEED)
    for table, message in (
        (random_table(rng, spec, hashes=4), "table: must have hashes 3 for this filter, not 4"),
        (random_table(rng, spec, bits=1), f"must have digits {spec.phase_bits} for this"),
        (random_table(rng, dataclasses.replace(spec, classes=4)), "must have shape .*, not .4, "),
    ):
        with pytest.raises(SpecificationError, match=message):
            host.decide_by(table)


def test_times_go_on_over_the_wraps_of_the_board(monkeypatch):
    """Times of 30 bits, and statuses above them: only the steps between times count."""
    host = Board.__new__(Board)
    host.information = FilterLink(SPECS["timed ring"], **RATES).information
    host._time, host.port, whole = 0, "port", 1 << 30
    times = np.array([whole - 3, whole - 1, whole, whole + 9, 2 * whole + 8, 3 * whole])
    statuses = np.array([0, 1, 2, 0, 1, 2])
    none = np.ones(6, np.int64)
    values = {"seen": none, "age": none, "time": times % whole, "status": statuses}
    records = host.information.pack_results(values)

    def answers(request, payloads):
        at = 0
        for payload in payloads:
            count = len(payload) // 4
            yield records[at : at + count].tobytes()
            at += count

    monkeypatch.setattr(host, "_exchange", answers)
    found = host.perform(none, none)
    assert found.time.tolist() == times.tolist()
    assert found.status.tolist() == statuses.tolist()
    assert found.seen.all()


def test_covered_seconds():
    information = FilterLink(SPECS["timed ring"], **RATES).information
    assert window_seconds(information, {"period": 12_000, "covered": 41}) == {
        "tick_seconds": 0.0005, "covered_seconds": 0.02,
    }  # fmt: skip
    assert window_seconds(information, {"period": 500, "covered": 0})["covered_seconds"] == 0
    plain = FilterLink(preset("tiny"), **RATES).information
    assert window_seconds(plain, {}) == {}


# Commands


@pytest.mark.slow
def test_commands(board, host, spec, tmp_path):
    found, port = host.information, board.port
    host.close()
    info = json.loads(lately(port, "info", "--json"))
    assert (info["family"], info["preset"], info["timed"]) == (spec.family, None, found.timed)
    lately(port, "insert", 17, 18)
    option = "--query-class" if found.decides else "--query-window"
    if found.longest:
        lately(port, "query", 17, 19, option, found.longest)
        message = lately(port, "query", 17, option, found.longest + 1, status=2)
        assert f"must be at most {found.longest} for this board" in message
        other = "--query-window" if found.decides else "--query-class"
        message = lately(port, "query", 17, other, 1,
                         status=2)  # fmt: skip
        assert "must not be given for the filter of" in message
    if found.removes:
        lately(port, "remove", 17)
        assert lately(port, "query", 17) == "17: not seen\n"
    if found.timed:
        # 240.5 cycles.
        lately(port, "configure", "--tick", "10.02us")
        assert re.search(r"^tick seconds +1.004e-05$", lately(port, "statistics"), re.MULTILINE)
        assert "period: must be 1 to" in lately(port, "configure", "--tick", "1s", status=2)
    assert json.loads(lately(port, "self-test", "--json"))["passed"] is True


@pytest.mark.slow
def test_stream_is_checked(board, host, spec, tmp_path, monkeypatch):
    monkeypatch.setattr(board_stream, "CHUNK", 100)
    host.close()
    keys = np.random.default_rng(SEED).integers(0, 60, 300)
    (tmp_path / "keys").write_text("".join(f"{key}\n" for key in keys))
    arguments = ["stream", tmp_path / "keys", "--verify"]
    if host.information.decides:
        assert "table: must be given" in lately(board.port, *arguments, status=2)
        random_table(np.random.default_rng(0), spec).save(tmp_path / "table.json")
        arguments += ["--table", tmp_path / "table.json", "--query-class", spec.classes - 1]
    elif host.information.longest:
        arguments += ["--query-window", 11]
    found = json.loads(lately(board.port, *arguments, "--json", "--out", tmp_path / "out.csv"))
    assert (found["operations"], found["mismatches"], found["error"]) == (300, 0, None)
    header = (tmp_path / "out.csv").read_text().splitlines()[0]
    names = [name for name in ("time", "status", "oldest") if host.information.result.get(name)]
    assert header == ",".join(["index,key,seen,age", *names])
    if host.information.timed:
        message = lately(board.port, *arguments, "--skip", 10, status=2)
        assert "--verify must not be given with --skip for a window in time" in message
    performed = Board.perform

    def falsify(host, *operands, **options):
        results = performed(host, *operands, **options)
        return results._replace(age=results.age + 1)

    monkeypatch.setattr(Board, "perform", falsify)
    assert "mismatches: must be 0, not 300" in lately(board.port, *arguments, status=1)


def test_simulated_port(monkeypatch, tmp_path):
    from lately.cli import host_commands

    built = []
    monkeypatch.setattr("lately.sim.board.board_model", lambda link, **_: built.append(link))
    monkeypatch.setattr("lately.sim.board.SimulatedBoard", lambda model: None)
    SPECS["table"].to_toml(tmp_path / "filter.toml")
    host_commands._simulated(str(tmp_path / "filter.toml"))
    assert built[0].information.specification == SPECS["table"]
    with pytest.raises(FileNotFoundError):
        host_commands._simulated(str(tmp_path / "none.toml"))
