"""Packets of network interfaces: the ends of veth pairs in a network namespace."""

import ctypes
import fcntl
import io
import itertools
import json
import os
import socket
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import cache

import dpkt
import pytest
from capture_files import ETHERNET, RAW, interface, packet, section
from click.testing import CliRunner
from scapy.utils import RawPcapNgReader
from warm_programs import NEW_NETWORK, Program

from lately.captures import live_capture
from lately.captures.live_capture import LiveCapture, LiveOutput
from lately.cli.app import main
from lately.sim.bench.packets import ethernet, ip4, udp
from lately.stream_files import TraceError


def frame(number, tags=()):
    return ethernet(0x0800, ip4(udp(number.to_bytes(4, "big") + bytes(30)), number=number),
                    tags=tags, macs=b"\2\0\0\0\0\1\2\0\0\0\0\2")  # fmt: skip


ALL_PACKETS = 3
PAIRS = ("veth0", "veth1"), ("veth2", "veth3")


def ip(words):
    return subprocess.run(["ip", *words.split()], check=True, capture_output=True).stdout


def make_network():
    """Have this thread enter a network of its own with two pairs of interfaces."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, other in PAIRS:
        ip(f"link add name {name} type veth peer name {other}")


@cache
def missing():
    """Why there is no network namespace with a pair of interfaces, or nothing."""
    try:
        in_a_thread(make_network)
    except FileNotFoundError:
        return "ip is absent"
    except (OSError, subprocess.CalledProcessError):
        return "this user may not make a network namespace with a veth pair"
    return ""


def in_a_thread(function, *arguments):
    """A network of its own ends with its thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result(120)


def run(command, steps, *, tunnels=(), sink=""):
    """Exit status, output and lines of `lately` between pairs of interfaces.

    A step is a frame for an interface, words after `ip link set`, or a signal. Frames that come to
    an interface, the sink, are lines at the end.
    """
    if missing():
        pytest.skip(missing())
    return in_a_thread(play, command, steps, tunnels, sink)


def play(command, steps, tunnels, sink):
    make_network()
    with ExitStack() as stack:
        send, sockets = {}, {}
        for name, kind in tunnels:
            file = stack.enter_context(open("/dev/net/tun", "r+b", buffering=0))
            fcntl.ioctl(file, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))
            fcntl.ioctl(file, 0x400454CD, kind)
            send[name] = file.write
        bring_up("lo", *itertools.chain(*PAIRS), *send)
        for name in itertools.chain(*PAIRS):
            sockets[name] = open_end(stack, name, ALL_PACKETS if name == sink else 0)
            send[name] = sockets[name].send
        network = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"
        reader = Program(*command, network=network)
        # As soon as the interfaces are read.
        line = reader.stderr.readline() if "-i" in command else b""
        for step, value in steps if not line or b"listening" in line else ():
            if step in send:
                send[step](value)
            else:
                time.sleep(0.5)
                ip(f"link set {value}") if step == "link" else reader.send_signal(value)
        content, text = reader.communicate()
        lines = (line + text).decode().splitlines()
        return reader.returncode, content, lines + (received(sockets[sink]) if sink else [])


def bring_up(*names):
    for name in names:
        ip(f"link set {name} addrgenmode none")
        ip(f"link set {name} up")
    # An interface drops packets until the system has noticed that its other end is up.
    until = time.monotonic() + 30
    while any(b"DOWN" in ip(f"-brief link show {name}") for name in names):
        assert time.monotonic() < until
        time.sleep(0.01)


def open_end(stack, name, protocol=0):
    end = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
    end.bind((name, protocol))
    return end


def received(end):
    """Frames in hexadecimal that came to an interface; those that it sent are left out."""
    frames = []
    end.settimeout(0.5)
    with suppress(TimeoutError):
        while True:
            content, (_, _, direction, *_) = end.recvfrom(4096)
            frames += [content.hex()] if direction != socket.PACKET_OUTGOING else []
    return frames


def words(content):
    return " ".join(content.decode().split())


FRAMES = [frame(n // 2, [7] if n % 6 < 2 else []) for n in range(60)]
INTERRUPT = ("signal", 2)


@pytest.mark.parametrize(
    ("options", "end", "code"),
    [(["--limit", "60"], [], 0), (["--duration", "4s", "--span", "1h"], [], 0),
     ([], [INTERRUPT], 130), ([], [("link", "veth1 down")], 1)],
)  # fmt: skip
def test_interface(options, end, code):
    """Each packet is kept once, tags are in place, and every end leaves a whole capture."""
    steps = [*(("veth0", sent_frame) for sent_frame in FRAMES), *end]
    command = ["dedup", "-i", "veth1", "-", "--json", *options]
    done, content, (line, text, *errors) = run(command, steps)
    assert (done, line) == (code, "lately: listening on veth1"), text
    assert errors == ["lately: error: veth1: Network is down"] * (code == 1)
    figures = json.loads(text)
    head = {"name": "veth1", "format": "pcap", "files": 1, "lost": 0, "unknown": {}, "empty": []}
    assert figures["capture"] == head | {"unused": None}
    assert (figures["packets"], figures["dropped"]) == (60, 30)
    assert figures["interrupted"] == (code == 130)
    packets = list(dpkt.pcap.Reader(io.BytesIO(content)))
    assert [content for _, content in packets] == FRAMES[::2]
    times = [time for time, _ in packets]
    assert times == sorted(times)
    assert 0 < times[-1] - times[0] < 60


@pytest.mark.parametrize("others", [[], ["-i", "veth3"]])
def test_interrupt_of_a_reader_that_lags(tmp_path, others):
    """Packets that arrived before the interrupt are read, here of a process that stood still."""
    frames = [frame(n) for n in range(6000)]
    steps = [
        ("signal", 19),
        *(("veth0", sent_frame) for sent_frame in frames),
        INTERRUPT,
        ("signal", 18),
    ]
    command = ["dedup", "-i", "veth1", *others, tmp_path / "out", "--json", "--span", "1h"]
    done, content, _ = run(command, steps)
    figures = json.loads(content)
    assert (done, figures["capture"]["lost"], figures["packets"]) == (130, 0, 6000)


@pytest.mark.parametrize("rotation", [[], ["--rotate-size", "1kB"]])
def test_killed(tmp_path, rotation):
    """The outputs hold whole packets as they come, and a rotated output is a capture."""
    (folder := tmp_path / "out").mkdir()
    steps = [*(("veth0", sent_frame) for sent_frame in FRAMES), ("signal", 9)]
    command = ["dedup", "-i", "veth1", folder / "kept.pcap", *rotation]
    assert run(command, steps)[0] == -9
    contents = [path.read_bytes() for path in sorted(folder.iterdir())]
    kept = [
        sent_frame
        for content in contents
        for _, sent_frame in dpkt.pcap.Reader(io.BytesIO(content))
    ]
    assert kept
    assert kept == FRAMES[: 2 * len(kept) : 2]
    assert not rotation or (len(contents) > 1 and max(map(len, contents)) <= 1000)


def blocks(content):
    """Interface and bytes of each packet of a pcapng file, as scapy reads it, in order of time."""
    packets = list(RawPcapNgReader(io.BytesIO(content)))
    times = [sent_frame.tshigh << 32 | sent_frame.tslow for _, sent_frame in packets]
    assert times == sorted(times)
    assert 0 < times[-1] - times[0] < 60 * 10**9
    return [
        (sent_frame.ifname.decode(), sent_frame.linktype, octets) for octets, sent_frame in packets
    ]


@pytest.mark.parametrize(
    ("end", "code"),
    [([], 0), ([INTERRUPT], 130),
     ([("link", "veth1 down"), ("veth2", frame(1000)), ("link", "veth3 down")], 1)],
)  # fmt: skip
def test_two_taps(tmp_path, end, code):
    """Copies between taps are dropped, repeats at one tap are not; if one goes down, the other is
    read on."""
    frames = [frame(n, [7] if n % 6 < 2 else []) for n in range(1000)]
    steps = [(name, sent_frame) for sent_frame in frames for name in ("veth0", "veth2")]
    command = ["dedup", "-i", "veth1", "-i", "veth3", "-", "--json", "--scope", "other",
               "--span", "1h", *(["--limit", 2000] if code == 0 else [])]  # fmt: skip
    done, content, (line, text, *errors) = run(command, [*steps, *end])
    assert (done, line) == (code, "lately: listening on veth1, veth3"), text
    down = [f"lately: error: {name}: Network is down" for name in ("veth1", "veth3")]
    assert errors == (down if code == 1 else [])
    figures = json.loads(text)
    assert figures["capture"]["format"] == "pcapng"
    assert (figures["packets"], figures["dropped"]) == (2000 + (code == 1), 1000)
    left = [("veth1", ETHERNET, sent_frame) for sent_frame in frames]
    assert blocks(content) == left + [("veth3", ETHERNET, frame(1000))] * (code == 1)


def capture_of_newer_packets(patch, stamped):
    """Capture packets of two interfaces; return the counts in the two reads that follow."""
    make_network()
    bring_up("lo", *itertools.chain(*PAIRS))
    if not stamped:
        patch.setattr(live_capture, "_PROBE", 0.1)
        patch.setattr(live_capture, "_ON_ARRIVAL", 0)
    with ExitStack() as stack:
        ends = [open_end(stack, name) for name, _ in PAIRS]
        capture = stack.enter_context(LiveCapture([name for _, name in PAIRS]))
        capture.read(lambda: False)
        for number in range(100):
            for end in ends:
                end.send(frame(number))
        if stamped:
            clock = time.time_ns
            patch.setattr(time, "time_ns", lambda: clock() - 10**10)
        return capture.read(lambda: True).locations.shape[1], capture.read(lambda: True)


@pytest.mark.parametrize("stamped", [True, False])
def test_packets_newer_than_the_clock(monkeypatch, stamped):
    """Packets that came before the clock was set back, or have no timestamp, are all read."""
    if missing():
        pytest.skip(missing())
    assert in_a_thread(capture_of_newer_packets, monkeypatch, stamped) == (200, None)


def test_any(tmp_path):
    """An interface is described when it first shows; a link type that is not known is counted."""
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("the system has no /dev/net/tun")
    packet = ip4(udp(b"in a tunnel"))
    tunnels = [("tun1", 65534), ("tun2", 512)]
    steps = [(name, sent_frame) for sent_frame in FRAMES[::2] for name in ("veth0", "veth2")]
    steps += [("tun2", packet)] * 3 + [("tun1", packet), ("veth3", frame(99)), INTERRUPT]
    command = ["dedup", "-i", "any", tmp_path / "out", "--span", "1h"]
    done, content, lines = run(command, steps, tunnels=tunnels)
    assert done == 130
    assert blocks((tmp_path / "out").read_bytes()) == [
        *(("veth0", ETHERNET, sent_frame) for sent_frame in FRAMES[::2]), ("tun1", RAW, packet),
        ("veth3", ETHERNET, frame(99)),
    ]  # fmt: skip
    shown = words(content)
    assert "packets 123 any (pcapng)" in shown
    assert "left out 3 packets of tun2: neither Ethernet nor IP" in shown
    assert "dropped 91 " in shown
    assert lines == ["lately: listening on any"]
    command = ["--quiet", "dedup", "-i", "any", "-", "--json", "--duration", "0.2s"]
    done, _, (text,) = run(command, [])
    assert (done, json.loads(text)["packets"]) == (0, 0)


@pytest.mark.parametrize("source", ["veth1", "any"])
def test_send(tmp_path, source):
    """The other end gets each packet once; with any, neither end of the output is read."""
    frames = [frame(n // 2) for n in range(60)]
    command = ["dedup", "-i", source, "--to", "veth2", "--json", "--span", "1h"]
    steps = [*(("veth0", sent_frame) for sent_frame in frames), INTERRUPT]
    done, content, lines = run(command, steps, sink="veth3")
    figures = json.loads(content)
    count = 60 * (1 + (source == "any"))
    assert (done, figures["packets"], figures["dropped"]) == (130, count, count - 30)
    assert figures["to"] == {
        "interface": "veth2", "sent": 30, "cut": 0, "other_link": 0, "other_length": 0,
    }  # fmt: skip
    assert lines == [
        f"lately: listening on {source}",
        *(sent_frame.hex() for sent_frame in frames[::2]),
    ]


def test_packets_that_cannot_be_sent(tmp_path):
    """They are counted: cut, of another link type, longer than the interface takes, too short."""
    path, head = tmp_path / "in", section() + interface() + interface(link=RAW)
    path.write_bytes(head + b"".join((
        packet(1, frame(1), length=90), packet(2, frame(2), interface=1), packet(3, frame(3)),
        packet(4, frame(4) + bytes(1500)), packet(5, bytes(3)),
    )))  # fmt: skip
    command = ["dedup", path, "--to", "veth2"]
    done, content, lines = run(command, [], sink="veth3")
    assert (done, lines) == (0, [frame(3).hex()])
    shown = words(content)
    assert "sent 1 to veth2 not sent 4 1 captured incompletely, 1 of another link type, " in shown
    assert "2 of a length that veth2 does not accept" in shown
    assert "bytes written" not in shown


@pytest.mark.parametrize(
    ("options", "steps", "code", "message"),
    [(["veth1", "--to", "veth2"], [("link", "veth2 down"), ("veth0", frame(1))], 1,
      "veth2: Network is down"),
     (["veth3", "--to", "veth2"], [], 2,
      "--to veth2: veth3 is also an input; packets would loop"),
     (["veth2", "--to", "veth2"], [], 2,
      "--to veth2: veth2 is also an input; packets would loop"),
     (["veth1", "--to", "none-such"], [], 2, "none-such: no interface with this name")],
)  # fmt: skip
def test_wrong_output(tmp_path, options, steps, code, message):
    done, content, lines = run(["dedup", "-i", *options], steps)
    assert (done, "sent 0 to veth2" in words(content)) == (code, code == 1)
    assert [line.partition(" (see")[0] for line in lines[-1:]] == [f"lately: error: {message}"]


def refusal(*arguments):
    done = CliRunner().invoke(main, ["dedup", *map(str, arguments)])
    assert done.exit_code in (1, 2)
    return done.stderr


def test_interfaces_wrong(tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert "IN cannot be combined with --interface" in refusal("in", out, "-i", "lo")
    if os.geteuid() == 0:
        assert "none-such: No such device" in refusal(out, "-i", "none-such")
        for names in ("lo", "lo"), ("any", "lo"):
            message = refusal(out, *(word for name in names for word in ("-i", name)))
            expected = "must be different names, or only 'any', not "
            assert expected + ", ".join(names) in message
    monkeypatch.delattr("socket.AF_PACKET")
    with pytest.raises(TraceError, match="--interface needs Linux"):
        LiveCapture(["lo"])
    assert "--to needs Linux" in refusal("-i", "lo", "--to", "lo")
    with pytest.raises(TraceError, match="--to needs Linux"):
        LiveOutput("lo")
    assert not out.exists()
