# amaranth: UnusedElaboratable=no
"""Boards whose answers are those of tables of thresholds: loading, exchanging, classes."""

import dataclasses
import json

import numpy as np
import pytest
from board_commands import RATES, lately

from lately.boards.link.information import TableShape
from lately.boards.link.link import Link
from lately.boards.link.protocol import Check, Request
from lately.golden import (
    DecisionTable,
    Operation,
    PartitionedTimingSpec,
    SpecificationError,
    TimedTimingSpec,
    from_spec,
)
from lately.golden.timestamp.decisions import packed_entries
from lately.host import Host
from lately.session import HostError

pytestmark = pytest.mark.rtl

# Entries of two bytes with unused bits: 2 of the phase, 4 of the age, 2 of the class, 3 of the
# threshold.
COUNTED = PartitionedTimingSpec(window=32, block=4, hashes=3, cells=16, stamp_bits=6,
                                key_bits=20, classes=3, phase_bits=2)  # fmt: skip
# One class takes no bits.
TIMED = TimedTimingSpec(span=80, period=2, hashes=3, cells=16, stamp_bits=7, key_bits=20, classes=1)
SEED = 16180
CODES = [Operation.NONE, Operation.QUERY, Operation.INSERT, Operation.CHECK_AND_INSERT]


@pytest.fixture(params=[
    pytest.param(COUNTED, id="counted"),
    pytest.param(TIMED, id="timed", marks=pytest.mark.slow),
], scope="module")  # fmt: skip
def spec(request):
    return request.param


def random_table(rng, spec, **changed):
    thresholds = rng.integers(0, spec.hashes + 2, spec.table_shape).astype(np.uint8)
    fields = {"hashes": spec.hashes, "block": spec.block_units, "bits": spec.phase_bits}
    return DecisionTable(thresholds, **(fields | changed))


def mixed(rng, spec, count):
    keys = rng.integers(0, 60, count, np.uint64) * np.uint64(8117) % np.uint64(1 << spec.key_bits)
    return rng.choice(CODES, count).astype(np.uint8), keys, rng.integers(0, spec.classes, count)


def test_operations_match_golden(host, spec):
    rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    golden = from_spec(spec)
    host.clear()
    shares = []
    # At first every key that is asked for is reported.
    for table in (None, random_table(rng, spec), random_table(rng, spec)):
        if table is not None:
            host.decide_by(table)
            golden.decide_by(table.thresholds)
        codes, keys, classes = mixed(rng, spec, 700)
        found = host.perform(codes, keys, classes)
        times = [found.time * spec.block_units] if spec.timed else []
        told = golden.perform(codes, keys, *times, windows=classes)
        assert (found.seen == told.seen).all()
        assert (found.oldest_age == told.age).all()
        assert (found.oldest == told.oldest).all()
        asked = np.isin(codes, (Operation.QUERY, Operation.CHECK_AND_INSERT))
        shares.append(found.seen[asked].mean())
    assert shares[0] == 1
    assert all(0.1 < share < 0.9 for share in shares[1:])


def test_self_test_leaves_the_table(board, host, spec):
    never = np.full(spec.table_shape, spec.hashes + 1, np.uint8)
    host.insert(range(50))
    for table in (None, dataclasses.replace(random_table(np.random.default_rng(0), spec),
                                            thresholds=never)):  # fmt: skip
        if table is not None:
            host.decide_by(table)
        # Whatever the tables hold.
        assert host.self_test() == Check(0)
        assert host.query([7]).seen.tolist() == [table is None]
    assert not board.leds["fault"]


def test_table_of_another_filter(host, spec):
    rng = np.random.default_rng(SEED)
    for table, message in (
        (random_table(rng, spec, hashes=4), "table: must have hashes 3 for this filter, not 4"),
        (random_table(rng, spec, bits=1), f"must have digits {spec.phase_bits} for this"),
        (random_table(rng, dataclasses.replace(spec, classes=4)), "must have shape .*, not .4, "),
        (
            dataclasses.replace(random_table(rng, spec), thresholds=np.full(spec.table_shape, 5)),
            "must have thresholds of at most 4 for this filter, not 5",
        ),
    ):
        with pytest.raises(SpecificationError, match=message):
            host.decide_by(table)


def test_refused_entries_load_nothing(host, spec):
    """A table takes effect as a whole: not an entry of one that is refused."""
    shape = host.information.table
    assert shape == TableShape(spec.classes, spec.window_blocks + 2, spec.phase_bits, spec.hashes)
    size, unused = shape.entry_bytes, 8 * shape.entry_bytes - shape.entry_bits
    assert unused > 0
    never = np.full(spec.table_shape, spec.hashes + 1, np.uint8)
    entries = [int(entry).to_bytes(size, "little") for entry in packed_entries(never, spec.hashes)]
    host.clear()
    host.decide_by(random_table(np.random.default_rng(SEED), spec))
    for bit in (8 * size - unused, 8 * size - 1):
        wrong = (1 << bit).to_bytes(size, "little")
        with pytest.raises(HostError, match="value: must be one that the board can count to"):
            host._ask(Request.TABLE, b"".join([*entries[:8], wrong]))
    for payload in (entries[0][:1], entries[0] + entries[1][: size - 1]):
        if len(payload) % size:
            with pytest.raises(HostError, match="request: must have the length"):
                host._ask(Request.TABLE, payload)
    with pytest.raises(HostError, match="request: must have the length"):
        host._ask(Request.SWAP, b"0")
    # The other bank is as it was since configuration: every key is reported.
    host._ask(Request.TABLE, b"")
    host._ask(Request.SWAP)
    assert host.query(range(40)).seen.all()
    for start in range(0, len(entries), 8):
        host._ask(Request.TABLE, b"".join(entries[start : start + 8]))
    assert host.query(range(40)).seen.all()
    host._ask(Request.SWAP)
    assert not host.query(range(40)).seen.any()


def test_class_of_a_query(host, spec):
    most = spec.classes - 1
    host.clear()
    host.insert([7])
    assert host.query([7, 7], most).age.tolist() == [0, 0]
    with pytest.raises(ValueError, match=f"^classes: must be at most {most} for this board, not"):
        host.query([7], most + 1)
    if spec.classes == 1:
        assert host.information.record_bytes == 4
        return
    record = bytes([Operation.QUERY]) + bytes(3)
    assert len(host._ask(Request.OPERATIONS, record + bytes([most]))) > 0
    with pytest.raises(HostError, match="value: must be one that the board can count to"):
        host._ask(Request.OPERATIONS, record + bytes([most + 1]))


# Commands


def test_commands(board, spec, tmp_path):
    port, rng = board.port, np.random.default_rng(SEED)
    table, other, file = tmp_path / "table.json", tmp_path / "other.json", tmp_path / "spec.toml"
    random_table(rng, spec).save(table)
    random_table(rng, dataclasses.replace(spec, hashes=4)).save(other)
    spec.to_toml(file)
    keys = tmp_path / "keys"
    keys.write_text("".join(f"{key}\n" for key in rng.integers(0, 60, 400)))
    stream = ["stream", keys, "--spec", file, "--query-class", spec.classes - 1, "--json"]
    found = json.loads(lately(port, *stream))
    assert found["seen"] == found["operations"] == 400
    message = lately(port, *stream, "--check", status=1)
    assert f"table: must be given for a filter whose classes are {spec.classes}" in message
    # A command that is refused loads no table.
    unknown = [*stream[:2], "--check", "--table", table]
    assert "--check needs --spec" in lately(port, *unknown, status=2)
    for beyond in ([*stream[:4], "--table", table], [*unknown, "--spec", file]):
        message = lately(port, *beyond, "--query-class", spec.classes, status=1)
        assert f"classes: must be at most {spec.classes - 1} for this board" in message
    message = lately(port, *stream, "--table", other, status=1)
    assert "table: must have hashes 3 for this filter, not 4" in message
    if not spec.timed:
        random_table(rng, spec, block=8).save(other)
        message = lately(port, *stream, "--table", other, status=1)
        assert "table: must have block 4 for this filter, not 8" in message
    assert json.loads(lately(port, *stream))["seen"] == 400
    found = json.loads(lately(port, *stream, "--check", "--table", table))
    assert (found["operations"], found["mismatches"], found["error"]) == (400, 0, None)
    assert 0 < found["seen"] < 400
    lately(port, "table", table)
    lately(port, "query", 17, "--query-class", spec.classes - 1)
    message = lately(port, "query", 17, "--query-class", spec.classes, status=1)
    assert f"classes: must be at most {spec.classes - 1} for this board" in message
    message = lately(port, "query", 17, "--window", 3, status=1)
    assert f"window: must not be given for the filter of {port}, whose queries have a cl" in message
    random_table(rng, dataclasses.replace(spec, hashes=4)).save(other)
    assert "table: must have hashes 3" in lately(port, "table", other, status=1)
    assert "must be a table that DecisionTable.save wrote" in lately(port, "table", keys, status=1)
    info = json.loads(lately(port, "info", "--json"))
    shape = (info["classes"], info["ages"], info["phase_bits"], info["hashes"])
    assert shape == (spec.classes, spec.window_blocks + 2, spec.phase_bits, spec.hashes)
    assert info["window"] == 0


def test_board_without_a_table(monkeypatch):
    """What a board without classes is told, without one."""
    host = Host.__new__(Host)
    plain = dataclasses.replace(TIMED, classes=None, phase_bits=None)
    host.information, host.port = Link(plain, **RATES).information, "port"
    with pytest.raises(SpecificationError, match=r"^table: must not be given .*, which has no cl"):
        host.decide_by(random_table(np.random.default_rng(0), TIMED))


def test_simulated_port_of_a_specification(monkeypatch, tmp_path):
    from lately.cli import host_commands

    built = []
    monkeypatch.setattr("lately.sim.board.board_model", lambda link, **_: built.append(link.unit))
    monkeypatch.setattr("lately.sim.board.SimulatedBoard", lambda model: None)
    COUNTED.to_toml(tmp_path / "filter.toml")
    host_commands._simulated(str(tmp_path / "filter.toml"))
    assert built[0].spec == COUNTED
    with pytest.raises(FileNotFoundError):
        host_commands._simulated(str(tmp_path / "none.toml"))
