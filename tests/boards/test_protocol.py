"""The serial protocol's codec: frames whole or not at all, whatever the line does."""

import dataclasses
import random
import struct
from itertools import accumulate

import numpy as np
import pytest

from lately.boards.link.frames import FrameReceiver, FrameSender
from lately.boards.link.information import Information, TableShape, check_spec
from lately.boards.link.link import Link
from lately.boards.link.protocol import (
    ANSWER,
    ESCAPE,
    FLAG,
    MAX_PAYLOAD,
    STATISTICS,
    TIME_BITS,
    TIMED_STATISTICS,
    VERSION,
    Decoder,
    Frame,
    ProtocolError,
    Request,
    encode,
    encode_request,
    stuff,
)
from lately.golden import PRESETS, FilterSpec, any_preset, preset
from lately.golden.timestamp.decisions import packed_entries
from lately.hdl.latencies import stamp_bits
from lately.hdl.timing.decision_tables import Threshold

SEED = 20261
INFORMATION = Information(
    slots=4,
    key_bits=70,
    window_generations=5,
    generation=1000,
    digest=bytes(range(8)),
    clock_hz=100_000_000,
    keyed=True,
    time_bits=30,
    self_test_cycles=250_000,
)


def as_before(**fields):
    """Information of a ring, of which what came later is not told."""
    told = {one.name: getattr(INFORMATION, one.name) for one in dataclasses.fields(Information)[:9]}
    return Information(**told | fields)


def frames(data, decoder=None):
    return list((decoder or Decoder()).feed(data))


def test_request_on_the_line():
    # 0x906E is the catalogue's check value of the CRC for "123456789".
    assert stuff(b"123456789\x6e\x90") == b"~123456789\x6e\x90~"
    assert encode(0x31, 0x32, b"3456789") == b"~123456789\x6e\x90~"
    assert encode_request(Request.HELLO, 5)[1:3] == bytes([VERSION << 4 | 1, 5])


def test_flags_and_escapes_are_stuffed():
    assert stuff(bytes([FLAG, 1, ESCAPE])) == b"\x7e\x7d\x5e\x01\x7d\x5d\x7e"


def test_any_body_comes_back():
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    for length in [*range(40), MAX_PAYLOAD]:
        # Half of the bytes are special.
        body = bytes(rng.choice([FLAG, ESCAPE, 0x5E, rng.randrange(256)]) for _ in range(length))
        data = encode(ANSWER | 2, length & 0xFF, body)
        assert frames(data) == [Frame(ANSWER | 2, length & 0xFF, body)]


def test_frames_however_they_are_cut():
    rng = random.Random(SEED)
    bodies = [rng.randbytes(rng.randrange(50)) for _ in range(50)]
    line = b"".join(encode(1, number, body) for number, body in enumerate(bodies))
    decoder = Decoder()
    found = []
    while line:
        cut = rng.randrange(1, 30)
        found += frames(line[:cut], decoder)
        line = line[cut:]
    assert [frame.body for frame in found] == bodies
    assert decoder.bad == 0


def test_damage_costs_one_frame():
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    first, second, third = (encode(1, number, rng.randbytes(20)) for number in range(3))
    for place in range(1, len(second) - 1):
        for damaged in (
            second[:place] + bytes([second[place] ^ 1 << rng.randrange(8)]) + second[place + 1 :],
            second[:place],
            second[:place] + second[place + 1 :],
        ):
            decoder = Decoder()
            found = frames(first + damaged + third, decoder)
            assert [frame.sequence for frame in found] == [0, 2], (place, damaged)
            assert decoder.bad >= (len(damaged) > 1)


def test_garbage_has_no_end_and_takes_no_memory():
    decoder = Decoder()
    for _ in range(100):
        assert frames(b"\x55" * 1000, decoder) == []
    assert len(decoder._open) <= Decoder.MOST + 1
    assert frames(encode(1, 9, b"abc"), decoder) == [Frame(1, 9, b"abc")]
    assert decoder.bad == 1


def test_payload_too_long():
    with pytest.raises(ProtocolError, match="payload: must be at most 252 bytes, not 253"):
        encode_request(Request.OPERATIONS, 0, bytes(253))


def test_information():
    assert Information.unpack(INFORMATION.pack()) == INFORMATION
    assert INFORMATION.self_test_seconds == 0.0025


def test_information_of_a_board_without_a_window_in_time_is_that_of_old_boards():
    counted = as_before(time_bits=0)
    # Byte 23 was one of padding.
    assert counted.pack()[:23] == INFORMATION.pack()[:23]
    assert (counted.pack()[23], INFORMATION.pack()[23]) == (0, 30)
    assert (counted.timed, INFORMATION.timed) == (False, True)
    assert (counted.batch_operations, INFORMATION.batch_operations) == (25, 25)


WINDOWED = dataclasses.replace(
    INFORMATION, window=70_000, age_bits=23, oldest_bits=3, status_bits=0, removes=True, registers=7
)
"""Of a unit whose queries have a window."""


def test_information_of_a_unit_with_windows():
    assert Information.unpack(WINDOWED.pack()) == WINDOWED
    # The beginning is that of all boards.
    assert WINDOWED.pack()[:28] == INFORMATION.pack()
    assert len(INFORMATION.pack()) == 28
    assert WINDOWED.statistics == ["operations", "insertions", "hits"]


@pytest.mark.parametrize("timed", [False, True])
def test_registers_are_those_of_a_ring_unless_others_are_told(timed):
    told = as_before(time_bits=30 * timed)
    assert told.statistics == list(TIMED_STATISTICS if timed else STATISTICS)
    assert (told.window, told.age_bits, told.status_bits) == (0, 7, 2 * timed)
    assert len(told.pack()) == 28
    assert Information.unpack(told.pack()) == told


def test_self_test_that_takes_longer_than_can_be_told():
    longest = dataclasses.replace(INFORMATION, self_test_cycles=1 << 40)
    assert Information.unpack(longest.pack()).self_test_cycles == (1 << 32) - 1


@pytest.mark.parametrize("length", [27, 29, 43, 45, 51, 53])
def test_information_of_another_length(length):
    data = (WINDOWED.pack() + bytes(9))[:length]
    message = f"^information: must be 28, 44 or 52 bytes, not {length}$"
    with pytest.raises(ProtocolError, match=message):
        Information.unpack(data)


def test_information_of_another_version():
    with pytest.raises(ProtocolError, match="protocol: must be version 1, not 9"):
        Information.unpack(b"\x09" + INFORMATION.pack()[1:])


def test_digest_tells_filters_apart():
    specs = {tuple(sorted(spec.to_dict().items())) for spec in PRESETS.values()}
    assert len({spec.digest for spec in PRESETS.values()}) == len(specs)
    spec = preset("tiny")
    assert spec.digest != dataclasses.replace(spec, seed=1).digest
    # What boards in the field answer must not change unnoticed.
    assert spec.digest.hex() == "143d22d13cce49e5"


def of_keys(key_bits, **fields):
    return Information(
        **dict.fromkeys(("slots", "window_generations", "generation", "clock_hz"), 1),
        **{"digest": b"", "keyed": False, "time_bits": 0, "self_test_cycles": 0} | fields,
        key_bits=key_bits,
    )


def test_batches_fit():
    assert (of_keys(64).record_bytes, of_keys(64).batch_operations) == (9, 28)
    assert of_keys(8).batch_operations == 126
    assert of_keys(2008).batch_operations == 1
    # Five bytes of an answer for each.
    timed = [of_keys(bits, time_bits=30) for bits in (8, 72, 80, 2008)]
    assert [one.batch_operations for one in timed] == [25, 25, 22, 1]


def test_parts_of_an_answer():
    assert of_keys(64).verdict_parts == (1, 0, 0)
    assert of_keys(64, time_bits=30).verdict_parts == (1, 0, 4)
    dictionary = of_keys(64, window=1000, age_bits=15, status_bits=1)
    assert (dictionary.verdict_parts, dictionary.record_bytes) == ((2, 0, 1), 11)
    timing = of_keys(64, window=255, age_bits=15, oldest_bits=3, time_bits=30, status_bits=0)
    assert (timing.verdict_parts, timing.record_bytes) == ((2, 1, 4), 10)
    assert (dictionary.batch_operations, timing.batch_operations) == (22, 18)


def test_key_too_wide():
    check_spec(dataclasses.replace(preset("tiny"), key_bits=2008))
    with pytest.raises(ProtocolError, match=r"key_bits: must be at most 2008 .* not 2009"):
        check_spec(dataclasses.replace(preset("tiny"), key_bits=2009))


def test_key_and_window_too_wide():
    spec = dataclasses.replace(any_preset("dictionary-1000"), key_bits=1992)
    check_spec(spec, asked=1000)
    with pytest.raises(ProtocolError, match=r"key_bits: must be at most 1992 .* not 1993"):
        check_spec(dataclasses.replace(spec, key_bits=1993), asked=1000)


def test_several_lanes():
    with pytest.raises(ProtocolError, match=r"^lanes: must be at most 1 for a serial link, not 2"):
        check_spec(preset("two-lanes-tiny"))


DECIDING = dataclasses.replace(
    WINDOWED, window=0, table=TableShape(classes=2, ages=34, phase_bits=3, hashes=4)
)


def test_boards_with_a_table_tell_its_shape():
    packed = DECIDING.pack()
    assert Information.unpack(packed) == DECIDING
    # The shape follows what other boards tell.
    alone = dataclasses.replace(DECIDING, table=TableShape())
    assert packed == alone.pack() + bytes.fromhex("0200 22000000 03 04")
    assert DECIDING.record_bytes == 2 + -(-DECIDING.key_bits // 8)
    for wrong in (packed[:-1], packed + b"0"):
        with pytest.raises(ProtocolError, match=f"information: must be .* or {len(packed)} bytes"):
            Information.unpack(wrong)
    wide = dataclasses.replace(DECIDING, table=TableShape(2, 34, 55, 4))
    with pytest.raises(
        ProtocolError, match=r"^information: entry_bits must be at most 64, not 65$"
    ):
        Information.unpack(wide.pack())


def test_entries_of_a_table():
    """Phase, age, class and threshold from the lowest bit on, each with the bits that it needs."""
    shape = DECIDING.table
    assert shape.field_bits == (3, 6, 1, 3)
    assert (shape.entry_bits, shape.entry_bytes) == (13, 2)
    thresholds = np.arange(shape.classes * shape.ages << shape.phase_bits) % 6
    entries = packed_entries(thresholds.reshape(shape.thresholds), shape.hashes).tolist()
    assert len(set(entries)) == len(entries) == 544
    for entry in entries:
        phase, age, query_class, least = entry & 7, entry >> 3 & 63, entry >> 9 & 1, entry >> 10
        assert least == ((query_class * shape.ages + age) * 8 + phase) % 6


def test_entries_are_those_of_the_unit():
    spec = dataclasses.replace(any_preset("timing-counted-tiny"), block=4, classes=3, phase_bits=1)
    unit, told = Threshold(spec=spec, classes=3, bits=1), TableShape(3, spec.table_shape[1], 1, 3)
    offsets = list(accumulate(told.field_bits, initial=0))
    names = ("phase", "age", "query_class", "least")
    assert [unit[name].offset for name in names] == offsets[:-1]
    assert unit.size == offsets[-1] == told.entry_bits


def test_class_takes_room_in_a_frame():
    """As a window does; a board whose records did not fit would be refused by every host."""
    spec = dataclasses.replace(any_preset("timing-tiny"), classes=2, key_bits=2000)
    assert Link(spec, clock_hz=1 << 24, baud=1 << 20).information.batch_operations == 1
    with pytest.raises(ProtocolError, match=r"^key_bits: must be at most 2000 .*, not 2001$"):
        Link(dataclasses.replace(spec, key_bits=2001), clock_hz=1 << 24, baud=1 << 20)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"table": TableShape(0, 34, 3, 4)}, "classes must be at least 1, not 0"),
        ({"table": TableShape(2, 1, 3, 4)}, "ages must be at least 2, not 1"),
        ({"table": TableShape(2, 34, 3, 0)}, "hashes must be at least 1, not 0"),
        ({"window": 1}, "window must be 0 where a table answers, not 1"),
    ],
)
def test_no_board_has_such_a_table(changed, message):
    wrong = dataclasses.replace(DECIDING, **changed)
    packed = dataclasses.replace(wrong, table=DECIDING.table).pack()[:-8]
    packed += struct.pack("<HIBB", *wrong.table)
    with pytest.raises(ProtocolError, match=f"^information: {message}$"):
        Information.unpack(packed)


def test_window_too_long():
    spec = FilterSpec(family="gebf", window=4096, epochs=128, hashes=2, bits=1 << 16)
    with pytest.raises(ProtocolError, match="generations in the window: must be at most 127"):
        check_spec(spec)


def test_span_too_long():
    spec = dataclasses.replace(preset("tiny"), span=(1 << 29) - 1)
    check_spec(spec)
    assert stamp_bits(spec.span) == TIME_BITS
    message = "^span: must be at most 536870911 for a serial link, not 536870912$"
    with pytest.raises(ProtocolError, match=message):
        check_spec(dataclasses.replace(preset("tiny"), span=1 << 29))


@pytest.mark.parametrize("slots", [1, 3, 32, 4.0])
@pytest.mark.parametrize("end", [FrameReceiver, FrameSender])
def test_slots_of_frames_wrong(end, slots):
    with pytest.raises(ValueError, match=rf"^Slots must be a power of two, 2 to 16, not {slots}$"):
        end(slots=slots)


@pytest.mark.parametrize(
    ("name", "bad", "good", "rule"),
    [
        ("slots", 0, 1, "1 to 16, not 0"),
        ("slots", 17, 16, "1 to 16, not 17"),
        ("key_bits", 0, 1, "at least 1, not 0"),
        ("clock_hz", 921_599, 921_600, "at least 921,600, not 921,599"),
    ],
)
def test_description_that_no_board_has(name, bad, good, rule):
    """Else a host would divide by it, or wait for years."""
    assert (
        getattr(Information.unpack(dataclasses.replace(INFORMATION, **{name: good}).pack()), name)
        == good
    )
    with pytest.raises(ProtocolError, match=f"^information: {name} must be {rule}$"):
        Information.unpack(dataclasses.replace(INFORMATION, **{name: bad}).pack())


def test_description_of_keys_that_no_frame_holds():
    most = 8 * (MAX_PAYLOAD - 1)
    assert (
        Information.unpack(dataclasses.replace(INFORMATION, key_bits=most).pack()).batch_operations
        == 1
    )
    with pytest.raises(ProtocolError, match="such that operations and answers fit into frames"):
        Information.unpack(dataclasses.replace(INFORMATION, key_bits=most + 1).pack())
