"""Traces: formats, compression, keys, and what is said of bad ones."""

import csv
import gzip
import hashlib
import os
import random
import sys
from pathlib import Path

import pytest
import zstandard

from lately.golden.hash.keys import KeyDigest, check_keys
from lately.replay import traces
from lately.replay.traces import Rejects, TraceError, open_trace

EXAMPLES = Path(__file__).parents[2] / "examples"
SECOND = 10**9

COMMON = '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /a?x=1 HTTP/1.1" 200 12\n'
COMBINED = (
    '10.0.0.2 - bob [17/May/2015:10:05:04 +0200] "POST /b HTTP/1.0" 404 - '
    '"http://example.org/" "Agent \\"7\\""\n'
)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def records(path, **options):
    with open_trace(path, **options) as trace:
        return list(trace), trace


def texts(path, **options):
    return [text for text, _ in records(path, **options)[0]]


def test_lines(tmp_path):
    result, trace = records(write(tmp_path / "keys", "a\n\nb c\r\na\n  \nlast"))
    assert [text for text, _ in result] == ["a", "b c", "a", "last"]
    assert all(time is None for _, time in result)
    assert (trace.format, trace.key, trace.compression) == ("lines", (), "none")
    assert trace.rejects.count == 0


def test_read_in_parts(tmp_path):
    with open_trace(write(tmp_path / "keys", "a\nb\nc\n")) as trace:
        assert [text for text, _ in trace.read(2)] == ["a", "b"]
        assert [text for text, _ in trace.read(2)] == ["c"]
        assert trace.read(2) == []
        assert trace.fraction == 1


@pytest.mark.parametrize("name", ["keys", "keys.gz", "keys.zst", "keys.csv"])
@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_compression_by_content(tmp_path, name, compression):
    content = b"key\na\nb\n"
    pack = {
        "none": bytes,
        "gzip": gzip.compress,
        "zstd": zstandard.ZstdCompressor().compress,
    }[compression]
    result, trace = records(write(tmp_path / name, pack(content)), format="csv")
    assert [text for text, _ in result] == ["a", "b"]
    assert trace.compression == compression


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b'{"key": "a"}\n{"key": "b"}\n', "JSON"),
        (b'\n{"key": 1}\n', "JSON"),
        (b'[\n  {"key": 1}\n]\n', "JSON"),
        (b'[{"key": 1},\n {"key": 2}]\n', "JSON"),
        (b'{\n  "key": 1\n}\n', "JSON"),
        (b"time\tkey\n1\ta\n2\tb\n", "tab-separated values"),
    ],
)
def test_other_formats(tmp_path, content, form):
    """A format that is not read is named; lines are taken for keys if that is said."""
    path = write(tmp_path / "keys", content)
    with pytest.raises(TraceError) as caught:
        records(path)
    assert str(caught.value).startswith(f"{path} looks like {form}, not an access log, ")
    assert len(texts(path, format="lines")) == len(content.strip().splitlines())


@pytest.mark.parametrize(
    "content",
    [b"[::1]:80\n", b"a\tb\n", b"a\tb\nc\n", b"{a}\n", b"[1]\n", b'{"a":' * 9**4 + b"\n"],
    ids=range(6),
)
def test_lines_that_look_like_other_formats(tmp_path, content):
    assert len(texts(write(tmp_path / "keys", content))) == content.count(b"\n")


def test_undecodable_bytes_are_part_of_the_key(tmp_path):
    (text,) = texts(write(tmp_path / "keys", b"caf\xe9\n"))
    expected = int.from_bytes(hashlib.blake2b(b"caf\xe9", digest_size=8).digest(), "little")
    assert check_keys(text, KeyDigest(64)).tolist() == [[expected]]


def test_log(tmp_path):
    result, trace = records(write(tmp_path / "log", COMMON + COMBINED))
    assert result == [
        ("10.0.0.1 GET /a?x=1", 1431857103 * SECOND),
        ("10.0.0.2 POST /b", 1431849904 * SECOND),
    ]
    assert (trace.format, trace.key) == ("log", ("client", "method", "url"))


def test_log_fields(tmp_path):
    path = write(tmp_path / "log", COMMON + COMBINED)
    key = "user,path,protocol,status,bytes,referer,agent"
    assert texts(path, key=key) == [
        "- /a HTTP/1.1 200 12 - -",
        'bob /b HTTP/1.0 404 - http://example.org/ Agent "7"',
    ]


def test_log_bytes_beyond_ascii(tmp_path):
    line = COMMON.encode().replace(b"/a", b"/caf\xc3\xa9/\xff")
    escaped = COMMON.encode().replace(b"/a", rb"/caf\xc3\xa9/\xff")
    raw, same = texts(write(tmp_path / "log", line + escaped), key="path")
    assert raw == same == "/café/\udcff"


def test_log_malformed(tmp_path):
    no_request = COMMON.replace("GET /a?x=1 HTTP/1.1", "-")
    bad_day = COMMON.replace("17/May", "47/May")
    path = write(tmp_path / "log", COMMON + "garbage\n" + no_request + bad_day + COMMON)
    result, trace = records(path)
    assert len(result) == 2
    assert trace.rejects.count == 3
    assert trace.rejects.examples[0] == (2, "not an access log line: 'garbage'")
    assert trace.rejects.examples[1] == (3, "not a request: '-'")
    assert len(texts(path, key="client")) == 3


@pytest.mark.parametrize("year", ["0", "10000", "9" * 30])
def test_log_year_that_no_date_has(tmp_path, year):
    """The line is malformed, and those after it are read."""
    line = COMMON.replace("/2015:", f"/{year}:")
    assert line != COMMON
    result, trace = records(write(tmp_path / "log", COMMON + line + COMMON))
    assert len(result) == 2
    assert trace.rejects.count == 1


@pytest.mark.parametrize("cut", ["[17/May", "[17/May/2015:10:05:03 +0000] ", '"GET /', "200 "])
@pytest.mark.parametrize("filler", [rb"\xff", b"\xff", b"\\\\", b" ", b" [", b"] ", b'\\" '])
def test_log_line_that_takes_long_to_refuse(tmp_path, cut, filler):
    """Escapes that can be read in two ways took twice the time each."""
    begun = COMMON[: COMMON.index(cut) + len(cut)].encode() if cut in COMMON else cut.encode()
    line = begun + 2000 * filler + b"\n"
    path = write(tmp_path / "log", COMMON.encode() + line + COMMON.encode())
    result, trace = records(path)
    assert len(result) == 2
    assert trace.rejects.count == 1


def test_log_common_with_many_escapes(tmp_path):
    """That it is not of the longer format is known at once."""
    line = COMMON.replace("/a?x=1", "/" + r"\xc3\xa9" * 500)
    assert texts(write(tmp_path / "log", line), key="path") == ["/" + "é" * 500]


def test_csv(tmp_path):
    path = write(tmp_path / "k.csv", '\ufefftimestamp,key\n12,"a,b"\n,c\n2013-01-01T00:00:01,d\n')
    result, trace = records(path)
    assert [text for text, _ in result] == ["a,b", "c", "d"]
    assert result[0][1] == 12 * SECOND
    assert result[1][1] is None
    assert result[2][1] == 1356998401 * SECOND
    assert (trace.format, trace.key, trace.time) == ("csv", ("key",), "timestamp")


def test_csv_detected_without_its_name(tmp_path):
    assert texts(write(tmp_path / "k", "when,key\n1,a\n")) == ["a"]
    assert texts(write(tmp_path / "k", "when,who\n1,a\n"), key="who") == ["a"]
    assert texts(write(tmp_path / "k", "when,who\n1,a\n"), time="when") == ["a"]
    assert texts(write(tmp_path / "k", "when,who\n1,a\n")) == ["when,who", "1,a"]


def test_csv_columns(tmp_path):
    path = write(tmp_path / "k.csv", "a,b,when\n1,2,3\n")
    result, _ = records(path, key="b, a", time="when")
    assert result == [("2 1", 3 * SECOND)]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1700000000.123456789", 1_700_000_000_123_456_789),
        ("-0.000000001", -1),
        ("1e-3", 1_000_000),
        ("2013-01-01T00:00:01.000001+01:00", 1_356_994_801_000_001_000),
        ("1969-12-31T23:59:59.5", -500_000_000),
        ("nan", None),
    ],
)
def test_times_are_exact(tmp_path, text, nanoseconds):
    result, _ = records(write(tmp_path / "k.csv", f"time,key\n{text},a\n"))
    assert result == [("a", nanoseconds)]


def test_csv_malformed(tmp_path):
    rows = 'time,key\n1,a\n1\n1,\nsoon,b\ninf,c\n1,"d\ne",f\n2,g\n'
    result, trace = records(write(tmp_path / "k.csv", rows))
    assert [text for text, _ in result] == ["a", "g"]
    assert trace.rejects.count == 6
    assert trace.rejects.examples == [
        (3, "1 fields, not 2"),
        (4, "no key"),
        (5, "not a time: 'soon'"),
        (6, "not a time: 'inf'"),
        (8, "3 fields, not 2"),
    ]


def one_by_one(lines, width):
    """Return the records of key and time in rows of a width, and the lines of malformed rows."""
    reader, before, records, rejects = csv.reader(lines), 0, [], []
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return records, rejects
        except csv.Error:
            row = None
        spanned, before = max(1, reader.line_num - before), reader.line_num
        if row == []:
            continue
        good = row is not None and len(row) == width and row[0].strip()
        if good and (row[1] == "" or row[1].strip().lstrip("-").isdigit()):
            records.append((row[0], int(row[1]) * 10**9 if row[1] else None))
        else:
            rejects.append((before, spanned))


PIECES = (
    ["a,1", "b,-2", "c,", " d , 3 ", "e,4", "f,5"] * 5
    + [",6", " ,7", "g", "h,8,9", "i,x", "", '"j', 'k",10', '"l,m",11', '"n"",12', "o\0,13"]
)  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_blocks_of_csv_lines_are_read_as_rows(seed, monkeypatch):
    rng = random.Random(seed)
    lines = [piece + "\n" for piece in rng.choices(PIECES, k=60)]
    expected, malformed = one_by_one(iter(lines), 2)
    monkeypatch.setattr(traces, "_BLOCK_LINES", rng.choice([1, 2, 7, 4096]))
    rejects = Rejects()
    rows = traces._CsvRecords(iter(lines), 0, 2, [0], 1, rejects)
    result = []
    while records := rows.take(rng.choice([1, 5, 100])):
        result += records
    assert result == expected
    assert rejects.count == sum(spanned for _, spanned in malformed)
    assert [line for line, _ in rejects.examples] == [line for line, _ in malformed][:5]


def test_csv_field_too_long(tmp_path):
    path = write(tmp_path / "k.csv", "key\na\n" + "x" * 200_000 + "\nb\n")
    result, trace = records(path)
    assert [text for text, _ in result] == ["a", "b"]
    assert trace.rejects.examples == [(3, "field larger than field limit (131072)")]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input(pack, monkeypatch):
    source, sink = os.pipe()
    os.write(sink, pack(b"a\nb\n"))
    os.close(sink)
    with open(source) as file:
        monkeypatch.setattr(sys, "stdin", file)
        with open_trace("-") as trace:
            assert (trace.name, trace.fraction) == ("standard input", None)
            assert [text for text, _ in trace] == ["a", "b"]


def test_standard_input_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TraceError, match=r"^standard input is closed"):
        open_trace("-")


COLUMNS = r"k.csv \('when, who, what'\)"
WRONG = [
    ("keys", b"PK\x03\x04", {}, "must be text, uncompressed or compressed with .* lz4, not zip"),
    ("log", COMMON, {"key": "client,ip"}, "key: must be one of client, user, .* not 'ip'"),
    ("log", COMMON, {"time": "when"}, "time: not needed for an access log"),
    ("log", "a\nb\n", {"format": "log"},
     r"no NCSA common .* lines; 2 lines were rejected \(line 1: not an"),
    ("k.csv", "when,who,what\n1,2,3\n", {"key": "key"},
     f"key: must be a column of .*{COLUMNS}, not 'key'"),
    ("k.csv", "when,who,what\n1,2,3\n", {"key": "who", "time": "then"},
     f"time: must be a column of .*{COLUMNS}, not 'then'"),
    ("k.csv", "when,who,what\n1,2,3\n", {},
     "give a key; the columns of .* are 'when, who, what'"),
    ("k.csv", "", {}, "no CSV header: the first line is empty"),
    ("k.csv", "\n", {}, "no CSV header: the first line is empty"),
    ("k.csv", "key\n", {}, "no CSV rows with a key in 'key'"),
    ("keys", "a\n", {"format": "xml"}, "format: must be one of auto, log, .* not 'xml'"),
    ("keys", "a\n", {"key": "a,"}, "key: must be names separated by commas, not 'a,'"),
    ("keys", "a\n", {"format": "lines", "key": "a"}, "key: plain lines have no columns"),
    ("keys", "a\n", {"format": "lines", "time": "a"}, "time: plain lines have no columns"),
]  # fmt: skip


def test_wrong_traces(tmp_path):
    for name, content, options, message in WRONG:
        with pytest.raises(TraceError, match=message):
            records(write(tmp_path / name, content), **options)
    with pytest.raises(FileNotFoundError):
        open_trace(tmp_path / "none")


def test_real_stream():
    result, trace = records(EXAMPLES / "flights_2013.csv.gz")
    assert (trace.format, len(result), trace.rejects.count) == ("csv", 328_521, 0)
    assert len({text for text, _ in result}) == 4_037
