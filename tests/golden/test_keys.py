"""Keys as people have them: integers, text and bytes, single and in lists and arrays."""

import hashlib
import io
import re
from array import array
from collections import deque, namedtuple
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, ip_network
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from cases import daily
from every_model import MODELS, RINGS, build, times
from hypothesis import given
from hypothesis import strategies as st
from paths import PATHS, needs_extension, taking
from plain_siphash import scalar_siphash

from lately.golden import GEBF, BlockedGEBF, WindowDictionary, load
from lately.golden.hash import keys as keys_module
from lately.golden.hash.keys import KeyDigest, check_keys, encoded, is_single, random_keys
from lately.golden.spec.base import DIGESTS

EXPECTED = "must be integers, text or bytes"
MIXED = "must be all integers, or all text and bytes, not a mixture"
COLUMNS = "columns must have the same length, not the lengths"
SKIP = 'insert, query, check_and_insert and age skip it with nulls="skip"'
ELEMENTS = "; pass a list of its elements"
WIDE = "pass a compound key as a tuple"
NOON = datetime(2026, 3, 1, 12, 30, 0, 5, UTC)


def values(keys, key_bits=64, **digest):
    words = check_keys(keys, KeyDigest(key_bits, **digest))
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


def test_rows_of_words():
    assert values([[1, 2], [3, 4]], 128) == [1 | 2 << 64, 3 | 4 << 64]


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
    assert values(text, key_bits, name="blake2b", seed=5, secret=6) == [expected]
    if isinstance(text, str):
        assert values([text.encode()], key_bits) == [expected]


@pytest.mark.parametrize("path", daily(1, ["compiled", "readable"]))
@pytest.mark.parametrize("key_bits", [1, 17, 64, 65, 128, 600])
@pytest.mark.parametrize(("seed", "secret"), [(0, 0), (7, 0), (7, 1 << 100)])
def test_siphash_is_that_of_the_paper_under_keys_of_shake256(path, key_bits, seed, secret):
    """The documented derivation, with the scalar function that has the paper's test vectors."""
    keys = hashlib.shake_256(f"lately/digest/{seed}/{secret}".encode()).digest(16 * 10)
    texts = [bytes(range(size)) for size in range(70)]
    with taking(path):
        results = values(texts, key_bits, name="siphash", seed=seed, secret=secret)
    for text, key in zip(texts, results, strict=True):
        secrets = (keys[at : at + 16] for at in range(0, 16 * -(-key_bits // 64), 16))
        words = (scalar_siphash(text, secret) for secret in secrets)
        whole = sum(word << 64 * at for at, word in enumerate(words))
        assert key == whole & ((1 << key_bits) - 1)


def test_siphash_digests_never_change():
    assert values(["", "a", "caf\xe9"], name="siphash") == [
        0xB223F4A44970B0EF, 0x28E93CAC5E073F77, 0xD332A6975D9A7194,
    ]  # fmt: skip
    assert values("a", 100, name="siphash", seed=3, secret=4) == [0x749FDC553C084C0F0D8C1D8E3]


def test_nothing_shows_the_secret_of_a_digest():
    assert "12345" not in repr(KeyDigest(64, "siphash", 1, 12345))


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
        np.array([b"a", b"b"]),
        pyarrow.array(["x", "a", "b"])[1:],
        pyarrow.array(["a", "b"], pyarrow.large_string()),
        pyarrow.array(["a", "b"], pyarrow.string_view()),
        pyarrow.array(["a", "b"]).dictionary_encode(),
        pyarrow.chunked_array([["a"], [], ["b"]]),
        pyarrow.table({"keys": ["a", "b"]})["keys"],
        np.array(["a", b"b"], object),
        [np.str_("a"), np.bytes_(b"b")],
    ],
)
def test_texts(keys):
    keys = [*keys] if isinstance(keys, Iterator) else keys
    with taking("readable"):
        due = [values(["a", "b"], name=name) for name in DIGESTS]
        assert [values(keys, name=name) for name in DIGESTS] == due
    assert [values(keys, name=name) for name in DIGESTS] == due
    assert due[0] == [0x2F42665B399EF840, *values("b")]


def test_bytes_that_were_no_text():
    assert values(b"\xff".decode("utf-8", "surrogateescape")) == values(b"\xff")
    with pytest.raises(ValueError, match=r"^keys: must be encodable in UTF-8, not '\\ud800'$"):
        check_keys("\ud800", KeyDigest(64))


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        (1.0, TypeError, f"{EXPECTED}, not float"),
        (np.array(1.0), TypeError, f"{EXPECTED}, not float64"),
        ([1.0], TypeError, f"{EXPECTED}, not float"),
        ([1, 2.0], TypeError, f"{EXPECTED}, not float"),
        (True, TypeError, f"{EXPECTED}, not bool"),
        ([1, True], TypeError, f"{EXPECTED}, not bool"),
        ([np.True_], TypeError, f"{EXPECTED}, not bool"),
        (object(), TypeError, f"{EXPECTED}, not object"),
        (pyarrow.table({"a": [[1]]}), TypeError, f"column 'a': {EXPECTED}, not list<item: int64>"),
        (pandas.DataFrame({"a": [1.5]}), TypeError, f"column 'a': {EXPECTED}, not float64"),
        ((np.arange(2), np.ones((2, 2), int)), TypeError, f"{EXPECTED}, not ndarray"),
        ((np.arange(2), np.arange(3)), ValueError, f"{COLUMNS} [2, 3]"),
        (polars.DataFrame(), ValueError, f"{COLUMNS} []"),
        (IPv4Interface("10.0.0.1/8"), TypeError, f"{EXPECTED}, not IPv4Interface"),
        (timedelta(1), TypeError, f"{EXPECTED}, not timedelta"),
        (Path("a"), TypeError, f"{EXPECTED}, not PosixPath"),
        (ip_network("10.0.0.0/16"), TypeError, f"{EXPECTED}, not IPv4Network{ELEMENTS}"),
        ([ip_network("10.0.0.0/16")], TypeError, f"{EXPECTED}, not IPv4Network"),
        (Port, TypeError, f"{EXPECTED}, not EnumType{ELEMENTS}"),
        (io.StringIO("a\nb\n"), TypeError, f"{EXPECTED}, not StringIO{ELEMENTS}"),
        (polars.LazyFrame({"a": [1]}), TypeError, f"{EXPECTED}, not LazyFrame"),
        (pandas.Series([1, 2]).groupby(level=0), TypeError, f"{EXPECTED}, not Series"),
        ((key for key in (1, "a")), TypeError, MIXED),
        ((1, 2.0), TypeError, f"{EXPECTED}, not float"),
        ((1, [2]), TypeError, f"{EXPECTED}, not list"),
        (("a", None), TypeError, f"{EXPECTED}, not a null (NoneType at position 0); {SKIP}"),
        (
            np.datetime64("2300"),
            ValueError,
            "must be times that 64-bit nanoseconds can represent, not 2300",
        ),
        (
            np.zeros(1, "i4,i4"),
            TypeError,
            f"{EXPECTED}, not [('f0', '<i4'), ('f1', '<i4')]",
        ),
        ({"a": 1}, TypeError, "must not be a dict; pass its keys() or values()"),
        ([1, "a"], TypeError, MIXED),
        ([1, (1,)], TypeError, MIXED),
        ([["a", "b"]], TypeError, f"words must be integers, not str; {WIDE}"),
        ([[True]], TypeError, f"words must be integers, not bool; {WIDE}"),
        ([[1], [1, 2]], ValueError, "rows must all have the same length"),
        ([[-1]], ValueError, "words must be at least 0, not -1"),
        ([[1 << 64]], ValueError, "words must be below 2**64, not 0x10000000000000000"),
        ([1 << 64], ValueError, "must be below 2**64, not 0x10000000000000000"),
        (1 << 64, ValueError, "must be below 2**64, not 0x10000000000000000"),
        ([-1, -(2**63) - 1], ValueError, f"must be at least -2**63, not {-(2**63) - 1}"),
    ],
)
def test_keys_wrong(keys, error, message):
    with pytest.raises(error, match=f"^keys: {re.escape(message)}$"):
        check_keys(keys, KeyDigest(64))


NULLS = [  # in the last place
    (None, "NoneType at position 0"),
    (["a", None], "NoneType at position 1"),
    (np.array([1, None], object), "NoneType at position 1"),
    ([1, 2, float("nan")], "float at position 2"),
    (np.ma.array([1, 2], mask=[False, True]), "masked at position 1"),
    (pyarrow.array([2**63, None], pyarrow.uint64()), "uint64 at position 1"),
    (pyarrow.array(["a", None]), "string at position 1"),
    (pyarrow.array([b"a", None]), "binary at position 1"),
    (pyarrow.chunked_array([["a", "b"], ["c", None]]), "string at position 3"),
    (pandas.Series(["a", None]), "large_string at position 1"),
    (polars.Series(["a", None]), "large_string at position 1"),
    (np.array(["2020", "NaT"], "M8[s]"), "NaT at position 1"),
    ([pyarrow.scalar(1), pyarrow.scalar(None)], "NoneType at position 1"),
    (pyarrow.scalar(None), "NoneType at position 0"),
    ([1, pandas.NA], "NAType at position 1"),
    ([(1, "a"), (2, None)], "NoneType at position 0"),
    (pyarrow.array([{"a": 1}, None]), "int64 at position 1"),
    (pandas.DataFrame({"b": [1, 2], "a": ["a", None]}), "large_string at position 1"),
    (polars.DataFrame({"a": ["a", "b"], "b": [1, None]}), "int64 at position 1"),
    ((np.array(["2020", "NaT"], "M8[s]"), np.arange(2)), "NaT at position 1"),
    ((np.array(["a", None], object),), "NoneType at position 1"),
]


@pytest.mark.parametrize(
    ("keys", "null"), [*NULLS, (np.array([1, np.nan]), "float64 at position 1")]
)
def test_nulls(keys, null):
    message = f"{EXPECTED}, not a null \\({null}\\); {SKIP}"
    with pytest.raises(TypeError, match=f"^keys: (column (0|'[ab]'): )?{message}$"):
        check_keys(keys, KeyDigest(64))


@pytest.mark.parametrize("name", [*MODELS, *RINGS])
def test_skipped_nulls(name):
    """A filter has the keys before the null, with their times; no null is reported."""
    calls = {"insert": None, "query": False, "check_and_insert": False, "age": -1}
    for keys, _ in NULLS:
        model, twin = build(name), build(name)
        others = keys[:-1] if not is_single(keys) else []
        if isinstance(keys, tuple):
            others = tuple(column[:-1] for column in keys)
        count = len(check_keys(others, KeyDigest(64)))
        for call, none in calls.items():
            result = getattr(model, call)(keys, *times(model, 50, count + 1), nulls="skip")
            due = getattr(twin, call)(others, *times(twin, 50, count))
            assert due is result is None or np.atleast_1d(result).tolist() == [*due.tolist(), none]
        assert model == twin
        assert model.counters == twin.counters
    with pytest.raises(ValueError, match=r"^nulls: must be refuse or skip, not 'drop'$"):
        model.query(1, *times(model, 0, 1), nulls="drop")


@pytest.mark.parametrize("unit", [1, 4])
def test_arrays_of_one_width_whose_elements_are_shorter(unit):
    """Such an array has lost whether a zero at the end of a key is part of the key."""
    keys = np.array([b"ab", b"a", b"a\0"]) if unit == 1 else np.array(["ab", "a", "a\0"])
    bytewise = ", or array.view('V2') if they belong to the keys" if unit == 1 else ""
    for several, position in ((keys, 1), (keys[::-1], 0), (keys[1:2].reshape(()), 0)):
        message = (
            f"keys: the key at position {position} ends in zeros, which may be padding in an array "
            f"of type {keys.dtype.str[1:]}; pass array.tolist() if they are padding{bytewise}"
        )
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            check_keys(several, KeyDigest(64))
    assert values(keys[:1]) == values("ab")
    assert values(keys[:0]) == []
    assert values(keys.tolist()) == values(["ab", "a", "a"])
    if unit == 1:
        assert values(keys.view("V2")) == values(["ab", b"a\0", b"a\0"])
        assert values(keys.view("V2")[1]) == values(b"a\0")


@given(st.lists(st.integers(0, (1 << 130) - 1)), st.integers(130, 300))
def test_lists_are_their_integers(keys, key_bits):
    assert values(keys, key_bits) == keys


FRAMES = {
    "pandas": pandas.DataFrame,
    "pandas with an index": lambda columns: pandas.DataFrame(columns)[::-1][::-1],
    "pandas of objects": lambda columns: pandas.DataFrame(columns, dtype=object),
    "polars": polars.DataFrame,
    "struct of polars": lambda columns: polars.DataFrame(columns).to_struct(),
    "arrow": pyarrow.table,
    "arrow in chunks": lambda columns: pyarrow.concat_tables([pyarrow.table(columns)] * 2)[3:7],
    "batch of arrow": pyarrow.record_batch,
    "structs of arrow": lambda columns: pyarrow.table(columns).to_struct_array(),
    "columns": lambda columns: tuple(map(polars.Series, columns.values())),
    "arrays": lambda columns: (*(np.array(each, object) for each in columns.values()),),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key_bits", [64, 600])
@pytest.mark.parametrize("form", FRAMES)
def test_rows_of_columns_are_tuples(form, key_bits, path):
    columns = {
        "text": ["ab", "a", "", "caf\xe9\0" * 50],
        "text ": ["c", "bc", "abc", "x"],
        "integer": [-(2**63), 0, 2**63 - 1, -5],
        "large": np.array([2**64 - 1, 1, 0, 10**19], np.uint64),
        "date": [date(1969, 12, 31), date(2026, 3, 1), date(1970, 1, 1), date(2000, 1, 2)],
    }
    rows, frame = [*zip(*columns.values(), strict=True)], FRAMES[form](columns)
    rows = rows[3:] + rows[:3] if form == "arrow in chunks" else rows
    with taking(path):
        for name in DIGESTS:
            due = values(rows, key_bits, name=name, seed=3)
            assert values(frame, key_bits, name=name, seed=3) == due
    assert not is_single(frame)
    assert GEBF.for_window(100).query(frame).tolist() == [False] * 4


def test_columns_of_mixed_keys():
    mixed = [UUID(int=1), "a", (5, b"a"), 2**70, NOON]
    columns = np.array([*mixed, None], object)[:-1], np.arange(5, dtype=np.int8)
    assert values(columns) == values([*zip(mixed, range(5), strict=True)])
    assert values(columns[:1]) == values([(key,) for key in mixed])


@pytest.mark.parametrize(
    "single",
    [
        5, np.uint8(5), np.array(5), "a", b"a", bytearray(b"a"), np.void(b"a"), (1, 2), (),
        pyarrow.scalar(5), pyarrow.scalar("a"), UUID(int=1), IPv4Address(1), NOON, NOON.date(),
        np.datetime64("2020"),
    ],
)  # fmt: skip
def test_single(single):
    assert is_single(single)
    assert not is_single([single])


# What the table of docs/python.md says

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize("key_bits", [64, 100])
@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.parametrize(
    "same",
    [
        ("a", b"a", bytearray(b"a"), memoryview(b"a"), np.str_("a"), np.bytes_(b"a")),
        ("caf\xe9", "caf\xe9".encode(), "caf\udcc3\udca9"),
        (5, np.uint8(5), np.int64(5), np.array(5)),
        (UUID(int=258), UUID(int=258).bytes, pyarrow.scalar(UUID(int=258).bytes)),
        (IPv4Address("10.0.0.1"), b"\x0a\0\0\1"),
        (IPv6Address("::1"), bytes(15) + b"\1"),
        (IPv6Address("fe80::1%eth0"), IPv6Address("fe80::1").packed + b"%eth0"),
        (
            NOON,
            NOON.replace(tzinfo=None),
            NOON.astimezone(timezone(timedelta(hours=3))),
            np.datetime64("2026-03-01T12:30:00.000005"),
            np.datetime64("2026-03-01T12:30:00.000005", "ns"),
            pyarrow.scalar(NOON),
            1_772_368_200_000_005_000,
        ),
        (date(1969, 12, 31), np.datetime64("1969-12-31"), -86_400_000_000_000),
        (("a", 1), (b"a", np.uint8(1)), Point("a", 1)),
        ((UUID(int=1), (NOON,)), (UUID(int=1).bytes, (1_772_368_200_000_005_000,))),
        (("a", (-1,)), encoded(("a", (-1,)))),
    ],
)
def test_forms_that_are_one_key(same, name, key_bits):
    options = {"name": name, "seed": 2}
    (due,) = values(same[0], key_bits, **options)
    for form in same:
        assert values(form, key_bits, **options) == [due], form
        assert values([form, form], key_bits, **options) == [due, due], form
        assert values({form: 1}.keys(), key_bits, **options) == [due] if form.__hash__ else True


@pytest.mark.parametrize("key_bits", [1, 17, 64, 65, 100])
def test_negative_integers_are_their_two_s_complement(key_bits):
    minimum = -(1 << key_bits - 1)
    numbers = [0, -1, minimum] if key_bits > 1 else [0, -1]
    due = [number % (1 << key_bits) for number in numbers]
    assert values(numbers, key_bits) == due
    assert [values(number, key_bits)[0] for number in numbers] == due
    if key_bits < 65:
        assert values(np.array(numbers), key_bits) == due
    else:
        assert values(np.array([-5, 5, -(2**63)]), key_bits)[::2] == [
            (1 << key_bits) - 5, (1 << key_bits) - 2**63,
        ]  # fmt: skip
    for wrong in (minimum - 1, [0, minimum - 1]):
        with pytest.raises(ValueError, match=rf"^keys: must be at least -2\*\*{key_bits - 1}, not"):
            check_keys(wrong, KeyDigest(key_bits))
    assert values(-(2**17), 18) == values(2**17, 18)


DIFFERENT = [
    5, "5", ("5",), (5,), ((5,),), (5, 5), ("5", 5), (5, "5"), ((5, 5),), (), ((),), ((), ()), "",
    (-1,), (2**64 - 1,), (2**64,), ("a", "bc"), ("ab", "c"), ("abc",), ("a", ("bc",)), b"a\0",
    IPv4Address("10.0.0.1"), "10.0.0.1", int(IPv4Address("10.0.0.1")), IPv6Address("::10.0.0.1"),
    IPv6Address("fe80::1"), IPv6Address("fe80::1%1"), UUID(int=1), str(UUID(int=1)), NOON,
    str(NOON), b"a",
]  # fmt: skip


@pytest.mark.parametrize("name", DIGESTS)
def test_forms_that_are_different_keys(name):
    assert len({values(key, name=name)[0] for key in DIFFERENT}) == len(DIFFERENT)


elements = st.recursive(
    st.integers() | st.text() | st.binary(), lambda inner: st.lists(inner).map(tuple), max_leaves=6
)


def tuple_of(item):
    return item if isinstance(item, tuple) else (item,)


class Port(IntEnum):
    HTTPS = 443


class Name(str):
    """Text of a further type."""


SINGLE = [
    5, -1, -(2**63), 2**64 - 1, Port.HTTPS, np.int8(-3), np.uint64(2**64 - 1), "a", "", Name("a"),
    b"a" * 600, bytearray(b"a"), memoryview(b"a"), np.str_("a"), np.bytes_(b"a"), UUID(int=1), NOON,
    NOON.replace(tzinfo=None), NOON.date(), IPv4Address(1), IPv6Address("fe80::1%eth0"),
    np.datetime64("2026-03-01"), (), ("a", 1), Point("a", -(2**70)), ("caf\xe9", (b"a" * 600, ())),
    (UUID(int=1), Port.HTTPS, np.int8(-3), NOON),
]  # fmt: skip


@needs_extension
def test_the_extension_takes_every_form_of_a_single_key(monkeypatch):
    monkeypatch.setattr(GEBF, "_python_check_and_insert", None)
    for name in DIGESTS:
        model, listed = (GEBF.for_window(100, digest=name) for _ in "ab")
        for key in SINGLE:
            model.check_and_insert(key)
            listed.insert([key])
        assert model == listed


@given(
    st.lists(st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary() | elements.map(tuple_of))
)
def test_single_keys_are_those_of_lists(keys):
    model, listed = GEBF.for_window(100), GEBF.for_window(100)
    for key in keys:
        assert model.check_and_insert(key) == listed.check_and_insert([key])[0]
    assert model == listed


def canonical(item):
    if isinstance(item, tuple):
        return tuple(map(canonical, item))
    return item.encode() if isinstance(item, str) else item


@given(st.lists(elements).map(tuple), st.lists(elements).map(tuple))
def test_no_two_tuples_have_one_encoding(first, second):
    assert (encoded(first) == encoded(second)) == (canonical(first) == canonical(second))
    assert decoded(encoded(first)) == (canonical(first), b"")


def decoded(data):
    """Return the first element of encoded ones, and the rest."""
    tag, size = data[:1], int.from_bytes(data[1:9], "little")
    content, rest = data[9 : 9 + size], data[9 + size :]
    if tag != b"t":
        return int(content) if tag == b"i" else content, rest
    elements = []
    while content:
        element, content = decoded(content)
        elements.append(element)
    return tuple(elements), rest


# Damaged buffers


class Damaged:
    """Column of text whose buffers pyarrow has not checked."""

    null_count, offset = 0, 0

    def __init__(self, kind, offsets):
        self.type, self.offsets = kind, offsets

    def __len__(self):
        return 2

    def buffers(self):
        width = np.int32 if self.type == pyarrow.string() else np.int64
        return [None, pyarrow.py_buffer(np.array(self.offsets, width)), pyarrow.py_buffer(b"abc")]


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_binary()])
@pytest.mark.parametrize(
    "offsets", [[0, 9, 3], [-1, 1, 3], [0, 2, 1], [0, 1, 4], [0, 2**31 - 1, -(2**31)], [0, 1], []]
)
@pytest.mark.parametrize("path", ["compiled", "readable"])
def test_offsets_of_arrow_that_are_damaged(kind, offsets, path, monkeypatch):
    monkeypatch.setattr(keys_module, "arrow_chunks", lambda keys: [keys])
    message = "spans: must be in the buffer|keys: the Arrow buffer must have 3 offsets, not [02]"
    with taking(path), pytest.raises(ValueError, match=f"^({message})$"):
        check_keys(Damaged(kind, offsets), KeyDigest(64))


def test_offsets_of_arrow_that_change():
    offsets = np.array([0, 1, 3], np.int32)
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(b"abc")]
    column = pyarrow.Array.from_buffers(pyarrow.string(), 2, buffers)
    assert values(column) == values(["a", "bc"])
    offsets[1] = 1 << 30
    with pytest.raises(ValueError, match=r"^spans: must be in the buffer$"):
        check_keys(column, KeyDigest(64))


# Filters


@pytest.mark.parametrize("cls", [GEBF, BlockedGEBF, WindowDictionary])
def test_digests_of_filters(cls, tmp_path):
    """`for_window` takes SipHash; its keys are those of the seed and of the first secret."""
    texts = ["client", "", "caf\xe9"]
    plain = cls.for_window(100)
    assert plain.digest == plain.spec.digest == "siphash"
    assert plain.key_words(texts).tolist() == values(texts, name="siphash")
    old = cls.for_window(100, digest="blake2b")
    assert old.key_words(texts).tolist() == values(texts)
    assert "digest" not in old.spec.to_dict()
    assert old.spec.fingerprint == plain.spec.fingerprint
    secret = cls.for_window(100, hash="siphash", secret=5, seed=3, key_bits=100)
    for model in (secret, load_again(secret, tmp_path)):
        model.insert("client")
        model.rekey(6)
        model.clear()
        for text in texts:
            model.insert(text)
        assert model.query(texts).all()
        due = values(texts, 100, name="siphash", seed=3, secret=5)
        assert values(model.key_words(texts), 100) == due
    other = cls.for_window(100, hash="siphash", secret=6, seed=3, key_bits=100)
    assert other.key_words(texts).tolist() != secret.key_words(texts).tolist()
    for digest in ("sha256", None, 1):
        with pytest.raises(ValueError, match=r"^digest: must be one of blake2b, siphash, not"):
            cls.for_window(100, digest=digest)


def load_again(model, folder):
    model.save(folder / "state", secrets=True)
    loaded = load(folder / "state")
    assert loaded == model
    return loaded


def test_single_text_after_a_state_with_another_secret():
    """The compiled calls take the digest of the state, not that of the constructor."""
    import copy

    model = GEBF.for_window(100, hash="siphash", secret=5)
    model.insert("client")
    for again in (copy.copy(model), model):
        assert "client" in again
        assert again.query(["client"])[0]
        assert "other" not in again


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "wrong", [ip_network("10.0.0.0/30"), {1: 2}, [1, "a"], [1, None], (1, 2.0), Path("a"), 1.5]
)
def test_values_that_are_no_keys_change_nothing(path, wrong):
    with taking(path):
        model = GEBF.for_window(100)
    model.insert([1, 2])
    calls = [model.insert, model.add, model.update, model.query, model.check_and_insert, model.age]
    for call in (*calls, lambda keys: keys in model):
        with pytest.raises(TypeError, match=r"^(keys|in|add|update): (must|expected) "):
            call(wrong)
    assert model.counters == {**GEBF.for_window(100).counters, "operations": 2, "insertions": 2}


def test_filter_takes_them_all():
    model = GEBF(window=100, epochs=4, hashes=4, bits=20_000)
    model.insert(["client", b"\x00\x01"])
    assert model.query(np.array(["client", "others"])).tolist() == [True, False]
    assert model.query(key for key in ("\x00\x01", "a")).tolist() == [True, False]
    assert model.query(pyarrow.scalar("client")) is True
    assert pyarrow.scalar("other") not in model
    model.insert(("10.0.0.1", 443))
    assert ("10.0.0.1", 443) in model
    assert 443 not in model
