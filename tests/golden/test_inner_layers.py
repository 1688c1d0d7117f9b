"""The innermost layer 3 within the limits of hardware, beside the search in software."""

import random

import pytest
from capture_files import ETHERNET, MADE

from lately.captures.capture_reader import CaptureReader
from lately.golden.packets.encapsulations import BRIDGED, IP4, IP_PROTOCOL, NOTHING, UDP_PORT
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.packets.packet_layers import (
    MAX_HEADERS,
    MAX_READ,
    Fault,
    Reach,
    Version,
    inner_headers,
    inner_layers,
    layers,
)
from lately.golden.spec import GEBFSpec
from lately.sim.bench.packets import (
    FRAME,
    INNER,
    LAYER2,
    TUNNELS,
    around,
    ethernet,
    gre,
    gtp,
    inner_frames,
    ip4,
    ip6,
    mpls,
    udp,
    vxlan,
)

SEED = 49
SPEC = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)

UNKNOWN = ("PPP", "SNAP", "LLC", "five tags", "tag 9", "ERSPAN II", "GENEVE", "GRE with routing")
"""Encapsulations that only software passes, by the begin of their names."""


def software(frame):
    return layers(frame, len(frame), ETHERNET, Reach.INNER)


def content(frame):
    layer = inner_layers(frame)
    return frame[layer.begin : layer.end]


@pytest.mark.parametrize("name", [*LAYER2, *TUNNELS])
def test_encapsulations(name):
    frame = {**LAYER2, **TUNNELS}[name]
    if not name.startswith((*UNKNOWN, "PPTP")):
        assert inner_layers(frame) == software(frame)
        assert content(frame) == INNER
    elif name in LAYER2:
        assert inner_layers(frame).version == Version.OTHER
    else:
        assert content(frame) == frame[14:]


def test_frames_within_the_limits_are_as_in_software():
    print("seed", SEED)
    choose = random.Random(SEED)
    frames = [around(choose, choose.randrange(3)) for _ in range(300)]
    frames = [frame for frame in frames if len(frame) < MAX_READ]
    frames += [frame[: choose.randrange(1, len(frame))] for frame in frames]
    deep = 0
    for frame in frames:
        layer, right = inner_layers(frame), software(frame)
        if layer != right:
            # Only a frame with more headers is another one.
            deep += 1
            assert right.begin > layer.begin, frame.hex()
    assert deep < len(frames) / 10


def test_every_cut():
    for frame in (
        TUNNELS["VXLAN"],
        LAYER2["pseudo-wire with control word"],
        TUNNELS["GTP-U, IPv6"],
    ):
        for size in range(1, len(frame)):
            assert inner_layers(frame[:size]) == software(frame[:size])


def test_number_of_headers():
    """A header more than `MAX_HEADERS`: layer 3 is the packet that was reached."""
    packets = [INNER]
    while len(packets) <= MAX_HEADERS:
        packets.append(ip4(packets[-1], protocol=4))
    # The innermost of eight packets begins in byte 154.
    assert content(ethernet(0x0800, packets[MAX_HEADERS - 1])) == INNER
    assert content(ethernet(0x0800, packets[MAX_HEADERS])) == packets[1]
    for labels, version in ((MAX_HEADERS - 2, 4), (MAX_HEADERS - 1, 0)):
        frame = ethernet(0x8847, mpls(INNER, *range(labels)))
        assert (inner_layers(frame).version, inner_layers(frame).faults) == (version, Fault(0))
    # IP, UDP, GTP-U, its extension headers and their end, content without a type, the packet.
    maximum = MAX_HEADERS - 6
    for extensions, reached in ((maximum, True), (maximum + 1, False)):
        more = bytes(3) + b"\x85" + b"\1\0\0\x85" * (extensions - 1) + b"\1\0\0\0"
        frame = ethernet(0x0800, ip4(gtp(INNER, flags=4, more=more), protocol=17))
        assert (content(frame) == INNER) == reached


@pytest.mark.parametrize(
    ("inner", "protocol", "rest"), [(INNER, 4, 40), (ip6(udp(b"payload!")), 41, 20)]
)
def test_bytes_that_are_read(inner, protocol, rest):
    """The header of the innermost packet ends with the last byte that is read, or two later."""
    packet = ip4(inner, protocol=protocol, options=bytes(40))
    bridged = gre(ethernet(0x0800, ip4(packet, protocol=4, options=bytes(rest))), 0x6558)
    inside = ethernet(0x0800, ip4(bridged, protocol=47))
    beyond = packet
    for size in (rest, 0, 0):
        beyond = ip4(beyond, protocol=4, options=bytes(size))
    beyond = ethernet(0x0800, beyond)
    header = 20 if protocol == 4 else 40
    assert (inside.index(inner) + header, beyond.index(inner) + header) == (
        MAX_READ,
        MAX_READ + 2,
    )
    assert content(inside) == inner
    assert content(beyond) == packet
    # A frame that ends a byte earlier is one with the packet around.
    assert content(inside[: MAX_READ - 1]) == packet[: MAX_READ - 1 - inside.index(packet)]


def test_lengths_beyond_the_frame():
    """The inner packet ends with the frame, and is malformed by its own length alone."""
    for size, fault in ((0, Fault(0)), (300, Fault.MALFORMED)):
        frame = ethernet(0x0800, ip4(ip4(bytes(200), size=size), protocol=4, size=2000))
        layer = inner_layers(frame)
        assert (layer.begin, layer.end, layer.faults) == (34, len(frame), fault)
        assert layer == software(frame)


def test_many_frames_are_never_read_past_their_end():
    for frame in inner_frames(random.Random(SEED), 500):
        layer = inner_layers(frame)
        assert 0 <= layer.begin <= layer.end <= len(frame)
        assert layer.version == Version.OTHER or layer.end - layer.begin >= 20


def test_headers_in_order():
    """Each header has its kind, and layer 3 is known after its own header."""
    headers = [*inner_headers(TUNNELS["VXLAN"])]
    udp = IP_PROTOCOL + 17
    kinds = [BRIDGED, IP4, udp, UDP_PORT + 4789, IP4, udp]
    assert [kind for kind, _ in headers] == kinds
    assert [layers.begin for _, layers in headers] == [0, 14, 14, 14, 64, 64]
    assert [kind for kind, _ in inner_headers(FRAME[:20])] == [BRIDGED, NOTHING]


@pytest.mark.parametrize("width", [64, 512])
def test_copies_of_the_made_capture(width):
    """The pairs of `lately dedup --inner`, except those of encapsulations that hardware lacks."""
    with CaptureReader(MADE / "encapsulated-copies.pcap") as capture:
        packets = capture.read()
    pairs = [[packets.frame(number), packets.frame(number + 1)] for number in range(0, 30, 2)]
    duplicates = {
        inner: {
            number
            for number, pair in enumerate(pairs)
            if len(FrameDeduplicator(SPEC, width=width, inner=inner).perform(pair, [0, 0])) == 1
        }
        for inner in (False, True)
    }
    # MPLS, VXLAN, GRE, GTP-U and IPIP.
    assert duplicates[True] - duplicates[False] == {0, 2, 3, 5, 6}
    assert duplicates[False] <= duplicates[True]


def test_verdicts():
    """A packet and its copies in tunnels are one packet."""
    model = FrameDeduplicator(SPEC, inner=True)
    copies = [FRAME, TUNNELS["VXLAN"], ethernet(0x0800, ip4(vxlan(LAYER2["one label"])))]
    assert len(model.perform(copies, [0] * 3)) == 1
