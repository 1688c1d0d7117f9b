"""Captures: records, times and damage of both formats, beside another reader."""

import bz2
import gzip
import io
import lzma
import os
import random
import struct
import sys
from collections import deque
from functools import partial
from itertools import pairwise

import lz4.frame
import pytest
import zstandard
from capture_files import (
    MADE,
    MODIFIED,
    RAW,
    block,
    interface,
    option,
    packet,
    pcap,
    section,
)
from protocol_frames import PROTOCOLS
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, PcapWriter

from lately.captures import capture_loops as loops
from lately.captures import capture_reader
from lately.captures.capture_reader import CaptureReader
from lately.captures.two_taps import Taps, tap
from lately.golden.compilation import VARIABLE
from lately.golden.packets.packet_digest import packet_digest
from lately.replay.traces import TraceError, open_trace
from lately.sim.bench.packets import ethernet, ip4, ip6, udp

FRAMES = [ethernet(0x0806, bytes(size)) for size in (28, 46, 0, 1500, 3)]
TIMES = [10**18 + 1000 * index for index in range(len(FRAMES))]
RECORDS = list(zip(TIMES, FRAMES, strict=True))
RANDOM = random.Random(5)
PACK = {
    "gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress,
    "zstd": zstandard.compress, "lz4": lz4.frame.compress,
}  # fmt: skip
SIMPLE = section() + interface() + b"".join(packet(t // 1000, f) for t, f in RECORDS)


def read(path):
    """Packets as (time, frame, bytes on the line, link), the bytes handed out, and the reader."""
    result, content = [], b""
    with CaptureReader(path) as capture:
        while (packets := capture.read()) is not None:
            content += packets.buffer[packets.begin : packets.end].tobytes()
            rows = packets.table[[loops.TIME, loops.LENGTH, loops.LINK]].T.tolist()
            for index, (time, length, link) in enumerate(rows):
                result.append((time, packets.frame(index), length, link))
    assert capture.packets == len(result)
    return result, content, capture


def outcome(path):
    """As `read` finds it, or the message of the damage."""
    try:
        result, content, capture = read(path)
    except TraceError as error:
        return str(error)
    return result, content, capture.missing


def write(folder, content, name="capture"):
    path = folder / name
    path.write_bytes(content)
    return path


def whole(records=RECORDS, link=1):
    return [(time, frame, len(frame), link) for time, frame in records]


def test_snaplen(tmp_path):
    content = pcap([(TIMES[0], FRAMES[0], 1000), (TIMES[1], FRAMES[1], 3)], link=1 << 28 | 1)
    # A packet is never shorter than what was captured of it; checksums are no link type.
    assert [row[2:] for row in read(write(tmp_path, content))[0]] == [
        (1000, 1),
        (len(FRAMES[1]), 1),
    ]


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("version", [(2, 0), (2, 1), (2, 2), (2, 3), (543, 0), (2, 4)])
def test_old_versions(tmp_path, big, version):
    """The two lengths of a record are swapped in old versions, and in some files of 2.3."""
    records = [(*record, len(record[1]) + 9) for record in RECORDS[:3]]
    content = pcap(records, big=big, version=version, swapped=version != (2, 4))
    assert read(write(tmp_path, content))[:2] == ([(*record, 1) for record in records], content)
    if version == (2, 3):
        assert read(write(tmp_path, pcap(records, version=version)))[0][0][1] == FRAMES[0]


@pytest.mark.parametrize("big", [False, True])
def test_modified_pcap(tmp_path, big, monkeypatch):
    """Records of the modified format have 8 bytes more before the packet."""
    monkeypatch.setattr(capture_reader, "BUFFER", 64)
    content = pcap(RECORDS, big=big, magic=MODIFIED)
    result, kept, capture = read(write(tmp_path, content))
    assert (result, kept, capture.format) == (whole(), content, "pcap")
    for cut in (1, 17, 18, 40):
        result, kept, capture = read(write(tmp_path, content[:-cut]))
        assert result == whole()[:-1]
        assert capture.missing == 24 + len(FRAMES[-1]) - cut
    assert len(read(MADE / "kuznetzov.pcap")[0]) == 8


@pytest.mark.parametrize(
    ("link", "limit"), [(1, 1 << 18), (249, 1 << 20), (279, 1 << 23), (231, 1 << 27)]
)
def test_longest_record(tmp_path, link, limit, monkeypatch):
    """Records are as long as libpcap allows for the type of the link."""
    head = pcap([(0, b"")], link=link)[:-8]
    assert read(write(tmp_path, head + struct.pack("<II", limit, limit)))[2].missing == 16
    with pytest.raises(TraceError, match="invalid record length"):
        read(write(tmp_path, head + struct.pack("<II", limit + 1, limit + 1)))
    large = (TIMES[0], bytes(300_000))
    if limit > len(large[1]):
        assert read(write(tmp_path, pcap([large], link=link)))[0] == whole([large], link)
        with CaptureReader(tmp_path / "capture") as capture:
            output = io.BytesIO()
            tap(capture, output, Taps())
        assert read(write(tmp_path, output.getvalue()))[0][0] == whole([large], link)[0]


@pytest.mark.parametrize(("link", "limit"), [(1, 1 << 24), (231, (1 << 27) + (1 << 17) + 32)])
def test_longest_block(tmp_path, link, limit):
    """A block has room for the longest packet of the interfaces of its section."""
    head = section() + interface(link=link)
    assert read(write(tmp_path, head + struct.pack("<II", 6, limit) + bytes(8)))[2].missing == 16
    with pytest.raises(TraceError, match="invalid record length"):
        read(write(tmp_path, head + struct.pack("<II", 6, limit + 4) + bytes(8)))


def test_link_of_more_bits(tmp_path):
    """Bits that are reserved belong to the type of the link, those of checksums do not."""
    assert read(write(tmp_path, pcap(RECORDS[:1], link=0x4400_0001)))[0][0][3] == 1
    assert read(write(tmp_path, pcap(RECORDS[:1], link=0x0001_0001)))[0][0][3] == 0x10001


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_versions(tmp_path, order):
    for version in ((1, 0), (1, 2)):
        assert read(write(tmp_path, section(order, version=version)))
    for version in ((0, 1), (1, 1), (1, 3), (2, 0)):
        path = write(tmp_path, section() + interface() + section(order, version=version))
        rule = r"the section version must be 1.0 or 1.2, not {}.{} \(byte 48, packet 1\)"
        with pytest.raises(TraceError, match=rule.format(*version)):
            read(path)


@pytest.mark.parametrize("size", [50, 60_000])
@pytest.mark.parametrize("kind", PACK)
def test_frames_cut_or_continued(tmp_path, kind, size):
    """Of several frames, all is read up to where one is cut, or other bytes follow."""
    content = pcap([(time, RANDOM.randbytes(size)) for time in range(0, 9000, 1000)])
    middle = 24 + 5 * (16 + size) + 30
    rows, parts = read(write(tmp_path, content))[0], (content[:middle], content[middle:])
    entry, two = map(PACK[kind], parts)
    cuts = sorted(two[:cut] for cut in (1, 5, *range(9, len(two), len(two) // 7), len(two) - 1))
    counts = []
    for more in [b"", b"PK\3\4", *cuts]:
        result, kept, capture = read(write(tmp_path, entry + more))
        assert (result, kept) == (rows[: len(result)], content[: len(kept)])
        assert capture.missing == (30 if more in (b"", b"PK\3\4") else capture.missing)
        assert capture.truncated == (more != b"")
        counts.append(len(result))
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (5, 9 if kind in ("gzip", "lz4", "xz") else counts[-1])
    skipped = b"\x5f\x2a\x4d\x18\4\0\0\0abcd" if kind in ("zstd", "lz4") else b""
    for more in (b"", bytes(4), skipped):
        result, _, capture = read(write(tmp_path, entry + more + two + more))
        assert (result, capture.truncated) == (rows, False)
    with pytest.raises(TraceError, match=f"damaged {kind} data: "):
        read(write(tmp_path, entry[:9]))


def test_wrong_checksum_loses_no_record(tmp_path):
    with CaptureReader(write(tmp_path, gzip.compress(pcap(RECORDS))[:-8] + bytes(8))) as capture:
        with pytest.raises(TraceError, match="damaged gzip data: "):
            deque(iter(capture.read, None), 0)
        assert capture.packets == len(RECORDS)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng(tmp_path, order):
    """Several interfaces and sections, with blocks between that nobody understands."""
    resolutions = [
        (b"", 10**6, 0), (b"\x09", 10**9, 0), (b"\x00", 1, 0), (b"\x0c", 10**12, 0),
        (b"\x8a", 2**10, 0), (b"\x9e", 2**30, 0), (b"\xa8", 2**40, 0), (b"\x09", 10**9, 7000),
    ]  # fmt: skip
    interfaces, packets, expected = b"", b"", []
    for index, (resolution, units, offset) in enumerate(resolutions):
        options = [option(2, b"eth0", order)]
        options += [option(9, resolution, order)] if resolution else []
        options += [option(14, struct.pack(f"{order}q", offset), order)] if offset else []
        interfaces += interface(*options, option(0, b"", order), link=100 + index, order=order)
        count = 12345 * units + units * 3 // 7
        packets += packet(count, FRAMES[0], interface=index, order=order, length=99)
        packets += block(0xBAD, b"unknown", order)
        expected.append((offset * 10**9 + count * 10**9 // units, FRAMES[0], 99, 100 + index))
    entry = section(order) + interfaces + packets
    other = section() + interface() + packet(5, FRAMES[1])
    result, kept, capture = read(write(tmp_path, entry + other))
    assert result == [*expected, (5000, FRAMES[1], len(FRAMES[1]), 1)]
    assert kept == entry + other
    assert capture.format == "pcapng"


def test_old_and_simple_packets(tmp_path):
    simple = block(3, struct.pack("<I", 100) + FRAMES[0])
    old = block(2, struct.pack("<HHIIII", 1, 9, 0, 3, len(FRAMES[1]), 200) + FRAMES[1])
    content = section() + interface(snaplen=len(FRAMES[0])) + interface(link=RAW) + simple + old
    assert read(write(tmp_path, content))[0] == [
        (loops.NO_TIME, FRAMES[0], 100, 1), (3000, FRAMES[1], 200, RAW),
    ]  # fmt: skip
    big = block(2, struct.pack(">HHIIII", 1, 9, 0, 3, len(FRAMES[1]), 200) + FRAMES[1], ">")
    content = section(">") + interface(order=">") + interface(link=RAW, order=">") + big
    assert read(write(tmp_path, content))[0] == [(3000, FRAMES[1], 200, RAW)]


def test_times_that_no_clock_has(tmp_path):
    """A time before 1970, one that does not fit, and an interface that was not described."""
    before = interface(option(14, struct.pack("<q", -10)))
    after = interface(option(14, struct.pack("<q", 1 << 62)))
    packets = packet(9_999_999, b"") + packet(10_000_000, b"") + packet(2**64 - 1, b"")
    packets += packet(1, b"", interface=1) + packet(1, b"", interface=2)
    result = read(write(tmp_path, section() + before + after + packets))[0]
    none = loops.NO_TIME
    assert [row[0] for row in result] == [none, 0, none, none, none]
    assert [row[3] for row in result] == [1, 1, 1, 1, -1]


@pytest.mark.parametrize(
    "content",
    [pcap(RECORDS[:3]), section() + interface() + packet(5, FRAMES[0]) + packet(6, FRAMES[2])],
    ids=["pcap", "pcapng"],
)
def test_cut_anywhere(tmp_path, content, monkeypatch):
    """Of a file that ends early, whole records are read, and the rest is counted."""
    monkeypatch.setattr(capture_reader, "BUFFER", 256)
    result, begun = read(write(tmp_path, content))[0], 24 if content[:1] == b"\xd4" else 0
    counts = []
    for size in range(max(begun, 4), len(content)):
        if begun or size >= 12:
            rows, kept, capture = read(write(tmp_path, content[:size]))
            assert rows == result[: len(rows)]
            assert kept + content[size - capture.missing : size] == content[:size]
            counts.append(len(rows))
    assert all(0 <= after - before <= 1 for before, after in pairwise(counts))
    assert counts[-1] == len(result) - 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a pcap or pcapng capture: it is empty"),
        (b"a,b\n", "not a pcap or pcapng capture: it begins with 61 2c 62 0a"),
        (b"PK\x03\x04data", "not a pcap or pcapng capture: it is compressed with zip"),
        (pcap([])[:23], "the header is incomplete: 23 of 24 bytes (byte 0, packet 1)"),
        *(
            (pcap([], version=other), "2.0 and 2.4, or 543.0, not {}.{}".format(*other))
            for other in ((1, 4), (2, 5), (3, 4), (543, 1))
        ),
        (pcap(RECORDS) + b"\xff" * 16, "invalid record length (byte 1,751, packet "),
        (section()[:8] + b"\1\2\3\4" + section()[12:], "magic in the section header: 01 02 03"),
        (section()[:24] + b"\0\0\0\0", "the lengths at both ends of the block differ"),
        (section()[:4] + b"\x18\0\0\0" + section()[8:], "invalid block length 24"),
        (SIMPLE + b"\6\0\0\0\x0d\0\0\0" + bytes(9), "invalid record length (byte "),
        (SIMPLE + b"\6\0\0\0\x10\0\0\0" + bytes(8), "invalid record length (byte "),
        (SIMPLE + block(6, bytes(16)), "invalid record length"),
        (SIMPLE + packet(1, b"abcd")[:20] + b"\5" + packet(1, b"abcd")[21:], "record length"),
        (section() + block(3, b""), "invalid record length"),
    ],
)  # fmt: skip
def test_damage(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(TraceError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_too_many_interfaces(tmp_path, monkeypatch):
    monkeypatch.setattr(capture_reader, "MAX_INTERFACES", 9)
    assert read(write(tmp_path, section() + 9 * interface() + section() + 9 * interface()))
    with pytest.raises(TraceError, match=r"a section has more than 9 interfaces \(byte 208"):
        read(write(tmp_path, section() + 10 * interface()))


def damaged(content, seed):
    """Copies of a capture with wrong bytes, each with a few that are numbers of headers."""
    draw = random.Random(seed)
    for _ in range(60):
        octets = bytearray(content)
        for _ in range(draw.randrange(4)):
            at = draw.randrange(24, len(octets) - 8)
            octets[at : at + 4] = struct.pack("<I", draw.choice([0, 12, 32, 1 << 31, 2**32 - 1]))
            octets[draw.randrange(24, len(octets))] = draw.randrange(256)
        yield bytes(octets[: draw.choice([len(octets), draw.randrange(24, len(octets))])])


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("form", ["pcap", "swapped", "pcapng"])
def test_compiled_and_plain_are_the_same(tmp_path, monkeypatch, form, big):
    """Packets, bytes handed out and errors, of captures with every kind of damage."""
    order, seed = ">" if big else "<", 17
    content = {
        "pcap": pcap(RECORDS, big=big, nano=True),
        "swapped": pcap(RECORDS, big=big, version=(2, 3), swapped=True),
        "pcapng": section(order)
        + b"".join(
            interface(option(9, bytes([unit]), order), order=order) for unit in (6, 9, 0xA8, 12)
        )
        + block(3, struct.pack(f"{order}I", 20) + bytes(20), order)
        + block(2, struct.pack(f"{order}HHIIII", 1, 0, 5, 6, 8, 9) + bytes(8), order)
        + b"".join(
            packet(t // 1000, f, interface=n, order=order) for n, (t, f) in enumerate(RECORDS)
        ),
    }[form]
    monkeypatch.setattr(capture_reader, "BUFFER", 64)
    outcomes = set()
    for number, octets in enumerate(damaged(content, seed)):
        path = write(tmp_path, octets)
        monkeypatch.setenv(VARIABLE, "1")
        result = outcome(path)
        monkeypatch.setenv(VARIABLE, "0")
        assert outcome(path) == result, (seed, number)
        outcomes.add(result if isinstance(result, str) else len(result[0]))
    assert len(outcomes) > 3, seed


@pytest.mark.parametrize("content", [pcap([]), section(), section() + interface()])
def test_without_packets(tmp_path, content):
    assert read(write(tmp_path, content))[:2] == ([], content)


@pytest.mark.parametrize("size", [64, 100, 4000])
def test_stretches(tmp_path, monkeypatch, size):
    """A record may be longer than what is read at a time; so may blocks without a packet."""
    monkeypatch.setattr(capture_reader, "BUFFER", size)
    monkeypatch.setattr(capture_reader, "_PACKETS", 3)
    long = block(0xBAD, bytes(3000))
    for content in (pcap(3 * RECORDS), SIMPLE + 5 * long + SIMPLE + long):
        result, kept, capture = read(write(tmp_path, content))
        assert [row[1] for row in result] == [*FRAMES] * (len(result) // 5)
        assert kept == content
        # Of many blocks that nobody understands, never more than one is waited for.
        assert len(capture._buffer) < 2 * 4000


@pytest.mark.parametrize("form", [*PACK, "pipe"])
def test_from_where(tmp_path, monkeypatch, form):
    content = pcap(RECORDS)
    packed = PACK.get(form, bytes)(content)
    if form == "pipe":
        source, sink = os.pipe()
        os.write(sink, packed)
        os.close(sink)
        with open(source) as file:
            monkeypatch.setattr(sys, "stdin", file)
            result, _, capture = read("-")
        assert (capture.name, capture.fraction) == ("standard input", None)
    else:
        result, _, capture = read(write(tmp_path, packed))
        assert capture.compression == form
        with pytest.raises(TraceError, match=f"damaged {form} data: "):
            read(write(tmp_path, packed[:9]))
    assert result == whole()


WRITERS = {
    "pcapng": PcapNgWriter,
    **{f"pcap {order}{' nano' * nano}": partial(PcapWriter, endianness=order, nano=nano, linktype=1)
       for order in "<>" for nano in (False, True)},
}  # fmt: skip


@pytest.mark.parametrize("form", WRITERS)
def test_captures_of_another_writer(tmp_path, form):
    """Frames of many protocols are those that scapy has written, at its times."""
    path = tmp_path / "capture"
    with WRITERS[form](str(path)) as writer:
        for at, frame in enumerate(PROTOCOLS):
            entry = Ether(frame)
            entry.time = 10**9 + at / 8
            writer.write(entry)
    result, kept, capture = read(path)
    assert kept == path.read_bytes()
    assert result == [
        (10**18 + at * 125_000_000, frame, len(frame), 1) for at, frame in enumerate(PROTOCOLS)
    ]
    shown = (capture.format, capture.compression, capture.missing)
    assert shown == (form.partition(" ")[0], "none", 0)


# Keys

QUERY = bytes.fromhex("1234 0100 0001 0000 0000 0000") + b"\3WWW\7example\3com\0\0\1\0\1"


def records(path, **options):
    with open_trace(path, **options) as trace:
        result = trace.read(100)
        assert trace.fraction == 1
        return result, trace


@pytest.mark.parametrize(
    ("key", "frame", "expected"),
    [
        ("five-tuple", ethernet(0x0800, ip4(udp(b""))), "10.0.0.1:1000 > 10.0.0.2:2000 udp"),
        ("five-tuple", ethernet(0x86DD, ip6(udp(b""))), "[::]:1000 > [::1]:2000 udp"),
        ("five-tuple", ethernet(0x0800, ip4(bytes(20), protocol=6)), "10.0.0.1:0 > 10.0.0.2:0 tcp"),
        ("five-tuple", ethernet(0x0800, ip4(b"abcd", protocol=1)), "10.0.0.1 > 10.0.0.2 1"),
        ("five-tuple", ethernet(0x0800, ip4(udp(b""), offset=9)), "10.0.0.1 > 10.0.0.2 17"),
        ("five-tuple", ethernet(0x0800, ip4(b"abc") + bytes(9)), "10.0.0.1 > 10.0.0.2 17"),
        ("five-tuple", ethernet(0x0806, bytes(28)), None),
        ("ip-id", ethernet(0x0800, ip4(b"", number=770), tags=[1]), "10.0.0.1 > 10.0.0.2 17 770"),
        ("ip-id", ethernet(0x86DD, ip6(b"")), None),
        ("dns-name", ethernet(0x0800, ip4(udp(QUERY, target=53))), "www.example.com"),
        ("dns-name", ethernet(0x86DD, ip6(udp(QUERY, source=53))), "www.example.com"),
        ("dns-name", ethernet(0x0800, ip4(udp(QUERY[:12] + b"\0\0\2\0\1", target=53))), "."),
        ("dns-name", ethernet(0x0800, ip4(udp(b"\0\0\x80" + QUERY[3:], target=53))), None),
        ("dns-name", ethernet(0x0800, ip4(udp(QUERY[:15], target=53))), None),
        ("dns-name", ethernet(0x0800, ip4(udp(QUERY[:12] + b"\xc0\x0c", target=53))), None),
        ("dns-name", ethernet(0x0800, ip4(udp(QUERY))), None),
        ("bytes:2:3", ethernet(0x0800, b""), "020304"),
        ("bytes:10:5", ethernet(0x0800, b""), None),
        ("digest", b"abc", f"{packet_digest(b'abc', 3, 1):016x}"),
    ],
)
def test_keys(tmp_path, key, frame, expected):
    # A second packet that has each of the keys, as a stream must have one.
    other = ethernet(0x0800, ip4(udp(QUERY, target=53)))
    content = pcap([(1000, frame), (2001, other)], nano=True)
    result, trace = records(write(tmp_path, content), key=key)
    assert (trace.format, trace.key, trace.time) == ("capture", (key,), "time")
    assert result[:-1] == ([] if expected is None else [(expected, 1000)])
    assert result[-1][1] == 2001
    assert trace.rejects.count == (expected is None)


def test_capture_as_a_stream(tmp_path):
    """It is known by its first bytes, compressed too; what is missing at its end is told."""
    content = pcap(RECORDS) + b"cut"
    result, trace = records(write(tmp_path, gzip.compress(content), "keys.csv"))
    assert [time for _, time in result] == TIMES
    assert trace.rejects.examples == [(6, "incomplete record of 3 bytes")]
    assert records(write(tmp_path, SIMPLE), format="capture")[0] == result
    cut, trace = records(write(tmp_path, gzip.compress(pcap(RECORDS))[:-4]))
    assert cut == result
    assert trace.rejects.examples == [(6, "gzip data is incomplete, or other data follows it")]
    simple = section() + interface() + block(3, b"\3\0\0\0abc")
    assert [time for _, time in records(write(tmp_path, simple))[0]] == [None]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"key": "mac"},
            r"key: must be one of digest, five-tuple, ip-id, .* for a capture, not 'm",
        ),
        ({"key": "bytes:1:0"}, r"key: must be one of digest"),
        ({"key": "digest,ip-id"}, r"key: must be a single packet key, not digest, ip-id"),
        ({"time": "when"}, r"time: not needed for a capture, which has its own times"),
        ({"format": "lines"}, r"must be text, but contains NUL bytes"),
    ],
)
def test_capture_wrong(tmp_path, options, message):
    with pytest.raises(TraceError, match=message):
        records(write(tmp_path, pcap(RECORDS)), **options)
    with pytest.raises(TraceError, match=r"no packets with a key; 5 packets were rejected \(p"):
        records(write(tmp_path, pcap(RECORDS)), key="ip-id")
    with pytest.raises(TraceError, match=r"not a pcap or pcapng capture: it begins with 61"):
        records(write(tmp_path, b"a\n"), format="capture")
