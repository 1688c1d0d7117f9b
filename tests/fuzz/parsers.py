"""Parsers that take bytes from outside, with good inputs of each."""

import gzip
import io
import json
import os
import random
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import serial
from capture_files import MODIFIED, RAW, interface, packet, pcap, section
from paths import PATHS, taking

import papers.models  # noqa: F401
from campaigns.engine import read as read_results
from lately.boards.link.layout import MISSING, result_words
from lately.captures.capture_reader import CaptureReader
from lately.golden import (
    PRESETS,
    DecisionTable,
    Specification,
    WindowDictionary,
    any_preset,
    from_spec,
    load,
    preset,
)
from lately.golden.durations import time_seconds
from lately.golden.errors import LatelyError, SpecificationError
from lately.golden.hash.keys import KeyDigest
from lately.golden.packets.comparison import Comparison, parse_fields
from lately.golden.packets.packet_digest import packet_digest, packet_digests
from lately.golden.packets.packet_layers import ETHERNET, Reach
from lately.golden.spec.base import DIGESTS
from lately.golden.state_files import read_state, write_state
from lately.host import Board
from lately.replay.traces import open_trace
from lately.sim.bench.packets import ethernet, ip4, ip6, udp

from .damage import damage

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Parser:
    """A parser: what it takes, how it is called, and how inputs of it are damaged.

    Attributes
    ----------
    parse : callable
        Takes bytes; raises a `LatelyError` if it refuses them.
    samples : callable
        Returns good inputs.
    seal : callable
        Makes damaged content an input again whose check sequence is right.
    """

    parse: Callable[[bytes], object]
    samples: Callable[[], list[bytes]]
    seal: Callable[[bytes], bytes] = bytes

    def draw(self, draw: random.Random, samples: list[bytes]) -> bytes:
        """Return a damaged input."""
        damaged = damage(draw.choice(samples), draw, samples)
        return self.seal(damaged) if draw.random() < 0.75 else damaged


def in_file(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """Return a parser of bytes from one of files, which are in memory where they can be."""

    def parse(data: bytes) -> object:
        path = _file()
        with open(path, "wb") as file:
            file.write(data)
        return read(path)

    return parse


@cache
def _file() -> str:
    memory = "/dev/shm"
    folder = tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None)
    return os.path.join(folder, "input")


# Serial link


class _Line:
    """Replaces a serial port, from which bytes come as long as there are any."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def write(self, data: bytes) -> None:
        """Nobody hears it."""

    def read(self, count: int) -> bytes:
        # The line is quiet when the host discards what is on it.
        return b"" if count == 4096 else self._data.read(count)

    def close(self) -> None:
        """Nothing is open."""


def _ask_board(data: bytes) -> object:
    with patch.object(serial, "serial_for_url", lambda *_, **__: _Line(data)):
        board = Board("board", baud=10**9, timeout=1e-4, attempts=1)
    with board:
        return board.perform([2, 1, 3], [0, 1, 0])


@cache
def _board_answers() -> list[bytes]:
    samples = []
    for spec in (any_preset(name) for name in ("tiny", "timed-tiny", "dictionary-tiny")):
        digest = np.frombuffer(spec.fingerprint, ">u4")[::-1]
        known, size = np.array([0x4C41544C], ">u4"), 3 * result_words(spec)
        # Registers are read twice; then three operations are performed.
        registers = [digest, [MISSING], [1 << 24]]
        words = [known, *(part for part in registers for _ in range(2)), known, [7], [7]]
        results = np.arange(size, dtype="<u4")
        words.append([10, zlib.crc32(results), *results.tolist()])
        samples.append(np.concatenate(words).astype(">u4").tobytes())
    return samples


# Files


def _specifications() -> list[bytes]:
    names = ("dictionary-1000", "dictionary-ring-1000", "timing-small", "timing-counted-default")
    specs: list[Specification] = [*PRESETS.values(), *(any_preset(name) for name in names)]
    return [spec.toml().encode() for spec in specs]


def _states() -> list[bytes]:
    models = [
        from_spec(preset("tiny")),
        from_spec(preset("siphash-tiny"), secret=5),
        from_spec(preset("timed-tiny")),
        from_spec(any_preset("timing-counted-tiny")),
        WindowDictionary(window=20, columns=2, rows=16, digest_bits=9),
    ]
    results = []
    for model in models:
        model.save(_file(), secrets=True)
        results.append(Path(_file()).read_bytes())
    old = sorted((ROOT / "tests" / "data" / "states").glob("*.npz"))
    return results + [path.read_bytes() for path in old]


def _unsealed_states() -> list[bytes]:
    return [_unsealed(state) for state in _states()]


def _unsealed(state: bytes) -> bytes:
    """Header and arrays of a state file, as bytes that can be damaged."""
    path = _file()
    Path(path).write_bytes(state)
    header, arrays = read_state(path)
    parts = [json.dumps(header).encode()]
    for name, array in arrays.items():
        kind = f"{name}\x1f{array.dtype.str}\x1f{json.dumps(array.shape)}".encode()
        parts += [kind, array.tobytes()]
    return b"\x1e\x1e".join(parts)


def _seal_state(content: bytes) -> bytes:
    """Write a state file of damaged content with the right digest, where it is one at all."""
    head, *parts = content.split(b"\x1e\x1e")
    try:
        header = json.loads(head)
        arrays = {}
        for kind, data in zip(parts[::2], parts[1::2], strict=False):
            name, dtype, shape = kind.decode().split("\x1f")
            array = np.frombuffer(data, np.dtype(dtype))
            shape = json.loads(shape)
            arrays[name] = array.reshape(shape) if np.prod(shape) == array.size else array
        write_state(_file(), header, arrays)
    except Exception:  # What numpy makes of a damaged name of a type.
        return content
    return Path(_file()).read_bytes()


def _tables() -> list[bytes]:
    for hashes in (2, 4):
        thresholds = np.ones((2, 3, 2), np.uint8)
        DecisionTable(thresholds, hashes, 1, 1).save(_file())
    return [Path(_file()).read_bytes()]


def _results() -> list[bytes]:
    lines = (ROOT / "results" / "hardware.jsonl").read_bytes().splitlines(keepends=True)
    return [b"".join(lines[:2])]


# Streams


def _traces() -> list[bytes]:
    texts = [
        b"one\ntwo\none\n",
        b'"key","time"\n"a",1\n"b",2.5\n"a",2013-01-01T00:00:00Z\n',
        b"key,time\nx,1700000000.5\n\ny,bad\n",
        b'1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 7 "-" "Mozilla"\n' * 2,
    ]
    return [*texts, gzip.compress(texts[1]), *_captures()[:2]]


def _read_trace(path: str) -> object:
    with open_trace(path) as trace:
        return [trace.read(100) for _ in range(4)]


def _packets() -> list[bytes]:
    inner = udp(bytes(20))
    return [ethernet(0x800, ip4(inner)), ethernet(0x86DD, ip6(inner), tags=(5, 6)), bytes(60)]


@cache
def _captures() -> list[bytes]:
    timed = [(10**9 * number, frame) for number, frame in enumerate(_packets())]
    return [
        pcap(timed),
        pcap(timed, big=True, nano=True),
        pcap(timed, magic=MODIFIED, version=(2, 3)),
        section() + interface() + b"".join(packet(number, frame) for number, frame in timed),
    ]


def _read_capture(path: str) -> object:
    with CaptureReader(path) as capture:
        results = []
        while (packets := capture.read()) is not None:
            results.append(packet_digests(packets.buffer, packets.locations, secret=5).values)
        return results


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("utf-8", "replace"))


def _packet(data: bytes) -> object:
    inner = Comparison(reach=Reach.INNER)
    return [packet_digest(data, len(data), link, inner) for link in (ETHERNET, RAW)]


def _digest(data: bytes) -> None:
    """Digest spans of the data, whose bounds are its first bytes, on both paths alike."""
    bounds = np.frombuffer(data[: len(data) // 16 * 8], "<i8").astype(np.int64)
    text = np.frombuffer(data, np.uint8)
    results = []
    for path, name in product(PATHS, DIGESTS):
        with taking(path):
            try:
                words = KeyDigest(100, name).of_spans(text, bounds[:-1], bounds[1:])
                results.append(words.tolist())
            except ValueError as error:
                results.append(str(error))
    if results[:2] != results[2:]:
        raise AssertionError(results)
    if results[0] == "spans: must be in the buffer":
        raise SpecificationError(results[0])


def _spans() -> list[bytes]:
    bounds = [[0, 3, 3, 20, 64], [8, 9, 9, 10, 80], [7] * 6]
    return [np.array(span, "<i8").tobytes() * 2 for span in bounds]


PARSERS: dict[str, Parser] = {
    "answers of a board": Parser(_ask_board, _board_answers),
    "specifications": Parser(in_file(Specification.from_toml), _specifications),
    "state files": Parser(in_file(load), _states),
    "state files, digest right": Parser(in_file(load), _unsealed_states, _seal_state),
    "tables of thresholds": Parser(in_file(DecisionTable.load), _tables),
    "results of campaigns": Parser(in_file(read_results), _results),
    "traces": Parser(in_file(_read_trace), _traces),
    "captures": Parser(in_file(_read_capture), _captures),
    "spans of text": Parser(_digest, _spans),
    "packets": Parser(_packet, _packets),
    "durations": Parser(
        _text(lambda text: time_seconds(text, "span")), lambda: [b"50ms", b"1.5 s", b"10us", b"2h"]
    ),
    "fields of a digest": Parser(_text(parse_fields), lambda: [b"tos", b"tos,ttl", b"none"]),
}
"""Parsers by what they read."""

REFUSALS = (LatelyError,)
"""Errors with which a parser refuses an input."""

__all__ = ["PARSERS", "REFUSALS", "Parser", "in_file"]
