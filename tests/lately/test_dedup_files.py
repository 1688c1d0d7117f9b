"""Several inputs and outputs of a deduplication."""

import gzip
import io
import json
import os
from itertools import pairwise
from threading import Thread
from time import localtime, strftime

import dpkt
import numpy as np
import pytest
from capture_files import MADE, MODIFIED, block, interface, option, packet, pcap, section
from click.testing import CliRunner
from protocol_frames import frame

from lately.captures import capture_loops as loops
from lately.captures.capture_files import CaptureFiles, MergedCaptures
from lately.captures.capture_reader import CaptureReader
from lately.cli.app import main
from lately.golden.compilation import VARIABLE
from lately.golden.packets.packet_order import merged_order

MS = 10**6


def dedup(*arguments, code=0):
    """Figures of a deduplication, or its error."""
    done = CliRunner().invoke(main, ["dedup", *map(str, arguments), "--json"])
    assert done.exit_code == code, done.output
    return done.stderr if code else json.loads(done.stdout)


def rotated(folder, packets, parts=3, **options):
    """Files that hold the packets one after the other."""
    size = -(-len(packets) // parts)
    paths = [folder / f"ring_{part}.pcap" for part in range(parts)]
    for part, path in enumerate(paths):
        path.write_bytes(pcap(packets[part * size : (part + 1) * size], **options))
    return paths


@pytest.fixture
def packets():
    """Each packet comes twice; copies are in other files than the first ones."""
    return [(10**18 + 1000 * n, frame(n // 40 * 20 + n % 20)) for n in range(600)]


@pytest.mark.parametrize("options", [{}, {"big": True}, {"nano": True}])
def test_rotated_files_are_one_stream(tmp_path, packets, options):
    paths = rotated(tmp_path, packets, 7, **options)
    whole = tmp_path / "whole"
    whole.write_bytes(pcap(packets, **options))
    figures = dedup(*paths, tmp_path / "joined")
    assert figures["dropped"] == dedup(whole, tmp_path / "one")["dropped"] == 300
    assert (tmp_path / "joined").read_bytes() == (tmp_path / "one").read_bytes()
    assert figures["capture"]["files"] == 7


@pytest.mark.parametrize("options", [(), ("--reorder", "1ms")])
def test_pipes_are_one_stream(tmp_path, packets, options):
    """A pipe gives its bytes once: the check of the inputs must not consume them."""
    paths, pipes = rotated(tmp_path, packets), []
    for path in paths:
        pipes.append(tmp_path / f"pipe_{path.name}")
        os.mkfifo(pipes[-1])
        Thread(target=pipes[-1].write_bytes, args=(path.read_bytes(),)).start()
    assert dedup(*pipes, tmp_path / "out", *options)["dropped"] == 300
    dedup(*paths, tmp_path / "other", *options)
    if not options:  # a merged capture has the names of its inputs
        assert (tmp_path / "out").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("at", range(3))
def test_pipe_without_a_capture(tmp_path, packets, at):
    paths = rotated(tmp_path, packets)
    os.mkfifo(pipe := tmp_path / "pipe")
    paths[at] = pipe
    Thread(target=pipe.write_bytes, args=(b"a,b\n",)).start()
    message = f"{pipe}: not a pcap or pcapng capture: it begins with 61 2c 62 0a"
    assert message in dedup(*paths, tmp_path / "out", code=2)


def test_one_output_each(tmp_path, packets):
    """State is carried over, and each output has the packets of its input."""
    paths = rotated(tmp_path, packets)
    paths[1] = tmp_path / "ring_1.pcap.gz"
    paths[1].write_bytes(gzip.compress((tmp_path / "ring_1.pcap").read_bytes()))
    figures = dedup(*paths, "--out-dir", tmp_path / "new" / "unique")
    assert figures["dropped"] == 300
    kept, seen = [], set()
    for n, (time, content) in enumerate(packets):
        if content not in seen:
            kept.append((n // 200, (time, content)))
        seen.add(content)
    for part, path in enumerate(paths):
        content = (tmp_path / "new" / "unique" / path.name).read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        assert content == pcap([row for at, row in kept if at == part])
    assert "are the same file" in dedup(*paths, "--out-dir", tmp_path, code=2)
    assert "are the same file" in dedup(paths[0], paths[0], "--out-dir", tmp_path / "x", code=2)


def sections(packets):
    """A pcapng file: an interface comes after packets, and another section has another order."""
    parts = [section(), interface()]
    for n, (time, content) in enumerate(packets):
        if n == 200:
            parts.append(interface(option(9, b"\x09")))
        if n == 400:
            parts += [section(">"), interface(option(9, b"\x09", ">"), order=">")]
        number, order = int(200 <= n < 400 and n % 2), ">" if n >= 400 else "<"
        units = time if number or n >= 400 else time // 1000
        parts += [packet(units, content, interface=number, order=order), block(4, b"", order)]
    return b"".join(parts)


def described(path):
    """Time, link, interface and bytes of each packet of a file."""
    with CaptureReader(path) as capture:
        while (result := capture.read()) is not None:
            rows = result.table[[loops.TIME, loops.LINK, loops.FROM]].T.tolist()
            yield from zip(rows, map(result.frame, range(len(result))), strict=True)


@pytest.mark.parametrize("form", [pcap, sections])
@pytest.mark.parametrize("ending", [".pcap", ".cap.gz"])
@pytest.mark.parametrize("size", [None, 3000])
@pytest.mark.parametrize("long", [None, 97_000])
def test_output_rotates(tmp_path, packets, monkeypatch, form, ending, size, long):
    """Each output is a capture, as long as the limits allow, and the filter has one memory."""
    monkeypatch.setattr("lately.captures.capture_reader._PACKETS", 70)
    source, whole, copies = tmp_path / "in", tmp_path / "whole", tmp_path / "copies"
    source.write_bytes(form(packets))
    dedup(source, whole, "--dropped", copies)
    limits = ["--rotate-size", f"{size}B"] if size else []
    limits += ["--rotate-time", f"{long}ns"] if long else []
    new = tmp_path / "new"
    new.mkdir()
    dedup(source, new / f"out{ending}", "--dropped", tmp_path / "other", *limits)
    assert (tmp_path / "other").read_bytes() == copies.read_bytes()
    paths, kept = sorted(new.iterdir()), [*described(whole)]
    parts = [[*described(path)] for path in paths]
    assert [packet for part in parts for packet in part] == kept
    stamp = strftime("%Y%m%d%H%M%S", localtime(10**9))
    names = [f"out_{number:05}_{stamp}{ending}" for number in range(1, len(paths) + 1)]
    assert [path.name for path in paths] == (names if size or long else [f"out{ending}"])
    contents = [gzip.decompress(path.read_bytes()) if ending[-1] == "z" else path.read_bytes()
                for path in paths]  # fmt: skip
    for content, part, after in zip(contents, parts, parts[1:], strict=False):
        elapsed = after[0][0][0] - part[0][0][0]
        # A record has at most 32 bytes and padding around its packet.
        full = len(content) + len(after[0][1]) + (16 if form is pcap else 2000) > (size or 1 << 60)
        assert full or elapsed >= (long or 1 << 60)
        # Blocks behind the last packet count for no limit.
        assert len(content) <= (size or 1 << 60) + (0 if form is pcap else 300)
        assert part[-1][0][0] - part[0][0][0] < (long or 1 << 60)


def test_longer_packets_of_later_files(tmp_path):
    """The header of joined files allows every packet."""
    (tmp_path / "a").write_bytes(pcap([(0, b"a" * 20)], snaplen=60))
    (tmp_path / "b").write_bytes(pcap([(1000, b"b" * 200)], big=False, snaplen=9000))
    dedup(tmp_path / "a", tmp_path / "b", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == pcap([(0, b"a" * 20), (1000, b"b" * 200)])


def test_sections_of_pcapng_are_joined(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(section() + interface() + packet(5, frame(1)))
    assert dedup(tmp_path / "a", tmp_path / "b", tmp_path / "out")["dropped"] == 1
    both = 2 * (section() + interface())
    assert len((tmp_path / "out").read_bytes()) == len(both + packet(5, frame(1)))


@pytest.mark.parametrize("options", [(), ("--reorder", "1ms"), ("--out-dir", "new")])
@pytest.mark.parametrize("empty", [{0}, {1, 2}, {0, 3}, {0, 1, 2, 3}])
def test_empty_files_among_several(tmp_path, packets, empty, options, monkeypatch):
    """They are captures without packets; one of them may be a pipe."""
    monkeypatch.chdir(tmp_path)
    paths = rotated(tmp_path, packets, 4 - len(empty)) if len(empty) < 4 else []
    for at in sorted(empty):
        paths.insert(at, tmp_path / f"empty_{at}")
        paths[at].write_bytes(gzip.compress(b"") if at == 2 else b"")
    if 3 in empty:
        paths[3].unlink()
        os.mkfifo(paths[3])
        Thread(target=paths[3].write_bytes, args=(b"",)).start()
    output = () if "--out-dir" in options else (tmp_path / "out",)
    if len(empty) == 4:
        assert "error: all 4 inputs are empty\n" in dedup(*paths, *output, *options, code=2)
        return
    figures = dedup(*paths, *output, *options)
    assert (figures["packets"], figures["dropped"]) == (600, 300)
    assert figures["capture"]["empty"] == [str(paths[at]) for at in sorted(empty)]
    if not options:
        dedup(*(path for at, path in enumerate(paths) if at not in empty), tmp_path / "other")
        assert (tmp_path / "out").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (pcap([], big=True), "big-endian, not little-endian"),
        (pcap([], link=101), "link type 101, not link type 1"),
        (pcap([], nano=True), "times in nanoseconds, not times in microseconds"),
        (pcap([], version=(2, 3)), "version 2.3, not version 2.4"),
        (pcap([], magic=MODIFIED), "modified pcap, not pcap"),
        (section(), "pcapng, not pcap"),
        (b"text\n", None),
    ],
)
def test_files_that_cannot_be_joined(tmp_path, other, message):
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_bytes(pcap([(0, frame(1))]))
    paths[1].write_bytes(other)
    result = dedup(*paths, tmp_path / "out", code=2)
    joined = f" cannot be joined with {paths[0]}: {message}; use --reorder or --out-dir\n"
    assert f"{paths[1]}{joined if message else ': not a pcap or pcapng capture'}" in result
    assert not (tmp_path / "out").exists()
    if message:
        dedup(*paths, "--out-dir", tmp_path / "new")


def test_dropped_packets_are_a_capture(tmp_path):
    packets = [(1000 * n, frame(n // 2)) for n in range(20)]
    (tmp_path / "in").write_bytes(pcap(packets))
    dedup(tmp_path / "in", tmp_path / "out", "--dropped", tmp_path / "copies.gz")
    assert (tmp_path / "out").read_bytes() == pcap(packets[::2])
    assert gzip.decompress((tmp_path / "copies.gz").read_bytes()) == pcap(packets[1::2])


@pytest.mark.parametrize(
    ("options", "dropped"),
    [([], 20), (["--scope", "other", "--by", "file"], 20), (["--differs", "file"], 20),
     (["--scope", "same", "--by", "file"], 10)],
)  # fmt: skip
def test_origin_is_a_file(tmp_path, options, dropped):
    """Ten packets are in both files and are sent again in the second one."""
    rows = [(1000 * n, frame(n)) for n in range(10)]
    again = [(1000 * (50 + n), frame(n % 10)) for n in range(20)]
    (tmp_path / "a").write_bytes(pcap([*rows, (49_000, frame(3))]))
    (tmp_path / "b").write_bytes(pcap(again))
    figures = dedup(tmp_path / "a", tmp_path / "b", tmp_path / "out", "--verify", *options)
    assert figures["dropped"] == dropped + (not options or "same" in options)
    check = figures["check"]
    assert (check["lost_uniques"], check["passed_duplicates"]) == (0, 0)


def test_files_are_numbered(tmp_path, packets):
    with CaptureFiles([*map(str, rotated(tmp_path, packets))]) as capture:
        numbers = []
        while (result := capture.read()) is not None:
            assert result.files.tolist() == [result.file] * len(result)
            numbers += [result.file] if len(result) else []
    assert numbers == [0, 1, 2]
    assert capture.fraction == 1.0


def late_files(folder, random, bound, count=4):
    """Captures with random times, disorder and interfaces, and the times of each."""
    paths, result = [], []
    for number in range(count):
        size = int(random.integers(0, 200))
        times = 10**18 + np.cumsum(random.integers(0, 2000, size))
        times -= random.integers(0, bound + 1, size)
        kinds = random.integers(0, 2, size)
        blocks = [
            packet(time, frame(int(random.integers(40)))[: int(random.integers(40, 70))],
                   interface=kind)
            for time, kind in zip(times.tolist(), kinds.tolist(), strict=True)
        ]  # fmt: skip
        nano = interface(option(9, b"\x09"))
        paths.append(folder / f"port_{number}")
        paths[-1].write_bytes(section() + nano + nano + b"".join(blocks))
        result.append(times)
    return paths, result


@pytest.mark.parametrize("variable", ["0", "1"])
@pytest.mark.parametrize("seed", range(3))
def test_merged_files_are_in_the_order_of_the_model(tmp_path, seed, variable, monkeypatch):
    """However many packets are read at a time, and with the bytes, times and links of all."""
    monkeypatch.setenv(VARIABLE, variable)
    random, bound = np.random.default_rng(seed), 3000
    paths, times = late_files(tmp_path, random, bound)
    frames = [content for path in paths for content in packets_of(CaptureFiles([str(path)]))]
    order = merged_order(times, bound)
    for room in (1 << 16, 7):
        monkeypatch.setattr("lately.captures.capture_reader._PACKETS", room)
        with MergedCaptures([*map(str, paths)], bound) as capture:
            assert packets_of(capture) == [frames[at] for at in order]
    stamps = np.concatenate(times)[order]
    assert (np.diff(stamps) >= 0).all()
    figures = dedup(*paths, tmp_path / "out", "--reorder", "3us", "--verify", "--span", "20us")
    check = figures["check"]
    assert (check["false_positives"], check["passed_duplicates"], figures["late"]) == (0, 0, 0)
    read = list(dpkt.pcapng.Reader(io.BytesIO((tmp_path / "out").read_bytes())))
    assert len(read) == len(frames) - figures["dropped"] < len(frames)
    assert all(entry <= two for (entry, _), (two, _) in pairwise(read))
    with CaptureFiles([str(tmp_path / "out")]) as capture:
        assert {row[3] for row in packets_of(capture)} == {*range(8)}


def test_disorder_beyond_the_bound(tmp_path):
    """The packet keeps its time and passes; the clock counts it as late."""
    begin = 10**18
    rows = [(begin + time, frame(n)) for n, time in enumerate((0, 1500, 9000, 1000), 0)]
    (tmp_path / "in").write_bytes(pcap([*rows, (begin + 9500, frame(2))], nano=True))
    for reorder, late in (("8us", 0), ("7us", 1)):
        figures = dedup(tmp_path / "in", tmp_path / "out", "--reorder", reorder)
        assert (figures["late"], figures["dropped"]) == (late, 1)


@pytest.mark.parametrize("options", [{}, {"ng": True}])
def test_a_first_record_that_is_damaged_leaves_a_capture(tmp_path, packets, options):
    """Headers before the damage are written, so the output and each joined output can be read."""
    damage = b"\xff" * 64
    heads = {"bad": pcap([]) + damage, "good": pcap(packets[:9])}
    if options:
        heads = {"bad": section() + interface() + damage, "good": section() + interface()}
    for name, content in heads.items():
        (tmp_path / name).write_bytes(content)
    bad, good, out = tmp_path / "bad", tmp_path / "good", tmp_path / "out"
    dedup(bad, out, code=1)
    assert len(out.read_bytes()) == len(heads["bad"]) - 64
    dedup(bad, good, "--out-dir", tmp_path / "each", code=1)
    assert {path.name for path in (tmp_path / "each").iterdir()} == {"bad", "good"}
    dedup(bad, good, out, code=1)
    with CaptureFiles([str(out)]) as capture:
        assert len(packets_of(capture)) == (0 if options else 9)


def test_a_compressed_file_is_read_up_to_its_damage(tmp_path, packets):
    packed = gzip.compress(pcap(packets))
    (tmp_path / "in").write_bytes(packed[:-8] + bytes(8))
    assert "damaged gzip data" in dedup(tmp_path / "in", tmp_path / "out", code=1)
    with CaptureFiles([str(tmp_path / "out")]) as capture:
        assert len(packets_of(capture)) == 300


def test_more_bytes_than_any_packet_has(tmp_path, packets):
    (tmp_path / "in").write_bytes(pcap(packets))
    assert dedup(tmp_path / "in", tmp_path / "out", "--bytes", 1 << 70)["dropped"] == 300


def test_link_types_that_pcapng_cannot_have(tmp_path, packets):
    (tmp_path / "in").write_bytes(pcap(packets, link=1 << 16))
    message = dedup(tmp_path / "in", tmp_path / "out", "--reorder", "1ms", code=2)
    assert "the link type must be at most 65,535 in pcapng, not 65,536" in message


def test_merged_files_that_are_damaged_or_empty(tmp_path):
    """Each file ends at its damage, and packets without a time stay where they were."""
    begin = 10**18
    (tmp_path / "a").write_bytes(pcap([(begin, frame(1))]) + b"\xff" * 16)
    simple = block(3, (60).to_bytes(4, "little") + frame(2)[:60])
    (tmp_path / "b").write_bytes(
        section() + interface() + packet(begin // 1000, b"x" * 60) + simple
    )
    (tmp_path / "c").write_bytes(pcap([], link=101))
    (tmp_path / "d").write_bytes(pcap([(begin + 1000, frame(1)[14:])], link=101))
    arguments = [tmp_path / name for name in "abcd"]
    done = dedup(*arguments, tmp_path / "out", "--reorder", "1ms", code=1)
    assert f"{tmp_path}/a: invalid record length" in done
    with CaptureFiles([str(tmp_path / "out")]) as capture:
        rows = packets_of(capture)
    frames = [frame(1), b"x" * 60, frame(2)[:60]]
    assert [(row[0], row[1] - begin, row[3]) for row in rows[:3]] == [
        (content, 0, min(at, 1)) for at, content in enumerate(frames)
    ]
    dedup(tmp_path / "c", tmp_path / "out", "--reorder", "1s")
    assert (tmp_path / "out").read_bytes() == section()


def packets_of(capture):
    """Frame, time, length on the line and interface of all packets."""
    result = []
    with capture:
        while (packets := capture.read()) is not None:
            columns = (packets.times, packets.locations[2], packets.interfaces)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            result += [(packets.frame(at), *row) for at, row in enumerate(rows)]
    return result


@pytest.mark.parametrize("rooms", [(1 << 16, 1 << 16), (1 << 9, 5), (1 << 12, 1 << 16)])
def test_two_threads_write_the_same(tmp_path, packets, rooms, monkeypatch):
    """Whatever the stretches are: outputs, marks and figures are those of one thread."""
    monkeypatch.setattr("lately.captures.capture_reader.BUFFER", rooms[0])
    monkeypatch.setattr("lately.captures.capture_reader._PACKETS", rooms[1])
    monkeypatch.setattr("lately.golden.hash.siphash.random_secret", lambda: 7)
    paths = rotated(tmp_path, packets)
    paths[1].write_bytes(paths[1].read_bytes() + b"\xff" * 16)
    result = []
    for jobs in (1, 2):
        out, marks, dropped = (tmp_path / f"{name}{jobs}" for name in ("out", "marks", "dropped"))
        options = ["--jobs", jobs, "--mark", marks, "--dropped", dropped, "--verify"]
        done = CliRunner().invoke(main, ["dedup", *map(str, [*paths, out, *options, "--json"])])
        assert done.exit_code == 1
        figures = json.loads(done.stdout)
        figures = {name: figures[name] for name in figures if "second" not in name}
        figures["check"]["expected"] = figures["check"]["predicted_false_positive_rate"] = None
        result.append((figures, *(path.read_bytes() for path in (out, marks, dropped))))
    assert result[0] == result[1]
    assert result[0][0]["dropped"] == 300


def test_an_error_in_a_thread_ends_the_run(tmp_path, packets, monkeypatch):
    def fail(writer, judged):
        raise OSError(28, "No space left on device", "out")

    monkeypatch.setattr("lately.dedup.deduplicate.CaptureWriter.__call__", fail)
    message = dedup(*rotated(tmp_path, packets), tmp_path / "out", "--jobs", 2, code=2)
    assert message == "lately: error: out: No space left on device\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [[], ["--inner"], ["--reorder", "10ms"], ["--reorder", "10ms", "--inner"], ["--jobs", "2"],
     ["--scope", "other", "--by", "file"], ["--differs", "ttl"], ["--policy", "first-seen"]],
)  # fmt: skip
def test_the_oracle_agrees_on_all_captures(tmp_path, options):
    """On captures of this repository."""
    paths = [*MADE.glob("*.pcap*")]
    assert paths
    for path in paths:
        check = dedup(path, tmp_path / "out", "--verify", *options)["check"]
        assert (check["passed_duplicates"], check["false_positives"]) == (0, 0), path
