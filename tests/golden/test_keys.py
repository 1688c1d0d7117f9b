"""Keys as people have them: integers, text and bytes, single and in lists and arrays."""

import hashlib
import re
from array import array
from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from ipaddress import IPv4Address
from uuid import UUID

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lately.golden import GEBF, text_keys
from lately.golden.hash.keys import check_keys, is_single, random_keys

COMPOUND = "give a compound key as text or bytes"
TUPLE = "which may be one key or several: give a list of keys, or a compound key as text or bytes"


def values(keys, key_bits=64):
    words = check_keys(keys, key_bits)
    assert words.dtype == np.uint64
    assert words.shape[1] == -(-key_bits // 64)
    return [sum(int(word) << 64 * at for at, word in enumerate(row)) for row in words]


class Port(IntEnum):
    SSH = 22


@pytest.mark.parametrize("key_bits", [64, 100, 600])
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([1, 2, 2**63], [1, 2, 2**63]),
        ({2**64 - 1}, [2**64 - 1]),
        ((key for key in (2, 1)), [2, 1]),
        (deque([3, 4]), [3, 4]),
        ({5: "a", 6: "b"}.keys(), [5, 6]),
        (array("Q", [7, 8]), [7, 8]),
        (np.ma.array([1, 2]), [1, 2]),
        (pyarrow.array([1, 2]), [1, 2]),
        (pyarrow.chunked_array([[1], [2]]), [1, 2]),
        (pyarrow.scalar(5), [5]),
        ([pyarrow.scalar(5), 6], [5, 6]),
        (range(3), [0, 1, 2]),
        ([np.uint8(3), 4, np.int64(5), Port.SSH], [3, 4, 5, 22]),
        ([np.uint64(2**63), 1], [2**63, 1]),
        (np.array([1, 2**63], object), [1, 2**63]),
        (np.array([7, 8], np.int8), [7, 8]),
        (np.array([7, 2**32 - 1], np.uint32), [7, 2**32 - 1]),
        (np.array([2**63], ">u8"), [2**63]),
        ([np.array(3), np.array(4)], [3, 4]),
        ([], []),
        (iter([]), []),
        (np.array([], object), []),
        (7, [7]),
        (np.uint16(7), [7]),
        (np.array(7), [7]),
        (Port.SSH, [22]),
    ],
)
def test_integers(keys, expected, key_bits):
    # A generator can be read once only, and all parameters share it.
    keys = iter(expected) if isinstance(keys, Iterator) else keys
    assert values(keys, key_bits) == expected


@pytest.mark.parametrize("kind", [list, tuple])
def test_rows_of_words(kind):
    assert values([kind((1, 2)), kind((3, 4))], 128) == [1 | 2 << 64, 3 | 4 << 64]


@pytest.mark.parametrize(("key_bits", "shape"), [(64, (3,)), (65, (3, 2))])
def test_random_keys_are_rows_only_if_wider_than_a_word(key_bits, shape):
    assert random_keys(np.random.default_rng(1), 3, key_bits).shape == shape


def test_wide_integers():
    wide = [1, 1 << 99, (1 << 100) - 1]
    assert values(wide, 100) == wide
    assert values(1 << 99, 100) == [1 << 99]
    assert values(np.array(wide, object), 100) == wide
    assert values([[1, 2], [3, 1 << 35]], 100) == [1 + (2 << 64), 3 + (1 << 99)]
    assert values([[2**63, 1], np.array([1, 0])], 100) == [2**63 + (1 << 64), 1]
    assert values(np.array([[2**63, 1]], np.uint64), 100) == [2**63 + (1 << 64)]


PINNED = {
    ("", 64): 0xB4B2797457A0A6E4,
    ("a", 16): 0xF840,
    ("a", 64): 0x2F42665B399EF840,
    (b"a", 64): 0x2F42665B399EF840,
    ("a", 104): 0x4E4662E5297F8773936E5EC327,
    ("caf\xe9 \u4e2d", 64): 0x21561174F1AAE214,
    (b"\xff\x00", 64): 0xEB20D4143D8AE98B,
    ("a", 576): int(
        "614dce551eb092d051c6b08911e934c46350357b3c6802a86fee0abb330779bc"
        "79a2060eecb1b736a40b534280136c73ca26562550caafea9cfee8a5012559bd"
        "dc045a4fb02c7e86",
        16,
    ),
}


@pytest.mark.parametrize(("text", "key_bits"), PINNED)
def test_digests_never_change(text, key_bits):
    expected = PINNED[text, key_bits]
    assert values(text, key_bits) == [expected]
    if isinstance(text, str):
        assert values([text.encode()], key_bits) == [expected]
    words = np.atleast_2d(text_keys([text], key_bits=key_bits))
    assert (words == check_keys(text, key_bits)).all()


def test_keyed_digests_never_change():
    assert text_keys(["a"], key_bits=64, key=b"secret").tolist() == [0x5E93FE86EB471D8E]
    wide = text_keys(["a"], key_bits=600, key=b"secret")
    assert wide[0, :2].tolist() == [0xFC8F4074350AEB78, 0x5FD351F85B268EC1]
    shake = hashlib.shake_256(b"\x06" + bytes(7) + b"secreta").digest(8)
    assert int(wide[0, 0]) == int.from_bytes(shake, "little")


@pytest.mark.parametrize(
    "keys",
    [
        ["a", "b"],
        deque(["a", b"b"]),
        {"a": 1, "b": 2}.keys(),
        (letter for letter in "ab"),
        pyarrow.array(["a", "b"]),
        pyarrow.array([b"a", b"b"], pyarrow.binary(1)),
        [pyarrow.scalar("a"), "b"],
        np.array([b"a", b"b"], "V1"),
        [bytearray(b"a"), memoryview(b"b")],
        np.array(["a", "b"]),
        np.array(["a", b"b"], object),
        [np.str_("a"), np.bytes_(b"b")],
    ],
)
def test_texts(keys):
    assert values(keys) == [0x2F42665B399EF840, *values("b")]


def test_text_is_no_number():
    assert values("5") != values(5)


def test_bytes_that_were_no_text():
    assert values(b"\xff".decode("utf-8", "surrogateescape")) == values(b"\xff")
    with pytest.raises(ValueError, match=r"^keys: must be text that UTF-8 has, not '\\ud800'$"):
        check_keys("\ud800", 64)


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        (1.0, TypeError, "must be integers, str or bytes, not float"),
        (np.array(1.0), TypeError, "must be integers, str or bytes, not float64"),
        ([1.0], TypeError, "must be integers, str or bytes, not float"),
        ([1, 2.0], TypeError, "must be integers, str or bytes, not float"),
        (True, TypeError, "must be integers, str or bytes, not bool"),
        ([1, True], TypeError, "must be integers, str or bytes, not bool"),
        ([np.True_], TypeError, "must be integers, str or bytes, not bool"),
        (object(), TypeError, "must be integers, str or bytes, not object"),
        (UUID(int=1), TypeError, "must be integers, str or bytes, not UUID"),
        ([IPv4Address(1)], TypeError, "must be integers, str or bytes, not IPv4Address"),
        (np.datetime64("2020"), TypeError, "must be integers, str or bytes, not datetime64[Y]"),
        (
            np.zeros(1, "i4,i4"),
            TypeError,
            "must be integers, str or bytes, not [('f0', '<i4'), ('f1', '<i4')]",
        ),
        (("10.0.0.1", "443"), TypeError, f"must not be a tuple, {TUPLE}"),
        ((1, 2), TypeError, f"must not be a tuple, {TUPLE}"),
        ((), TypeError, f"must not be a tuple, {TUPLE}"),
        ({"a": 1}, TypeError, "must not be a dict: give its keys() or values()"),
        ([1, "a"], TypeError, "must be all integers or all text and bytes, not some of both"),
        ([("a", "b")], TypeError, f"must have integers as words, not str: {COMPOUND}"),
        ([[True]], TypeError, f"must have integers as words, not bool: {COMPOUND}"),
        ([[1], [1, 2]], ValueError, "must have rows of one length, not of several"),
        ([[-1]], ValueError, "must not be negative, not -1"),
        ([[1 << 64]], ValueError, "must have words below 2**64, not 0x10000000000000000"),
        ([1 << 64], ValueError, "must be below 2**64, not 0x10000000000000000 or more"),
        (1 << 64, ValueError, "must be below 2**64, not 0x10000000000000000 or more"),
        (-3, ValueError, "must not be negative, not -3"),
        ([2**63, -1], ValueError, "must not be negative, not -1"),
        (np.array([-(2**63)]), ValueError, f"must not be negative, not {-(2**63)}"),
    ],
)
def test_keys_wrong(keys, error, message):
    with pytest.raises(error, match=f"^keys: {re.escape(message)}$"):
        check_keys(keys, 64)


@pytest.mark.parametrize(
    ("keys", "null"),
    [
        (None, "NoneType at position 0"),
        (["a", None], "NoneType at position 1"),
        (np.array([1, None], object), "NoneType at position 1"),
        ([1, 2, float("nan")], "float at position 2"),
        (np.array([1, np.nan]), "float64 at position 1"),
        (np.ma.array([1, 2], mask=[False, True]), "masked at position 1"),
        (pyarrow.array([1, None]), "float64 at position 1"),
        (pyarrow.array(["a", None]), "NoneType at position 1"),
        (pyarrow.array([b"a", None]), "NoneType at position 1"),
        ([pyarrow.scalar(1), pyarrow.scalar(None)], "NoneType at position 1"),
        (pyarrow.scalar(None), "NoneType at position 0"),
        ([1, type("NAType", (), {})()], "NAType at position 1"),
    ],
)
def test_nulls(keys, null):
    message = f"keys: must be integers, str or bytes, not a null ({null})"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        check_keys(keys, 64)


def test_bytes_in_arrays_of_one_width():
    """An array of S has lost whether a zero at the end of a key is part of the key."""
    keys = np.array([b"a", b"a\0"])
    message = (
        "keys: must not be an array of S2, which drops zeros at the end: give "
        "array.astype(object) if zeros are padding, or array.view('V2') if they belong to the keys"
    )
    for several in (keys, keys[:1], np.array(b"ab")):
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            check_keys(several, 64)
    assert values(keys.astype(object)) == [*values(b"a"), *values(b"a")]
    assert values(keys.view("V2")) == [*values(b"a\0"), *values(b"a\0")]
    assert values(keys.view("V2")[0]) == values(b"a\0")


@pytest.mark.parametrize("texts", ["ab", b"ab"])
def test_texts_wrong(texts):
    message = f"^texts: must be an iterable of str or bytes, not {type(texts).__name__}$"
    with pytest.raises(TypeError, match=message):
        text_keys(texts, key_bits=64)


def test_digest_key_wrong():
    with pytest.raises(ValueError, match=r"^key: must have at most 64 bytes, not 65$"):
        text_keys(["a"], key_bits=64, key=bytes(65))


@given(st.lists(st.integers(0, (1 << 130) - 1)), st.integers(130, 300))
def test_lists_are_their_integers(keys, key_bits):
    assert values(keys, key_bits) == keys


@pytest.mark.parametrize(
    "single",
    [
        5, np.uint8(5), np.array(5), "a", b"a", bytearray(b"a"), np.void(b"a"),
        pyarrow.scalar(5), pyarrow.scalar("a"), UUID(int=1),
    ],
)  # fmt: skip
def test_single(single):
    assert is_single(single)
    assert not is_single([single])


def test_filter_takes_them_all():
    model = GEBF(window=100, epochs=4, hashes=4, bits=20_000)
    model.insert(["client", b"\x00\x01"])
    model.insert(2**63)
    assert model.query(np.array(["client", "other"])).tolist() == [True, False]
    assert model.query([b"\x00\x01", "\x00\x01"]).tolist() == [True, True]
    assert model.query([1, 2**63]).tolist() == [False, True]
    assert model.query(key for key in (1, 2**63)).tolist() == [False, True]
    assert model.query(pyarrow.scalar("client")) is True
    assert pyarrow.scalar("other") not in model
    with pytest.raises(TypeError, match=r"^keys: must not be a tuple, "):
        model.insert(("10.0.0.1", "443"))
    assert "443" not in model
