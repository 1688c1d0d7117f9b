"""Host and simulated board, end to end over a pseudo-terminal, on good lines and bad ones."""

import dataclasses
import json
import os
import pty
import random
import re
import select
import signal
import socket
import threading
import tty
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from board_commands import RATES
from board_commands import lately as command
from click.testing import CliRunner
from hypothesis import settings

from lately.boards.link import layout, link
from lately.boards.link.link import FilterLink
from lately.cli import app as cli
from lately.cli import host_commands
from lately.golden import Operation, RekeyError, SpecificationError, from_spec, preset
from lately.hdl.registers import ADDRESSES
from lately.host import Board
from lately.sim.board import SimulatedBoard, board_model
from lately.uartbone import HostError, NoAnswerError, PortError, UartBone

pytestmark = pytest.mark.rtl

# Keys with unused bits in their last byte.
SPEC = dataclasses.replace(preset("tiny"), key_bits=20)
KEYED = preset("siphash-tiny")
SEED = 20267
SECRET = 0x0123456789ABCDEFFEDCBA9876543210
COUNTED = ("operations", "insertions", "hits", "shifts")


@pytest.fixture(scope="module")
def model():
    with pytest.MonkeyPatch.context() as patch:
        # A short time until a command is dropped.
        patch.setattr(link, "TIMEOUT_BITS", 1000)
        return board_model(FilterLink(SPEC, **RATES), **RATES)


@pytest.fixture(scope="module")
def keyed():
    return board_model(FilterLink(KEYED, **RATES), **RATES)


@pytest.fixture
def boards(model):
    """Starts simulated boards, which are all of one compiled model."""
    started = []

    def start(built=model, **tampers):
        started.append(SimulatedBoard(built, **tampers))
        return started[-1]

    yield start
    for board in started:
        board.close()


def connect(board, **options):
    return Board(board.port, **({"baud": RATES["baud"], "timeout": 5.0, "spec": SPEC} | options))


def lately(port, *arguments, spec=SPEC, status=0):
    return command(port, *arguments, spec=spec, status=status)


def mixed(rng, count, *, keys=60, key_bits=20):
    """Operations of all kinds, and keys that come again."""
    codes = rng.choice(6, count, p=[0.02, 0.28, 0.28, 0.38, 0.03, 0.01]).astype(np.uint8)
    return codes, rng.integers(0, keys, count, np.uint64) * np.uint64(16661) % np.uint64(
        1 << key_bits
    )


def assert_same(actual, expected):
    assert (actual.seen == expected.seen).all()
    assert (actual.age == expected.age).all()


def assert_counted(host, golden):
    counted = host.statistics()
    assert [counted[name] for name in COUNTED] == [getattr(golden, name) for name in COUNTED]


# Operations


def test_operations_match_golden(boards):
    rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    golden = from_spec(SPEC)
    with connect(boards()) as host:
        for count in (0, 1, 2, 62, 63, 64, 1000):
            codes, keys = mixed(rng, count)
            assert_same(host.perform(codes, keys), golden.perform(codes, keys))
        assert_counted(host, golden)
        assert host.repeated == 0
    assert golden.hits > 100


def test_methods(boards):
    with connect(boards()) as host:
        host.insert([1, 2])
        results = host.query([1, 2, 3])
        assert (results.seen.tolist(), results.age.tolist()) == ([True, True, False], [0, 0, -1])
        host.shift()
        assert host.check_and_insert(np.array([2])).age.tolist() == [1]
        host.clear()
        assert not host.query([1, 2]).seen.any()
        assert host.statistics()["shifts"] == 1


def test_session_after_session_keeps_the_filter(boards):
    board = boards()
    with connect(board) as host:
        host.insert([77])
    with connect(board) as host:
        assert host.query([77]).seen.all()
        assert host.statistics()["operations"] == 2


def test_keys_are_checked_before_anything_is_sent(boards):
    with connect(boards()) as host:
        with pytest.raises(ValueError, match="20"):
            host.insert([1, 1 << 20])
        with pytest.raises(TypeError, match="keys: must be integers"):
            host.insert([1.5])
        with pytest.raises(
            ValueError, match=r"operations: must be one of \[0, 1, 2, 3, 4, 5\], not 6"
        ):
            host.perform([6], [1])
        with pytest.raises(ValueError, match="broadcast"):
            host.perform([1, 1, 1], [1, 2])
        assert host.statistics()["operations"] == 0


def test_leds(boards):
    board = boards()
    with connect(board) as host:
        host.insert([5])
        assert not board.leds["hit"]
        host.query([5])
        assert board.leds["hit"]
        assert not board.leds["fault"]


# Settings and self-test


def test_generation(boards):
    golden = from_spec(SPEC)
    rng = np.random.default_rng(SEED)
    with connect(boards()) as host:
        host.configure(generation=7)
        golden.generation = 7
        host.clear()
        golden.clear()
        codes, keys = mixed(rng, 300)
        assert_same(host.perform(codes, keys), golden.perform(codes, keys))
        assert host.statistics()["generation"] == 7
        highest = (1 << SPEC.generation.bit_length() + 1) - 1
        with pytest.raises(ValueError, match="generation: must be an integer from 1 to "):
            host.configure(generation=0)
        with pytest.raises(HostError, match=f"generation: the board stored 4, not {highest + 5}"):
            host.configure(generation=highest + 5)
        assert host.statistics()["generation"] == 7


def test_secret_for_a_filter_that_takes_none(boards):
    with connect(boards()) as host, pytest.raises(SpecificationError, match="use a secret"):
        host.configure(secret=1)


@pytest.mark.slow
def test_secrets(boards, keyed):
    golden = from_spec(KEYED)
    rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    with connect(boards(keyed), spec=KEYED) as host:
        for secret in (SECRET, 3):
            host.configure(secret=secret)
            golden.rekey(secret)
            codes = np.array([Operation.CHECK_AND_INSERT, Operation.SHIFT] * 10)
            keys = rng.integers(0, 1 << 16, 20)
            assert_same(host.perform(codes, keys), golden.perform(codes, keys))
            codes, keys = mixed(rng, 500, key_bits=16)
            assert_same(host.perform(codes, keys), golden.perform(codes, keys))
        # One secret comes in with the next shift, and another waits.
        host.configure(secret=4)
        host.configure(secret=5)
        with pytest.raises(RekeyError, match="rekey: another secret is still in use"):
            host.configure(secret=6)
        with pytest.raises(ValueError, match=r"secret"):
            host.configure(secret=1 << 128)
        assert host.self_test().passed


@pytest.mark.slow
def test_secret_does_not_come_back(boards, keyed):
    """No two bytes of a secret are in any word that is read later."""
    secret = bytes(range(0xC1, 0xD1))
    with connect(boards(keyed), spec=KEYED) as host:
        host.configure(secret=int.from_bytes(secret, "little"))
        bases = (layout.BASE, layout.BLOCK - 0x400)
        words = [word for base in bases for at in range(0, 0x1000, 0x80)
                 for word in host.read(base + at, 32)]  # fmt: skip
    readable = np.array(words, ">u4").tobytes() + np.array(words, "<u4").tobytes()
    assert not any(bytes(pair) in readable for pair in pairwise(secret))


@pytest.mark.slow
def test_stream_under_a_secret_is_checked(boards, keyed, files):
    port = boards(keyed).port
    options = ("--verify", "--secret-file", files / "secret", "--json")
    figures = json.loads(lately(port, "stream", files / "keys", *options, spec=None))
    assert (figures["operations"], figures["mismatches"]) == (600, 0)
    message = lately(port, "stream", files / "keys", "--verify", spec=None, status=2)
    assert "--verify needs --secret-file" in message


def test_self_test(boards, monkeypatch):
    board = boards()
    with connect(board) as host:
        host.configure(generation=6)
        host.insert(range(50))
        result = host.self_test()
        assert (result.passed, result.mismatches, result.first_mismatch) == (True, 0, None)
        assert result.operations == 2048
        assert not host.query(range(50)).seen.any()
        # The settings are as before.
        assert host.statistics()["generation"] == 6
        golden = from_spec(SPEC)
        golden.generation = 6
        golden.clear()
        host.clear()
        keys = np.arange(100) % 30
        codes = np.full(100, Operation.CHECK_AND_INSERT)
        assert_same(host.perform(codes, keys), golden.perform(codes, keys))
        host.reset()
        counted = host.statistics()
        assert (counted["operations"], counted["generation"]) == (0, SPEC.generation)
        assert not host.query(keys).seen.any()
    # As of a board whose unit is not the one that its digest names.
    performed = Board.perform

    def falsify(host, *operands):
        results = performed(host, *operands)
        results.seen[1000] ^= True
        return results

    monkeypatch.setattr(Board, "perform", falsify)
    message = lately(board.port, "self-test", status=1)
    assert message.endswith(
        "1 results differ from the golden model; the first is at operation 1000"
    )


# The line


def test_bytes_and_time_on_the_line(model):
    """Blocks are full, and the line is never idle for long."""
    taken = {"to": 0, "from": 0}

    def watch(direction):
        def tamper(data):
            taken[direction] += len(data)
            return data

        return tamper

    blocks = 10
    with (
        SimulatedBoard(model, to_board=watch("to"), from_board=watch("from")) as board,
        connect(board) as host,
    ):
        keys = np.random.default_rng(SEED).integers(0, 1 << 20, 252 * blocks)
        host.query([1])
        before, since = board.cycles, dict(taken)
        host.check_and_insert(keys)
        cycles = board.cycles - before
    # Each block has the words of its keys, the trailer, and the command to read; and results with
    # the two words before them.
    byte_cycles = 10 * RATES["clock_hz"] // RATES["baud"]
    assert taken["to"] - since["to"] == blocks * (6 + 252 * 4 + 6 + 16 + 6)
    assert taken["from"] - since["from"] == blocks * (252 + 2) * 4
    busy = blocks * (6 + 252 * 4 + 6 + 16 + 6) * byte_cycles
    assert busy < cycles < 1.2 * busy


# Its server's thread does not expect to end.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_litex_reads_and_writes_the_registers(boards):
    """LiteX's server at the port, and its client."""
    from litex.tools.litex_client import RemoteClient
    from litex.tools.litex_server import RemoteServer
    from litex.tools.remote.comm_uart import CommUART

    board = boards()
    with connect(board) as host:
        host.insert([5, 6, 7])
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    comm = CommUART(board.port, baudrate=RATES["baud"])
    server = RemoteServer(comm, "localhost", port)
    server.open()
    with pytest.deprecated_call():
        server.start(4)
    client = RemoteClient("localhost", port)
    client.open()
    base = layout.BASE
    assert client.read(base) == 0x4C41544C
    digest = int.from_bytes(SPEC.fingerprint, "big")
    assert client.read(base + ADDRESSES["digest"], 2) == [digest & (1 << 32) - 1, digest >> 32]
    client.write(base + ADDRESSES["generation"], 3)
    assert client.read(base + ADDRESSES["generation"]) == 3
    client.write(base + ADDRESSES["control"], 9)
    assert client.read(base + ADDRESSES["insertions"]) == 3
    # A block of one operation, and its result.
    (block,) = layout.pack_blocks(SPEC, np.array([1]), np.array([[6]], np.uint64), np.array([0]))
    at = layout.BLOCK + 4 * (layout.TRAILER - 1)
    client.write(at, [*block.words.tolist(), *block.trailer(client.read(layout.RESULTS))])
    assert client.read(layout.RESULTS + 8) >> 31 == 1
    client.close()
    server.close()


# A line that damages


def damage(rng, share):
    """Return a line that flips, drops and doubles bytes, and adds others."""

    def tamper(data):
        out = bytearray()
        for byte in data:
            draw = rng.random() / share[0] if share[0] else 1
            out += (
                bytes([byte ^ 1 << rng.randrange(8)]) if draw < 0.4
                else b"" if draw < 0.6
                else bytes([byte, byte]) if draw < 0.8
                else bytes([byte]) + rng.randbytes(2) if draw < 1
                else bytes([byte])
            )  # fmt: skip
        return bytes(out)

    return tamper


def test_damage_both_ways(boards):
    keys_rng = np.random.default_rng(SEED)
    share = [0.0]
    tamper = damage(random.Random(SEED), share)
    golden = from_spec(SPEC)
    board = boards(to_board=tamper, from_board=tamper)
    with connect(board, timeout=1, attempts=100) as host:
        share[0] = 0.0007
        for _ in range(4):
            codes, keys = mixed(keys_rng, 300)
            assert_same(host.perform(codes, keys), golden.perform(codes, keys))
        share[0] = 0
        assert_counted(host, golden)
        assert host.statistics()["blocks_rejected"] > 0
        assert host.repeated > 0


BYTES = {
    "command": 0, "length": 1, "address": 4, "key": 9, "last key": 6 + 4 * 7,
    "trailer": 6 + 4 * 8 + 6 + 2, "check": 6 + 4 * 8 + 6 + 12, "read": 6 + 4 * 8 + 22 + 2,
    "performed": -4, "signature": -6, "result": -12,
}  # fmt: skip
"""Bytes of a block of eight keys with its trailer and the command to read; below 0, of the answer,
from the byte before the first."""


class WrongByte:
    """A line that once loses, doubles or damages a byte, `to` or `from` the board."""

    def __init__(self, kind):
        self.left = {"to": None, "from": None}  # bytes before the wrong one
        self._wrong = {"lost": lambda byte: b"", "doubled": lambda byte: byte + byte,
                       "damaged": lambda byte: bytes([byte[0] ^ 4])}[kind]  # fmt: skip
        self.tampers = {f"{direction}_board": partial(self._tamper, direction)
                        for direction in self.left}  # fmt: skip

    def _tamper(self, direction, data):
        at = self.left[direction]
        if at is None:
            return data
        self.left[direction] = at - len(data)
        if 0 <= at < len(data):
            self.left[direction] = None
            return data[:at] + self._wrong(data[at : at + 1]) + data[at + 1 :]
        return data


KINDS = pytest.mark.parametrize("kind", ["lost", "doubled", "damaged"])


@KINDS
def test_one_wrong_byte_is_reported_and_the_stream_goes_on(boards, kind):
    line = WrongByte(kind)
    golden = from_spec(SPEC)
    rng = np.random.default_rng(SEED)
    with connect(boards(**line.tampers), timeout=1) as host:
        golden.perform([Operation.QUERY], [0])
        host.query([0])
        for number, (name, at) in enumerate(BYTES.items(), 1):
            line.left["to" if at >= 0 else "from"] = max(at, -at)
            keys = rng.integers(5, 17, 8)
            codes = np.full(8, Operation.CHECK_AND_INSERT)
            assert_same(host.perform(codes, keys), golden.perform(codes, keys))
            assert host.repeated == number, name
        assert_counted(host, golden)


@KINDS
def test_one_wrong_byte_of_a_setting_is_noticed(boards, kind):
    """The unit has no secret, but the checksum covers writes to missing registers as well."""
    line, address = WrongByte(kind), layout.register_address("secret")
    secret = np.frombuffer(SECRET.to_bytes(16, "little"), "<u4")
    with connect(boards(**line.tampers), timeout=0.3) as host:
        assert host.try_write(address, secret)
        # Command, length, address, and bytes of the secret.
        for at in (0, 1, 3, 5, 6, 13, 20):
            line.left["to"] = at
            assert not host.try_write(address, secret), at
            assert host.try_write(address, secret), at
        assert host.repeated == 7
        # Nothing is wrong with the secret if the answer is damaged.
        line.left["from"] = 1
        assert host.try_write(address, secret)
        assert host.repeated == 8
        line.left["to"] = 8
        host.configure(generation=9)
        assert host.statistics()["generation"] == 9


def test_any_bytes_leave_the_board_alive(boards):
    board, rng = boards(), random.Random(SEED)
    with UartBone(board.port, baud=RATES["baud"], timeout=1, attempts=20) as line:
        for _ in range(max(3, settings().max_examples // 30)):
            for _ in range(8):
                header = bytes(
                    [rng.randrange(6), rng.randrange(8), *rng.choice([b"\x13\x10", b"\0\0"])]
                )
                line._serial.write(header + rng.randbytes(rng.randrange(40)))
            line.synchronise()
            assert line.read(layout.BASE) == [0x4C41544C]


def test_interrupted_exchange_is_resumed(boards):
    golden = from_spec(SPEC)
    with connect(boards()) as host:

        def stop(count):
            raise KeyboardInterrupt

        codes, keys = mixed(np.random.default_rng(SEED), 126 * 5)
        with pytest.raises(KeyboardInterrupt):
            host.perform(codes, keys, progress=stop)
        done = host.statistics()["operations"]
        # The words of the next block are on their way, but not its trailer.
        assert done == 126
        golden.perform(codes[:done], keys[:done])
        assert_same(
            host.perform(codes[done:], keys[done:]), golden.perform(codes[done:], keys[done:])
        )


# What goes wrong outside


def test_board_with_another_filter(boards):
    board = boards()
    other = dataclasses.replace(SPEC, seed=5)
    digests = (
        f"{SPEC.fingerprint.hex()}, not the given filter with digest {other.fingerprint.hex()}"
    )
    message = f"the board has a filter with digest {digests}$"
    with pytest.raises(HostError, match=message):
        connect(board, spec=other)
    message = f"{SPEC.fingerprint.hex()}, which is not a preset; give --spec$"
    with pytest.raises(HostError, match=message):
        connect(board, spec=None)


def test_board_that_was_reset(boards):
    board = boards()
    with connect(board) as host:

        def restart(count):
            board.reset()

        with pytest.raises(HostError, match="has performed 0 operations, not 504; it was "):
            host.perform(np.full(1500, Operation.QUERY), np.arange(1500), progress=Once(restart))


class Once:
    """Calls a function at the second call."""

    def __init__(self, function):
        self._function, self._calls = function, 0

    def __call__(self, count):
        self._calls += 1
        if self._calls == 2:
            self._function(count)


def test_board_that_is_unplugged(boards):
    board = boards()
    with connect(board) as host:
        timer = threading.Timer(0.2, board.close)
        timer.start()
        with pytest.raises(PortError, match="cannot communicate with a board") as caught:
            host.insert(np.arange(1_000_000) % 1000)
        timer.join()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("chatter", [b"", b"login: " * 40])
def test_something_else_at_the_port(chatter):
    master, slave = pty.openpty()
    tty.setraw(slave)
    ends = threading.Event()

    def talk():
        while not ends.wait(0.02):
            if select.select([master], [], [], 0)[0]:
                os.read(master, 4096)
            os.write(master, chatter)

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        with pytest.raises(NoAnswerError, match=r"no answer in 3 attempts .* for 1000000 baud"):
            Board(os.ttyname(slave), timeout=0.1, attempts=3)
    finally:
        ends.set()
        thread.join()
        os.close(master)
        os.close(slave)


def test_no_such_port():
    with pytest.raises(PortError, match=r"/dev/none: .* No such file or directory"):
        Board("/dev/none")


# Commands


@pytest.fixture
def files(tmp_path, monkeypatch):
    SPEC.to_toml(tmp_path / "spec.toml")
    monkeypatch.setattr(host_commands, "CHUNK", 200)
    (tmp_path / "secret").write_text(f"{SECRET:032x}\n")
    rng = random.Random(SEED)
    (tmp_path / "keys").write_text("".join(f"{rng.randrange(40)}\n" for _ in range(600)))
    return tmp_path


def test_commands(boards, files):
    port = boards().port
    assert json.loads(lately(port, "info", "--json"))["key_bits"] == 20
    lately(port, "insert", 17, "0x12")
    lately(port, "insert", "--text", "seventeen")
    assert lately(port, "query", 17, 19).splitlines() == ["17: seen, age 0", "19: not seen"]
    lately(port, "shift")
    printed = json.loads(lately(port, "query", "--text", "--json", "seventeen", "x"))
    assert printed == [
        {"key": "seventeen", "seen": True, "age": 1},
        {"key": "x", "seen": False, "age": -1},
    ]
    lately(port, "configure", "--generation", 9)
    lately(port, "clear")
    assert json.loads(lately(port, "query", "--json", 17))[0]["seen"] is False
    assert re.search("generation +9\n", lately(port, "statistics"))
    assert json.loads(lately(port, "statistics", "--json"))["operations"] == 10
    printed = json.loads(lately(port, "self-test", "--json"))
    assert (printed["passed"], printed["mismatches"], printed["upsets"]) == (True, 0, 0)
    lately(port, "insert", 5)
    lately(port, "reset")
    assert json.loads(lately(port, "statistics", "--json"))["operations"] == 0


def test_stream_is_checked_and_goes_on(boards, files):
    port = boards().port
    arguments = ("stream", files / "keys", "--verify", "--json")
    first = json.loads(lately(port, *arguments, "--limit", 250, "--out", files / "first.csv"))
    assert (first["operations"], first["mismatches"], first["error"]) == (250, 0, None)
    rest = json.loads(lately(port, *arguments, "--skip", 250, "--out", files / "rest.csv"))
    assert (rest["operations"], rest["skipped"], rest["mismatches"]) == (350, 250, 0)
    assert rest["interrupted"] is False
    rows = [line.split(",") for name in ("first", "rest")
            for line in (files / f"{name}.csv").read_text().splitlines()[1:]]  # fmt: skip
    assert [int(row[0]) for row in rows] == list(range(600))
    assert sum(row[2] == "1" for row in rows) == first["seen"] + rest["seen"] > 50
    # A board that has seen other keys meanwhile is found out.
    lately(port, "clear")
    message = lately(port, *arguments, "--skip", 300, status=1)
    assert " results differ from the golden model" in message


def test_stream_that_is_interrupted_keeps_what_is_done(boards, files, monkeypatch):
    (files / "many").write_text((files / "keys").read_text() * 5)
    performed = Board.perform
    chunks = []

    def interrupt(self, operations, keys, windows):
        chunks.append(len(keys))
        if len(chunks) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return performed(self, operations, keys, windows)

    monkeypatch.setattr(Board, "perform", interrupt)
    port = boards().port
    words = ["host", "--port", port, "--timeout", "10", "--spec", str(files / "spec.toml"),
             "stream", str(files / "many"), "--json", "--out", str(files / "out.csv")]  # fmt: skip
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 130
    figures = json.loads(done.stdout)
    assert figures["interrupted"] is True
    assert figures["operations"] == sum(chunks) == (files / "out.csv").read_text().count("\n") - 1
    assert json.loads(lately(port, "statistics", "--json"))["operations"] == sum(chunks)


def test_stream_whose_board_is_unplugged_keeps_what_is_done(boards, files, monkeypatch):
    board = boards()
    performed = Board.perform
    chunks = []

    def unplug(self, operations, keys, windows):
        if chunks:
            board.close()
        verdicts = performed(self, operations, keys, windows)
        chunks.append(len(keys))
        return verdicts

    monkeypatch.setattr(Board, "perform", unplug)
    message = lately(board.port, "stream", files / "keys", "--out", files / "out.csv", status=2)
    assert message.endswith(f"verdicts arrived for {chunks[0]} operations")
    assert (files / "out.csv").read_text().count("\n") - 1 == chunks[0]


WRONG = {
    "query 1048576": "keys: must be below 2**20",
    "query seven": "KEY: must be an integer unless --text is given, not 'seven'",
    "configure": "give at least one of --generation, --tick, --secret-file, --action and --fields",
    "configure --tick 1ms": "period: the board at ",
    "configure --action drop": "does not process frames",
    "configure --generation 4000000000": "not 4000000000",
    "configure --secret-file keys": "keys: must contain 32 hexadecimal digits",
    "configure --secret-file secret": "does not use a secret",
    "stream none": "No such file",
}


def test_wrong_commands(boards, files, monkeypatch):
    monkeypatch.chdir(files)
    port = boards().port
    for words, message in WRONG.items():
        assert message in lately(port, *words.split(), status=2), words


def test_simulated_port_has_a_filter_of_a_file_or_a_preset(files, monkeypatch):
    built = []

    def simulated(spec, **_):
        built.append(spec)
        raise HostError("stop")

    monkeypatch.setattr("lately.boards.link.link.FilterLink", simulated)
    for name in ("", ":tiny", f":{files / 'spec.toml'}"):
        assert lately(f"sim{name}", "info", spec=None, status=2) == "lately: error: stop"
    assert built == [preset("tiny"), preset("tiny"), SPEC]
    message = lately("sim", "info", status=2)
    assert "--spec cannot be combined with --port sim" in message
