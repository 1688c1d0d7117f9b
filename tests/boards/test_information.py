"""The description of a board, and the bytes of operations and results on the line."""

import json
import zlib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from lately.boards.link.information import Information, SelfTestPlan
from lately.boards.link.link import FilterLink, FrameLink
from lately.boards.link.protocol import MAX_ANSWER, ProtocolError
from lately.golden import FilterSpec, SpecificationError, any_preset, preset
from lately.hdl.packets.deduplicator import Deduplicator

RATES = {"clock_hz": 24_000_000, "baud": 3_000_000}
DECIDED = replace(any_preset("timing-tiny"), classes=3)
LONG = FilterSpec(family="apbbf", k=2, l=2, block_bits=16, hashes_per_block=2, blocks=16, clear=8,
                  key_bits=72, span=6)  # fmt: skip


@cache
def described(spec):
    return FilterLink(spec, **RATES).information


def test_bytes_of_operations_and_results():
    """No unit takes more bytes on the line than this."""
    found = {
        name: (one.record_bytes, one.result_bytes, one.batch_operations)
        for name, one in (
            (name, described(any_preset(name)))
            for name in ("tiny", "siphash-tiny", "default", "timed-tiny", "dictionary-1000",
                         "timing-counted-tiny", "timing-default")
        )
    }  # fmt: skip
    assert found == {
        "tiny": (2, 1, 126),
        "siphash-tiny": (3, 1, 84),
        "default": (9, 1, 28),
        "timed-tiny": (2, 5, 25),
        "dictionary-1000": (11, 3, 22),
        "timing-counted-tiny": (4, 2, 63),
        "timing-default": (11, 8, 16),
    }
    one = described(DECIDED)
    assert (one.record_bytes, one.result_bytes) == (4, 6)


def test_records_of_operations():
    one = described(any_preset("dictionary-1000"))
    codes, keys = np.array([8, 3]), np.array([[1], [0x12345]], np.uint64)
    records = one.pack_operations(codes, keys, np.array([300, 7]))
    assert [record.tobytes().hex() for record in records] == [
        "0801000000000000002c01", "0345230100000000000700"
    ]  # fmt: skip
    wide = described(LONG).pack_operations(codes, np.array([[1, 2], [3, 0xFF]], np.uint64), codes)
    assert [record.tobytes().hex() for record in wide] == [
        "08" + "0100000000000000" + "02", "03" + "0300000000000000" + "ff"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "result", "octets"),
    [
        ("tiny", {"seen": 1, "age": 1}, "81"),
        ("dictionary-1000", {"seen": 1, "age": 999, "status": 1}, "e78301"),
        ("timing-default", {"seen": 0, "age": 32769, "oldest": 3, "time": 0x2ABCDEF1},
         "018000" "03" "f1debc2a"),
        ("timing-counted-tiny", {"seen": 1, "age": 20, "oldest": 2}, "9402"),
    ],
)  # fmt: skip
def test_record_of_a_result(name, result, octets):
    one = described(any_preset(name))
    record = one.pack_results({field: np.array([value]) for field, value in result.items()})
    assert record.tobytes().hex() == octets
    values = one.unpack_results(record)
    assert {field: int(value[0]) for field, value in values.items()} == result


@pytest.mark.parametrize("name", ["tiny", "timed-tiny", "dictionary-tiny", "timing-counted-tiny"])
def test_description_comes_back(name):
    one = described(any_preset(name))
    rom = one.rom()
    found = Information.unpack(rom[4 : 4 + int.from_bytes(rom[:4], "little")])
    assert found == one
    assert found.specification == any_preset(name)
    assert len(rom) <= 512
    assert (found.timed, found.removes, found.shifts) == (
        name == "timed-tiny", name == "dictionary-tiny", name in ("tiny", "timed-tiny")
    )  # fmt: skip


def test_description_of_a_deduplicator():
    spec = replace(preset("timed-tiny"), key_bits=64, blocks=256, window=None, generation=None)
    one = FrameLink(Deduplicator(spec, width=8, when_full="drop", statistics_bits=64),
                    baud=3_000_000).information  # fmt: skip
    assert one.frames
    assert (one.key_bits, one.registers["digest_secret"]) == (64, (0x50 // 4, 128))
    assert "self_test" not in one.registers


def packed(one=None, **changed):
    one = one or described(preset("tiny"))
    rom = one.rom()
    values = json.loads(zlib.decompress(rom[4 : 4 + int.from_bytes(rom[:4], "little")]))
    return zlib.compress(json.dumps(values | changed).encode())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"version": 1}, "protocol: must be version 2, not 1"),
        ({"slots": 17}, "slots: must be 1 to 16, not 17"),
        ({"slots": -1}, "numbers: must be integers of at least 0, not -1"),
        ({"clock_hz": 1}, "clock_hz: must be at least 921600, not 1"),
        ({"request": {"key": 0}}, "key: must be at least 1 bit, not 0"),
        ({"request": {"key": 3000}}, "key_bits: must be at most 2008 for a serial link"),
        ({"result": {"seen": 1, "age": 70}}, "result: must be at most 62 bits in each part"),
        ({"registers": {}}, "registers: must be with control"),
        ({"registers": {"control": [5, 32]}}, "registers: must be control and status"),
        ({"result": {}}, "information: must be the description of a board"),
        ({"registers": 5}, "information: must be the description of a board"),
        ({"unknown": 5}, "information: must be the description of a board"),
    ],
)
def test_description_wrong(changed, message):
    with pytest.raises(ProtocolError, match=f"^{message}"):
        Information.unpack(packed(**changed))


def test_description_that_is_none():
    for wrong in (b"", b"abc", zlib.compress(b"[" * 100_000), zlib.compress(b"5")):
        with pytest.raises(ProtocolError, match=r"^information: must be the description of a b"):
            Information.unpack(wrong)


def test_family_that_is_not_known():
    found = Information.unpack(packed(spec={"family": "new", "key_bits": 8}))
    assert found.key_bits == 8
    with pytest.raises(SpecificationError, match="family"):
        print(found.specification)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (preset("two-lanes-tiny"), "lanes: must be at most 1 for a serial link, not 2"),
        (replace(preset("tiny"), span=1 << 29), "span: must be at most 536870911 for a serial"),
        (replace(preset("tiny"), key_bits=2009), "key_bits: must be at most 2008 for a serial"),
        (replace(DECIDED, key_bits=2001), "key_bits: must be at most 2000 for a serial"),
    ],
)
def test_filter_that_the_protocol_does_not_support(spec, message):
    with pytest.raises(ProtocolError, match=f"^{message}"):
        described(spec)


def test_results_fit_an_answer():
    """An answer has room for fewer results with a time than a request for operations."""
    one = replace(described(preset("timed-tiny")), plan=SelfTestPlan())
    assert one.batch_operations == MAX_ANSWER // one.result_bytes == 25
