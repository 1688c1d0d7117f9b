# amaranth: UnusedElaboratable=no
"""Boards with all kinds of filters: windows, classes, ticks, tables, and golden."""

import dataclasses
import json
import re
from functools import partial

import numpy as np
import pytest
from board_commands import lately as command

from lately.boards.link import layout
from lately.cli import host_commands
from lately.golden import (
    DecisionTable,
    FilterSpec,
    Operation,
    PartitionedTimingSpec,
    SpecificationError,
    TimedTimingSpec,
    WindowDictionarySpec,
    any_preset,
    from_spec,
)
from lately.hdl.build import unit_profile
from lately.host import Board, differing
from lately.uartbone import HostError

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


def mixed(rng, host, count):
    """Operations of all kinds, keys that come again, and windows or classes."""
    codes = [0, 1, 1, 2, 3, 3] + [8] * (host.spec.kind == "dictionary")
    keys = rng.integers(0, 120, count, np.uint64) * np.uint64(8117)
    first = int(host.spec.classes is None)
    windows = rng.integers(first, max(first, host.longest) + 1, count)
    return (
        rng.choice(codes, count).astype(np.uint8),
        keys,
        windows if host.spec.query_field else None,
    )


def test_operations_match_golden(board, host, spec):
    rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    golden, min_period = from_spec(spec), unit_profile(spec).min_period
    host.clear()
    golden.clear()
    for number, count in enumerate((0, 1, 40, 300, 100)):
        if spec.timed:
            host.configure(period=max(min_period, 2000 + 5000 * (number % 2)))
            board.idle(9000 * number)
        if spec.classes is not None and number > 1:
            table = random_table(rng, spec)
            host.decide_by(table)
            golden.decide_by(table.thresholds)
        operands = mixed(rng, host, count)
        results = host.perform(*operands)
        # The model performs the same at the times of the board.
        assert len(differing(spec, golden, *operands, results)) == 0
    counted = host.statistics()
    for name, value in golden.counters.items():
        assert counted.get(name, value) == value, name
    assert golden.counters["hits"] > 20


def test_self_test(board, host, spec):
    period = unit_profile(spec).min_period + 5
    if spec.timed:
        host.configure(period=period)
    host.insert(range(50))
    assert host.self_test().passed
    assert spec.classes is not None or not host.query(range(50)).seen.any()
    assert host.statistics().get("period", period) == period
    assert not board.leds["fault"]


def test_windows_and_classes_of_queries(host, spec):
    host.clear()
    host.insert([7, 8])
    if not host.longest:
        if spec.classes is not None:
            assert host.query([7, 8], 0).seen.all()
        else:
            with pytest.raises(SpecificationError, match=r"^windows: the board at .* has no query"):
                host.query([7], 1)
        return
    name = "classes" if spec.classes is not None else "windows"
    assert host.query([7, 8], host.longest).seen.all()
    message = f"^{name}: must be at most {host.longest} for this board, not {host.longest + 1}$"
    with pytest.raises(ValueError, match=message):
        host.query([7], host.longest + 1)
    with pytest.raises(ValueError, match=name):
        host.query([7], -1)


def test_what_the_board_has_not(host, spec):
    refused = [(lambda: host.configure(secret=5), "secret: the board at .* does not use a secret")]
    if spec.kind != "ring":
        refused.append((host.shift, "shift: the board at .* has no generations"))
    if spec.kind != "dictionary":
        refused.append((lambda: host.remove([1]), "remove: the board at .* cannot remove keys"))
    if not spec.timed:
        refused.append(
            (lambda: host.configure(period=500), "period: the board at .* has no time window")
        )
    if spec.classes is None:
        refused.append((lambda: host.decide_by(None), "table: the board at .* has no classes"))
    for refuse, message in refused:
        with pytest.raises(SpecificationError, match=message):
            refuse()


def test_period(host, spec):
    if not spec.timed:
        return
    host.reset()
    assert host.statistics()["period"] == 24_000
    for period in (1, (1 << 24) - 1):
        host.configure(period=period)
        assert host.statistics()["period"] == period
    with pytest.raises(HostError, match=r"period: the board stored 0, not 16777216$"):
        host.configure(period=1 << 24)
    assert host.statistics()["period"] == (1 << 24) - 1
    for period in (0, 1.5):
        with pytest.raises(ValueError, match=f"^period: must be an integer from 1 to .*{period}$"):
            host.configure(period=period)


def test_keys_are_reported_to_the_end_of_the_span(host, spec):
    """And no longer, after any silence."""
    if not spec.timed or spec.classes is not None:
        return
    span = spec.span // getattr(spec, "block_units", 1)
    host.configure(period=20_000)
    host.clear()
    inserted = int(host.perform([Operation.CHECK_AND_INSERT], [77]).time[0])
    seen = {}
    while max(seen, default=0) < inserted + span + 2:
        results = host.perform([Operation.QUERY], [77])
        seen.setdefault(int(results.time[0]), set()).add(bool(results.seen[0]))
    # A tick may still have the earlier period.
    assert all(flags == {time <= inserted + span} for time, flags in seen.items())


def test_table_of_another_filter(host, spec):
    if spec.classes is None:
        return
    rng = np.random.default_rng(SEED)
    for table, message in (
        (random_table(rng, spec, hashes=4), "table: hashes must be 3 for this filter, not 4"),
        (random_table(rng, spec, bits=1), f"table: bits must be {spec.phase_bits} for this"),
        (random_table(rng, dataclasses.replace(spec, classes=4)), "shape must be .*, not .4, "),
    ):
        with pytest.raises(SpecificationError, match=message):
            host.decide_by(table)


def test_times_go_on_over_the_wraps_of_the_board():
    """Times of 30 bits: only the steps between times count."""
    host = Board.__new__(Board)
    host.spec, host.frames, host.longest = any_preset("timed-tiny"), False, 0
    host._time, whole = 0, 1 << layout.TIME_BITS
    times = np.array([whole - 3, whole - 1, whole, whole + 9, 2 * whole + 8, 3 * whole])
    for part in (times[:2], times[2:]):
        words = np.stack([np.zeros(len(part)), part % whole], 1).astype(np.uint32)
        host._perform = lambda blocks, words=words: [words]
        assert host.query(np.arange(len(part))).time.tolist() == part.tolist()


def test_covered_seconds():
    host = Board.__new__(Board)
    host.clock_hz = 24_000_000
    assert host.window_seconds({"period": 12_000, "covered": 41}) == {
        "tick_seconds": 0.0005, "covered_seconds": 0.02,
    }  # fmt: skip
    assert host.window_seconds({"period": 500, "covered": 0})["covered_seconds"] == 0
    assert host.window_seconds({}) == {}


# Commands


@pytest.fixture
def lately(spec, board):
    return partial(command, board.port, spec=spec)


@pytest.mark.slow
def test_commands(host, spec, lately):
    longest = host.longest
    host.close()
    info = json.loads(lately("info", "--json"))
    assert (info["family"], info["preset"], info.get("span")) == (
        spec.family, None, getattr(spec, "span", None)
    )  # fmt: skip
    lately("insert", 17, 18)
    option, other = "--query-window", "--query-class"
    if spec.classes is not None:
        option, other = other, option
    if longest:
        lately("query", 17, 19, option, longest)
        message = lately("query", 17, option, longest + 1, status=2)
        assert f"must be at most {longest} for this board" in message
        message = lately("query", 17, other, 1, status=2)
        assert f"{other}: queries of " in message
    if spec.kind == "dictionary":
        lately("remove", 17)
        assert lately("query", 17) == "17: not seen\n"
    if spec.timed:
        # 240.5 cycles.
        lately("configure", "--tick", "10.02us")
        assert re.search(r"^tick seconds +1.004e-05$", lately("statistics"), re.MULTILINE)
        assert "the board stored " in lately("configure", "--tick", "1s", status=2)
    assert json.loads(lately("self-test", "--json"))["passed"] is True


@pytest.mark.slow
def test_stream_is_checked(host, spec, lately, tmp_path, monkeypatch):
    monkeypatch.setattr(host_commands, "CHUNK", 100)
    longest = host.longest
    host.close()
    keys = np.random.default_rng(SEED).integers(0, 60, 300)
    (tmp_path / "keys").write_text("".join(f"{key}\n" for key in keys))
    arguments = ["stream", tmp_path / "keys", "--verify"]
    if spec.classes is not None:
        assert "classes and needs a table" in lately(*arguments, status=2)
        random_table(np.random.default_rng(0), spec).save(tmp_path / "table.json")
        arguments += ["--table", tmp_path / "table.json", "--query-class", spec.classes - 1]
    elif longest:
        arguments += ["--query-window", 11]
    figures = json.loads(lately(*arguments, "--json", "--out", tmp_path / "out.csv"))
    assert (figures["operations"], figures["mismatches"], figures["error"]) == (300, 0, None)
    header = (tmp_path / "out.csv").read_text().splitlines()[0]
    extra = ["time"] * spec.timed + ["oldest" if spec.kind == "timing" else "status"]
    assert header == ",".join(["index,key,seen,age", *extra])
    if spec.timed:
        message = lately(*arguments, "--skip", 10, status=2)
        assert "--verify cannot be combined with --skip for a time window" in message
    performed = Board.perform

    def falsify(host, *operands, **options):
        results = performed(host, *operands, **options)
        return results._replace(age=results.age + 1)

    monkeypatch.setattr(Board, "perform", falsify)
    assert "300 results differ from the golden model" in lately(*arguments, status=1)
