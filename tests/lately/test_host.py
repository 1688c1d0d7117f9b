"""Host and simulated board, end to end over a pseudo-terminal, on good lines and bad ones."""

import dataclasses
import json
import os
import pty
import random
import re
import select
import signal
import struct
import threading
import time
import tty
from itertools import pairwise

import numpy as np
import pytest
from board_commands import RATES, lately
from click.testing import CliRunner
from fuzz.parsers import PARSERS
from hypothesis import settings

from lately import host as host_module
from lately.boards.link.link import SLOTS, FilterLink
from lately.boards.link.protocol import (
    FLAG,
    MAX_PAYLOAD,
    VERSION,
    WORD_BYTES,
    Decoder,
    Request,
    Status,
    encode,
    encode_request,
)
from lately.cli import app as cli
from lately.cli import board_stream
from lately.golden import Operation, RekeyError, SpecificationError, from_spec, preset
from lately.host import Board
from lately.session import HostError, NoAnswerError, PortError
from lately.sim.board import SimulatedBoard, board_model

pytestmark = pytest.mark.rtl

# Keys with unused bits in their last byte.
SPEC = dataclasses.replace(preset("tiny"), key_bits=20)
KEYED = preset("siphash-tiny")
SEED = 20267
SECRET = 0x0123456789ABCDEFFEDCBA9876543210
COUNTED = ("operations", "insertions", "hits", "shifts")


@pytest.fixture(scope="module")
def model():
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


def mixed(rng, count, *, keys=60, key_bits=20):
    """Operations of all kinds, and keys that come again."""
    codes = rng.choice(6, count, p=[0.02, 0.28, 0.28, 0.38, 0.03, 0.01]).astype(np.uint8)
    return codes, rng.integers(0, keys, count, np.uint64) * np.uint64(16661) % np.uint64(
        1 << key_bits
    )


def assert_same(found, expected):
    assert (found.seen == expected.seen).all()
    assert (found.age == expected.age).all()


def assert_counted(host, golden):
    counted = host.statistics()
    assert [counted[name] for name in COUNTED] == [getattr(golden, name) for name in COUNTED]


class Line:
    """The bytes of a board's line, with no host between."""

    def __init__(self, board):
        self._file = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
        self._decoder = Decoder()
        self.sequence = 0

    def close(self):
        os.close(self._file)

    def write(self, data):
        os.write(self._file, data)

    def frames(self, *, quiet=0.3):
        """Frames until the line has been quiet for some seconds."""
        found = []
        while select.select([self._file], [], [], quiet)[0]:
            found += self._decoder.feed(os.read(self._file, 4096))
        return found

    def ask(self, data):
        self.write(data)
        return self.answer()

    def answer(self):
        while True:
            assert select.select([self._file], [], [], 20)[0], "no answer"
            found = list(self._decoder.feed(os.read(self._file, 4096)))
            if found:
                (frame,) = found
                return frame

    def hello(self, sequence=0):
        self.write(encode_request(Request.HELLO, sequence, b"nons"))
        # A slow board may still answer requests from before.
        found = b""
        while found != b"\0nons" + bytes([SLOTS]):
            assert select.select([self._file], [], [], 20)[0], f"no answer after {found}"
            for frame in self._decoder.feed(os.read(self._file, 4096)):
                found = frame.body
        self.sequence = sequence

    def request(self, request, payload=b""):
        """Perform the next request; return status and payload of the answer."""
        self.sequence = (self.sequence + 1) % 256
        frame = self.ask(encode_request(request, self.sequence, payload))
        assert frame.sequence == self.sequence
        return Status(frame.body[0]), frame.body[1:]

    def read(self, address, count=1):
        """Words from the word at the address of a byte on."""
        place = struct.pack("<HB", address // WORD_BYTES, count)
        status, payload = self.request(Request.READ, place)
        assert status == Status.OK
        return struct.unpack(f"<{count}I", payload)

    def counted(self):
        """Operations, and the counters of the line."""
        assert self.request(Request.WRITE, struct.pack("<HI", 0x14 // 4, 9)) == (Status.OK, b"")
        names = ("good", "bad", "dropped", "repeated", "out_of_order", "errors")
        return {
            "operations": self.read(0x80)[0],
            **dict(zip(names, self.read(0x120, 6), strict=True)),
        }


@pytest.fixture
def line(boards):
    opened = Line(boards())
    yield opened
    opened.close()


def record(operation, key):
    return bytes([operation]) + key.to_bytes(3, "little")


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
        found = host.query([1, 2, 3])
        assert (found.seen.tolist(), found.age.tolist()) == ([True, True, False], [0, 0, -1])
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
        with pytest.raises(ValueError, match=r"operations: must be 0 to 5, not 6"):
            host.perform([6], [1])
        with pytest.raises(ValueError, match=r"operations: must be 2 integers, one for each key"):
            host.perform([1], [1, 2])
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
        most = (1 << SPEC.generation.bit_length() + 1) - 1
        for generation in (0, most + 1):
            with pytest.raises(ValueError, match=f"generation: must be 1 to {most} for this board"):
                host.configure(generation=generation)


def test_secret_for_a_filter_that_takes_none(boards):
    with connect(boards()) as host, pytest.raises(SpecificationError, match="takes none"):
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
        with pytest.raises(RekeyError, match="one secret"):
            host.configure(secret=6)
        with pytest.raises(ValueError, match=r"secret"):
            host.configure(secret=1 << 128)
        assert host.self_test().passed


@pytest.mark.slow
def test_secret_does_not_come_back(boards, keyed):
    """No two bytes of a secret are in any answer, whatever is read later."""
    line = Line(boards(keyed))
    secret = bytes(range(0xC1, 0xD1))
    line.hello()
    written = struct.pack("<H", 0x30 // WORD_BYTES) + secret
    assert line.request(Request.WRITE, written) == (Status.OK, b"")
    answers = [struct.pack("<32I", *line.read(address, 32)) for address in range(0, 0x400, 0x80)]
    for payload in (b"", bytes(4), secret[::2] * 2):
        answers += [line.request(request, payload)[1] for request in (Request.OPERATE, 0, 9, 15)]
    # The repetition of a request gets the same answer.
    answers.append(line.ask(encode_request(Request.WRITE, line.sequence, written)).body)
    line.close()
    assert sum(map(len, answers)) > 500
    for pair in pairwise(secret):
        assert not any(bytes(pair) in answer for answer in answers)


@pytest.mark.slow
def test_stream_under_a_secret_is_checked(boards, keyed, files):
    port = boards(keyed).port
    options = ("--verify", "--secret-file", files / "secret", "--json")
    found = json.loads(lately(port, "stream", files / "keys", *options))
    assert (found["operations"], found["mismatches"]) == (600, 0)
    message = lately(port, "stream", files / "keys", "--verify", status=2)
    assert "--verify needs --secret-file" in message


def test_self_test(boards):
    board = boards()
    with connect(board) as host:
        host.configure(generation=6)
        host.insert(range(50))
        found = host.self_test()
        assert found.passed
        assert found.signature == found.expected
        assert not host.query(range(50)).seen.any()
        # The settings are as before.
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
    assert not board.leds["fault"]


def test_self_test_that_fails(boards, monkeypatch):
    """As of a board whose unit is not the one that its description names."""
    board = boards()
    expected = host_module.self_test_results

    def others(information):
        results = expected(information)
        results.seen[-1] ^= True
        return results

    monkeypatch.setattr(host_module, "self_test_results", others)
    message = lately(board.port, "self-test", status=1)
    assert re.search(r"self-test: signature must be [0-9a-f]{8}, not [0-9a-f]{8}$", message)
    assert board.leds["fault"]
    monkeypatch.undo()
    assert "passed     True" in lately(board.port, "self-test")
    assert not board.leds["fault"]


# Bytes on the line


def test_bytes_and_time_on_the_line(model):
    """Frames are full, and the line is never idle for long."""
    taken = {"to": [], "from": []}

    def watch(direction):
        decoder = Decoder()

        def tamper(data):
            taken[direction] += decoder.feed(data)
            return data

        return tamper

    count = 126 * 10
    with (
        SimulatedBoard(model, to_board=watch("to"), from_board=watch("from")) as board,
        connect(board) as host,
    ):
        codes, keys = mixed(np.random.default_rng(SEED), count)
        before = board.cycles
        for frames in taken.values():
            frames.clear()
        host.perform(codes, keys)
        cycles = board.cycles - before
    # 4 bytes of a key and its operation, 1 byte of a result.
    assert [len(frame.body) for frame in taken["to"]] == [63 * 4] * 20
    assert [len(frame.body) for frame in taken["from"]] == [1 + 63] * 20
    # With 2 bytes of flags, 2 of type and number, and 2 of the CRC; 3 % are stuffed.
    least = 20 * (63 * 4 + 6) * 10 * RATES["clock_hz"] // RATES["baud"]
    assert least < cycles < 1.06 * least


# A line that damages


def damage(rng, share):
    """Flip, drop and double bytes, and put in others."""

    def tamper(data):
        out = bytearray()
        for byte in data:
            what = rng.random() / share
            out += (
                bytes([byte ^ 1 << rng.randrange(8)]) if what < 0.4
                else b"" if what < 0.6
                else bytes([byte, byte]) if what < 0.8
                else bytes([byte]) + rng.randbytes(2) if what < 1
                else bytes([byte])
            )  # fmt: skip
        return bytes(out)

    return tamper


def test_damage_both_ways(boards):
    rng = random.Random(SEED)
    keys_rng = np.random.default_rng(SEED)
    print(f"seed {SEED}")
    share = [0.0]

    def tamper(data):
        return damage(rng, share[0])(data) if share[0] else data

    golden = from_spec(SPEC)
    with connect(boards(to_board=tamper, from_board=tamper), timeout=0.25, attempts=400) as host:
        share[0] = 0.003
        for _ in range(4):
            codes, keys = mixed(keys_rng, 300)
            assert_same(host.perform(codes, keys), golden.perform(codes, keys))
        share[0] = 0
        assert_counted(host, golden)
        counted = host.statistics()
        print(counted, host.repeated)
        assert counted["frames_bad"] > 0
        assert counted["frames_repeated"] + counted["frames_out_of_order"] > 0
        assert host.repeated > 0


def test_any_bytes_leave_the_board_alive(line):
    """Damaged frames, with a right CRC or not: what comes after them is answered."""
    parser = PARSERS["frames of the serial line"]
    draw, samples = random.Random(SEED), parser.samples()
    for _ in range(max(3, settings().max_examples // 30)):
        for _ in range(8):
            line.write(parser.draw(draw, samples) + bytes([FLAG]))
        line.frames(quiet=0.1)
        line.hello()
        assert line.read(0) == (0x4C41544C,)


def losing(wanted):
    """Return a line that loses the frame of OPERATIONS with this number, from 1."""
    decoder, seen = Decoder(), []

    def lose(data):
        kept = b""
        for frame in decoder.feed(data):
            operates = frame.type & 0xF == Request.OPERATE
            seen.extend([frame] * operates)
            kept += b"" if operates and len(seen) == wanted else encode(*frame)
        return kept

    return lose


def test_lost_answer_is_asked_for_again_and_applied_once(boards):
    with connect(boards(from_board=losing(1)), timeout=0.3) as host:
        assert host.check_and_insert([4, 4]).seen.tolist() == [False, True]
        assert host.repeated >= 1
        counted = host.statistics()
        assert counted["operations"] == 2
        assert counted["frames_repeated"] >= 1


def test_lost_request_has_those_behind_it_sent_again(boards):
    golden = from_spec(SPEC)
    # The board's word suffices: no request has to wait until it is given up.
    with connect(boards(to_board=losing(2)), timeout=30) as host:
        began = time.monotonic()
        codes, keys = mixed(np.random.default_rng(SEED), 63 * 6)
        assert_same(host.perform(codes, keys), golden.perform(codes, keys))
        assert time.monotonic() - began < 25
        assert_counted(host, golden)
        assert host.statistics()["frames_out_of_order"] >= 1


def test_interrupted_exchange_leaves_the_session_whole(boards):
    golden = from_spec(SPEC)
    with connect(boards()) as host:

        def stop(count):
            raise KeyboardInterrupt

        codes, keys = mixed(np.random.default_rng(SEED), 63 * 10)
        with pytest.raises(KeyboardInterrupt):
            host.perform(codes, keys, progress=stop)
        done = host.statistics()["operations"]
        # The requests that were under way were performed, and no others.
        assert done == 63 * 4
        golden.perform(codes[:done], keys[:done])
        assert_same(
            host.perform(codes[done:], keys[done:]), golden.perform(codes[done:], keys[done:])
        )


# Frames by hand


@pytest.mark.slow
def test_every_frame_twice(line):
    line.hello(200)
    insertion = record(Operation.CHECK_AND_INSERT, 0x7E7D)
    for number in range(1, 80):
        data = encode_request(Request.OPERATE, 200 + number, insertion)
        first, second = line.ask(data), line.ask(data)
        assert first == second
        assert first.body == bytes([0, 0x00 if number == 1 else first.body[1]])
    line.sequence = 200 + 79
    counted = line.counted()
    assert (counted["operations"], counted["repeated"]) == (79, 79)


def test_numbers_ahead_and_too_old_do_nothing(line):
    line.hello(0)
    for _ in range(6):
        assert line.request(Request.OPERATE, record(2, 1)) == (Status.OK, b"\0")
    insertion = record(Operation.INSERT, 5)
    # Kept are 3 to 6; 7 is expected.
    for sequence, status in ((8, Status.OUT_OF_ORDER), (2, Status.OUT_OF_ORDER), (3, Status.OK)):
        frame = line.ask(encode_request(Request.OPERATE, sequence, insertion))
        assert frame.body[0] == status, sequence
    counted = line.counted()
    assert counted["operations"] == 6
    assert (counted["out_of_order"], counted["repeated"]) == (2, 1)


def test_unknown_operations_and_bits_do_nothing(line):
    line.hello()
    records = [record(code, 1) for code in (2, 6, 7, 8, 255)]
    assert line.request(Request.OPERATE, b"".join(records)) == (Status.OK, bytes(5))
    # Bits beyond the key, and bytes after the last whole record, are ignored.
    assert line.request(Request.OPERATE, record(1, 1 | 0xF << 20) + b"\1") == (Status.OK, b"\x80")
    assert line.request(Request.OPERATE, record(1, 1)) == (Status.OK, b"\x80")


def test_garbage_and_truncated_frames(line):
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    line.hello()
    whole = encode_request(Request.OPERATE, 1, record(Operation.INSERT, 9) * 8)
    bad = 0
    for cut in range(2, len(whole) - 1, 5):
        line.write(whole[:cut])
        bad += 1
    # Too long, too short, a CRC that is not right, an escape at the end.
    line.write(encode(VERSION << 4 | Request.OPERATE, 1, bytes(MAX_PAYLOAD + 4)))
    line.write(b"~\x12~" + whole[:-2] + bytes([whole[-2] ^ 1]) + b"~" + whole[:-1] + b"\x7d~")
    bad += 4
    line.write(bytes(byte for byte in rng.randbytes(700) if byte != 0x7E) + b"~")
    bad += 1
    line.write(b"~~~~")
    counted = line.counted()
    assert counted["bad"] == bad
    # HELLO and the requests for the counters.
    assert (counted["operations"], counted["good"]) == (0, 4)


@pytest.mark.slow
def test_flood(line):
    """Requests beyond the slots are dropped whole, counted, and performed once when repeated."""
    golden = from_spec(SPEC)
    line.hello(0)
    rng = random.Random(SEED)
    keys = [rng.randrange(12) for _ in range(60)]
    # Answers that are longer than their requests hold the board up.
    requests = [
        (Request.OPERATE, record(Operation.CHECK_AND_INSERT, keys[number // 2]))
        if number % 2
        else (Request.READ, b"\0\0\x20")
        for number in range(120)
    ]
    answers = {}
    while len(answers) < len(requests):
        begin = len(answers)
        line.write(
            b"".join(
                encode_request(request, begin + 1 + place & 0xFF, payload)
                for place, (request, payload) in enumerate(requests[begin : begin + 60])
            )
        )
        for frame in line.frames():
            place = begin + (frame.sequence - begin - 1) % 256
            if frame.body[0] == Status.OK:
                assert place == len(answers)
                answers[place] = frame.body[1:]
        assert len(answers) > begin
    line.sequence = len(requests)
    verdicts = golden.perform([Operation.CHECK_AND_INSERT] * 60, keys)
    expected = [0x80 | age if seen else 0 for seen, age, *_ in zip(*verdicts, strict=True)]
    assert [answers[place][0] for place in range(1, 120, 2)] == expected
    counted = line.counted()
    assert counted["dropped"] > 0
    assert counted["operations"] == 60


# What goes wrong outside


def test_board_with_another_filter(boards):
    board = boards()
    for changes, message in (
        ({"key_bits": 24}, "key_bits must be 24, but the board has 20"),
        ({"seed": 5}, "seed must be 5, but the board has 0"),
    ):
        with pytest.raises(HostError, match=message):
            connect(board, spec=dataclasses.replace(SPEC, **changes))


def test_board_that_was_reset(boards):
    board = boards()
    with connect(board) as host:
        host.insert([1])
        board.reset()
        with pytest.raises(HostError, match=r"session: must have begun.*was it reset\?"):
            host.query([1])


def test_board_that_is_unplugged(boards):
    board = boards()
    with connect(board) as host:
        timer = threading.Timer(0.2, board.close)
        timer.start()
        with pytest.raises(PortError, match="must be a serial port with a board") as caught:
            host.insert(np.arange(1_000_000) % 1000)
        timer.join()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("chatter", [b"", b"login: ~~\x7d~" * 40])
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
        with pytest.raises(
            NoAnswerError, match=r"expected an answer to HELLO within .* 3 attempts"
        ):
            Board(os.ttyname(slave), timeout=0.1, attempts=3)
    finally:
        ends.set()
        thread.join()
        os.close(master)
        os.close(slave)


def test_no_such_port():
    with pytest.raises(PortError, match=r"/dev/none: .* No such file or directory"):
        Board("/dev/none")


def test_slots_wrong():
    for slots in (1, 3, 32):
        with pytest.raises(ValueError, match=f"power of two, 2 to 16, not {slots}"):
            FilterLink(SPEC, **RATES, slots=slots)


# Commands


@pytest.fixture
def files(tmp_path, monkeypatch):
    SPEC.to_toml(tmp_path / "spec.toml")
    monkeypatch.setattr(board_stream, "CHUNK", 200)
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
    found = json.loads(lately(port, "query", "--text", "--json", "seventeen", "x"))
    assert found == [
        {"key": "seventeen", "seen": True, "age": 1},
        {"key": "x", "seen": False, "age": -1},
    ]
    lately(port, "configure", "--generation", 9)
    lately(port, "clear")
    assert json.loads(lately(port, "query", "--json", 17))[0]["seen"] is False
    assert "generation           9" in lately(port, "statistics")
    assert json.loads(lately(port, "statistics", "--json"))["operations"] == 10
    found = json.loads(lately(port, "self-test", "--json"))
    assert (found["passed"], found["signature"]) == (True, found["expected"])
    lately(port, "insert", 5)
    lately(port, "reset")
    assert json.loads(lately(port, "statistics", "--json"))["operations"] == 0


def test_stream_is_checked_and_goes_on(boards, files):
    port = boards().port
    options = ("--verify", "--spec", files / "spec.toml")
    arguments = ("stream", files / "keys", *options, "--json")
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
    assert "mismatches: must be 0, not " in message


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
    command = ["host", "--port", port, "stream", str(files / "many"), "--json",
               "--out", str(files / "out.csv")]  # fmt: skip
    done = CliRunner().invoke(cli.main, command)
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
    assert message.endswith(f"verdicts came for {chunks[0]} operations")
    assert (files / "out.csv").read_text().count("\n") - 1 == chunks[0]


WRONG = {
    "query 1048576": "KEY: must be an integer below 2**20",
    "query seven": "or a text with --text, not 'seven'",
    "configure": "give --generation, --tick, --secret-file, --action or --fields",
    "configure --tick 1ms": "period: must not be given for the board at ",
    "configure --action drop": "action: must not be given for the board at ",
    "configure --generation 4000000000": "generation: must be 1 to ",
    "configure --secret-file keys": "must hold 32 hexadecimal digits",
    "configure --secret-file secret": "secret: must not be given",
    "stream keys --preset tiny": "key_bits must be 8, but the board has 20",
    "stream none": "No such file",
}


def test_wrong_commands(boards, files, monkeypatch):
    monkeypatch.chdir(files)
    port = boards().port
    for words, message in WRONG.items():
        assert message in lately(port, *words.split(), status=2), words
