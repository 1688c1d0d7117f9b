# amaranth: UnusedElaboratable=no
"""Boards with dictionaries and timing filters: a window for each query, ticks, and golden."""

import dataclasses
import json
import re
import struct

import numpy as np
import pytest
from board_commands import RATES, lately

from lately.boards.link.link import Link
from lately.boards.link.protocol import Check, Request
from lately.cli import board_stream
from lately.golden import (
    Operation,
    PartitionedTimingSpec,
    SpecificationError,
    TimedTimingSpec,
    WindowDictionarySpec,
    any_preset,
    from_spec,
    preset,
)
from lately.hdl.build import unit_profile
from lately.host import Host
from lately.session import HostError
from lately.sim.board import SimulatedBoard, board_model

pytestmark = pytest.mark.rtl

# Windows of two bytes, and of blocks and ticks of several units; keys with unused bits.
DICTIONARY = WindowDictionarySpec(
    window=300, columns=2, rows=32, digest_bits=9, stash=4, key_bits=20
)
KEYED = dataclasses.replace(any_preset("dictionary-tiny"), hash="siphash")
COUNTED = PartitionedTimingSpec(window=60, block=3, hashes=3, cells=16, stamp_bits=7, key_bits=20)
TIMED = TimedTimingSpec(span=40, period=2, hashes=3, cells=16, stamp_bits=6, key_bits=20)
SEED = 27182
CODES = [Operation.NONE, Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT]

# Compiling a board takes a quarter of a minute.
SPECS = [
    pytest.param(spec, id=name, marks=pytest.mark.slow)
    for name, spec in {"dictionary": DICTIONARY, "counted": COUNTED, "timed": TIMED}.items()
]


@pytest.fixture(params=SPECS, scope="module")
def spec(request):
    return request.param


def mixed(rng, spec, count):
    """Operations of all kinds, keys that come again, and windows of any length."""
    removes = isinstance(spec, WindowDictionarySpec)
    codes = rng.choice([*CODES, Operation.REMOVE][: 4 + removes], count).astype(np.uint8)
    keys = rng.integers(0, 120, count, np.uint64) * np.uint64(8117) % np.uint64(1 << spec.key_bits)
    # Golden dictionaries know no window of 0.
    return codes, keys, rng.integers(removes, spec.window_blocks + 1, count)


def differing(golden, spec, found, codes, keys, windows):
    """Names of the results that are not those of the model at the times that were told."""
    if isinstance(spec, WindowDictionarySpec):
        told = golden.perform(codes, keys, windows=windows)
        asks = np.isin(codes, (Operation.QUERY, Operation.CHECK_AND_INSERT))
        expected = {"age": told.age, "status": asks & (windows > told.covered)}
    else:
        timed = isinstance(spec, TimedTimingSpec)
        unit = spec.period if timed else spec.block
        times = [found.time * unit] if timed else []
        told = golden.perform(codes, keys, *times, windows=windows * unit)
        expected = {"oldest_age": told.age, "oldest": told.oldest}
    expected["seen"] = told.seen
    return [name for name, one in expected.items() if (getattr(found, name) != one).any()]


def test_operations_match_golden(board, host, spec):
    rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    golden = from_spec(spec)
    if host.information.timed:
        host.configure(period=max(unit_profile(spec).least_period, 2000))
    host.clear()
    inserted = 0
    for count in (0, 1, 40, 1500):
        codes, keys, windows = mixed(rng, spec, count)
        found = host.perform(codes, keys, windows)
        assert differing(golden, spec, found, codes, keys, windows) == []
        inserted += int(np.isin(codes, (Operation.INSERT, Operation.CHECK_AND_INSERT)).sum())
    assert 0.1 < found.seen.mean() < 0.9
    counted = host.statistics()
    assert (counted["operations"], counted["insertions"]) == (1542, inserted)
    if isinstance(spec, WindowDictionarySpec):
        assert (counted["lost"], counted["guaranteed"]) == (golden.lost, golden.guaranteed_window)
        # More than cells and stash hold of such digests.
        assert golden.lost > 0
        assert found.status.any()
        assert not found.status.all()
    if host.information.timed:
        assert found.time[-1] > found.time[0]


def test_self_test(board, host):
    host.insert(range(50))
    assert host.self_test() == Check(0)
    assert not host.query(range(50)).seen.any()
    assert not board.leds["fault"]


def test_window_of_a_query(host, spec):
    host.clear()
    host.insert([7, 8])
    longest = spec.window_blocks
    assert host.query([7, 8]).seen.all()
    assert host.query([7, 8], longest).seen.all()
    assert not host.query([7, 8], 0).seen.any() or not isinstance(spec, WindowDictionarySpec)
    message = f"^windows: must be at most {longest} for this board, not {longest + 1}$"
    with pytest.raises(ValueError, match=message):
        host.query([7], longest + 1)
    with pytest.raises(ValueError, match="windows"):
        host.query([7], -1)
    # Of what is sent past these checks, the board performs nothing.
    bytes_each = host.information.asked_bytes
    before = host.statistics()["operations"]
    for window in (longest + 1, (1 << 8 * bytes_each) - 1, longest | 0x80 << 8 * (bytes_each - 1)):
        record = bytes([Operation.INSERT]) + bytes(3) + window.to_bytes(bytes_each, "little")
        good = bytes([Operation.INSERT]) + bytes(3) + longest.to_bytes(bytes_each, "little")
        with pytest.raises(HostError, match="value: must be one that the board can count to"):
            host._ask(Request.OPERATIONS, good + record)
        host._ask(Request.OPERATIONS, good * 2)
        before += 2
    assert host.statistics()["operations"] == before


def test_what_the_board_has_not(board, host, spec):
    removes, timed = isinstance(spec, WindowDictionarySpec), isinstance(spec, TimedTimingSpec)
    refused = [
        (lambda: host.shift(), "shift: must not be given .*, which has no generations"),
        (lambda: host.configure(generation=5), "generation: must not be .*, which has no gener"),
        (lambda: host.configure(secret=5), "secret: must not be given .*, which takes none"),
    ]
    requests = [(Request.GENERATION, bytes([1, 0, 0, 0])), (Request.SECRET, bytes(16))]
    if not removes:
        refused.append((lambda: host.remove([1]), "remove: must not be .*, which removes no keys"))
        with pytest.raises(ValueError, match="operations: must be 0 to 5, not 8"):
            host.apply([8], [1])
    if not timed:
        refused.append((lambda: host.configure(period=500), "period: must not be given"))
        requests.append((Request.PERIOD, struct.pack("<I", 500)))
    for refuse, message in refused:
        with pytest.raises(SpecificationError, match=message):
            refuse()
    for request, payload in requests:
        with pytest.raises(HostError, match="request: must be one that the board has"):
            host._ask(request, payload)
    unknown = (8,) if not removes else (6, 9, 10, 12)
    for code in unknown:
        record = bytes([code]) + bytes(host.information.record_bytes - 1)
        with pytest.raises(HostError, match="operation: must be one of those of a filter"):
            host._ask(Request.OPERATIONS, record)


def test_only_dictionaries_remove():
    removes = {spec.family: Link(spec, **RATES).information.removes
               for spec in (DICTIONARY, COUNTED, TIMED)}  # fmt: skip
    assert removes == {"window-dictionary": True, "partitioned-timing": False,
                       "timed-timing": False}  # fmt: skip


# What is told of a board without one


def answered(monkeypatch, spec, octets):
    """Return a host whose board gives certain bytes as an answer."""
    host = Host.__new__(Host)
    host.information, host.port, host._time = Link(spec, **RATES).information, "port", 0
    monkeypatch.setattr(
        host, "_exchange", lambda request, payloads: iter([octets for _ in payloads])
    )
    return host


def test_results_of_a_dictionary(monkeypatch):
    host = answered(monkeypatch, DICTIONARY, bytes.fromhex("2b8101 000000 ff7f01"))
    found = host.perform([3, 3, 3], [1, 2, 3], [300, 1, 0])
    assert found.seen.tolist() == [True, False, False]
    assert found.age.tolist() == [0x12B, -1, -1]
    assert found.status.tolist() == [1, 0, 1]
    # Of this it tells nothing.
    assert not found.time.any()
    assert not found.oldest.any()


def test_results_of_a_timing_filter(monkeypatch):
    host = answered(monkeypatch, TIMED, bytes.fromhex("8302 070000001503 ffffff3f8001 02000000"))
    found = host.perform([3, 3, 3], [1, 2, 3])
    assert found.seen.tolist() == [True, False, True]
    assert (found.age.tolist(), found.oldest_age.tolist()) == ([3, -1, 0], [3, 21, 0])
    assert found.oldest.tolist() == [2, 3, 1]
    whole = 1 << 30
    assert found.time.tolist() == [7, whole - 1, whole + 2]
    assert not found.status.any()


def test_records_hold_windows():
    host = Host.__new__(Host)
    host.information, host.port = Link(DICTIONARY, **RATES).information, "port"
    records = host._records(np.array([8, 3]), np.array([1, 0x12345]), np.array([300, 7]))
    assert [record.tobytes().hex() for record in records] == ["080100002c01", "034523010700"]
    assert host._records(np.array([1]), np.array([2]), None)[0].tobytes().hex() == "010200002c01"
    with pytest.raises(ValueError, match=r"^operations: must be 0 to 5 or 8, not 6$"):
        host._records(np.array([6]), np.array([2]), None)
    host.information = Link(preset("tiny"), **RATES).information
    with pytest.raises(SpecificationError, match=r"^windows: must not be given for the filter of"):
        host._records(np.array([1]), np.array([2]), 5)


def test_board_with_another_filter(board, spec):
    for wanted, message in (
        (preset("tiny"), "key_bits must be 8, but the board has 20"),
        (dataclasses.replace(preset("tiny"), key_bits=20), "generation must be .* has none"),
        (dataclasses.replace(spec, seed=77), f"digest .* but the board's has {spec.digest.hex()}$"),
        (any_preset("timing-default"), "key_bits must be 64"),
        (dataclasses.replace(any_preset("timing-default"), key_bits=20),
         f"window of a query must be 32768, but the board has {spec.window_blocks}"),
    ):  # fmt: skip
        with pytest.raises(HostError, match=message):
            Host(board.port, baud=RATES["baud"], timeout=10.0, spec=wanted)


@pytest.mark.slow
def test_secret():
    golden = from_spec(KEYED)
    rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    with (
        SimulatedBoard(board_model(Link(KEYED, **RATES), **RATES)) as board,
        Host(board.port, baud=RATES["baud"], timeout=10.0, spec=KEYED) as host,
    ):
        for secret in (0x0123456789ABCDEFFEDCBA9876543210, 3):
            host.configure(secret=secret)
            golden.rekey(secret)
            host.clear()
            golden.clear()
            codes, keys, windows = mixed(rng, KEYED, 400)
            found = host.perform(codes, keys, windows)
            assert differing(golden, KEYED, found, codes, keys, windows) == []
        assert host.self_test() == Check(0)
        # The secret is still the same.
        golden.clear()
        found = host.perform(codes, keys, windows)
        assert differing(golden, KEYED, found, codes, keys, windows) == []


# Commands


def test_commands(board, spec):
    port, longest = board.port, spec.window_blocks
    info = json.loads(lately(port, "info", "--json"))
    assert (info["window"], info["generation"], info["preset"]) == (longest, 0, None)
    assert "registers" not in info
    lately(port, "insert", 17, 18)
    found = json.loads(lately(port, "query", 17, 19, "--json", "--window", longest))
    assert [one["seen"] for one in found] == [True, False]
    message = lately(port, "query", 17, "--window", longest + 1, status=1)
    assert f"windows: must be at most {longest} for this board, not {longest + 1}" in message
    assert "shift: must not be given for the filter of" in lately(port, "shift", status=1)
    if info["removes"]:
        lately(port, "remove", 17)
        assert lately(port, "query", 17) == "17: not seen\n"
        text = lately(port, "statistics")
        assert re.search(rf"^guaranteed +{longest}$", text, re.MULTILINE)
    else:
        assert "remove: must not be given" in lately(port, "remove", 17, status=1)
    if info["time_bits"]:
        lately(port, "configure", "--tick", "10us")
        assert re.search(r"^tick seconds +1e-05$", lately(port, "statistics"), re.MULTILINE)
    assert all(json.loads(lately(port, "self-test", "--json")).values())


@pytest.mark.parametrize("window", [None, 11])
def test_stream_is_checked(board, spec, window, tmp_path, monkeypatch):
    monkeypatch.setattr(board_stream, "CHUNK", 100)
    spec.to_toml(tmp_path / "spec.toml")
    keys = np.random.default_rng(SEED).integers(0, 60, 300)
    (tmp_path / "keys").write_text("".join(f"{key}\n" for key in keys))
    arguments = ["stream", tmp_path / "keys", "--check", "--spec", tmp_path / "spec.toml"]
    arguments += ["--window", window] if window else []
    found = json.loads(lately(board.port, *arguments, "--json", "--out", tmp_path / "out.csv"))
    assert (found["operations"], found["mismatches"], found["error"]) == (300, 0, None)
    header = (tmp_path / "out.csv").read_text().splitlines()[0]
    more = {"window-dictionary": ",status", "partitioned-timing": ",oldest",
            "timed-timing": ",time,oldest"}  # fmt: skip
    assert header == "index,key,seen,age" + more[spec.family]
    performed = Host.perform

    def falsify(host, *asked, **options):
        told = performed(host, *asked, **options)
        name = "age" if spec is DICTIONARY else "oldest"
        return told._replace(**{name: getattr(told, name) + 1})

    monkeypatch.setattr(Host, "perform", falsify)
    assert "mismatches: must be 0, not 300" in lately(board.port, *arguments, status=1)


def test_simulated_port(monkeypatch):
    from lately.cli import host_commands

    built = []
    monkeypatch.setattr("lately.sim.board.board_model", lambda link, **_: built.append(link.unit))
    monkeypatch.setattr("lately.sim.board.SimulatedBoard", lambda model: None)
    host_commands._simulated("timing-tiny")
    assert type(built[0]).__name__ == "TimingUnit"
