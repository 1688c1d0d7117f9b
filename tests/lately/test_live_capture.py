"""Packets of a network interface: two ends of a veth pair in a network namespace."""

import io
import json
import os
import subprocess
import sys

import dpkt
import pytest
from click.testing import CliRunner

from lately.captures.live_capture import LiveCapture
from lately.cli.app import main
from lately.sim.bench.packets import ethernet, ip4, udp
from lately.stream_files import TraceError

SCRIPT = """
import os, socket, subprocess, sys, time
for words in ("add name veth0 type veth peer name veth1", "set veth0 addrgenmode none",
              "set veth1 addrgenmode none", "set veth0 up", "set veth1 up"):
    subprocess.run(["ip", "link", *words.split()], check=True)
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
sender.bind(("veth0", 0))
command = [sys.executable, "-c", "from lately.cli.app import main; main()", "dedup"]
command += ["-i", "veth1", "-", "--json", *sys.argv[2:]]
with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
    # The header is there as soon as the interface is read.
    head = reader.stdout.read(24)
    for frame in open(sys.argv[1]).read().split():
        sender.send(bytes.fromhex(frame))
        time.sleep(0.001)
    if "--fpr" in sys.argv:
        time.sleep(0.5)
        subprocess.run(["ip", "link", "set", "veth1", "down"], check=True)
    elif "--limit" not in sys.argv and "--duration" not in sys.argv:
        time.sleep(0.5)
        reader.send_signal(2)
    sys.stdout.buffer.write(head + reader.stdout.read())
sys.exit(reader.returncode)
"""


def frame(number, tags=()):
    return ethernet(0x0800, ip4(udp(number.to_bytes(4, "big") + bytes(30)), number=number),
                    tags=tags, macs=b"\2\0\0\0\0\1\2\0\0\0\0\2")  # fmt: skip


@pytest.fixture(scope="module")
def namespace():
    """The words before a command that run it in a network of its own with a veth pair."""
    words = ["unshare", "-n"]
    tried = [*words, "ip", "link", "add", "name", "one", "type", "veth", "peer", "name", "two"]
    try:
        done = subprocess.run(tried, capture_output=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("unshare or ip is absent")
    if done.returncode:
        pytest.skip("this user may not make a network namespace with a veth pair")
    return words


@pytest.mark.parametrize(
    ("options", "code"),
    [(["--limit", "60"], 0), (["--duration", "4s", "--span", "1h"], 0), ([], 130),
     (["--fpr", "1e-6"], 1)],
)  # fmt: skip
def test_interface(namespace, tmp_path, options, code):
    """Each packet is kept once, tags are in place, and every end leaves a whole capture.

    With --fpr the script shuts the interface down.
    """
    frames = [frame(n // 2, [7] if n % 6 < 2 else []) for n in range(60)]
    (tmp_path / "frames").write_text("\n".join(one.hex() for one in frames))
    command = [*namespace, sys.executable, "-c", SCRIPT, tmp_path / "frames", *options]
    done = subprocess.run([*map(str, command)], capture_output=True, timeout=120)
    assert done.returncode == code, done.stderr.decode()
    text, _, error = done.stderr.decode().partition("lately: error: ")
    assert error == ("veth1: Network is down\n" if code == 1 else "")
    figures = json.loads(text)
    assert figures["capture"] == {"name": "veth1", "format": "pcap", "files": 1, "lost": 0}
    assert (figures["packets"], figures["dropped"]) == (60, 30)
    assert figures["interrupted"] == (code == 130)
    packets = list(dpkt.pcap.Reader(io.BytesIO(done.stdout)))
    assert [content for _, content in packets] == frames[::2]
    times = [time for time, _ in packets]
    assert times == sorted(times)
    assert 0 < times[-1] - times[0] < 60


def refusal(*arguments):
    done = CliRunner().invoke(main, ["dedup", *map(str, arguments)])
    assert done.exit_code in (1, 2)
    return done.stderr


def test_interfaces_wrong(tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert "give one of IN and --interface" in refusal("in", out, "-i", "lo")
    if os.geteuid() == 0:
        assert "none-such: No such device" in refusal(out, "-i", "none-such")
    monkeypatch.delattr("socket.AF_PACKET")
    with pytest.raises(TraceError, match="interface: must be one of Linux"):
        LiveCapture("lo")
    assert not out.exists()
