"""Filters in C: the exported header equals golden in every answer and every bit of the state."""

import ctypes
import subprocess

import numpy as np
import pytest

from lately.golden import from_spec
from lately.golden.c_header import from_c, header, to_c
from lately.golden.errors import SpecificationError, StateFileError
from lately.golden.spec import APBBFSpec, APBFSpec, BlockedGEBFSpec, GEBFSpec
from lately.golden.spec.dictionary_sizes import WindowDictionarySpec
from lately.golden.spec.timestamp import PartitionedTimingSpec, TimedTimingSpec, TimingSpec

FLAGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
SECRET = {"hash": "siphash", "digest": "siphash"}
SPECS = {
    "gebf": GEBFSpec(window=500, epochs=6, hashes=9, bits=8000),
    "gebf_wide": GEBFSpec(window=500, epochs=10, hashes=12, bits=11_000, key_bits=100, seed=3),
    "gebf_narrow": GEBFSpec(window=500, epochs=3, hashes=5, bits=4001, key_bits=13),
    "gebf_lanes": GEBFSpec(window=500, epochs=6, hashes=8, bits=10_000, lanes=2),
    "gebf_secret": GEBFSpec(window=500, epochs=6, hashes=9, bits=8000, rekey=True, **SECRET),
    "blocked": BlockedGEBFSpec(window=500, epochs=4, hashes=8, bits=9000, block_bits=256),
    "blocked_small": BlockedGEBFSpec(
        window=500, epochs=4, hashes=5, bits=9000, block_bits=32, hash="siphash"
    ),
    "apbf": APBFSpec(k=6, l=14, slice_bits=512, digest="siphash"),
    "apbf_secret": APBFSpec(k=3, l=5, slice_bits=700, hash="siphash", rekey=True),
    "apbbf": APBBFSpec(k=2, l=7, block_bits=64, hashes_per_block=4, blocks=50),
    "apbbf_wide": APBBFSpec(k=1, l=5, block_bits=512, hashes_per_block=8, blocks=9),
    "gebf_span": GEBFSpec(window=500, epochs=4, hashes=5, bits=5000, span=300),
    "apbf_span": APBFSpec(k=3, l=5, slice_bits=300, span=900, when_full="overfill", **SECRET),
    "timing": PartitionedTimingSpec(window=120, block=8, hashes=4, cells=256),
    "timing_span": TimedTimingSpec(span=300, period=10, hashes=5, cells=128, key_bits=70),
    "dictionary": WindowDictionarySpec(window=300, columns=4, rows=128, digest_bits=17, stash=4),
    "dictionary_moves": WindowDictionarySpec(
        window=100, columns=3, rows=32, digest_bits=12, stash=3, moves=5, **SECRET
    ),
}  # fmt: skip
WRAP = """
size_t {n}_sizeof(void) {{ return sizeof({n}_filter); }}
void {n}_start({n}_filter *f, uint64_t low, uint64_t high) {{
    (void)low, (void)high;
    {n}_init(f{secret});
}}
void {n}_run({n}_filter *f, const uint8_t *codes, const uint64_t *keys, const int64_t *times,
             const int64_t *windows, size_t count, int64_t *ages) {{
    (void)times, (void)windows;
    for (size_t i = 0; i < count; i++) {{
        ages[i] = {n}_perform(f, codes[i], {key}{time}{window});
    }}
}}
void {n}_single({n}_filter *f, const uint8_t *codes, const uint64_t *keys, const int64_t *times,
                const int64_t *windows, size_t count, int64_t *ages) {{
    (void)times, (void)windows;
    for (size_t i = 0; i < count; i++) {{
        if (codes[i] == 1) {{
            ages[i] = {n}_age(f, {key}{time}{window});
            ages[i] = {n}_query(f, {key}{time}{window}) == (ages[i] >= 0) ? ages[i] : -9;
        }} else if (codes[i] == 2) {{
            {n}_insert(f, {key}{time});
            ages[i] = -1;
        }} else {{
            ages[i] = {n}_check_and_insert(f, {key}{time}) - 1;
        }}
    }}
}}
int {n}_renew({n}_filter *f, uint64_t low, uint64_t high) {{
    (void)f, (void)low, (void)high;
    return {rekey};
}}
void {n}_write({n}_filter *f, uint8_t *bytes) {{ {n}_save(f, bytes); }}
int {n}_read({n}_filter *f, const uint8_t *bytes) {{ return {n}_load(f, bytes); }}
void {n}_text(const char *text, size_t size, uint64_t *key) {{ {digest}; }}
"""
MANY = """
int64_t {n}_many({n}_filter *f, const uint64_t *keys, size_t count, uint8_t *seen) {{
    return {n}_check_and_insert_many(f, keys, count, seen);
}}
size_t {n}_stack(void) {{ return {n}_STACK; }}
"""


def has_digest(spec):
    return not (spec.keyed and spec.digest == "siphash")


def wrapped(name, spec):
    """Return a C source with functions for ctypes."""
    words = -(-spec.key_bits // 64)
    many = MANY if spec.kind == "ring" and not spec.timed else ""
    digest = (
        f"{name}_digest(text, size, key)"
        if has_digest(spec)
        else "(void)text, (void)size, (void)key"
    )
    return f'#include "{name}.h"\n' + (WRAP + many).format(
        n=name,
        secret=", low, high" if spec.keyed else "",
        key="keys[i]" if words == 1 else f"keys + {words} * i",
        time=", times[i]" if spec.timed else "",
        window=", windows[i]" if spec.kind != "ring" else "",
        rekey=f"{name}_rekey(f, low, high)" if spec.keyed else "0",
        digest=digest,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All filters in one source: no name of one meets another's."""
    folder = tmp_path_factory.mktemp("c")
    for name, spec in SPECS.items():
        (folder / f"{name}.h").write_text(header(spec, name))
    (folder / "all.c").write_text("".join(wrapped(*each) for each in SPECS.items()))
    return folder


@pytest.fixture(scope="module")
def libraries(folder):
    """One as it is, and one without what only GCC and Clang have."""
    made = []
    for name, without in {"all.so": [], "plain.so": ["-U__GNUC__"]}.items():
        options = ["-std=c99", "-O0", *without, *FLAGS, "-shared", "-fPIC"]
        subprocess.run(["cc", *options, folder / "all.c", "-o", folder / name], check=True)
        made.append(ctypes.CDLL(folder / name))
    return made


def test_is_cpp_too(folder):
    command = ["c++", "-x", "c++", "-std=c++11", *FLAGS, "-fsyntax-only", folder / "all.c"]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("name", ["gebf_secret", "blocked_small", "apbf_secret", "apbbf_wide"])
def test_stack(name, folder, libraries):
    """All functions together take no more stack than the header says for a batch."""
    (folder / "one.c").write_text(f'#include "{name}.h"\n' + MANY.format(n=name))
    command = ["cc", "-std=c99", "-O2", "-fstack-usage", "-c", "one.c"]
    subprocess.run(command, check=True, cwd=folder)
    frames = [int(line.split("\t")[1]) for line in (folder / "one.su").read_text().splitlines()]
    stack = getattr(libraries[0], f"{name}_stack")
    stack.restype = ctypes.c_size_t
    assert sum(frames) <= stack()


class InC:
    """A filter of the library, with the calls of golden."""

    def __init__(self, library, name, secret):
        self._library, self._name, self.spec = library, name, SPECS[name]
        size = self._function("sizeof", ctypes.c_size_t)()
        self._memory = np.zeros(size // 8 + 1, np.uint64)
        self._function("start")(self._memory.ctypes, *self._halves(secret))

    def _function(self, name, kind=ctypes.c_int):
        function = getattr(self._library, f"{self._name}_{name}")
        function.restype = kind
        return function

    @staticmethod
    def _halves(secret):
        return ctypes.c_uint64(secret & (1 << 64) - 1), ctypes.c_uint64(secret >> 64)

    def run(self, function, codes, keys, times, windows):
        ages = np.zeros(len(codes), np.int64)
        arrays = [np.ascontiguousarray(array) for array in (codes, keys, times, windows)]
        self._function(function)(
            self._memory.ctypes, *(array.ctypes for array in arrays),
            ctypes.c_size_t(len(codes)), ages.ctypes,
        )  # fmt: skip
        return ages

    def many(self, keys):
        seen, keys = np.zeros(len(keys), np.uint8), np.ascontiguousarray(keys)
        many = self._function("many", ctypes.c_int64)
        hits = many(self._memory.ctypes, keys.ctypes, ctypes.c_size_t(len(keys)), seen.ctypes)
        assert hits == seen.sum()
        return seen

    def rekey(self, secret):
        return self._function("renew")(self._memory.ctypes, *self._halves(secret))

    def save(self):
        text = ctypes.create_string_buffer(len(to_c(from_spec(self.spec))))
        self._function("write")(self._memory.ctypes, text)
        return text.raw

    def load(self, state):
        return self._function("read")(self._memory.ctypes, state)

    def key_of(self, text):
        key = np.zeros(-(-self.spec.key_bits // 64), np.uint64)
        self._function("text")(text, ctypes.c_size_t(len(text)), key.ctypes)
        return key


def draw_keys(random, spec, count):
    """Draw keys, of which half come again within the window."""
    words = -(-spec.key_bits // 64)
    keys = random.integers(0, 1 << 64, (300 + count, words), np.uint64)
    if spec.key_bits % 64:
        keys[:, -1] &= np.uint64((1 << spec.key_bits % 64) - 1)
    index = np.where(
        random.random(count) < 0.5, random.integers(0, 300, count), 300 + np.arange(count)
    )
    return keys[index]


def draw_codes(random, model, count):
    codes = np.array(sorted({*model.supported} - {5}), np.uint8)
    return np.where(random.random(count) < 0.002, 5, random.choice(codes, count)).astype(np.uint8)


def shown(keys):
    return keys if keys.shape[1] > 1 else keys[:, 0]


def same_state(filter_in_c, model):
    state, other = filter_in_c.save(), to_c(model)
    assert state == other
    again = from_c(model.spec, state)
    assert again == model
    assert again.counters == model.counters
    return state


@pytest.mark.parametrize("name", SPECS)
def test_equals_golden(name, libraries):
    """Answers, counters, secrets and memory, operation by operation and in batches."""
    spec, random = SPECS[name], np.random.default_rng(5)
    secret = 0x0123456789ABCDEF_FEDCBA9876543210 if spec.keyed else 0
    model = (
        type(from_spec(spec)).from_spec(spec, secret=secret)
        if spec.kind == "ring"
        else from_spec(spec)
    )
    if spec.keyed and spec.kind == "dictionary":
        model = type(model)(**model.parameters, secret=secret)
    c, other = (InC(library, name, secret) for library in libraries)
    now = 0
    for _ in range(30):
        count = int(random.integers(1, 400))
        codes, keys = draw_codes(random, model, count), draw_keys(random, spec, count)
        times = now + np.cumsum(random.choice([0, 1, 30], count, p=[0.5, 0.48, 0.02]))
        now = int(times[-1])
        windows = random.integers(1, spec.guaranteed_window + 1, count)
        operands = [times] * spec.timed + [None] * (spec.kind != "ring" and not spec.timed)
        operands += [windows] * (spec.kind != "ring")
        results = model.perform(codes, shown(keys), *operands)
        ages = np.where(results.seen, results.age, -1)
        np.testing.assert_array_equal(c.run("run", codes, keys, times, windows), ages)
        single(c, model, random, keys, times, windows)
        if spec.kind == "ring" and not spec.timed:
            np.testing.assert_array_equal(c.many(keys), model.check_and_insert(shown(keys)))
        if spec.keyed:
            fresh = int(random.integers(0, 1 << 62)) | 7 << 64
            ready = getattr(model, "rekey_ready", True)
            assert c.rekey(fresh) == (0 if ready else -1)
            if ready:
                model.rekey(fresh)
        state = same_state(c, model)
        assert other.load(state) == 0
        assert other.save() == state
        c, other = other, c
    assert other.load(b"\0" + state[1:]) == -1
    if has_digest(spec):
        for text in (b"", b"a", b"flow 10.0.0.1:80" * 20, bytes(128), bytes(129)):
            np.testing.assert_array_equal(c.key_of(text), np.ravel(model.key_words([text])))


def single(c, model, random, keys, times, windows):
    """Perform the functions for one key each, and the like in golden."""
    spec, now = c.spec, times[-1:]
    codes = random.integers(1, 4, min(20, len(keys))).astype(np.uint8)
    ages = c.run("single", codes, keys, np.broadcast_to(now, len(keys)), windows)
    for code, key, window, age in zip(codes, keys, windows, ages, strict=False):
        at = (now,) if spec.timed else ()
        asked = {} if spec.kind == "ring" else {"window": int(window)}
        single_key = shown(key[np.newaxis])
        if code == 1:
            results = model.look_up(single_key, *at, **({"windows": [window]} if asked else {}))
            assert age == (results.age[0] if results.seen[0] else -1)
            assert model.query(single_key, *at, **asked)[0] == (age >= 0)
        elif code == 2:
            model.insert(single_key, *at)
        else:
            assert model.check_and_insert(single_key, *at)[0] == (age == 0)


def test_wrong():
    spec = SPECS["gebf"]
    state = to_c(from_spec(spec))
    with pytest.raises(StateFileError, match=r"^state: expected \d+ bytes that begin with"):
        from_c(spec, state[:-1])
    broken = state[:40] + b"\xff" * 8 + state[48:]
    with pytest.raises(StateFileError, match=r"^state: damaged: "):
        from_c(spec, broken)
    with pytest.raises(SpecificationError, match=r"^family: must be a family .* exported to C"):
        header(TimingSpec(window=10, cells=40, hashes=2), "x")
    decided = PartitionedTimingSpec(window=16, block=4, hashes=3, cells=64, classes=2)
    with pytest.raises(SpecificationError, match=r"^classes: must not be given for C code, not 2"):
        header(decided, "x")
