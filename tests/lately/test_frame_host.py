"""The host of a board with a deduplicator of frames, beside registers and simulated boards."""

import json
import struct
import zlib
from collections import defaultdict
from dataclasses import replace

import pytest
from amaranth.hdl import Array, Const, DomainRenamer, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from click.testing import CliRunner

from lately.boards.link.frame_link import FrameLink
from lately.boards.link.information import Information, register_mask
from lately.boards.link.link import Link
from lately.boards.link.protocol import Request
from lately.cli import app as cli
from lately.frame_host import FrameHost
from lately.golden import preset
from lately.golden.packets.frame_actions import Action
from lately.golden.packets.packet_digest import Field
from lately.hdl.packets.deduplicator import Deduplicator
from lately.hdl.packets.gmii import GAP_BYTES, PREAMBLE, PREAMBLE_BYTES, START
from lately.hdl.packets.line_deduplicator import RECEIVING
from lately.hdl.registers import REGISTERS
from lately.host import Host
from lately.session import HostError
from lately.sim.board import SimulatedBoard, board_model

pytestmark = pytest.mark.rtl

SPEC = replace(preset("timed-tiny"), key_bits=64, blocks=256, window=None, generation=None)
RATES = {"clock_hz": 24_000_000, "baud": 3_000_000}
SECRET = 0x0123456789ABCDEFFEDCBA9876543210
QUIET = 20_000
"""Clocks of silence on the serial line after which frames come."""


class Registers(FrameHost):
    """A host of registers that are there, and nothing between."""

    def __init__(self, memory):
        held = ("frames", "control", "status", "digest_secret", "period", "hits", "bytes_out")
        self.port, self.memory, self.written = "port", memory, []
        self.information = Information(
            slots=4, key_bits=64, window_generations=0, generation=0, digest=SPEC.digest,
            clock_hz=125_000_000, keyed=False, time_bits=0, self_test_cycles=0,
            registers=register_mask(one for one in REGISTERS if one.name in held),
        )  # fmt: skip

    def _exchange(self, request, payloads, *, wait=0.0):
        for payload in payloads:
            if request is Request.READ:
                (address,) = payload
                yield struct.pack("<I", self.memory[address])
            else:
                self.written.append(struct.unpack("<BI", payload))
                yield b""


def test_statistics_are_of_one_moment():
    memory = {0x14: 1, 0x24: 1250, 0x90: 7, 0x94: 1, 0xD0: 9, 0xD4: 0}
    board = Registers(memory)
    assert board.statistics() == {"hits": 7 + (1 << 32), "period": 1250, "bytes_out": 9}
    # Enabled as it was, and a snapshot.
    assert board.written == [(0x14, 1 | 1 << 3)]


def test_clear_waits_until_it_is_performed():
    states = [1, 1, 0]

    class Memory(dict):
        def __missing__(self, address):
            return states.pop(0)

    board = Registers(Memory({0x14: 0}))
    board.clear()
    assert (board.written, states) == ([(0x14, 1 << 2)], [])


def test_clear_that_does_not_end():
    board = Registers(defaultdict(lambda: 1, {0x14: 0}))
    with pytest.raises(HostError, match=r"^port: must end a clear, but its status tells that "):
        board.clear()


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        ({"action": Action.COUNT}, [(0x60, 0x100)]),
        ({"fields": Field.VLAN | Field.TTL}, [(0x60, 0x602)]),
        ({"action": Action.MARK, "fields": Field.NONE}, [(0x60, 1)]),
        ({"period": 1}, [(0x24, 1)]),
        ({"period": (1 << 24) - 1}, [(0x24, (1 << 24) - 1)]),
        ({"secret": SECRET}, [(0x50, 0x76543210), (0x54, 0xFEDCBA98),
                              (0x58, 0x89ABCDEF), (0x5C, 0x01234567)]),
        ({}, []),
    ],
)  # fmt: skip
def test_configure(settings, written):
    board = Registers({0x60: 0x102})
    board.configure(**settings)
    assert board.written == written


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"period": 0}, "period: must be 1 to 16777215 for this board, not 0"),
        ({"period": 1 << 24}, "period: must be 1 to 16777215 for this board, not 16777216"),
        ({"period": 1.5}, "period: must be an integer, not 1.5"),
        ({"secret": 1 << 128, "action": Action.COUNT}, "secret: must"),
    ],
)
def test_configure_wrong(settings, message):
    board = Registers({})
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        board.configure(**settings)
    assert board.written == []


def test_answer_wrong(monkeypatch):
    board = Registers({0x14: 1})
    monkeypatch.setattr(board, "_exchange", lambda *_, **__: iter([b"\1\2"]))
    with pytest.raises(HostError, match=r"^port: must answer control with 4 bytes, not 2$"):
        board.statistics()


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
        deduplicator = Deduplicator(SPEC, width=8, when_full="drop", statistics_bits=64)
        self.link = FrameLink(deduplicator, baud=RATES["baud"], version=(1, 2, 3),
                              clock_hz=RATES["clock_hz"])  # fmt: skip
        lights = dict.fromkeys(("alive", "hit", "fault", "busy"), Out(1))
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1)} | lights)

    def elaborate(self, platform):
        m = Module()
        m.submodules.link = DomainRenamer({RECEIVING: "sync"})(self.link)
        link = self.link
        silence, place = Signal(range(QUIET + 2)), Signal(range(len(FRAMES) + 1))
        with m.If(~self.rx | ~self.tx):
            m.d.sync += silence.eq(0)
        with m.Elif(silence <= QUIET):
            m.d.sync += silence.eq(silence + 1)
        with m.If(silence == QUIET):
            m.d.sync += place.eq(len(FRAMES))
        with m.Elif(place != 0):
            m.d.sync += place.eq(place - 1)
        played = [Const(0, 9), *(Const(byte | valid << 8, 9) for byte, valid in reversed(FRAMES))]
        m.d.sync += [
            link.rx_data.eq(Array(played)[place]),
            link.rx_valid.eq(Array(played)[place][8]),
        ]
        m.d.comb += [
            link.rx.eq(self.rx),
            self.tx.eq(link.tx),
            self.busy.eq(link.busy),
            self.alive.eq(link.alive),
            self.hit.eq(Mux(place == 0, link.tx_valid, 0)),
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
    with FrameHost(board.port, baud=RATES["baud"], timeout=10) as host:
        assert host.information.digest == SPEC.digest
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
    def run(*options):
        command = ["host", "--port", board.port, "--baud", "3000000", "--timeout", "10", *options]
        return CliRunner().invoke(cli.main, list(map(str, command)))

    found = json.loads(run("info", "--json").output)
    assert (found["frames"], found["key_bits"]) == (True, 64)
    board.idle(QUIET + 2_000)
    assert json.loads(run("statistics", "--json").output)["frames_out"] == 2
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET:032x}\n")
    told = run("configure", "--secret-file", secret, "--action", "count", "--fields", "vlan",
               "--tick", "10us")  # fmt: skip
    assert (told.exit_code, told.output) == (0, "")
    board.idle(QUIET + 2_000)
    figures = json.loads(run("statistics", "--json").output)
    assert (figures["frames_out"], figures["hits"], figures["period"]) == (5, 2, 240)
    assert run("clear").exit_code == 0
    for options, message in (
        (["query", "17"], "must be a board with a filter alone, but it has a deduplicator"),
        (["self-test"], "must be a board with a filter alone, but it has a deduplicator"),
        (["configure", "--generation", "3"], "generation: must not be given for the board at"),
        (["configure", "--tick", "10s"], "period: must be 1 to 16777215 for this board"),
        (["configure", "--fields", "mac"], "fields: must be none, or among tos, ttl, vlan"),
    ):
        told = run(*options)
        assert told.exit_code == 1
        assert message in told.output
        assert told.output.count("\n") == 1


@pytest.mark.slow
def test_board_with_a_filter_alone(tmp_path):
    link = Link(replace(preset("tiny"), key_bits=20), **RATES)
    with SimulatedBoard(board_model(link, **RATES)) as plain:
        with pytest.raises(HostError, match="must be a board with a deduplicator of frames"):
            FrameHost(plain.port, baud=RATES["baud"], timeout=10)
        with Host(plain.port, baud=RATES["baud"], timeout=10) as host:
            assert not host.information.frames
        command = ["host", "--port", plain.port, "--timeout", "10", "configure", "--action", "drop"]
        told = CliRunner().invoke(cli.main, command)
        assert "action: must not be given for the board at" in told.output
