"""Files that hold streams: pipes as they come, and text of any kind without a traceback."""

import gzip
import json
import lzma
import os
import select
import tempfile
import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from capture_files import pcap
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from lately.captures.capture_reader import CaptureReader
from lately.cli.app import main
from lately.replay.traces import FORMATS, open_trace
from lately.stream_files import TraceError, open_stream

LIMIT = 131_072
"""Characters of the longest field that the CSV reader takes."""
LOG_LINE = b'1.2.3.4 - - [01/Jan/2020:00:00:00 +0000] "GET / HTTP/1.1" 200 5\n'


# Pipes


def test_pipe_is_read_as_it_comes():
    """What has come is returned, although no more comes, however much was asked for."""
    source, sink = os.pipe()
    result = []

    def read():
        with CaptureReader(f"/dev/fd/{source}") as capture:
            result.append(len(capture.read().times))
            os.close(sink)
            assert capture.read() is None

    os.write(sink, pcap([(0, bytes(60))] * 7))
    # What would wait for good waits beside the test.
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(60)
    assert result == [7]
    os.close(source)


def test_pipe_gives_all_that_comes():
    source, sink = os.pipe()
    content = os.urandom(300_000)

    def write():
        with os.fdopen(sink, "wb", buffering=0) as file:
            for at in range(0, len(content), 9_999):
                file.write(content[at : at + 9_999])

    thread = threading.Thread(target=write)
    thread.start()
    stream = open_stream(f"/dev/fd/{source}")
    os.close(source)
    buffer, got = bytearray(len(content) + 100), 0
    view = memoryview(buffer)
    while count := stream.data.readinto1(view[got:]):
        got += count
    stream.close()
    thread.join()
    assert buffer[:got] == content


@pytest.mark.parametrize("packed", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("cuts", [(1, 2, 3, 4, 5), (23,), (4, 24)])
def test_format_of_a_pipe_whose_first_bytes_come_slowly(packed, cuts):
    """A part of the first bytes does not decide the format."""
    capture = pcap([(0, bytes(60))] * 7)
    content = packed(capture)
    source, sink = os.pipe()

    def write():
        with os.fdopen(sink, "wb", buffering=0) as file:
            for begin, end in pairwise((0, *cuts, len(content))):
                while begin and select.select([source], [], [], 0)[0]:
                    pass
                file.write(content[begin:end])

    thread = threading.Thread(target=write)
    thread.start()
    stream = open_stream(f"/dev/fd/{source}")
    assert stream.head(24) == capture[:24]
    with CaptureReader(stream) as reader:
        assert sum(len(part.times) for part in iter(reader.read, None)) == 7
    thread.join()
    os.close(source)


def test_damage_behind_the_first_bytes():
    """The bytes before the damage are returned first."""
    content = gzip.compress(pcap([])[:10])
    with tempfile.NamedTemporaryFile() as file:
        file.write(content[:-4])
        file.flush()
        stream = open_stream(file.name)
        assert stream.head(24) == pcap([])[:10]
        assert stream.data.read1(24) == pcap([])[:10]
        with pytest.raises(EOFError):
            stream.data.read1(24)
        stream.close()


# Text of any kind


def run(path, *options):
    """Exit status, figures and messages of a replay; a traceback fails the test."""
    command = ["run", str(path), "--engine", "golden", "--preset", "tiny", *options]
    done = CliRunner().invoke(main, command)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr.removeprefix(f"lately: error: {path}: ")


@pytest.mark.parametrize("options", [(), ("--key", "key"), ("--format", "csv")])
@pytest.mark.parametrize("name", ["keys", "keys.csv", "keys.csv.gz"])
def test_first_line_of_any_length(tmp_path, name, options):
    """A line is a key of any length; a header with a field of more than the limit is refused."""
    path = tmp_path / name
    content = b"k" * (LIMIT + 1) + b"\nother\n"
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    code, out, message = run(path, "--json", *options)
    if name == "keys" and not options:
        assert (code, message, json.loads(out)["operations"]) == (0, "", 2)
    else:
        assert (code, out) == (2, "")
        reason = f"field larger than field limit ({LIMIT})\n"
        assert message == f"no CSV header: {reason}"


READ = {
    "field of the limit": ("keys", b"k" * LIMIT + b"\nother\n", 2),
    "long line later": ("keys", b"a\n" + b"k" * 300_000, 2),
    "all line ends": ("keys", b"a\rb\r\nc\n\rd", 4),
    "bytes that are no text": ("keys", b"\xff\xfe\nb\n\xed\xa0\x80\n", 3),
    "separators and escapes": ("keys", b"\xef\xbb\xbfa\n\xe2\x80\xa8\n\x1b[2J\n", 2),
    "NUL later": ("keys", b"a\n" * 3_000 + b"b\0c\nd\n", 3_001),
    "two gzip members": ("keys", gzip.compress(b"a\n") + gzip.compress(b"b\n"), 2),
    "two zstd frames": ("keys", zstandard.compress(b"a\nb") + zstandard.compress(b"c\n"), 2),
    "long field": ("keys.csv", b"key\n" + b"x" * 300_000 + b"\na\n", 1),
    "quote left open": ("keys.csv", b'key\na\n"b\nc\n', 2),
    "quote left open for long": ("keys.csv", b'key\n"' + b"x\n" * 65_538 + b"a\n", 2),
    "lone carriage returns": ("keys.csv", b"key\r1\r2\r", 2),
    "column that is no text": ("keys.csv", b"\xff\n1\n\xfe\n", 2),
    "column of escapes": ("keys.csv", b"\x1b]0;title\x07\n1\n", 1),
    "times": (
        "keys.csv",
        b"key,time\na,1e999999999\nb,nan\nc,-1e18\nd,9999-12-31T23:59-23:59\n",
        3,
    ),
    "NUL in a log": ("access.log", LOG_LINE * 99 + b"\xff\0" * 99 + b"\n" + LOG_LINE, 100),
    "numbers of a log": ("access.log", LOG_LINE + LOG_LINE.replace(b" 5", b" " + b"9" * 9_000), 1),
    "days of a log": ("access.log", LOG_LINE + LOG_LINE.replace(b"01/Jan", b"32/Jan"), 1),
}


@pytest.mark.parametrize("case", READ)
def test_text_that_is_read(tmp_path, case):
    name, content, operations = READ[case]
    (tmp_path / name).write_bytes(content)
    code, out, message = run(tmp_path / name)
    assert (code, message) == (0, "")
    assert out.split("operations")[1].split()[0] == f"{operations:,}"
    assert all(char.isprintable() or char == "\n" for char in out)


REFUSED = {
    "empty": (b"", "no text lines"),
    "blank": (b"\n \r\n\t\n", "no text lines"),
    "NULs": (b"\0" * 9, "must be text, but contains NUL bytes"),
    "UTF-16": ("a\nb\n".encode("utf-16"), "must be text, but contains NUL bytes"),
    "gzip without its end": (gzip.compress(b"a\n" * 99)[:-9], "damaged gzip data: "),
    "gzip, cut": (gzip.compress(bytes(range(1, 100)))[:40], "damaged gzip data: "),
    "gzip, damaged": (b"\x1f\x8b\x08" + bytes(9), "damaged gzip data: "),
    "zstd, cut": (zstandard.compress(b"a\n" * 99)[:-2], "damaged zstd data: "),
    "zstd, wrong checksum": (
        zstandard.ZstdCompressor(write_checksum=True).compress(b"a\n" * 99)[:-1] + b"?",
        "damaged zstd data: ",
    ),
    "zstd, damaged": (b"\x28\xb5\x2f\xfd" + b"\xff" * 9, "damaged zstd data: "),
    "bzip2, damaged": (b"BZh91AY&SY" + bytes(99), "damaged bzip2 data: "),
    "xz, cut": (lzma.compress(b"a\n" * 99)[:-9], "damaged xz data: "),
    "Parquet": (
        b"PAR1\n",
        "must be text, uncompressed or compressed with gzip, bzip2, xz, zstd or lz4, not Parquet",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_text_that_is_refused(tmp_path, case):
    content, expected = REFUSED[case]
    (tmp_path / "keys").write_bytes(content)
    code, out, message = run(tmp_path / "keys")
    assert (code, out) == (2, "")
    assert message.startswith(expected)
    assert message.count("\n") == 1


PIECES = [
    b"\n", b"\r", b"\r\n", b'"', b",", b"key", b"time", b"key,time\n", b"a,1\n", b"\0", b"\xff",
    b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\x1c", b"\\", b"[", b"]", LOG_LINE,
    LOG_LINE[:40],
    LOG_LINE.replace(b"2020", b"0001"), LOG_LINE.replace(b"+0000", b"+9999"), b"1e999999999",
    b"1e-999999999", b"-1e18", b"sNaN", b"9" * 50, b"0001-01-01T00:00:00+23:59",
    b"9999-12-31T23:59:59-23:59",
    b"k" * 300, b"x" * (LIMIT + 1), b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x0a\x0d\x0d\x0a",
]  # fmt: skip
parts = st.sampled_from(PIECES) | st.binary(max_size=9)
rows = st.tuples(parts, st.just(b","), parts, st.just(b"\n")).map(b"".join)
table = st.tuples(st.just(b"key,time\n"), st.lists(rows, max_size=9).map(b"".join)).map(b"".join)
contents = st.lists(parts, max_size=12).map(b"".join) | table


@given(
    content=contents,
    pack=st.sampled_from([bytes, bytes, gzip.compress, zstandard.compress]),
    cut=st.integers(0, 40),
    name=st.sampled_from(["keys", "keys.csv"]),
    form=st.sampled_from([*FORMATS, "auto", "csv"]),
    key=st.sampled_from([None, None, "key", "client,bytes,status,path", "\udcff"]),
    time=st.sampled_from([None, None, None, "time"]),
)
@example(b"x" * (LIMIT + 1), bytes, 0, "keys", "auto", None, None)
@example(b"key,time\na,1e999999999\n", bytes, 0, "keys", "csv", None, None)
def test_any_bytes_are_records_or_an_error(content, pack, cut, name, form, key, time):
    """Whatever a file holds, reading gives keys and times, or a `TraceError`."""
    packed = pack(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(packed[: max(0, len(packed) - cut)] if cut % 2 else packed)
        with suppress(TraceError), open_trace(path, format=form, key=key, time=time) as trace:
            while records := trace.read(5):
                for text, moment in records:
                    assert isinstance(text, str)
                    assert text
                    assert moment is None or isinstance(moment, int)
