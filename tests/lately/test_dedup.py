"""Captures without the packets that were seen lately, and captures of two taps."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import re
import signal
import struct
import subprocess
from dataclasses import replace

import dpkt
import lz4.frame
import numpy as np
import pytest
import zstandard
from capture_files import MADE, RAW, block, interface, option, packet, pcap, section
from cases import daily
from command_runs import figures_of, lately
from protocol_frames import PROTOCOLS, frame, timed_capture

from lately.captures.capture_files import CaptureFiles
from lately.captures.capture_reader import CaptureReader
from lately.captures.two_taps import MadePackets, Taps, tap
from lately.cli.reporting import interruptible
from lately.dedup.deduplicate import (
    ENGINES,
    MAX_ELAPSED,
    CaptureWriter,
    Deduplication,
    Marks,
    PacketClock,
    PacketOracle,
    deduplicate,
)
from lately.dedup.window import MAX_SPAN, SLACK, dedup_spec
from lately.golden.compilation import VARIABLE
from lately.golden.packets.comparison import HARDWARE_FIELDS, Comparison, Field
from lately.golden.packets.packet_layers import Reach
from lately.planner.requirement import RequirementError
from lately.replay.traces import TraceError
from lately.sim.bench.packets import ethernet, ip4, ip6, udp

MS = 10**6
SPAN, WINDOW = 10 * MS, 200
SPEC, TICK = dedup_spec(SPAN, WINDOW, 1e-6)
WHAT = Deduplication(span=SPAN, window=WINDOW, spec=SPEC, tick=TICK)


def what_for(span, window, fpr=1e-9, **options):
    spec, tick = dedup_spec(span, window, fpr)
    return Deduplication(span=span, window=window, spec=spec, tick=tick, **options)


def write(folder, content, name="capture"):
    path = folder / name
    path.write_bytes(content)
    return path


def run(path, settings=WHAT, mark=None, **options):
    """Result and output of a deduplication."""
    output = io.BytesIO()
    outputs = [CaptureWriter(output), *([mark] * bool(mark))]
    with CaptureFiles([path]) as capture:
        return deduplicate(capture, outputs, settings, **options), output.getvalue()


def kept(path, settings=WHAT):
    """Numbers of the packets that are kept, from 0."""
    marks = io.BytesIO()
    result, _ = run(path, settings, mark=Marks(marks))
    dropped = {int(line.split(b",")[0]) - 1 for line in marks.getvalue().splitlines()[1:]}
    assert len(dropped) == result.dropped
    return [index for index in range(result.packets) if index not in dropped]


# What is a duplicate


def edges():
    """Name, packets of (time, number) and those that stay, from 0."""
    begin, longest, hour = 10**18, SPAN + int(SPAN * SLACK) + 2 * TICK, 3600 * 10**9
    # Up to the span a packet is seen; past span, slack and a tick it is not.
    for phase in (0, 1, TICK - 1):
        times = [0, phase, phase + SPAN, phase + SPAN + longest]
        packets = [(begin + phase + time, int(at > 0)) for at, time in enumerate(times)]
        yield f"span from {phase}", packets, [0, 1, 3]
    yield "from the last copy on", [(at * SPAN, 1) for at in range(20)], [0]
    # As many packets as the window may come between two copies within the span.
    numbers = [1, *range(2, WINDOW + 1), 1]
    yield "window", [(begin + at, entry) for at, entry in enumerate(numbers)], [*range(WINDOW)]
    # A packet that is late by the span counts as the latest; one more nanosecond is a step.
    yield "late", [(begin, 1), (begin - SPAN, 1)], [0]
    yield "step", [(begin, 1), (begin - SPAN - 1, 1)], [0, 1]
    # Hellos every 10 s: the clock goes back by an hour, or one packet comes from the future.
    hellos = [(begin + 10**10 * at, 1) for at in range(40)]
    for name, packets in (
        ("back", hellos[:20] + [(time - hour, entry) for time, entry in hellos[20:]]),
        ("future", [(begin + hour, 2), *hellos]),
        ("among", [*hellos[:20], (hellos[20][0] + hour, 1), *hellos[20:]]),
    ):
        yield name, packets, [*range(len(packets))]


@pytest.mark.parametrize(
    ("packets", "left"), [pytest.param(*row[1:], id=row[0]) for row in edges()]
)
def test_edges(tmp_path, packets, left):
    path = write(tmp_path, pcap([(time, frame(entry)) for time, entry in packets], nano=True))
    assert kept(path) == left == exact(packets, WHAT)[0]
    result = run(path)[0]
    late, steps = exact(packets, WHAT)[1:]
    assert (result.late, result.clock_steps) == (late, steps)
    assert result.latest == (SPAN if late else 0)


def test_more_than_the_window(tmp_path):
    """It does not remember the first, and says so."""
    numbers = [1, *range(2, 3 * WINDOW), 1]
    packets = [(10**18 + index, frame(number)) for index, number in enumerate(numbers)]
    path = write(tmp_path, pcap(packets, nano=True))
    assert kept(path) == list(range(3 * WINDOW))
    assert 0 < run(path)[0].shortened < 2 * WINDOW


def test_compiled_and_plain_loops_are_the_same(monkeypatch):
    """The time that passes, through steps back to its end."""
    seed = 23
    random = np.random.default_rng(seed)
    times = random.choice([-1, 0, 5, 90, 100, 10**6, 1 << 61], 3000) + random.integers(0, 9, 3000)
    times = [np.where(part < 8, part, np.cumsum(part) % (1 << 62)) for part in (times, times[:99])]
    # Late by the span, and then by one more.
    times.insert(0, np.array([1000, 950, 949]))
    outcome = []
    for value in "10":
        monkeypatch.setenv(VARIABLE, value)
        clock = PacketClock(50, 1 << 58)
        outcome.append(([clock.follow(part).tolist() for part in times], clock.state))
    assert outcome[0] == outcome[1], seed
    state = outcome[0][1]
    assert min(state[2:]) > 0, seed
    assert state.elapsed >= MAX_ELAPSED, seed


def exact(packets, settings):
    """What the definition keeps of (time or None, key), from 0; times late and steps back."""
    latest = next((time for time, _ in packets if time is not None), 0)
    last, left, late, steps = {}, [], 0, 0
    for number, (time, key) in enumerate(packets):
        if time is not None and time < latest - settings.span:
            steps, latest = steps + 1, time
        elif time is not None:
            late += time < latest
            latest = max(latest, time)
        era, then, position = last.get(key, (None, 0, 0))
        seen = (
            era == steps and latest - then <= settings.span and number - position <= settings.window
        )
        left += [] if seen else [number]
        last[key] = steps, latest, number
    return left, late, steps


@pytest.mark.parametrize(
    "windows", daily(1, [[*range(1, 10), *range(60, 70), *range(120, 201, 10)], range(1, 201)])
)
def test_window_is_a_bound(tmp_path, monkeypatch, windows):
    """A copy is dropped up to the window, and no further back, whatever the window is."""
    monkeypatch.setattr("lately.captures.capture_reader.BUFFER", 1 << 16)
    monkeypatch.setattr("lately.captures.capture_reader._PACKETS", 1000)
    random = np.random.default_rng(7)
    for window in windows:
        settings = what_for(50 * MS, window)
        distances = [1, 64, 65, 127, 128, *range(window - 1, window + 3)]
        distances += [window * parts // 4 for parts in (5, 6, 8)]
        keys = [*range(2 * window + 130)]
        for distance in random.permutation(distances * 2):
            keys += [keys[-distance] if distance else keys[-1], 1000 + len(keys)]
        packets = [(10**18 + number, key) for number, key in enumerate(keys)]
        path = write(tmp_path, timed_capture(packets))
        assert kept(path, settings) == exact(packets, settings)[0], window


@pytest.mark.parametrize("seed", range(8))
def test_definition(tmp_path, seed):
    """Steps of the clock, disorder and packets without a time, against the definition."""
    random = np.random.default_rng(seed)
    settings, cluster, packets = what_for(SPAN, 12), 10**6, []
    for _ in range(1500):
        cluster += int(random.choice([0, 1, -1, 500, -500], p=[0.94, 0.02, 0.02, 0.01, 0.01]))
        time = 3 * SPAN * cluster + int(random.choice([0, 1, SPAN // 2, SPAN - 1, SPAN]))
        packets.append((None if random.random() < 0.1 else time, int(random.integers(30))))
    path = write(tmp_path, timed_capture(packets))
    left, late, steps = exact(packets, settings)
    assert kept(path, settings) == left
    oracle = PacketOracle(settings.spec, settings.span, settings.window)
    result = run(path, settings, oracle=oracle)[0]
    assert (result.late, result.clock_steps) == (late, steps)
    assert late > 300
    assert steps > 10
    assert result.latest == SPAN
    assert result.untimed == sum(time is None for time, _ in packets)
    outcome = oracle.finish()
    assert (outcome.lost_uniques, outcome.passed_duplicates) == (0, 0)
    assert outcome.duplicates == result.dropped == len(packets) - len(left)


def test_too_many_steps(tmp_path):
    """What passes at steps does not overflow."""
    settings = what_for(MAX_SPAN, 12, 1e-3)
    path = write(tmp_path, timed_capture([(time << 61, 1) for time in 4 * (1, 0)]))
    with pytest.raises(TraceError, match=r"^time: more than 2\*\*62 ns accumulated, because"):
        run(path, settings)


def test_no_specification():
    with pytest.raises(RequirementError, match=r"^fpr: must be above 0 and below 1, not 2"):
        dedup_spec(SPAN, WINDOW, 2)
    assert dedup_spec(100, 1, 0.5)[1] == 1
    with pytest.raises(
        RequirementError, match=r"^no filter meets --span 1 ns and --fpr 0\.5; try a longer"
    ):
        dedup_spec(1, 1, 0.5)


def test_fields(tmp_path):
    entry, other = (
        ethernet(0x0800, ip4(udp(b"a"), ttl=ttl, tos=tos), tags=tags, macs=bytes([ttl] * 12))
        for ttl, tos, tags in ((64, 0, []), (63, 4, [5]))
    )
    path = write(tmp_path, pcap([(0, entry), (1000, other)]))

    def left(fields):
        return kept(path, replace(WHAT, compared=Comparison(fields)))

    assert left(Field.NONE) == [0]
    assert [left(field) for field in HARDWARE_FIELDS] == [[0, 1]] * 5


# What is written


def test_pcap_is_kept_but_for_duplicates(tmp_path):
    packets = [(1000 * index, frame(number)) for index, number in enumerate([1, 2, 1, 3, 3, 4, 1])]
    for options in ({}, {"big": True}, {"nano": True}):
        result, content = run(write(tmp_path, pcap(packets, **options)))
        expected = pcap([packets[index] for index in (0, 1, 3, 5)], **options)
        assert content == expected
        assert (result.packets, result.dropped) == (7, 3)
        assert result.bytes_written == len(expected)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_keeps_all_blocks(tmp_path, order):
    names, unknown = block(4, bytes(8), order), block(0xBAD, b"?", order)
    head = section(order) + interface(order=order) + names
    more = interface(link=RAW, order=order)
    entry, again = (packet(t, frame(1), order=order) for t in (1, 2))
    raw = packet(3, frame(1)[14:], interface=1, order=order)
    other = packet(4, frame(2), order=order)
    parts = [head, entry, unknown, again, more, raw, other, names, section(), interface()]
    parts += [packet(5, frame(2)), packet(6, frame(3)), block(0xBAD, b"?")]
    # The same packet on another link, and in another section, is the same.
    dropped = (3, 5, 10)
    result, content = run(write(tmp_path, b"".join(parts)))
    assert content == b"".join(p for index, p in enumerate(parts) if index not in dropped)
    assert (result.packets, result.dropped) == (6, 3)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("variable", ["0", "1"])
@pytest.mark.parametrize("room", [64, 256, 1 << 22])
def test_blocks_that_must_not_be_copied(tmp_path, order, variable, room, monkeypatch):
    """They are left out, wherever they are; what dropped packets tell is summed."""
    monkeypatch.setenv(VARIABLE, variable)
    monkeypatch.setattr("lately.captures.capture_reader.BUFFER", room)
    secret = block(0x40000BAD, struct.pack(f"{order}I", 32473) + b"keep", order)
    tell = option(1, b"comment", order) + option(4, struct.pack(f"{order}Q", 7), order)
    tell += option(2, bytes(4), order) + option(0, b"", order)
    entry, again = (packet(t, frame(1), order=order, options=tell) for t in (1, 2))
    last = packet(3, frame(1), order=order, options=option(4, struct.pack(f"{order}Q", 5), order))
    head = section(order, length=5000), interface(order=order)
    parts = [*head, block(0xBAD, b"?", order), entry, again, packet(4, frame(2), order=order), last]
    content = secret.join(2 * parts) + 2 * secret
    result, kept = run(write(tmp_path, content))
    assert kept == section(order) + b"".join(parts[1:4] + parts[5:6]) + section(order) + b"".join(
        parts[1:3]
    )
    assert (result.packets, result.dropped, result.damages) == (8, 6, [])
    assert (result.comments, result.drop_counts) == (3, 31)
    result, kept = run(write(tmp_path, content[:-3]))
    assert result.missing_bytes == len(secret) - 3


@pytest.mark.parametrize("order", ["<", ">"])
def test_section_length_is_unknown(tmp_path, order, monkeypatch):
    """A section gets shorter than its header says, so the header says nothing."""
    monkeypatch.setattr("lately.captures.capture_reader.BUFFER", 256)
    parts = [interface(order=order), *(packet(n, frame(n // 2), order=order) for n in range(20))]
    wrong = 3 * (section(order, length=len(b"".join(parts))) + b"".join(parts))
    right = section(order) + parts[0] + b"".join(parts[1::2])
    more = section(order) + parts[0]
    result, content = run(write(tmp_path, wrong))
    assert content == right + more + more
    assert (result.packets, result.dropped) == (60, 50)


def test_made_captures():
    """Captures that show one feature each give the right results."""
    settings = what_for(50 * MS, 65_536)
    result, content = run(MADE / "section-length.pcapng", settings)
    assert (result.packets, result.dropped) == (11, 5)
    at = content.index(b"\n\r\r\n", 4)
    assert content[16:24] == content[at + 16 : at + 24] == b"\xff" * 8
    assert run(MADE / "kuznetzov.pcap", settings)[0].packets == 8
    assert run(MADE / "cut-other-lengths.pcap", settings)[0].dropped == 0


TUNNELED, UNSUMMED = {5, 7, 9, 11, 13}, {27}


@pytest.mark.parametrize(
    ("compared", "left"),
    [
        (Comparison(Field.FRAME), set(range(30))),
        (Comparison(), TUNNELED | UNSUMMED),
        (Comparison(reach=Reach.INNER), UNSUMMED),
        (Comparison(Field.TOS | Field.NO_CHECKSUM), TUNNELED),
        (Comparison(Field.TOS | Field.NO_CHECKSUM, Reach.INNER), set()),
    ],
)
@pytest.mark.parametrize("variable", ["0", "1"])
def test_made_copies(compared, left, variable, monkeypatch):
    """Of 15 pairs, all are found with the right options, and none that an option does not name."""
    monkeypatch.setenv(VARIABLE, variable)
    settings = what_for(50 * MS, 65_536, compared=compared)
    outcome = set(kept(MADE / "encapsulated-copies.pcap", settings))
    assert outcome == left | set(range(0, 30, 2))


def test_what_is_told(tmp_path):
    late = 5000
    packets = [
        (10 * MS, frame(1)),
        (10 * MS - late, frame(2)),
        (11 * MS, frame(3)[:50], len(frame(3))),
        (12 * MS, ethernet(0x0800, b"\x55" * 30)),
        (13 * MS, ethernet(0x86DD, ip6(udp(b"")))),
        (14 * MS, ethernet(0x0806, bytes(28))),
    ]
    result, content = run(write(tmp_path, pcap(packets, nano=True) + b"cut"))
    assert content == pcap(packets, nano=True)
    assert (result.malformed, result.cut, result.missing_bytes) == (1, 1, 3)
    assert result.versions == {"other": 1, "control": 1, "ip4": 3, "ip6": 1}
    assert (result.late, result.latest, result.untimed) == (1, late, 0)
    simple = block(3, (70).to_bytes(4, "little") + frame(1)[:40])
    result, _ = run(write(tmp_path, section() + interface() + 2 * simple))
    assert (result.packets, result.dropped, result.untimed, result.cut) == (2, 1, 2, 2)


def test_without_packets(tmp_path):
    result, content = run(write(tmp_path, pcap([])))
    assert (result.packets, content) == (0, pcap([]))


# Two taps


def taps(extra, source=None, count=3000, seed=3):
    output, truth = io.BytesIO(), io.BytesIO()
    result = tap(source or MadePackets(count, seed=seed), output, extra, truth=truth)
    return result, output.getvalue(), list(csv.DictReader(truth.getvalue().decode().splitlines()))


def test_made_packets_are_right():
    output = taps(Taps(loss=0.5), count=5000)[1]
    frames = [frame for _, frame in dpkt.pcap.Reader(io.BytesIO(output))]
    assert {len(frame) for frame in frames} == {60, 590, 1514}
    for content in frames[:500]:
        packet = dpkt.ethernet.Ethernet(content)
        assert dpkt.in_cksum(content[14:34]) == 0
        assert packet.data.len == len(content) - 14
        assert packet.data.data.ulen == len(content) - 34
    assert output == taps(Taps(loss=0.5), count=5000)[1]


@pytest.mark.parametrize(
    "extra",
    [
        Taps(delay=0),
        Taps(delay=50_000, jitter=100_000, loss=0.1, vlan=7, hops=1),
        # The first of two copies may be the second tap's.
        Taps(delay=3 * MS, jitter=5 * MS, loss=0.5, hops=255),
    ],
)
def test_copies_are_what_is_dropped(tmp_path, extra):
    result, content, truth = taps(extra)
    lines = list(dpkt.pcap.Reader(io.BytesIO(content)))
    assert [int(line["number"]) for line in truth] == list(range(1, len(lines) + 1))
    assert [time for time, _ in lines] == sorted(time for time, _ in lines)
    assert (result.packets, result.first + result.second) == (3000, len(lines))
    assert sum(int(line["copy"]) for line in truth) == result.copies
    left = kept(write(tmp_path, content), what_for(SPAN, 5000))
    assert left == [index for index, line in enumerate(truth) if line["copy"] == "0"]
    seen = set()
    for line in truth:
        assert (line["source"] in seen) == (line["copy"] == "1")
        seen.add(line["source"])


def test_second_tap(tmp_path):
    """It tags, and takes from TTL and hop limit, but not below 1; checksums stay right."""
    frames = [
        ethernet(0x0800, ip4(udp(b"a"), ttl=ttl, checksum=checksum(ttl))) for ttl in (64, 2, 1)
    ]
    frames += [ethernet(0x86DD, ip6(udp(b"a"), limit=9)), ethernet(0x0806, bytes(28)), b"short"]
    path = write(tmp_path, pcap([(t, f) for t, f in enumerate(frames)], nano=True))
    with CaptureReader(path) as capture:
        _, content, truth = taps(Taps(delay=100, vlan=0x123, hops=3), capture)
    outcome = [frame for _, frame in dpkt.pcap.Reader(io.BytesIO(content))]
    assert outcome[:6] == frames
    assert [line["tap"] for line in truth] == ["1"] * 6 + ["2"] * 6
    assert all(f[12:16] == b"\x81\0\x01\x23" for f in outcome[6:11])
    untagged = [f[:12] + f[16:] for f in outcome[6:11]]
    assert [f[22] for f in untagged[:3]] == [61, 1, 1]
    assert all(dpkt.in_cksum(f[14:34]) == 0 for f in untagged[:3])
    assert untagged[3][21] == 6
    assert [untagged[4], outcome[11]] == frames[4:]


def checksum(ttl):
    return dpkt.in_cksum(ip4(udp(b"a"), ttl=ttl)[:20])


def test_taps_of_what_they_cannot_write(tmp_path):
    two = (
        section() + interface() + interface(link=RAW) + packet(1, b"") + packet(2, b"", interface=1)
    )
    with (
        CaptureReader(write(tmp_path, two)) as capture,
        pytest.raises(TraceError, match="has packets of link types 1 and 101"),
    ):
        taps(Taps(), capture)
    with (
        CaptureReader(write(tmp_path, pcap([(0, b"")], link=RAW))) as capture,
        pytest.raises(TraceError, match="--vlan needs Ethernet frames, not link type 101"),
    ):
        taps(Taps(vlan=1), capture)


# The exact oracle


def test_oracle():
    """Each of the cases, at the edges of span and window."""
    oracle = PacketOracle(SPEC, SPAN, 3)
    keys = np.array([1, 2, 3, 1, 2, 9, 9, 9, 4, 4], np.uint64)
    elapsed = np.array([0, 0, 0, 0, 0, 0, SPAN, 2 * SPAN + 1, 9 * SPAN, 9 * SPAN + 1], np.int64)
    dropped = np.array([0, 1, 0, 1, 0, 0, 1, 1, 0, 0], np.bool_)
    oracle.add(keys[:6], elapsed[:6], elapsed[:6] // TICK, dropped[:6], 0.25)
    oracle.add(keys[6:], elapsed[6:], elapsed[6:] // TICK, dropped[6:], 0.5)
    outcome = oracle.finish()
    assert (outcome.equal, outcome.duplicates) == (5, 4)
    # The copies of 2 and of 4 passed; the first 2 and the last 9 were lost, the latter remembered.
    assert (outcome.passed_duplicates, outcome.lost_uniques, outcome.remembered) == (2, 2, 1)
    assert outcome.fresh == 5
    assert outcome.expected == 4 * 0.25 + 0.5
    figures = outcome.figures()
    assert (figures["false_positives"], figures["false_positive_rate"]) == (1, 0.2)
    assert figures["predicted_false_positive_rate"] == 0.3


def test_oracle_finds_false_positives(tmp_path):
    """A filter that is too small drops as many packets as its bits let expect."""
    content = taps(Taps(loss=0.3), count=20_000)[1]
    settings = what_for(50 * MS, 2000, 0.2)
    oracle = PacketOracle(settings.spec, 50 * MS, 2000)
    result, _ = run(write(tmp_path, content), settings, oracle=oracle)
    outcome = oracle.finish().figures()
    assert outcome["lost_uniques"] - outcome["remembered"] == outcome["false_positives"] > 50
    low, high = outcome["false_positive_interval"]
    assert low < 1.3 * outcome["predicted_false_positive_rate"] < 1.7 * high
    assert (
        outcome["duplicates"] - outcome["passed_duplicates"] + outcome["lost_uniques"]
        == result.dropped
    )


@pytest.mark.rtl
@pytest.mark.slow
def test_hardware(tmp_path):
    """The compiled unit drops what the golden model drops, in the same status."""
    extra = Taps(delay=50_000, jitter=100_000, loss=0.2, hops=1)
    path = write(tmp_path, taps(extra)[1])
    golden, hardware = (run(path, what_for(MS, 64, 0.05, engine=engine)) for engine in ENGINES)
    assert hardware[1] == golden[1]
    assert (hardware[0].mismatches, golden[0].mismatches) == (0, None)
    assert hardware[0].dropped == golden[0].dropped > 1500
    assert hardware[0].shortened > 0


def test_engine_wrong(tmp_path):
    with pytest.raises(ValueError, match="engine: must be one of golden, rtl, not 'fpga'"):
        run(write(tmp_path, pcap([])), replace(WHAT, engine="fpga"))


# The command


def unzstd(packed):
    return zstandard.ZstdDecompressor().stream_reader(packed).read()


def unlz4(packed):
    return lz4.frame.decompress(packed)


def read_packets(content):
    return list(dpkt.pcap.Reader(io.BytesIO(content)))


def test_command(tmp_path):
    made, out, marks, truth = (tmp_path / name for name in ("made", "out", "marks", "truth"))
    lately("tap", "generator", made, "--packets", 2000, "--hops", 1, "--truth", truth)
    arguments = ["dedup", made, out, "--verify", "--mark", marks, "--window", 5000]
    figures = json.loads(lately(*arguments, "--json").stdout)
    assert (figures["packets"], figures["dropped"]) == (4000, 2000)
    check = figures["check"]
    assert (check["duplicates"], check["lost_uniques"], check["passed_duplicates"]) == (2000, 0, 0)
    copies = [
        row["number"]
        for row in csv.DictReader(truth.read_text().splitlines())
        if row["copy"] == "1"
    ]
    listed = list(csv.DictReader(marks.read_text().splitlines()))
    assert [row["number"] for row in listed] == copies
    assert listed[0]["time"].startswith("1700000000.000")
    assert len({row["digest"] for row in listed}) == 2000
    assert "2,000   seen within 50 ms and 5,000 packets; 50% of all" in lately(*arguments).stdout
    # In place, and of what has no duplicates any more.
    before = out.read_bytes()
    lately("dedup", out, out)
    assert out.read_bytes() == before


def test_command_with_rules(tmp_path):
    """The report names the rules."""
    pairs, out = MADE / "encapsulated-copies.pcap", tmp_path / "out"
    options = ["--inner", "--fields", "tos,no-checksum", "--tpid", "9400", "--bytes", 90,
               "--tunnel", "udp:37008:5:ethernet"]  # fmt: skip
    done = lately("dedup", pairs, out, *options, "--mask", "30:00FF", "--json", "--verify")
    figures = json.loads(done.stdout)
    assert (figures["dropped"], figures["check"]["passed_duplicates"]) == (15, 0)
    assert figures["rules"] == {
        "fields": "tos,no-checksum", "layer3": "innermost", "tag_types": ["9400"],
        "tunnels": ["udp:37008:5:ethernet"],
        "masks": ["30:00ff"], "skip": 0, "bytes": 90,
        "policy": "last-seen", "differs": None, "scope": "any", "by": "interface",
    }  # fmt: skip
    shown = lately("dedup", pairs, out, *options, "--mask", "30:00FF").stdout
    for line in ("fields of the innermost layer 3", "30:00ff   offset and bytes", "90   bytes of",
                 "udp:37008:5:ethernet   UDP port"):  # fmt: skip
        assert line in shown


@pytest.mark.slow
@pytest.mark.parametrize("skip", [14, 26])
def test_skipped_bytes_are_those_of_editcap(tmp_path, skip):
    pairs, ours, theirs = MADE / "encapsulated-copies.pcap", tmp_path / "ours", tmp_path / "theirs"
    lately("dedup", pairs, ours, "--fields", "frame", "--offset", skip, "--span", "1h")
    options = ["-F", "pcap", "-D", "100", "-I", str(skip)]
    subprocess.run(["editcap", *options, pairs, theirs], check=True, capture_output=True)
    records = [[frame for _, frame in read_packets(path.read_bytes())] for path in (ours, theirs)]
    assert records[0] == records[1]
    assert len(records[0]) < 30


def two_ports(number=40):
    """Packets that two ports mirror with another TTL, and some that one port sends again."""
    rows = []
    for n in range(number):
        rows += [(n, 0, 64), (n, 1, 63)]
        rows += [(n, 0, 64)] * (n % 3 == 0) + [(n, 1, 63)] * (n % 6 == 0)
    frames = [ethernet(0x0800, ip4(udp(bytes([n])), ttl=ttl)) for n, _, ttl in rows]
    blocks = [
        packet(1000 * at, frame, interface=port)
        for at, (frame, (_, port, _)) in enumerate(zip(frames, rows, strict=True))
    ]
    return rows, section() + interface() + interface() + b"".join(blocks)


@pytest.mark.parametrize("variable", ["0", "1"])
@pytest.mark.parametrize(
    ("options", "dropped"),
    [
        ([], lambda n, port, again: port or again),
        (["--policy", "first-seen"], lambda n, port, again: port or again),
        (["--differs", "ttl"], lambda n, port, again: port),
        (["--differs", "ttl", "--policy", "first-seen"], lambda n, port, again: port),
        (["--differs", "interface"], lambda n, port, again: port),
        (["--scope", "other"], lambda n, port, again: port),
        (["--scope", "same"], lambda n, port, again: again),
        (["--scope", "other", "--by", "vlan"], lambda n, port, again: False),
        (["--differs", "layer2"], lambda n, port, again: False),
    ],
)
def test_copies_and_repeats(tmp_path, options, dropped, variable, monkeypatch):
    """The oracle agrees, and what is dropped is as the packets were made."""
    monkeypatch.setenv(VARIABLE, variable)
    rows, content = two_ports()
    path, marks = write(tmp_path, content), tmp_path / "marks"
    done = lately(
        "dedup", path, tmp_path / "out", "--json", "--verify", "--mark", marks, *options
    )  # fmt: skip
    figures = json.loads(done.stdout)
    seen, expected = set(), []
    for at, (n, port, _) in enumerate(rows, 1):
        if dropped(n, port, (n, port) in seen):
            expected.append(str(at))
        seen.add((n, port))
    listed = [row["number"] for row in csv.DictReader(marks.read_text().splitlines())]
    assert listed == expected
    check = figures["check"]
    assert (check["lost_uniques"], check["passed_duplicates"]) == (0, 0)
    assert check["duplicates"] == len(expected)
    for name, value in zip(options[::2], options[1::2], strict=True):
        assert figures["rules"][name[2:]] == value
    shown = lately("dedup", path, tmp_path / "out", *options).stdout
    assert ("a copy differs from the kept packet" in shown) == ("--differs" in options)


def test_numbers_of_interfaces(tmp_path):
    """Of pcapng, of its section; of Linux in cooked captures 2; else 0."""
    blocks = packet(1, frame(1), interface=1) + packet(2, frame(1), interface=7)
    content = section() + interface() + interface() + blocks + block(3, bytes(4) + frame(1)[:8])
    simple = block(3, (8).to_bytes(4, "little") + frame(1)[:8])
    with CaptureReader(write(tmp_path, content + simple)) as capture:
        assert capture.read().interfaces.tolist() == [1, 7, 0, 0]
    cooked = b"\x08\0\0\0" + (70_000).to_bytes(4, "big") + bytes(12) + ip4(b"")
    with CaptureReader(write(tmp_path, pcap([(0, cooked), (1, b"short")], link=276))) as capture:
        assert capture.read().interfaces.tolist() == [70_000, 0]
    with CaptureReader(write(tmp_path, pcap([(0, cooked)]))) as capture:
        assert capture.read().interfaces.tolist() == [0]


def report(folder, content):
    """The figures that the command prints by their names, and as JSON."""
    path = write(folder, content)
    figures = json.loads(lately("dedup", path, folder / "out", "--json").stdout)
    text = lately("dedup", path, folder / "out").stdout
    return dict(re.findall(r"^ (\S+(?: \S+)*)  +(\S.*?) *$", text, re.MULTILINE)), figures


@pytest.mark.parametrize(
    ("name", "unpack"),
    [
        ("out.pcap.gz", gzip.decompress), ("out.zst", unzstd), ("out.gzip", bytes),
        ("out.xz", lzma.decompress), ("out.bz2", bz2.decompress), ("out.lz4", unlz4),
    ],
)  # fmt: skip
def test_output_is_compressed_as_its_name_says(tmp_path, name, unpack):
    path = write(tmp_path, pcap([(0, frame(1)), (1000, frame(1))]))
    figures = figures_of("dedup", path, tmp_path / name)
    expected = pcap([(0, frame(1))])
    assert unpack((tmp_path / name).read_bytes()) == expected
    assert figures["bytes_written"] == len(expected)
    # The output can be read again.
    lately("dedup", tmp_path / name, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == expected
    lately("tap", path, tmp_path / name)
    assert len(read_packets(unpack((tmp_path / name).read_bytes()))) == 4


def test_command_reads_cut_gzip(tmp_path):
    content = pcap([(0, frame(1)), (1, frame(2))])
    lines, figures = report(tmp_path, gzip.compress(content, 0)[:-20])
    assert figures["packets"] == 1
    assert figures["truncated"]
    left = 16 + len(frame(2)) - 12
    assert lines["missing"].startswith(f"{left}   bytes of an incomplete record at the end")
    assert (tmp_path / "out").read_bytes() == pcap([(0, frame(1))])
    lines, figures = report(tmp_path, gzip.compress(content)[:-1])
    assert (figures["packets"], figures["missing_bytes"]) == (2, 0)
    early = "; compressed data is incomplete, or other data follows it"
    assert lines["missing"].endswith(f"at the end; left out{early}")
    for pack in (zstandard.compress, lz4.frame.compress):
        for packed in (pack(content) + pack(b"")[:-1], pack(content) + b"x"):
            lines, figures = report(tmp_path, packed)
            assert (figures["packets"], figures["missing_bytes"]) == (2, 0)
            assert lines["missing"].endswith(early)


def test_every_run_has_a_secret_of_its_own(tmp_path):
    """No packet can be made whose digest will be that of another; what is dropped is the same."""
    path = write(tmp_path, pcap([(0, frame(1)), (0, frame(2)), (1, frame(1))]))
    runs = []
    for name in ("one", "other"):
        lately("dedup", path, tmp_path / "out", "--mark", tmp_path / name)
        runs.append([*csv.DictReader((tmp_path / name).read_text().splitlines())])
    entry, other = ([line["number"] for line in lines] for lines in runs)
    assert entry == other == ["3"]
    assert runs[0][0]["digest"] != runs[1][0]["digest"]


def test_damage_ends_a_file(tmp_path):
    """A damaged file is read up to its damage, and the command fails behind its figures."""
    whole, damage = pcap([(0, frame(1))]), b"\xff" * 16
    path, other = write(tmp_path, whole + damage), write(tmp_path, pcap([(1, frame(2))]), "other")
    done = lately("dedup", path, other, tmp_path / "out.gz", "--json", code=1)
    figures = json.loads(done.stdout)
    assert (figures["packets"], len(figures["damages"])) == (2, 1)
    assert "invalid record length (byte 116" in done.stderr
    assert (
        gzip.decompress((tmp_path / "out.gz").read_bytes())[24:]
        == (pcap([(0, frame(1)), (1, frame(2))])[24:])
    )
    # A file without its header is an error before any work.
    done = lately("dedup", path, write(tmp_path, b"text", "text"), tmp_path / "new", code=2)
    assert not (tmp_path / "new").exists()


def test_interrupts_are_heard_where_they_are_waited_for():
    with interruptible() as heard:
        assert not heard()
        os.kill(os.getpid(), signal.SIGINT)
        assert heard()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with interruptible() as heard:
        with heard.waiting():
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError
        assert heard()


def test_protocols(tmp_path):
    """Copies within 50 ms are dropped, whatever the protocol; hellos that come again pass."""
    times = [(10 * at, 10 * at + 1, 10 * at + 2000) for at in range(len(PROTOCOLS))]
    packets = sorted(
        (MS * entry, PROTOCOLS[at]) for at, three in enumerate(times) for entry in three
    )
    settings = what_for(50 * MS, 65_536, 1e-6)
    oracle = PacketOracle(settings.spec, 50 * MS, 65_536)
    result, content = run(write(tmp_path, pcap(packets, nano=True)), settings, oracle=oracle)
    outcome = oracle.finish()
    assert (outcome.equal, outcome.duplicates, result.dropped) == (
        2 * len(PROTOCOLS), len(PROTOCOLS), len(PROTOCOLS)
    )  # fmt: skip
    assert (outcome.lost_uniques, outcome.passed_duplicates) == (0, 0)
    assert result.malformed == 3 * 2
    assert [frame for _, frame in read_packets(content)] == 2 * PROTOCOLS
