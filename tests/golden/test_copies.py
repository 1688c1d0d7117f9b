"""Copies of packets and packets that were sent again."""

import random

import numpy as np
import pytest
from capture_files import ETHERNET

from lately.golden import compilation
from lately.golden.packets.comparison import Comparison, Field
from lately.golden.packets.copies import (
    PROPERTIES,
    CopyRule,
    CopyTable,
    properties,
    scoped,
)  # fmt: skip
from lately.golden.packets.packet_digest import packet_digest
from lately.golden.packets.packet_layers import Reach
from lately.sim.bench.packets import CONTROL, FRAME, MACS, TUNNELS, ethernet, ip4, ip6, udp

WINDOW, SPAN = 5, 100
FIRST = CopyRule(policy="first-seen")
DIFFERS = CopyRule(differs="ttl")
BOTH = CopyRule(differs="ttl", policy="first-seen")


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def route(request, monkeypatch):
    monkeypatch.setenv(compilation.VARIABLE, "0" if request.param == "plain" else "1")


def judge(rule, rows, seen=None, window=WINDOW, span=SPAN, parts=1):
    """Which of (digest, time, property) are copies; a filter that reports every packet."""
    table = CopyTable(window, span, window, rule)
    duplicates = []
    for part in np.array_split(np.array(rows, np.int64).reshape(-1, 3), parts):
        digests, elapsed, properties = (np.ascontiguousarray(column) for column in part.T)
        copies = np.ones(len(part), bool) if seen is None else np.array(seen, bool)
        table.judge(digests.astype(np.uint64), copies, elapsed, properties.astype(np.uint64))
        duplicates += copies.tolist()
    return [int(copy) for copy in duplicates]


@pytest.mark.parametrize("rule", [FIRST, DIFFERS, BOTH])
def test_edges(rule):
    """A packet is remembered for the whole span and the whole window, and no longer."""
    assert judge(rule, [(7, 0, 1), (7, SPAN, 2)]) == [0, 1]
    assert judge(rule, [(7, 0, 1), (7, SPAN + 1, 2)]) == [0, 0]
    others = [(100 + n, 0, 0) for n in range(WINDOW - 1)]
    assert judge(rule, [(7, 0, 1), *others, (7, 0, 2)])[-1] == 1
    assert judge(rule, [(7, 0, 1), *others, (8, 0, 0), (7, 0, 2)])[-1] == 0


def test_a_packet_that_repeats_for_ever():
    rows = [(7, 10 * n, n % 2) for n in range(60)]
    kept = [n for n, copy in enumerate(judge(FIRST, rows, window=99)) if not copy]
    assert kept == [0, 11, 22, 33, 44, 55]
    # The same with a filter's bound alone: it passes once.
    assert sum(judge(CopyRule(scope="same"), rows, [0] + 59 * [1], window=99)) == 59


def test_the_bound_in_packets():
    """Without a property or a policy the filter decides, and the window bounds it."""
    seed = 29
    choose = random.Random(seed)
    for window in (1, 2, 7, 40):
        digests = [choose.randrange(60) for _ in range(900)]
        seen = [choose.random() < 0.7 for _ in digests]
        last, expected = {}, []
        for number, (digest, flag) in enumerate(zip(digests, seen, strict=True)):
            near = number - last.get(digest, number) <= window
            expected.append(int(flag and near))
            last[digest] = number
        table = CopyTable(window, 1, 60, CopyRule())
        flags, zeros = np.array(seen), np.zeros(900, np.int64)
        table.judge(np.array(digests, np.uint64), flags, np.arange(900) * 10**9, zeros.astype("u8"))
        assert flags.tolist() == expected, seed


@pytest.mark.parametrize("rule", [DIFFERS, BOTH])
def test_packets_that_were_sent_again(rule):
    """Each packet is mirrored with another TTL; each of them is sent again soon."""
    rows = [(7, 0, 64), (7, 1, 63), (7, 20, 64), (7, 21, 63), (7, 40, 64), (7, 41, 63)]
    assert judge(rule, rows) == [0, 1, 0, 1, 0, 1]
    # Equal in all: no copy, however often.
    assert judge(rule, [(7, 20 * n, 64) for n in range(9)]) == [0] * 9
    # A third mirror.
    assert judge(rule, [(7, 0, 64), (7, 1, 63), (7, 2, 62), (7, 3, 64)]) == [0, 1, 1, 0]


def test_policies_of_copies():
    """Copies renew with last-seen only."""
    rows = [(7, 0, 64), (7, 80, 63), (7, 160, 63)]
    assert judge(DIFFERS, rows) == [0, 1, 1]
    assert judge(BOTH, rows) == [0, 1, 0]


def test_a_filter_comes_before_the_table():
    """A packet that no filter reports is no copy; a false positive of a filter is none either."""
    assert judge(FIRST, [(7, 0, 0), (7, 1, 0)], seen=[0, 0]) == [0, 0]
    assert judge(FIRST, [(7, 0, 0), (8, 1, 0)], seen=[1, 1]) == [0, 0]


def plain(rule, rows, window, span):
    """The rule as it is written, with all packets kept in a list."""
    past, duplicates = [], []
    for number, (digest, time, value) in enumerate(rows):
        same = [row for row in past if row[0] == digest and (row[4] or rule.policy == "last-seen")]
        kept = [row for row in past if row[0] == digest and row[4]]
        near = bool(same) and number - same[-1][3] <= window and time - same[-1][1] <= span
        copy = near and not (rule.differing and kept[-1][2] == value)
        past.append((digest, time, value, number, not copy))
        duplicates.append(int(copy))
    return duplicates


@pytest.mark.parametrize("rule", [FIRST, DIFFERS, BOTH])
def test_random_packets(rule):
    seed = 41
    choose = random.Random(seed)
    for _ in range(20):
        window, span, time, rows = choose.randrange(1, 40), choose.randrange(60), 0, []
        for _ in range(300):
            time += choose.choice([0, 1, 1, 5, 40])
            digest = choose.randrange(choose.choice([3, 30, 1 << 62]))
            rows.append((digest, time, choose.randrange(3)))
        expected = plain(rule, rows, window, span)
        assert judge(rule, rows, window=window, span=span, parts=7) == expected, seed


def of(name, frames, comparison=None, interfaces=None):
    """Numbers of a property of frames."""
    sizes = np.array([len(frame) for frame in frames])
    rows = [np.cumsum(sizes) - sizes, sizes, sizes, np.full(len(sizes), ETHERNET)]
    buffer = np.frombuffer(b"".join(frames), np.uint8)
    numbers = np.zeros(len(frames), np.int64) if interfaces is None else np.array(interfaces)
    positions = np.ascontiguousarray(rows, np.int64)
    return properties(name, buffer, positions, numbers, comparison or Comparison(), 99).tolist()


@pytest.mark.parametrize(("header", "kind", "ttl"), [(ip4, 0x0800, "ttl"), (ip6, 0x86DD, "limit")])
def test_properties(header, kind, ttl):
    frame = ethernet(kind, header(udp(b"abc")))
    aged = ethernet(kind, header(udp(b"abc"), **{ttl: 3}))
    tagged = ethernet(kind, header(udp(b"abc")), tags=[5])
    retagged = ethernet(kind, header(udp(b"abc")), tags=[6])
    moved = ethernet(kind, header(udp(b"abc")), macs=MACS[::-1])
    frames = [frame, aged, tagged, retagged, moved, frame]
    equal = {
        name: [int(value == numbers[0]) for value in numbers]
        for name in PROPERTIES
        for numbers in [of(name, frames, interfaces=[0, 1, 0, 2, 0, 0])]
    }
    assert equal == {
        "interface": [1, 0, 1, 0, 1, 1], "file": [1, 0, 1, 0, 1, 1], "ttl": [1, 0, 1, 1, 1, 1],
        "vlan": [1, 1, 0, 0, 1, 1], "layer2": [1, 1, 0, 0, 0, 1],
    }  # fmt: skip
    vlans = of("vlan", frames)
    assert vlans[2] != vlans[3]


def test_ttl_is_one_byte():
    """The byte beside it, of the fragment offset or the source, is no part of it."""
    frames = [ethernet(0x86DD, ip6(udp(b"abc"))) for _ in range(2)]
    frames[1] = bytearray(frames[1])
    frames[1][14 + 8] ^= 1
    assert len({*of("ttl", [bytes(frame) for frame in frames])}) == 1
    older = [ethernet(0x0800, ip4(udp(b"abc"))) for _ in range(2)]
    older[1] = bytearray(older[1])
    older[1][14 + 7] ^= 1
    assert len({*of("ttl", [bytes(frame) for frame in older])}) == 1


def test_properties_of_inner_packets_and_others():
    """TTL is the TTL of the layer 3 that is compared; whole frames have one property each."""
    inner, aged = TUNNELS["VXLAN"], bytearray(TUNNELS["VXLAN"])
    aged[14 + 8] = 9
    outer, innermost = (Comparison(reach=reach) for reach in (Reach.LAYER2, Reach.INNER))
    assert len(set(of("ttl", [inner, bytes(aged)], outer))) == 2
    assert len(set(of("ttl", [inner, bytes(aged)], innermost))) == 1
    assert len(set(of("layer2", [inner, bytes(aged)], innermost))) == 2
    for name in ("ttl", "vlan", "layer2"):
        assert len(set(of(name, [bytes(60), b"\1" * 60]))) == 1
    arp = CONTROL["ARP"]
    assert len(set(of("ttl", [arp, arp + bytes(18)]))) == 1
    assert len(set(of("vlan", [arp, arp[:12] + b"\x81\0\0\7" + arp[12:]]))) == 2


def test_scoped():
    digests = np.array([5, 5, 5, 6], np.uint64)
    values = scoped(digests, np.array([0, 1, 1, 0], np.uint64))
    assert values[1] == values[2]
    assert len(set(values.tolist())) == 3
    assert values[0] == 5
    assert packet_digest(FRAME, len(FRAME), ETHERNET) != 5


def test_rules_that_need_the_last_copy():
    CopyRule(scope="other").check(Comparison(Field.FRAME))
    assert [CopyRule().exact, CopyRule(scope="same").exact, FIRST.exact, DIFFERS.exact] == [
        False, False, True, True,
    ]  # fmt: skip
