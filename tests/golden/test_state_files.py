"""Saved states: earlier files, secrets, and one line for every file that is no state."""

import ast
import io
import os
import pickle
import re
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import every_model
import numpy as np
import pytest
from cases import daily
from hypothesis import given
from hypothesis import strategies as st
from paths import taking

from lately.dedup.deduplicate import Deduplication
from lately.golden import (
    APBF,
    GEBF,
    BlockedGEBF,
    LatelyError,
    PartitionedTimingFilter,
    RekeyError,
    StateFileError,
    WindowDictionary,
    any_preset,
    from_spec,
    load,
    preset,
    state_files,
)
from lately.golden import filter as filter_module
from lately.golden import models as models_module
from lately.golden.files import write_json
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.ring.segments import NUMBERS, RingPosition
from lately.golden.state_files import FORMAT, read_state, write_state
from papers.models import Swamp

STATES = Path(__file__).parents[1] / "data" / "states"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "filter.state"


LARGE = {
    "ring": lambda: BlockedGEBF.for_window(2_000_000, 0.001),
    "ring of rows": lambda: APBF.for_window(2_000_000, 0.001),
    "ring in time": lambda: GEBF.for_span("1h", 0.001, rate=600),
    "dictionary": lambda: WindowDictionary.for_window(400_000, 0.001),
    "timing": lambda: PartitionedTimingFilter.for_window(100_000, 0.001),
}


@pytest.mark.parametrize("name", LARGE)
def test_states_take_no_more_memory_than_the_filter_again(name, path):
    with taking("compiled"):
        model = LARGE[name]()
        size, peaks = model.nbytes, {}
        steps = {
            "save": lambda: model.save(path),
            "to_bytes": model.to_bytes,
            "load": lambda: load(path),
            "mmap": lambda: load(path, mmap=True),
        }
        for step, act in steps.items():
            tracemalloc.start()
            kept = act()
            peaks[step] = (tracemalloc.get_traced_memory()[1] - (step == "load") * size) / size
            tracemalloc.stop()
            del kept
    print(size, peaks)
    assert size > 1 << 22
    assert max(peaks.values()) < 1.3


def test_a_pickle_of_buffers_is_a_copy():
    model, buffers = every_model.used("GEBF"), []
    data = pickle.dumps(model, 5, buffer_callback=buffers.append)
    first, second = pickle.loads(data, buffers=buffers), pickle.loads(data, buffers=buffers)
    first.clear()
    assert second == model != first


def used(name, **options):
    model = from_spec(preset(name), **options)
    model.check_and_insert(np.arange(20))
    return model


def test_arrays_of_a_mapped_file(path):
    """They are aligned, and their filter takes as much room as the file."""
    model = from_spec(preset("default"))
    model.save(path)
    assert path.stat().st_size < model.nbytes + 4000
    for array in read_state(path, mapped=True)[1].values():
        assert isinstance(array.base, np.memmap)
        assert array.ctypes.data % 64 == 0
    with open(path, "rb") as file, pytest.raises(TypeError, match=r"^mmap: only a file at a path"):
        load(file, mmap=True)


# Files that were written before


def earlier_siphash():
    model = from_spec(preset("siphash-tiny"), secret=(1 << 128) - 1)
    model.insert(np.arange(11))
    model.rekey(1 << 100)
    model.shift()
    model.check_and_insert([1, 2, 3])
    return model


def earlier_gebf():
    model = GEBF(window=11, epochs=3, hashes=3, bits=101, partitioned=False)
    # What the hardware zeroed per cycle by default.
    model = GEBF._build({"spec": replace(model.spec, clear=16).to_dict(), "partitioned": False})
    model.insert(np.arange(20))
    return model


def earlier_swamp():
    model = Swamp(window=7, fingerprint_bits=5, seed=3)
    model.insert(np.arange(20))
    return model


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("siphash-tiny", earlier_siphash),
        ("gebf-shared", earlier_gebf),
        ("swamp", earlier_swamp),
    ],
)
def test_file_that_was_written_before(name, build, path):
    copy, model = load(STATES / f"{name}.npz"), build()
    assert copy == model
    assert copy.insertions == model.insertions
    copy.save(path, secrets=True)
    assert load(path) == model


@pytest.mark.parametrize("name", ["apbf-tiny", "timing-tiny", "dictionary-tiny"])
def test_file_without_counters(name):
    """Files from before the models counted operations still load."""
    model, keys = from_spec(any_preset(name)), np.arange(200, dtype=np.uint64)
    model.insert(keys, *[np.full(200, 3)] * (name == "timing-tiny"))
    assert load(STATES / f"{name}-uncounted.npz") == model


@pytest.mark.parametrize(
    ("name", "keys", "ages"),
    [
        ("timing", ([1, 2, 3, 4, 9], 105), [7, 6, 4, 1, -1]),
        ("timing-counted", ([0, 5, 10, 12, 99],), [3, 2, 1, 0, -1]),
    ],
)
def test_file_of_a_timing_filter_that_shifted(name, keys, ages):
    """Files from when a SHIFT ended a block of a timing filter still give the same ages."""
    assert load(STATES / f"{name}-shifted.npz").age(*keys).tolist() == ages


def test_filters_that_differ_in_a_secret_only():
    spec = preset("siphash-tiny")
    model, other = from_spec(spec, secret=1), from_spec(spec, secret=1)
    model.rekey(2)
    assert model != other
    other.rekey(3)
    assert model != other
    for each in (model, other):
        each.clear()
    assert model != other
    other.rekey(2)
    other.clear()
    assert model == other


def shows(text, secret):
    """Whether a text has a secret, in decimal or hexadecimal digits."""
    return str(secret) in text or f"{secret:x}" in text.lower()


def test_nothing_shows_a_secret():
    """Neither filters nor what they and deduplications are made of; nor an error."""
    secret, other = 0xF1E2D3C4B5A697887766554433221100, 0x0123456789ABCDEFF1E2D3C4B5A69788
    spec = preset("siphash-tiny")
    timed = replace(spec, span=100)
    model, ring = from_spec(spec, secret=secret), from_spec(timed, secret=secret)
    dictionary = WindowDictionary.for_window(100, hash="siphash", secret=secret)
    for each in (model, ring, dictionary):
        each.insert(*([5], [0])[: 2 if each is ring else 1])
        each.rekey(other)
    holders = [
        *(model, model._ring, ring, dictionary, vars(dictionary)["_hash"]),
        RingPosition(spec, secret, np.zeros(NUMBERS, np.int64)),
        FrameDeduplicator(spec=replace(timed, key_bits=64), secret=secret),
        Deduplication(span=99, window=9, spec=timed, tick=1, secret=secret),
    ]
    texts = [text for holder in holders for text in (repr(holder), str(holder))]
    for each in (model, ring):
        with pytest.raises(RekeyError) as caught:
            each.rekey(secret)
        texts.append(str(caught.value))
    for wrong in (-secret, secret << 64, float(secret)):
        with pytest.raises((TypeError, ValueError)) as caught:
            from_spec(spec, secret=wrong)
        texts.append(str(caught.value))
    for text in texts:
        assert not any(shows(text, each) for each in (secret, other, secret << 64)), text


SECRET = (1 << 128) - 1


def test_secrets_must_be_asked_for(path):
    """A refusal shows none and leaves the file; a file that has some is readable by its owner."""
    model = used("siphash-tiny", secret=SECRET)
    path.write_bytes(b"what was there")
    path.chmod(0o666)
    calls = partial(model.save, path), partial(model.save, path, secrets=False), model.to_bytes
    message = r"^secrets: the state contains the siphash secrets; pass secrets=True to write them$"
    for call in calls:
        with pytest.raises(ValueError, match=message) as caught:
            call()
        assert not shows(str(caught.value), SECRET)
    assert path.read_bytes() == b"what was there"
    model.save(path, secrets=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [*path.parent.iterdir()] == [path]


# Damage


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        (lambda: from_spec(preset("tiny")), {"blocks": 1 << 32}),
        (lambda: from_spec(preset("apbf-tiny")), {"slice_bits": 1 << 32}),
        (lambda: from_spec(replace(preset("tiny"), span=50)), {"blocks": 1 << 32}),
        (
            lambda: WindowDictionary(window=20, columns=2, rows=16, digest_bits=9),
            {"rows": 1 << 30, "digest_bits": 40},
        ),
        (lambda: from_spec(any_preset("timing-tiny")), {"cells": 1 << 30}),
    ],
    ids=["apbbf", "apbf", "span", "dictionary", "timing"],
)
def test_small_file_of_a_large_filter(path, model, changes):
    """It is refused before memory is taken for what it says it holds."""
    model().save(path)
    header, arrays = read_state(path)
    values = header["parameters"].get("spec", header["parameters"])
    values |= changes
    write_state(path, header, arrays)
    tracemalloc.start()
    reason = refusal(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert re.match(
        r"damaged filter state: the arrays have \d+ bytes, but the specification needs", reason
    )
    assert peak < 1 << 22


def test_files_in_several_threads(tmp_path):
    """Each thread gets its own file, whatever the others read; and those that are none, too."""
    models = []
    for number in range(8):
        models.append(from_spec(preset("tiny")))
        models[-1].insert(np.arange(20 * number, 20 * number + 10))
        models[-1].save(tmp_path / f"{number}")
    (tmp_path / "none").write_bytes(b"PK\3\4" + bytes(100))

    def read(number):
        if number % 9 == 8:
            return refusal(tmp_path / "none").startswith("expected a filter state")
        return load(tmp_path / f"{number % 9}") == models[number % 9]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(180)))


def test_headers_are_read_by_one_thread_at_a_time(monkeypatch):
    """Two threads in `ast.literal_eval` may disturb each other in CPython 3.11."""
    held, load_arrays = [], np.load

    def loading(*arguments, **options):
        held.append(state_files._HEADERS.locked())
        return load_arrays(*arguments, **options)

    monkeypatch.setattr(np, "load", loading)
    GEBF.from_bytes(every_model.used("GEBF").to_bytes())
    assert held == [True]


def test_nothing_is_run_that_a_file_holds():
    """Neither pickles nor texts: no call of the modules that read files could do it."""
    for module in (state_files, filter_module, models_module):
        called = {
            node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            for node in ast.walk(ast.parse(Path(module.__file__).read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
        }
        assert not called & {
            "eval",
            "exec",
            "compile",
            "literal_eval",
            "import_module",
            "Unpickler",
        }
    (loading,) = re.findall(r"np\.load\((.*)\)", Path(state_files.__file__).read_text())
    assert "allow_pickle=False" in loading


def refusal(path, read=load):
    with pytest.raises(StateFileError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert isinstance(caught.value, LatelyError)
    return message.removeprefix(f"{path}: ")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Content of a state file, the filter in it, and a path to write to."""
    model = used("tiny")
    path = tmp_path_factory.mktemp("states") / "filter.state"
    model.save(path, secrets=True)
    return path.read_bytes(), model, path


def loaded_or_refused(path, content):
    """The filter, or None where the content was refused as it should be."""
    path.write_bytes(content)
    try:
        return load(path)
    except StateFileError as error:
        message = str(error)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return None


def test_every_truncation(saved):
    content, _, path = saved
    for length in range(len(content)):
        path.write_bytes(content[:length])
        refusal(path)


@pytest.mark.parametrize("flip", daily(1, [0x01, 0x80, 0xFF]))
def test_every_byte_flipped(saved, flip):
    """Refused, or the flip was in what zip ignores and the state is the same."""
    content, model, path = saved
    refused = 0
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= flip
        copy = loaded_or_refused(path, damaged)
        refused += copy is None
        assert copy is None or copy == model
    print(f"{refused} of {len(content)} refused")
    assert refused > len(content) / 2


@given(data=st.data())
def test_damaged_anywhere(saved, data):
    content, model, path = saved
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4), "changes")):
        start = data.draw(st.integers(0, len(damaged)), "start")
        stop = data.draw(st.integers(start, min(len(damaged), start + 40)), "stop")
        damaged[start:stop] = data.draw(st.binary(max_size=20), "new")
    copy = loaded_or_refused(path, damaged)
    assert copy is None or copy == model


@given(content=st.binary(max_size=200))
def test_any_bytes(saved, content):
    _, _, path = saved
    path.write_bytes(content)
    assert refusal(path).startswith("expected a filter state written by save(), found")


def test_huge_array_header(path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 60,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("header", "bits", "digest"):
            archive.writestr(f"{name}.npy", header.getvalue())
    refusal(path)


def foreign_files():
    """Return contents that are no state, and the end of their messages."""

    def of(write, *arguments, **options):
        file = io.BytesIO()
        write(file, *arguments, **options)
        return file.getvalue()

    with zipfile.ZipFile(archive := io.BytesIO(), "w") as other:
        other.writestr("readme.txt", "hello")
    objects = np.array([{"a": 1}], object)
    return [
        (b"", ""), (b"\n", ""), (b"10.0.0.1\n" * 100, ""), (b"PK\x03\x04", ""),
        (b"PK\x05\x06" + bytes(18), ""), (archive.getvalue(), ""),
        (of(np.save, np.arange(5)), ""), (of(np.save, objects), ""),
        (of(np.savez, bits=np.arange(5), weights=np.zeros(3)), "header"),
        (of(np.savez, header=np.array([None]), bits=np.arange(5), digest=np.zeros(3)), ""),
        (of(np.savez, header=objects), "found something else (an array of Python objects)"),
    ]  # fmt: skip


def test_foreign_files(path):
    for content, message in foreign_files():
        path.write_bytes(content)
        assert message in refusal(path)


TINY, KEYED = preset("tiny").to_dict(), preset("siphash-tiny").to_dict()
OLD_SECRET = "secrets: an older secret must be used by 0 to 3 segments, not"
CRAFTED = [  # preset, fields of the header (None: without the field), begin of the message
    ("siphash-tiny", {"secrets": [1, 0, 4, None]}, f"{OLD_SECRET} 4"),
    ("siphash-tiny", {"secrets": [1, 0, -1, None]}, f"{OLD_SECRET} -1"),
    ("siphash-tiny", {"secrets": [1, 0, True, None]}, f"{OLD_SECRET} True"),
    ("siphash-tiny", {"spec": KEYED | {"rekey": False}, "secrets": [1, 0, 1, None]}, "secrets: an"),
    ("siphash-tiny", {"secrets": [1, 0, 1, 2]}, "secrets: at most two can be in use or "),
    ("siphash-tiny", {"secrets": [1 << 128, 0, 0, None]}, "secret: must have at most 128 bits"),
    ("siphash-tiny", {"secrets": [1, -1, 0, None]}, "secret: must not be negative"),
    ("siphash-tiny", {"secrets": [1, 0, 0, "2"]}, "secret: must be an integer, not str"),
    ("siphash-tiny", {"secrets": [None, 0, 0, None]}, "secret: must be an integer, not NoneType"),
    *(("siphash-tiny", {"secrets": each}, "") for each in ([1, 0, 0], [1, 0, 0, None, 0], 7)),
    *(("tiny", {name: None}, f"'{name}'") for name in ("spec", "partitioned", "ring", "counters")),
    ("siphash-tiny", {"secrets": None}, "'secrets'"),
    ("tiny", {"spec": TINY | {"k": 0}}, "k: must be at least 1, not 0"),
    ("tiny", {"spec": TINY | {"family": "bloom"}}, "family: must be one of apbbf, "),
    ("tiny", {"spec": TINY | {"colour": 3}}, "colour: unknown field"),
    ("tiny", {"spec": TINY | {"blocks": 80, "generation": 4}}, ""),
    ("tiny", {"partitioned": False}, "partitioned: must be True for apbbf, not False"),
    ("tiny", {"partitioned": 1}, "partitioned: must be True or False, not 1"),
    *(("tiny", {"ring": each}, "") for each in (
        [0, 0, 4], [0, 0, 4, 4, 4], ["0", 0, 4, 4], [0, 0.5, 4, 4], [5, 0, 4, 4], [-1, 0, 4, 4],
        [0, -1, 4, 4], [0, 5, 4, 4], [0, 0, 0, 4], [0, 0, 4, 0], [True, 0, 4, 4], 7,
    )),
    *(("tiny", {"counters": each}, "") for each in (
        [0, 0, 0], [0, 0, 0, -1], [0, 0, 0, "0"], [0, 0, 1.5, 0], 0,
    )),
    *((name, {section: other}, "") for name in ("tiny", "dictionary-tiny")
      for section in ("parameters", "spec", "numbers")
      for other in (7, "spec", [1, 2], [["k", 2]], {}, True)),
]  # fmt: skip


def test_headers_of_another_making(craft, path):
    for name, changes, message in CRAFTED:
        craft(path, name, **changes)
        assert refusal(path).startswith(f"damaged filter state: {message}"), (name, changes)
    craft(path, format="lately-filter-4")
    formats = "lately-filter-3, found lately-filter-4"
    assert refusal(path) == f"expected a filter state of format {formats}"
    craft(path, format=None)
    refusal(path)


def test_headers_that_are_known(craft, path):
    """As `save` has them, of before there were keyed hashes, and with a secret that waits."""
    craft(path)
    assert load(path) == from_spec(preset("tiny"))
    craft(path, spec={name: TINY[name] for name in TINY.keys() - {"hash", "rekey"}})
    assert load(path) == from_spec(preset("tiny"))
    craft(path, "siphash-tiny", spec=KEYED | {"rekey": False}, secrets=[1, 0, 0, 2])
    assert load(path).secrets == [1] * 4


def test_states_of_other_families(path):
    from_spec(preset("tiny")).save(path)
    for kind in (APBF, GEBF, BlockedGEBF):
        assert refusal(path, kind.load) == f"expected the state of {kind.__name__}, found APBBF"
    with pytest.raises(FileNotFoundError):
        load(path.parent / "none")
    with pytest.raises(IsADirectoryError):
        load(path.parent)


def nested(header):
    """Where each field of the header stands."""
    parameters, numbers = header["parameters"], header["numbers"]
    return {
        **dict.fromkeys(("format", "filter", "parameters", "numbers"), header),
        **dict.fromkeys(("spec", "partitioned"), parameters),
        **dict.fromkeys(("ring", "counters", "secrets"), numbers),
    }  # fmt: skip


@pytest.fixture
def craft():
    """Write a state file whose digest is right and whose header is not the usual one."""

    def write(path, name="tiny", **changes):
        from_spec(any_preset(name)).save(path, secrets=True)
        header, arrays = read_state(path)
        for field, value in changes.items():
            parent = nested(header)[field]
            parent[field] = value
            if value is None:
                del parent[field]
        write_state(path, header, arrays)

    return write


def test_other_content_than_digested(saved):
    content, _, path = saved
    path.write_bytes(content)
    with np.load(path) as file:
        parts = dict(file)
    parts["memory"] = parts["memory"] ^ np.uint8(1)
    with open(path, "wb") as file:
        np.savez(file, **parts)
    assert refusal(path) == "damaged: the digest does not match the content"


@pytest.mark.parametrize("failing", [OSError("no space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("target", [(os, "replace"), (np.lib.format, "write_array_header_1_0")])
def test_failed_save_leaves_the_original(path, target, failing, monkeypatch):
    model = used("tiny")
    model.save(path)
    before = path.read_bytes()

    def fail(file, *_, **__):
        if target[0] is not os:
            file.write(b"half")
        raise failing

    monkeypatch.setattr(*target, fail)
    model.insert([99])
    with pytest.raises(type(failing)):
        model.save(path)
    assert path.read_bytes() == before
    assert [*path.parent.iterdir()] == [path]


def test_saving_where_it_cannot_be(path):
    with pytest.raises(FileNotFoundError):
        used("tiny").save(path.parent / "none" / "filter.state")
    path.mkdir()
    with pytest.raises(OSError, match=r"filter\.state"):
        used("tiny").save(path)
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_has_no_value_that_is_not_a_number(value, tmp_path):
    path = tmp_path / "figures.json"
    write_json({"rate": 1}, path)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"rate": value}, path)
    assert path.read_bytes() == b'{\n "rate": 1\n}\n'


def test_state_without_secrets_is_as_public_as_any_file(tmp_path):
    """Only what is written as private keeps others out."""
    for name, options in [("usual", {}), ("private", {"private": True})]:
        write_state(tmp_path / name, {"format": FORMAT}, {}, **options)
    (tmp_path / "any").touch()
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("usual", "private", "any")]
    assert modes == [modes[2], 0o600, modes[2]]


# Bytes and open files


def test_state_in_part_of_a_file_and_in_a_pipe(path):
    model = every_model.used("GEBF")
    reader, writer = os.pipe()
    with open(reader, "rb") as source, open(writer, "wb") as target:
        with ThreadPoolExecutor(1) as pool:
            copy = pool.submit(load, source)
            model.save(target)
            target.close()
        assert copy.result() == model
    with open(path, "wb") as file:
        file.write(b"before")
        model.save(file)
    with open(path, "rb") as file:
        assert file.read(6) == b"before"
        assert GEBF.load(file) == model


class PartWriter(io.RawIOBase):
    """A file without a buffer that writes at most 100 bytes at a time."""

    data = b""

    def writable(self):
        return True

    def write(self, part):
        self.data += bytes(part)[:100]
        return min(len(part), 100)


def test_state_in_a_file_that_writes_parts():
    model, file = every_model.used("GEBF"), PartWriter()
    model.save(file)
    assert GEBF.from_bytes(file.data) == model
    assert not file.closed
    with pytest.raises(StateFileError, match="10 bytes that are not a zip archive"):
        GEBF.from_bytes(b"0123456789")
