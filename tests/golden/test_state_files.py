"""Saved states: whole round trips, and one line for everything that is not one."""

import ast
import io
import os
import pickle
import re
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import every_model
import numpy as np
import pytest
from cases import daily
from hypothesis import given
from hypothesis import strategies as st
from paths import PATHS, taking

from lately.dedup.deduplicate import Deduplication
from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    BlockedGEBF,
    LatelyError,
    Operation,
    PartitionedTimingFilter,
    RekeyError,
    SlidingFilter,
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
from lately.golden import saved as saved_module
from lately.golden.files import write_json
from lately.golden.packets.frame_deduplicator import FrameDeduplicator
from lately.golden.ring.position import RingPosition
from lately.golden.state_files import FORMAT, read_state, write_state
from papers.models import Swamp

STATES = Path(__file__).parents[1] / "data" / "states"
COUNTERS = ("operations", "insertions", "hits", "shifts")

MODELS = {
    "apbf": lambda: from_spec(preset("apbf-tiny")),
    "apbbf": lambda: from_spec(preset("tiny")),
    "gebf": lambda: from_spec(preset("gebf-tiny")),
    "blocked-gebf": lambda: from_spec(preset("blocked-gebf-tiny")),
    "keyed": lambda: from_spec(preset("siphash-tiny"), secret=(1 << 128) - 1),
    "keyed, gebf, no rekey": lambda: GEBF(
        window=16, epochs=2, hashes=2, bits=96, key_bits=8, hash="siphash", secret=1
    ),
    "apbf, 13 bits, wide keys": lambda: APBF(k=2, l=3, slice_bits=13, key_bits=100, generation=5),
    "apbbf, 5 blocks": lambda: APBBF(
        k=3, l=2, block_bits=4, hashes_per_block=1, blocks=5, seed=(1 << 64) - 1
    ),
    "gebf, not partitioned": lambda: GEBF(
        window=11, epochs=3, hashes=3, bits=101, partitioned=False
    ),
    "blocked-gebf, not partitioned": lambda: BlockedGEBF(
        window=11, epochs=3, hashes=3, bits=101, block_bits=8, partitioned=False
    ),
}


def keys_for(model, seed, count=100):
    rng = np.random.default_rng(seed)
    if model.spec.key_bits > 64:
        return rng.integers(0, 50, (count, 2), dtype=np.uint64)
    return rng.integers(0, 50, count)


def used(model):
    """Make the state one that differs from a fresh one in everything."""
    model.check_and_insert(keys_for(model, 1))
    while model.ring_position < 2:
        model.shift()
    model.generation = 3
    model.shift()
    model.generation = 4
    model.insert(keys_for(model, 2, 2))
    return model


def counters_of(model):
    return [getattr(model, name) for name in COUNTERS]


@pytest.fixture(params=MODELS)
def model(request):
    return used(MODELS[request.param]())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "filter.state"


# Round trips


def test_round_trip(model, path):
    model.save(path, secrets=True)
    for read in (load, SlidingFilter.load, type(model).load):
        copy = read(path)
        assert type(copy) is type(model)
        assert copy == model
        assert copy.spec == model.spec
        assert copy.partitioned == model.partitioned
        assert copy.generation == model.generation == 4
        assert copy.ring_position == model.ring_position != 0
        assert np.array_equal(copy.memory, model.memory)
        assert copy.memory.any()
        assert counters_of(copy) == counters_of(model)
        assert all(counters_of(copy))


def test_continues_bit_for_bit(model, path):
    model.save(str(path), secrets=True)
    copy = load(str(path))
    rng = np.random.default_rng(3)
    for _ in range(30):
        keys = keys_for(model, rng, 7)
        codes = rng.choice(list(Operation)[:6], 7, p=[0.05, 0.2, 0.3, 0.3, 0.1, 0.05])
        verdicts, copied = model.perform(codes, keys), copy.perform(codes, keys)
        assert np.array_equal(verdicts.age, copied.age)
        assert copy == model
        assert counters_of(copy) == counters_of(model)


def test_generation_under_way_keeps_its_length(path):
    model = from_spec(preset("gebf-tiny"))
    model.insert(np.arange(3))
    model.generation = 2
    model.save(path, secrets=True)
    copy = load(path)
    copy.insert(np.arange(5))
    assert copy.shifts == 0
    copy.insert(np.arange(3))
    assert copy.shifts == 2


def test_fresh_filter(path):
    model = from_spec(preset("default"))
    model.save(path, secrets=True)
    assert load(path) == model
    assert path.stat().st_size < model.nbytes + 4000


@pytest.mark.parametrize("path_of_loops", PATHS)
@pytest.mark.parametrize("name", [*every_model.MODELS, *every_model.RINGS])
def test_a_mapped_filter_changes_no_file(name, path_of_loops, path):
    with taking(path_of_loops):
        model = every_model.used(name)
        model.save(path)
        content, copy = path.read_bytes(), load(path, mmap=True)
        for each in (model, copy):
            each.insert(np.arange(30, 90), *every_model.times(each, 200, 60))
        assert copy == model
        assert copy.counters == model.counters
        assert path.read_bytes() == content
        copy.save(path)
        assert load(path, mmap=True) == copy == model
    for array in read_state(path, mapped=True)[1].values():
        assert isinstance(array.base, np.memmap)
        assert array.ctypes.data % 64 == 0 or not array.size
    with open(path, "rb") as file, pytest.raises(TypeError, match=r"^mmap: only a file at a path"):
        load(file, mmap=True)


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
    one, other = pickle.loads(data, buffers=buffers), pickle.loads(data, buffers=buffers)
    one.clear()
    assert other == model != one


def test_saving_changes_nothing(model, path):
    memory, counters = model.memory, counters_of(model)
    model.save(path, secrets=True)
    assert np.array_equal(model.memory, memory)
    assert counters_of(model) == counters
    first = path.read_bytes()
    model.save(path, secrets=True)
    assert load(path) == model
    assert len(path.read_bytes()) == len(first)


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


# Secrets


def rekeyed(shifts):
    """Filter that has loaded a second secret; `shifts` of its four segments have it."""
    model = from_spec(preset("siphash-tiny"), secret=(1 << 128) - 1)
    model.insert(np.arange(11))
    model.rekey(1 << 100)
    for _ in range(shifts):
        model.shift()
    model.insert([1])
    return model


@pytest.mark.parametrize("shifts", range(6))
def test_secrets_are_part_of_the_state(path, shifts):
    model = rekeyed(shifts)
    model.save(path, secrets=True)
    copy = load(path)
    assert copy == model
    assert copy.secrets == model.secrets
    assert copy.rekey_ready == model.rekey_ready == (shifts >= 4)
    keys = np.arange(60)
    for _ in range(4):
        assert np.array_equal(copy.check_and_insert(keys), model.check_and_insert(keys))
        keys += 50
        assert copy == model
    assert copy.secrets == [1 << 100] * 4


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


@pytest.mark.parametrize("shifts", [0, 2, 4])
def test_file_with_secrets_is_its_owner_s(path, shifts):
    path.write_bytes(b"")
    path.chmod(0o666)
    rekeyed(shifts).save(path, secrets=True)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("options", [{}, {"secrets": False}])
def test_secrets_must_be_asked_for(path, options):
    path.write_bytes(b"what was there")
    with pytest.raises(ValueError, match="secrets: must be True for the hash siphash") as caught:
        rekeyed(2).save(path, **options)
    assert not shows(str(caught.value), 1 << 100)
    assert path.read_bytes() == b"what was there"
    assert list(path.parent.iterdir()) == [path]


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
        RingPosition.first(spec, secret),
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


@pytest.mark.parametrize(
    ("secrets", "reason"),
    [
        ([1, 0, 4, None], "4 segments of an older secret do not fit the specification"),
        ([1, 0, -1, None], "-1 segments of an older secret do not fit the specification"),
        ([1, 0, True, None], "True segments of an older secret do not fit the specification"),
        ([1, 0, 1, 2], "three secrets, where two are possible"),
        ([1 << 128, 0, 0, None], "secret: must be below 2**128, not of 129 bits"),
        ([1, -1, 0, None], "secret: must be at least 0, not negative"),
        ([1, 0, 0, "2"], "secret: must be an integer, not str"),
        ([None, 0, 0, None], "secret: must be an integer, not NoneType"),
        ([1, 0, 0], ""),
        ([1, 0, 0, None, 0], ""),
        (7, ""),
    ],
)
def test_secrets_in_the_file_wrong(craft, path, secrets, reason):
    craft(path, "siphash-tiny", secrets=secrets)
    assert refusal(path).startswith(f"damaged filter state: {reason}")


def test_secrets_missing_in_the_file(craft, path):
    craft(path, "siphash-tiny", secrets=None)
    assert refusal(path) == "damaged filter state: 'secrets'"


def test_older_secret_without_rekey(craft, path):
    spec = preset("siphash-tiny").to_dict() | {"rekey": False}
    craft(path, "siphash-tiny", spec=spec, secrets=[1, 0, 1, None])
    assert refusal(path).startswith("damaged filter state: 1 segments of an older secret")
    craft(path, "siphash-tiny", spec=spec, secrets=[1, 0, 0, 2])
    assert load(path).secrets == [1] * 4


def test_state_of_before_there_were_keyed_hashes(craft, path):
    old = {n: v for n, v in preset("tiny").to_dict().items() if n not in ("hash", "rekey")}
    craft(path, spec=old)
    assert load(path) == from_spec(preset("tiny"))


def test_mode_is_that_of_an_ordinary_file(path):
    from_spec(preset("tiny")).save(path, secrets=True)
    ordinary = path.with_name("ordinary")
    ordinary.write_bytes(b"")
    assert path.stat().st_mode == ordinary.stat().st_mode


# Damage


@pytest.mark.parametrize("other", [7, None, "spec", [1, 2], [["k", 2]], {}, True])
@pytest.mark.parametrize("place", ["parameters", "spec", "numbers"])
@pytest.mark.parametrize("name", ["tiny", "dictionary-tiny"])
def test_something_else_in_the_header(path, name, place, other):
    """Where there are to be tables."""
    from_spec(any_preset(name)).save(path)
    header, arrays = read_state(path)
    if place == "spec":
        header["parameters"]["spec"] = other
    else:
        header[place] = other
    write_state(path, header, arrays)
    assert refusal(path).startswith("damaged filter state: ")


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
    assert re.match(r"damaged filter state: \d+ bytes do not fit the specification, which", reason)
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


def test_objects_are_refused_without_advice_to_run_them(tmp_path):
    np.savez(tmp_path / "objects.npz", header=np.array([{}], object))
    with pytest.raises(
        StateFileError, match=r"found something else \(an array of Python objects\)$"
    ):
        load(tmp_path / "objects.npz")


def test_nothing_is_run_that_a_file_holds():
    """Neither pickles nor texts: no call of the modules that read files could do it."""
    for module in (state_files, filter_module, saved_module, models_module):
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
    model = used(from_spec(preset("tiny")))
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


def same(copy, model):
    return copy == model and counters_of(copy) == counters_of(model)


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
        assert copy is None or same(copy, model)
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
    assert copy is None or same(copy, model)


@given(content=st.binary(max_size=200))
def test_any_bytes(saved, content):
    _, _, path = saved
    path.write_bytes(content)
    assert refusal(path).startswith("expected a filter state written by save(), found")


# Foreign files


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"10.0.0.1\n" * 100, b"PK\x03\x04", b"PK\x05\x06" + bytes(18)]
)
def test_other_file(path, content):
    path.write_bytes(content)
    refusal(path)


@pytest.mark.parametrize("array", [np.arange(5), np.array([{"a": 1}], dtype=object)])
def test_single_array(path, array):
    with open(path, "wb") as file:
        np.save(file, array)
    refusal(path)


def test_foreign_npz(path):
    with open(path, "wb") as file:
        np.savez(file, bits=np.arange(5), weights=np.zeros(3))
    assert "header" in refusal(path)
    with open(path, "wb") as file:
        np.savez(file, header=np.array([None]), bits=np.arange(5), digest=np.zeros(3))
    refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    refusal(path)


def test_huge_array_header(path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 60,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("header", "bits", "digest"):
            archive.writestr(f"{name}.npy", header.getvalue())
    refusal(path)


def nested(header):
    """Where each field of the header stands."""
    parameters, numbers = header["parameters"], header["numbers"]
    return {
        "format": header, "filter": header, "spec": parameters, "partitioned": parameters,
        "ring": numbers, "counters": numbers, "secrets": numbers,
    }  # fmt: skip


@pytest.fixture
def craft():
    """Write a state file whose digest is right and whose header is not the usual one."""

    def write(path, name="tiny", **changes):
        from_spec(preset(name)).save(path, secrets=True)
        header, arrays = read_state(path)
        for field, value in changes.items():
            place = nested(header)[field]
            place[field] = value
            if value is None:
                del place[field]
        write_state(path, header, arrays)

    return write


def test_crafted_like_save(craft, path):
    craft(path)
    assert load(path) == from_spec(preset("tiny"))


def test_other_version(craft, path):
    craft(path, format="lately-filter-4")
    assert refusal(path) == (
        "expected a filter state of format lately-filter-3, found lately-filter-4"
    )


def test_other_content_than_digested(saved):
    content, _, path = saved
    path.write_bytes(content)
    with np.load(path) as file:
        parts = dict(file)
    parts["memory"] = parts["memory"] ^ np.uint8(1)
    with open(path, "wb") as file:
        np.savez(file, **parts)
    assert refusal(path) == "expected the filter state that was written, found another"


@pytest.mark.parametrize("name", ["spec", "partitioned", "ring", "counters"])
def test_header_without_a_field(craft, path, name):
    craft(path, **{name: None})
    assert refusal(path) == f"damaged filter state: '{name}'"


def test_header_without_a_format(craft, path):
    craft(path, format=None)
    refusal(path)


def test_specification_in_the_file_wrong(craft, path):
    spec = preset("tiny").to_dict()
    craft(path, spec=spec | {"k": 0})
    assert refusal(path) == "damaged filter state: k: must be at least 1, not 0"
    craft(path, spec=spec | {"family": "bloom"})
    assert refusal(path).startswith("damaged filter state: family: must be one of apbf, ")
    craft(path, spec=spec | {"colour": 3})
    assert refusal(path).startswith("damaged filter state: colour: unknown field")
    craft(path, partitioned=False)
    assert refusal(path) == ("damaged filter state: partitioned: must be True for apbbf, not False")


@pytest.mark.parametrize(
    "state",
    [
        [0, 0, 4],
        [0, 0, 4, 4, 4],
        ["0", 0, 4, 4],
        [0, 0.5, 4, 4],
        [5, 0, 4, 4],
        [-1, 0, 4, 4],
        [0, -1, 4, 4],
        [0, 5, 4, 4],
        [0, 0, 0, 4],
        [0, 0, 4, 0],
        [True, 0, 4, 4],
        7,
    ],
)
def test_state_in_the_file_wrong(craft, path, state):
    craft(path, ring=state)
    assert refusal(path).startswith("damaged filter state: ")


@pytest.mark.parametrize("counters", [[0, 0, 0], [0, 0, 0, -1], [0, 0, 0, "0"], [0, 0, 1.5, 0], 0])
def test_counters_in_the_file_wrong(craft, path, counters):
    craft(path, counters=counters)
    assert refusal(path).startswith("damaged filter state: ")


def test_bits_of_another_size(craft, path):
    # The digest fits, the memory does not.
    large = preset("tiny").to_dict() | {"blocks": 80, "generation": 4}
    craft(path, spec=large)
    assert refusal(path).startswith("damaged filter state: ")


def test_family_wrong(model, path):
    model.save(path, secrets=True)
    for cls in (APBF, APBBF, GEBF, BlockedGEBF):
        if cls is not type(model):
            assert refusal(path, cls.load) == (
                f"expected the state of {cls.__name__}, found {type(model).__name__}"
            )


# Files that are not there


def test_absent(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        from_spec(preset("tiny")).save(tmp_path / "none" / "filter.state", secrets=True)


# Atomicity


@pytest.mark.parametrize("failing", ["replace", "write_array_header_1_0"])
def test_failed_save_leaves_the_original(model, path, failing, monkeypatch):
    model.save(path, secrets=True)
    before = path.read_bytes()
    state = load(path)

    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(os if failing == "replace" else np.lib.format, failing, full)
    model.insert(keys_for(model, 8))
    with pytest.raises(OSError, match="no space left"):
        model.save(path, secrets=True)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert load(path) == state
    assert list(path.parent.iterdir()) == [path]


def test_interrupted_save_leaves_the_original(path, monkeypatch):
    model = from_spec(preset("tiny"))
    model.save(path, secrets=True)
    before = path.read_bytes()

    def interrupted(file, _):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.save(path, secrets=True)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_directory_in_the_way(tmp_path):
    target = tmp_path / "filter.state"
    target.mkdir()
    with pytest.raises(OSError, match=r"filter\.state"):
        from_spec(preset("tiny")).save(target, secrets=True)
    assert list(tmp_path.iterdir()) == [target]


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


@pytest.mark.parametrize("name", [*every_model.MODELS, *every_model.RINGS])
def test_state_in_bytes(name):
    model = every_model.used(name)
    data = model.to_bytes()
    for copy in (type(model).from_bytes(data), load(io.BytesIO(data))):
        assert copy == model
        assert copy.counters == model.counters


def test_state_in_a_pipe():
    model = every_model.used("GEBF")
    reader, writer = os.pipe()
    with open(reader, "rb") as source, open(writer, "wb") as target:
        with ThreadPoolExecutor(1) as pool:
            copy = pool.submit(load, source)
            model.save(target)
            target.close()
        assert copy.result() == model


def test_state_in_part_of_a_file(path):
    model = every_model.used("GEBF")
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
    with pytest.raises(StateFileError, match="10 bytes that are no zip archive"):
        GEBF.from_bytes(b"0123456789")


def test_bytes_with_secrets_need_consent():
    model = MODELS["keyed"]()
    with pytest.raises(ValueError, match=r"^secrets: must be True"):
        model.to_bytes()
    assert SlidingFilter.from_bytes(model.to_bytes(secrets=True)) == model
