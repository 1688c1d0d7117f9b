# amaranth: UnusedElaboratable=no
"""Boards with a deduplicator of frames: registers, commands, and frames in simulation."""

import json
import zlib
from dataclasses import replace
from functools import partial

import pytest
from amaranth.hdl import Array, Const, DomainRenamer, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from board_commands import RATES
from board_commands import lately as command

from lately.boards.link.layout import BASE, MISSING
from lately.boards.link.link import FrameLink
from lately.golden import SpecificationError, preset
from lately.golden.packets.comparison import Field
from lately.golden.packets.frame_actions import Action
from lately.hdl.packets.deduplicator import Deduplicator
from lately.hdl.packets.gmii import GAP_BYTES, PREAMBLE, PREAMBLE_BYTES, RECEIVING, START
from lately.host import Board
from lately.sim.board import SimulatedBoard, board_model
from lately.uartbone import HostError

pytestmark = pytest.mark.rtl

SPEC = replace(preset("timed-tiny"), key_bits=64, blocks=256, window=None, generation=None)
SECRET = 0x0123456789ABCDEFFEDCBA9876543210
QUIET = 20_000
"""Cycles of silence on the serial line after which frames come."""


def link():
    deduplicator = Deduplicator(SPEC, width=8, on_overflow="drop", statistics_bits=64)
    return FrameLink(deduplicator, version=(1, 2, 3), **RATES)


class Registers(Board):
    """A board whose registers are a dict of words, with no line between."""

    def __init__(self, words, states=()):
        self.port, self.words, self.written, self.states = "port", words, [], list(states)
        self.spec, self.frames = SPEC, True

    def read(self, address, count=1):
        at = address - BASE
        if self.states and at == 0x18:
            return [self.states.pop(0)]
        return [self.words.get(at + 4 * number, MISSING) for number in range(count)]

    def write(self, address, words):
        self.written.append(
            (address - BASE, sum(int(word) << 32 * at for at, word in enumerate(words)))
        )
        self.words |= {address - BASE + 4 * at: word for at, word in enumerate(words)}


def test_statistics_are_of_one_moment():
    board = Registers({0x14: 1, 0x24: 1250, 0x90: 7, 0x94: 1, 0xD0: 9, 0xD4: 0, 0x10C: 5})
    assert board.statistics() == {
        "hits": 7 + (1 << 32), "period": 1250, "bytes_out": 9, "bytes_dropped": 5,
    }  # fmt: skip
    # Enabled as before, and a snapshot.
    assert board.written == [(0x14, 1 | 1 << 3)]


def test_clear_waits_until_it_is_performed():
    board = Registers({0x14: 0}, states=[1, 1, 0])
    board.clear()
    assert (board.written, board.states) == ([(0x14, 1 << 2)], [])
    with pytest.raises(HostError, match=r"^port: the board did not complete the clear$"):
        Registers({0x14: 0}, states=[1] * 1000).clear()


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({"action": Action.COUNT}, [(0x60, 0x100)]),
        ({"fields": Field.VLAN | Field.TTL}, [(0x60, 0x602)]),
        ({"action": Action.MARK, "fields": Field.NONE}, [(0x60, 1)]),
        ({"period": (1 << 24) - 1}, [(0x24, (1 << 24) - 1)]),
        ({"secret": SECRET}, [(0x50, SECRET)]),
        ({}, []),
    ],
)
def test_configure(settings, written):
    board = Registers({0x24: 7, 0x60: 0x102})
    board.configure(**settings)
    assert board.written == written


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"period": 0}, "period: must be an integer from 1 to 4294967294, not 0"),
        ({"period": 1.5}, "period: must be an integer from 1 to 4294967294, not 1.5"),
        ({"secret": 1 << 128, "action": Action.COUNT}, "secret: must"),
        ({"generation": 5}, "generation: the board at port has no generations"),
    ],
)
def test_configure_wrong(settings, message):
    board = Registers({})
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        board.configure(**settings)
    assert board.written == []


def test_operations_and_self_test_are_refused():
    board = Registers({})
    for refused in (lambda: board.query([1]), board.self_test, board.reset, board.shift):
        with pytest.raises(SpecificationError, match="the board at port "):
            refused()


# In simulation


def on_the_line(frame):
    sequence = zlib.crc32(frame).to_bytes(4, "little")
    sent = bytes([PREAMBLE] * PREAMBLE_BYTES + [START]) + frame + sequence
    return [(byte, 1) for byte in sent] + [(0, 0)] * GAP_BYTES


FIRST, SECOND = (bytes([number]) * 12 + b"\x88\xb5" + bytes([number]) * 46 for number in (2, 4))
FRAMES = [*on_the_line(FIRST), *on_the_line(SECOND), *on_the_line(FIRST)]


class Fed(wiring.Component):
    """A board to which three frames come each time that its serial line falls silent."""

    def __init__(self):
        self.link = link()
        lights = dict.fromkeys(("alive", "hit", "fault", "busy"), Out(1))
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1)} | lights)

    def elaborate(self, platform):
        m = Module()
        m.submodules.link = DomainRenamer({RECEIVING: "sync"})(self.link)
        link = self.link
        silence, index = Signal(range(QUIET + 2)), Signal(range(len(FRAMES) + 1))
        with m.If(~self.rx | ~self.tx):
            m.d.sync += silence.eq(0)
        with m.Elif(silence <= QUIET):
            m.d.sync += silence.eq(silence + 1)
        with m.If(silence == QUIET):
            m.d.sync += index.eq(len(FRAMES))
        with m.Elif(index != 0):
            m.d.sync += index.eq(index - 1)
        played = [Const(0, 9), *(Const(byte | valid << 8, 9) for byte, valid in reversed(FRAMES))]
        m.d.sync += [
            link.rx_data.eq(Array(played)[index]),
            link.rx_valid.eq(Array(played)[index][8]),
        ]
        m.d.comb += [
            link.rx.eq(self.rx),
            self.tx.eq(link.tx),
            self.busy.eq(link.busy),
            self.alive.eq(link.alive),
            self.hit.eq(Mux(index == 0, link.tx_valid, 0)),
        ]
        return m


@pytest.fixture(scope="module")
def model():
    return board_model(Fed(), **RATES)


@pytest.fixture
def board(model):
    with SimulatedBoard(model) as started:
        yield started


def counted(host, board):
    """Let three frames come; return how many came, left and were repeated."""
    board.idle(QUIET + 2_000)
    figures = host.statistics()
    assert figures["bytes_in"] == 60 * figures["frames_in"]
    assert figures["bytes_out"] == 60 * figures["frames_out"]
    assert figures["frames_other"] == figures["frames_in"]
    return tuple(figures[name] for name in ("frames_in", "frames_out", "hits"))


@pytest.mark.slow
def test_frames_of_a_board(board):
    """Settings count from then on, and so does a clear."""
    with Board(board.port, spec=SPEC, baud=RATES["baud"], timeout=10) as host:
        assert (host.frames, host.clock_hz) == (True, RATES["clock_hz"])
        assert counted(host, board) == (3, 2, 1)
        assert counted(host, board) == (6, 2, 4)
        host.clear()
        assert counted(host, board) == (9, 4, 5)
        host.configure(secret=SECRET)
        assert counted(host, board) == (12, 6, 6)
        host.configure(secret=SECRET, action=Action.COUNT)
        assert counted(host, board) == (15, 9, 9)
        host.configure(secret=SECRET + 1, action=Action.DROP, period=100)
        assert counted(host, board) == (18, 11, 10)
        assert host.statistics()["period"] == 100


@pytest.mark.slow
def test_commands(board, tmp_path):
    lately = partial(command, board.port, spec=SPEC)
    info = json.loads(lately("info", "--json"))
    assert (info["frames"], info["key_bits"]) == (True, 64)
    board.idle(QUIET + 2_000)
    assert json.loads(lately("statistics", "--json"))["frames_out"] == 2
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET:032x}\n")
    lately("configure", "--secret-file", secret, "--action", "count", "--fields", "vlan",
           "--tick", "10us")  # fmt: skip
    board.idle(QUIET + 2_000)
    figures = json.loads(lately("statistics", "--json"))
    assert (figures["frames_out"], figures["hits"], figures["period"]) == (5, 2, 240)
    lately("clear")
    for options, message in (
        (["query", "17"], "operations: the board at "),
        (["self-test"], "self-test: the board at "),
        (["configure", "--generation", "3"], "generation: the board at "),
        (["configure", "--tick", "10s"], "period: the board stored "),
        (["configure", "--fields", "mac"], "fields: must be none or any of tos, ttl, vlan"),
    ):
        assert message in lately(*options, status=2)
