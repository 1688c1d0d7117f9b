"""Streams with known copies: in tunnels, out of order, and with packets that were sent again."""

import csv

import dpkt
import numpy as np
import pytest
from command_runs import figures_of

from lately.captures.capture_files import CaptureFiles
from lately.captures.two_taps import TUNNELS

COUNT = 1500


def tap(folder, *options):
    """A capture of two taps, what is told about it, and its truth."""
    path, truth = folder / "taps.pcap", folder / "truth.csv"
    arguments = ("--packets", COUNT, "--rate", "20000", "--truth", truth, *options)
    report = figures_of("tap", "generator", path, *arguments)
    return path, report, list(csv.DictReader(truth.read_text().splitlines()))


def dropped(path, *options):
    """Numbers of the packets that are dropped, with an oracle that agrees."""
    marks = path.with_name("marks")
    arguments = ("--verify", "--mark", marks, *options)
    check = figures_of("dedup", path, path.with_name("out"), *arguments)["check"]
    assert (check["lost_uniques"], check["passed_duplicates"]) == (0, 0)
    return [int(row["number"]) for row in csv.DictReader(marks.read_text().splitlines())]


def copies(truth):
    return [int(row["number"]) for row in truth if row["copy"] == "1"]


@pytest.mark.parametrize("tunnel", TUNNELS)
def test_tunnels(tmp_path, tunnel):
    """All copies are found with --inner, and none in a tunnel without; MPLS is no tunnel."""
    path, _, truth = tap(tmp_path, "--encapsulate", tunnel, "--hops", 2, "--loss", 0.1)
    assert len(copies(truth)) > 1000
    assert dropped(path, "--inner") == copies(truth)
    assert dropped(path) == (copies(truth) if tunnel == "mpls" else [])


@pytest.mark.parametrize("tunnel", TUNNELS)
def test_headers_of_tunnels(tmp_path, tunnel):
    """Lengths and checksums are those of the whole packet, and the frame is inside."""
    path, *_ = tap(tmp_path, "--encapsulate", tunnel, "--delay", "1h")
    with path.open("rb") as file:
        frames = [content for _, content in dpkt.pcap.Reader(file)]
    for entry, second in zip(frames[:COUNT], frames[COUNT:], strict=True):
        version = TUNNELS[tunnel].version
        assert second.endswith(entry[14:] if version else entry)
        assert len(second) == len(TUNNELS[tunnel].octets) + len(entry) - (14 if version else 0)
        if tunnel != "mpls":
            outer = dpkt.ethernet.Ethernet(second).data
            assert dpkt.in_cksum(second[14:34]) == 0
            assert outer.len == len(second) - 14
            if outer.p == 17:
                assert outer.data.ulen == len(second) - 34
            if tunnel == "gtp":
                assert int.from_bytes(second[44:46], "big") == len(second) - 50


def test_repeats_that_must_stay(tmp_path):
    """A packet that is sent again within the span is kept if the TTL tells the taps apart."""
    options = ["--repeats", 0.3, "--repeat-after", "3ms", "--hops", 1, "--jitter", "1us"]
    path, report, truth = tap(tmp_path, *options)
    again = [int(row["number"]) for row in truth if row["again"] == "1"]
    assert len(again) == 2 * report["repeats"] > 700
    assert len(truth) == 2 * (COUNT + report["repeats"])
    assert dropped(path, "--differs", "ttl") == copies(truth)
    # By the packets alone they are copies as well, and behind the span they are none.
    assert dropped(path) == sorted({*copies(truth), *again})
    assert dropped(path, "--span", "1ms") == copies(truth)


@pytest.mark.parametrize("bound", ["2ms", "30ms"])
def test_disorder(tmp_path, bound):
    """With --reorder the copies are found in the order of their times."""
    options = ["--disorder", "2ms", "--hops", 1, "--delay", "100us"]
    path, _, truth = tap(tmp_path, *options)
    with CaptureFiles([str(path)]) as capture:
        times = capture.read().times
    assert (np.diff(times) < 0).mean() > 0.2
    order = np.argsort(times, kind="stable")
    seen, expected = set(), []
    for number, at in enumerate(order.tolist(), 1):
        expected += [number] if truth[at]["source"] in seen else []
        seen.add(truth[at]["source"])
    assert dropped(path, "--reorder", bound, "--span", "150us") == expected
    figures = figures_of("dedup", path, tmp_path / "out", "--reorder", bound)
    assert (figures["late"], figures["dropped"]) == (0, COUNT)
    assert figures_of("dedup", path, tmp_path / "out")["late"] > 500


def test_packets_that_a_tunnel_cannot_carry(tmp_path):
    """They stay as they are."""
    path = tmp_path / "in.pcap"
    figures_of("tap", "generator", path, "--packets", 1, "--loss", 1)
    with path.open("wb") as file:
        dpkt.pcap.Writer(file).writepkt(b"\xff" * 60, 1.0)
    figures_of("tap", path, tmp_path / "out", "--encapsulate", "ipip")
    with (tmp_path / "out").open("rb") as file:
        assert [content for _, content in dpkt.pcap.Reader(file)] == [b"\xff" * 60] * 2
