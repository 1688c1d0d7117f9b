"""Report on copies, against streams whose copies are known."""

import csv
import io
import json
import re
from collections import Counter
from functools import partial

import numpy as np
import pytest
from capture_files import interface, option, packet, pcap, section
from click.testing import CliRunner

from lately.captures.capture_files import CaptureFiles
from lately.captures.two_taps import MadePackets, Taps, tap
from lately.cli.app import main
from lately.dedup import copy_report
from lately.dedup.copy_report import BINS, EDGES, TIMES, CopyReport
from lately.dedup.deduplicate import Deduplication, deduplicate
from lately.dedup.window import dedup_spec
from lately.sim.bench.packets import ethernet, ip4, ip6, udp

MS = 10**6


def report(path, span=50 * MS, names=("in",)):
    spec, tick = dedup_spec(span, 65_536, 1e-9)
    settings = Deduplication(span=span, window=65_536, spec=spec, tick=tick)
    outcome = CopyReport(settings, list(names))
    with CaptureFiles([str(path)]) as capture:
        result = deduplicate(capture, [outcome], settings)
    return outcome, result


def ng(resolution, packets):
    """A pcapng file whose interface has a resolution of its times."""
    bits, power = resolution[0] & 0x7F, 2 if resolution[0] & 0x80 else 10
    rows = [packet(time * power**bits // 10**9, frame) for time, frame in packets]
    return section() + interface(option(9, resolution)) + b"".join(rows)


def two_taps(folder, options, count=3000):
    output, truth = io.BytesIO(), io.BytesIO()
    tap(MadePackets(count, rate=20_000), output, options, truth=truth)
    (folder / "taps").write_bytes(output.getvalue())
    return folder / "taps", list(csv.DictReader(truth.getvalue().decode().splitlines()))


@pytest.mark.parametrize("room", [1 << 16, 100])
def test_distances(tmp_path, room, monkeypatch):
    """Each copy is at the distance of its tap, and a repeat at the distance of its sender."""
    monkeypatch.setattr("lately.captures.capture_reader._PACKETS", room)
    options = Taps(delay=40_000, jitter=60_000, hops=1, repeats=0.2, repeat_after=200 * MS)
    path, truth = two_taps(tmp_path, options)
    outcome, result = report(path)
    copies = sum(row["copy"] == "1" for row in truth)
    again = sum(row["again"] == "1" and row["copy"] == "0" for row in truth)
    assert (outcome.distances.sum(axis=0) == (again, copies)).all()
    limits, filled = EDGES, np.flatnonzero(outcome.distances[:, 1])
    assert limits[filled[0]] <= 40.1e-6
    assert limits[filled[-1] + 1] >= 99e-6
    assert outcome.suggested_span == 200_000
    assert outcome.rates.sum(axis=0).tolist() == [result.packets - copies, copies]
    assert outcome.pairs["ttl"] == {(64, 63): copies}
    assert outcome.pairs["vlan"] == {(-1, -1): copies}
    # The suggested span finds the copies alone.
    assert report(path, outcome.suggested_span)[1].dropped == copies


def test_more_packets_at_a_time_than_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("lately.dedup.copy_report.KEPT", 1 << 8)
    monkeypatch.setattr("lately.dedup.copy_report._MAX_TOGETHER", 1 << 6)
    path, truth = two_taps(tmp_path, Taps(delay=40_000, hops=1))
    outcome, _ = report(path)
    assert outcome.distances.sum() == sum(row["copy"] == "1" for row in truth)
    assert np.count_nonzero(outcome.distances) == 1


def test_pairs_and_talkers(tmp_path):
    """Interfaces, tags and addresses of both packets, and the addresses of layer 3."""
    rows, ends = [], Counter()
    for number in range(60):
        header, kind = ((ip4, 0x0800), (ip6, 0x86DD))[number % 3 == 0]
        content = header(udp(number.to_bytes(4, "big")))
        rows.append(packet(1000 * number, ethernet(kind, content), interface=number % 2))
        tagged = ethernet(kind, content, tags=[number % 2 + 8], macs=bytes(range(12, 24)))
        rows.append(packet(1000 * number + 1, tagged, interface=2))
        ends[kind] += 1
    path = tmp_path / "in"
    path.write_bytes(section() + 3 * interface() + b"".join(rows))
    figures = report(path)[0].figures()
    assert figures["pairs"]["interface"] == [
        {"from": f"interface {n}", "to": "interface 2", "copies": 30} for n in range(2)
    ]
    assert figures["pairs"]["vlan"] == [
        {"from": "none", "to": str(n), "copies": 30} for n in (8, 9)
    ]
    entry = "06:07:08:09:0a:0b to 00:01:02:03:04:05"
    two = "12:13:14:15:16:17 to 0c:0d:0e:0f:10:11"
    assert figures["pairs"]["mac"] == [{"from": entry, "to": two, "copies": 60}]
    assert figures["talkers"] == [
        {"from": "10.0.0.1", "to": "10.0.0.2", "copies": ends[0x0800]},
        {"from": "::", "to": "::1", "copies": ends[0x86DD]},
    ]


def test_suggestions(tmp_path):
    """Nothing is suggested without a group that is near; a single near packet is no group."""
    assert report(write(tmp_path, []))[0].suggested_span is None
    hellos = [(10**10 * number, b"hello") for number in range(9)]
    assert report(write(tmp_path, hellos))[0].suggested_span is None
    outcome = report(write(tmp_path, []))[0]
    outcome.distances[4 * BINS] = 990
    outcome.distances[BINS, 0] = 1
    assert outcome.suggested_span == 50_000
    outcome.distances[5 * BINS] = 100
    assert outcome.suggested_span == 500_000


CLOCKS = {
    "microseconds": (1000, pcap),
    "nanoseconds": (1, partial(pcap, nano=True)),
    "hundreds of nanoseconds": (100, partial(ng, b"\x07")),
    "parts of 2**-20 s": (954, partial(ng, b"\x94")),
    "picoseconds": (1, partial(ng, b"\x0c")),
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_suggestions_respect_the_clock(tmp_path, clock):
    """What is nearer than a unit of the clock is one unit apart, and a span has ten at least."""
    unit, form = CLOCKS[clock]
    path = tmp_path / "in"
    # Less than a hundredth is no group; near the unit of 10 us, it joins the next one.
    count = 100 if unit > 900 else 200
    pairs = [(10**15 + MS * n, b"%060d" % n) for n in range(count)]
    far = [(time + (10_000 if at else 0), frame) for at, (time, frame) in enumerate(pairs)]
    path.write_bytes(form(sorted(pairs + far)))
    outcome, _ = report(path)
    assert outcome.suggested_span == 50_000
    assert EDGES[np.flatnonzero(outcome.distances)[0] // 2 + 1] * 1e9 > unit
    path.write_bytes(form(sorted(pairs + pairs)))
    assert 10 * unit <= report(path)[0].suggested_span < 100 * unit


def test_repeats_of_many_packets_are_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(copy_report, "EXACT", 1 << 9)
    monkeypatch.setattr("lately.captures.capture_reader._PACKETS", 100)
    path, truth = two_taps(tmp_path, Taps(delay=40_000, hops=1), 10_000)
    outcome, result = report(path)
    copies = sum(row["copy"] == "1" for row in truth)
    assert outcome.inputs.tolist() == [[result.packets - copies, copies]]
    assert outcome.rates.sum(axis=0).tolist() == [result.packets - copies, copies]
    assert outcome.figures()["sampled"]
    counts = outcome.distances.sum(), outcome.pairs["ttl"][64, 63], sum(outcome.talkers.values())
    assert counts == pytest.approx((copies, copies, copies), rel=0.15)
    assert outcome._packets < len(truth) / 2


def write(folder, packets):
    (folder / "in").write_bytes(pcap(packets, nano=True))
    return folder / "in"


def test_times_get_coarser(tmp_path):
    """Packets of a long capture stay in the parts of their times."""
    times = [*range(0, 1000, 10), *range(1000, 10**9, 10**6)]
    outcome, _ = report(write(tmp_path, [(time, time.to_bytes(8, "big")) for time in times]), 1000)
    assert TIMES // 2 <= -(-times[-1] // outcome.part) <= TIMES
    expected = np.bincount(np.array(times) // outcome.part, minlength=TIMES)
    assert outcome.rates.sum(axis=1).tolist() == expected.tolist()


def test_many_names_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(copy_report, "_NAMES", 8)
    frames = [ethernet(0x0800, ip4(b"", source=bytes([1, 2, 3, n // 2]))) for n in range(200)]
    path = write(tmp_path, [(1000 * n, entry) for n, entry in enumerate(frames)])
    assert len(report(path)[0].talkers) <= 100
    monkeypatch.setattr("lately.captures.capture_reader._PACKETS", 10)
    assert len(report(path)[0].talkers) <= 8


def test_dry_run(tmp_path):
    """Nothing is written, and the figures and lines have the report."""
    path, truth = two_taps(tmp_path, Taps(hops=1), 500)
    done = CliRunner().invoke(main, ["dedup", str(path), "--dry-run", "--json"])
    figures = json.loads(done.stdout)
    assert figures["dry_run"]
    assert figures["dropped"] == sum(row["copy"] == "1" for row in truth)
    assert figures["copies"]["suggested_span_seconds"] == 20e-6
    shown = CliRunner().invoke(main, ["dedup", str(path), "--dry-run"]).stdout
    assert re.search(r"suggested span +20 us   twice the longest", shown)
    assert re.search(r"ttl +500   copies: 64, then 63", shown)
    assert "bytes written" not in shown
    (tmp_path / "other").write_bytes(path.read_bytes())
    # The last of several paths is OUT, also if it exists.
    for paths in ([path, tmp_path / "out"], [path, tmp_path / "other"], [path, path, "none/out"]):
        arguments = ["dedup", *map(str, paths), "--dry-run"]
        done = CliRunner().invoke(main, [*arguments, "--json"])
        figures = json.loads(done.stdout)
        assert figures["capture"]["unused"] == str(paths[-1])
        assert [row["packets"] for row in figures["copies"]["inputs"]] == [1000] * (len(paths) - 1)
        assert figures["dropped"] == 500 + 1000 * (len(paths) - 2)
        shown = CliRunner().invoke(main, arguments).stdout
        assert f"{paths[-1]} is neither read nor written" in shown
        assert len(re.findall(r"^ input ", shown, re.MULTILINE)) == (len(paths) == 3) * 2
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["other", "taps"]
