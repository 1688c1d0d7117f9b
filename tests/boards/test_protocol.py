"""The codec of the serial protocol: frames arrive whole or not at all, whatever the line does."""

import random

import pytest

from lately.boards.link.frames import FrameReceiver, FrameSender
from lately.boards.link.protocol import (
    ANSWER,
    ESCAPE,
    FLAG,
    MAX_PAYLOAD,
    VERSION,
    Decoder,
    Frame,
    ProtocolError,
    Request,
    encode,
    encode_request,
    stuff,
)

SEED = 20261


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


def test_garbage_without_an_end_takes_no_memory():
    decoder = Decoder()
    for _ in range(100):
        assert frames(b"\x55" * 1000, decoder) == []
    assert len(decoder._open) <= Decoder.MOST + 1
    assert frames(encode(1, 9, b"abc"), decoder) == [Frame(1, 9, b"abc")]
    assert decoder.bad == 1


def test_payload_too_long():
    with pytest.raises(ProtocolError, match="payload: must be at most 252 bytes, not 253"):
        encode_request(Request.OPERATE, 0, bytes(253))


@pytest.mark.parametrize("slots", [1, 3, 32, 4.0])
@pytest.mark.parametrize("end", [FrameReceiver, FrameSender])
def test_slots_wrong(end, slots):
    with pytest.raises(ValueError, match=rf"^Slots must be a power of two, 2 to 16, not {slots}$"):
        end(slots=slots)
