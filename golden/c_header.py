"""Export of a filter as one C99 header, and conversion of states between Python and C.

The header contains the C sources of the extension and the constants of a specification. All names
start with a prefix, so that a program can include the headers of several filters. The files in
core/header contain the functions for users; ``X`` stands for the prefix there.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from . import compilation
from .cuckoo.window_dictionary import digest_hash, packed_offsets, row_offsets
from .errors import SpecificationError, StateFileError
from .filter import CoreState, Filter
from .hash.functions import KeyHash
from .hash.keys import KeyDigest
from .hash.siphash import length_word, message_words
from .models import from_spec
from .ring.segments import Layout, PackedSegments
from .spec.base import Specification, require
from .spec.dictionary_sizes import WindowDictionarySpec
from .spec.ring import WHEN_FULL, FilterSpec
from .spec.timestamp import StampedPartsSpec

SOURCES = Path(__file__).with_name("core")
# batch size for timing filters and dictionaries, whose C functions take one key
CHUNK = 8
_COMMENT = re.compile(r"(/\*.*?\*/)", re.DOTALL)
_ENUM = re.compile(r"^enum \{(.*?)\};", re.DOTALL | re.MULTILINE)
_DEFINITION = re.compile(
    r"""^[ ]*\#define[ ](\w+)                   # a macro
    |^}[ ](\w+);                                # a type
    |^typedef[ ][\w ]+[ ](\w+)(?:\[\w+\]|[ ]__attribute__.*)?;
    |^static[ ]const[ ]\w+[ ](\w+)\[            # a table
    |^\w[\w* ]*[* ](\w+)\(                      # a function
    |^\w+\((\w+),                               # a function that a macro makes
    """,
    re.MULTILINE | re.VERBOSE,
)
_ABOUT = """\
/* The filter. The caller provides its memory, e.g. `static X_filter filter;`, and first calls
   X_init. A key of more than 64 bits is an array of words, the least significant first. Functions
   that change a filter must not run concurrently with others on the same filter. */

"""


def header(spec: Specification, name: str) -> str:
    """Return a self-contained C header for a filter; all names in the header start with `name`.

    SpecificationError if `name` is not a C identifier, or the filter cannot be exported to C.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        raise SpecificationError(f"name: must be a C identifier, such as seen, not {name!r}")
    if isinstance(spec, FilterSpec):
        sources, values, text = _ring(spec)
    elif isinstance(spec, StampedPartsSpec):
        sources, values, text = _timing(spec)
    else:
        known = isinstance(spec, WindowDictionarySpec)
        require(known, "family", "must be a family that can be exported to C", spec.family)
        sources, values, text = _dictionary(cast(WindowDictionarySpec, spec))
    values |= _operands(spec)
    digest = ["pure/blake2b.h"] if spec.digest == "blake2b" else []
    first = ["pure/base.h", "pure/siphash.h", *digest, "pure/hash.h"]
    last = [*sources, "header/calls.h", "header/state.h"]
    headers = [item for item in last if item.startswith("header")]
    parts = [
        "#define NO_CLONES /* compiled for one processor */",
        *(_source(item) for item in [*first, *(item for item in last if item not in headers)]),
        text + "".join(f"#define X_{key} {value}\n" for key, value in values.items()),
        _ABOUT + "".join(map(_source, headers)),
        _digest(spec),
    ]
    fields = spec.toml().rstrip("\n").replace("\n", "\n   ")
    text = _prefixed(_shortened("\n".join(parts), spec), name)
    return (
        f"/* {name}: {spec.shape}, of Lately.\n\n   {fields} */\n"
        f"#ifndef {name.upper()}_H\n#define {name.upper()}_H\n\n"
        f"{text}\n#endif\n"
    )


def files(spec: Specification, name: str) -> dict[str, str]:
    """Return the texts of all exported files by file name.

    The files are the C header, the specification, and the two files of the SystemVerilog model.
    """
    words = "words" if spec.key_bits > 64 else "words[0]"
    macros = {
        "X_DPI_SECRET": ", secret_low, secret_high" * spec.keyed, "X_DPI_KEY": words,
        "X_DPI_BITS": str(spec.key_bits), "X_DPI_TOP": str(spec.key_bits - 1),
        "X_DPI_MASK": f"0x{(1 << (spec.key_bits - 1) % 64 + 1) - 1:X}",
        "X_TIME": ", time" * spec.timed, "X_ASK": ", window" * (spec.kind != "ring"),
    }  # fmt: skip
    texts = {f"{name}.h": header(spec, name), f"{name}.toml": spec.toml()}
    for end in ("c", "sv"):
        text = (SOURCES / "header" / f"dpi.{end}").read_text("utf-8")
        for macro, value in macros.items():
            text = re.sub(rf" ?\b{macro}\b" if not value else rf"\b{macro}\b", value, text)
        texts[f"{name}_dpi.{end}"] = re.sub(r"\bX([_.])", rf"{name}\1", text)
    return texts


def _source(file: str) -> str:
    """Return a source file without its include guard and without includes of other sources."""
    text = (SOURCES / file).read_text("utf-8")
    text = re.sub(r'(?m)^#include "\w+\.h"\n', "", text)
    guarded = re.fullmatch(r"(.*?)#ifndef \w+_H\n#define \w+_H\n(.*)#endif\n", text, re.DOTALL)
    return f"{guarded[1]}{guarded[2].strip()}\n" if guarded else text


def _shortened(text: str, spec: Specification) -> str:
    """Shrink the batch buffers to save stack in families whose functions take one key."""
    if spec.kind == "ring":
        return text
    parts = spec.cell_shape[0]
    limits = {"CHUNK": CHUNK, "MAX_HASHES": parts, "DICTIONARY_COLUMNS": parts}
    for name, value in limits.items():
        text = re.sub(rf"(?m)^#define {name} \d+", f"#define {name} {value}", text)
    return text


def _prefixed(text: str, prefix: str) -> str:
    code = _COMMENT.sub("", text)
    names = {name for matched in _DEFINITION.findall(code) for name in matched if name}
    for body in _ENUM.findall(code):
        names |= {item.split()[0] for item in body.split(",")}
    names = {item for item in names if not item.startswith(("X_", "__"))}
    pattern = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    parts = _COMMENT.split(text)
    parts[::2] = [pattern.sub(rf"{prefix}_\1", part) for part in parts[::2]]
    return re.sub(r"\bX_", f"{prefix}_", "".join(parts))


_Header = tuple[list[str], dict[str, object], str]  # source files, macros, and text with constants


def _list(values: Iterable[Any], form: str = "0x{:X}", each: int = 4) -> str:
    shown = [form.format(value) for value in values]
    rows = [", ".join(shown[at : at + each]) for at in range(0, len(shown), each)]
    return "{" + ",\n    ".join(rows) + "}"


def _table(kind: str, name: str, values: Iterable[Any], *form: Any) -> str:
    return f"static const {kind} X_{name} = {_list(values, *form)};\n"


def _hash(key_hash: KeyHash) -> str:
    bits, keyed = key_hash.key_bits, key_hash.hash == "siphash"
    words = [word for function in key_hash.rotations for word in function]
    fields = [
        f"{{0x{(1 << item.bits) - 1:X}, {item.size}, {item.word}, "
        f"{64 - item.offset - item.bits}, {item.bits}}}"
        for item in key_hash.fields
    ]
    tables, products, text = "NULL", "NULL", ""
    if not keyed:
        tables, text = "X_tables", _tables(key_hash.columns)
    if not keyed and len(key_hash.tables) == 8:
        products = "X_products"
        text += _table("uint64_t", "products[][8]", _products(key_hash.columns), "{}", 1)
    constants = [0] if keyed else key_hash.constants
    values = [
        int(keyed), bits, -(-bits // 64), message_words(bits), f"0x{length_word(bits):X}",
        len(key_hash.tables), tables, products, len(constants), "X_constants",
        key_hash.functions, len(key_hash.rotations[0]), "X_rotations", len(fields), "X_fields",
    ]  # fmt: skip
    return (
        text
        + _table("uint64_t", "constants[]", constants)
        + _table("uint64_t", "rotations[]", [shift for word in words for shift in word], "{}", 24)
        + _table("Field", "fields[]", fields, "{}", 2)
        + _table("Hash", "hash", values, "{}", 8)
    )


def _tables(columns: Iterable[int]) -> str:
    """Return C tables: for each value of a key byte, the XOR of the columns of its set bits.

    The C preprocessor computes the XORs.
    """
    known = [*columns]
    known += [0] * (-len(known) % 8)
    macros = "#define FOLD1(sum, a) (sum), (sum) ^ (a)\n"
    for count in range(2, 9):
        *names, last = list("abcdefgh")[:count]
        inner, before = ", ".join(names), f"FOLD{count - 1}"
        macros += (
            f"#define FOLD{count}(sum, {inner}, {last}) \\\n"
            f"    {before}(sum, {inner}), {before}((sum) ^ ({last}), {inner})\n"
        )
    rows = [f"{{FOLD8(0, {_list(known[at : at + 8])[1:-1]})}}" for at in range(0, len(known), 8)]
    return macros + _table("uint64_t", "tables[][256]", rows, "{}", 1)


def _products(columns: tuple[int, ...]) -> list[str]:
    """Return the hash as an 8 x 8 array of bit matrices, each of which has 8 x 8 bits.

    The matrix in row d and column o maps key byte (o + d) % 8 to its part of output byte o.
    """
    rows = [[0] * 8 for _ in range(8)]
    for bit, column in enumerate(columns):
        byte, source = divmod(bit, 8)
        for out in range(64):
            to, at = divmod(out, 8)
            rows[(byte - to) % 8][to] |= (column >> out & 1) << ((7 - at) * 8 + source)
    return [_list(row) for row in rows]


def _ring(spec: FilterSpec) -> _Header:
    layout = Layout.of(spec, True)
    few = spec.segments <= compilation.MAX_SEGMENTS and spec.parts <= compilation.MAX_PARTS
    require(few, spec.size_field, "must give at most 63 segments of 64 parts in C", spec.shape)
    segments = PackedSegments(layout)
    memory = segments.memory
    count, run, joint, rekeys, blocked, *strides, r0, r1, r2 = segments.shape().tolist()
    column = memory.itemsize if memory.ndim == 1 else 0
    whole = memory.nbytes if column else memory[0].nbytes
    block, part, shard, shards = strides
    shape = [
        "&X_hash", column, count, run, joint, blocked, rekeys, spec.parts,
        0 if column else whole // 8, memory.nbytes, whole, block, part, shard, shards,
        f"{{{r0}, {r1}, {r2}}}", "NULL", 0,
    ]  # fmt: skip
    text = _hash(layout.hash) + _table("Ring", "ring", shape, "{}", 8)
    text += f"typedef uint{8 * memory.itemsize}_t X_Cell;\n"
    values: dict[str, object] = {"CELLS": memory.size, "GENERATION": spec.generation}
    sources = ["pure/ring.h"]
    if spec.timed:
        rule = WHEN_FULL.index(spec.when_full)
        values |= {
            "SLICES": spec.ring_segments, "WRITES": spec.run, "SPAN": spec.span,
            "GENERATION_SPAN": spec.generation_span, "WHEN_FULL": ("SHORTEN", "OVERFILL")[rule],
        }  # fmt: skip
        sources += ["pure/rotation.h", "header/timed_ring.h"]
    else:
        values["INDEXES"] = f"RING_ROOM({column}, {joint}, {spec.parts}, {run})"
        values["MASKS"] = "X_INDEXES" if joint else 1
        sources += ["pure/batch.h", "header/ring.h"]
    return [*sources, *["header/ring_secret.h"] * spec.keyed], values, text


def _timing(spec: StampedPartsSpec) -> _Header:
    require(spec.classes is None, "classes", "must not be given for C code", spec.classes)
    key_hash = KeyHash(key_bits=spec.key_bits, sizes=spec.index_sizes, functions=1, seed=spec.seed)
    shape = [
        "&X_hash", spec.hashes, spec.cells, spec.window_blocks + 1, spec.block_units,
        int(spec.timed), "NULL", 0, 0,
    ]  # fmt: skip
    text = _hash(key_hash) + _table("Parts", "parts", shape, "{}", 9)
    values: dict[str, object] = {
        "CELLS": spec.hashes * spec.cells, "WINDOW": spec.guaranteed_window,
        "BLOCK": spec.block_units, "TIMED": int(spec.timed),
        "MOMENT": "time" if spec.timed else "0",
    }  # fmt: skip
    return ["pure/timing.h", "header/timing.h"], values, f"{text}typedef uint64_t X_Cell;\n"


def _dictionary(spec: WindowDictionarySpec) -> _Header:
    packed = packed_offsets(row_offsets(spec), spec.row_bits)
    shape = [
        "&X_hash", "X_offsets", 64 // spec.row_bits, spec.columns, spec.rows, packed.shape[1],
        spec.stash, spec.window, spec.moves or 0, spec.row_bits,
    ]  # fmt: skip
    text = (
        _hash(digest_hash(spec))
        + _table("uint64_t", "offsets[]", packed.ravel())
        + _table("DictionaryShape", "shape", shape, "{}", 10)
        + "typedef int64_t X_Cell;\n"
    )
    cells = 2 * spec.columns * spec.rows + 2 * spec.stash
    values: dict[str, object] = {"CELLS": cells, "WINDOW": spec.window, "STASH": spec.stash}
    sources = ["pure/dictionary.h", "header/dictionary.h"]
    return [*sources, *["header/dictionary_secret.h"] * spec.keyed], values, text


def _operands(spec: Specification) -> dict[str, object]:
    wide, asks = spec.key_bits > 64, spec.kind != "ring"
    return {
        "FINGERPRINT": f"0x{int.from_bytes(spec.fingerprint, 'little'):X}",
        "STATE_BYTES": len(to_c(from_spec(spec))),
        "KEY": "const uint64_t *key" if wide else "uint64_t key",
        "NO_KEY": "NULL" if wide else "0",
        "WORDS": "key" if wide else "&key",
        "NOW": ", int64_t time" * spec.timed,
        "TIME": ", time" * spec.timed,
        "NO_TIME": ", 0" * spec.timed,
        "ASKED": ", int64_t window" * asks,
        "ASK": ", window" * asks,
        "WHOLE": ", X_WINDOW" * asks,
        "SECRET": ", uint64_t secret_low, uint64_t secret_high" * spec.keyed,
        "FIRST_SECRET": "Secret first;" * _has_first(spec),
        "TAKE_SECRET": "filter->state.secret.low = secret_low; "
        "filter->state.secret.high = secret_high;"
        * spec.keyed
        + " filter->first = filter->state.secret;" * _has_first(spec),
    }


def _digest(spec: Specification) -> str:
    """Return a C function that converts text to a key, or a comment if C has no such function."""
    words = -(-spec.key_bits // 64)
    if spec.digest == "siphash" and spec.keyed:
        return "/* No X_digest: the digest of text depends on the secret through SHAKE256. */\n"
    if spec.digest == "blake2b" and words > 8:
        return "/* No X_digest: digests of more than 512 bits need SHAKE256. */\n"
    if spec.digest == "siphash":
        keys = KeyDigest(spec.key_bits, spec.digest, spec.seed).keys.tolist()
        steps = [
            f"key[{word}] = siphash(bytes, (ptrdiff_t)size, 0x{low:X}, 0x{high:X});"
            for word, (low, high) in enumerate(keys)
        ]
    else:
        steps = [f"blake2b(bytes, (ptrdiff_t)size, {words}, key);"]
    if spec.key_bits % 64:
        steps.append(f"key[{words - 1}] &= 0x{(1 << spec.key_bits % 64) - 1:X};")
    body = "\n    ".join(["const uint8_t *bytes = (const uint8_t *)text;", *steps])
    return (
        "/* Computes the key for a text; `key` must have room for all words of a key. */\n"
        "static inline void X_digest(const void *text, size_t size, uint64_t *key) {\n"
        f"    {body}\n}}\n"
    )


def to_c(model: Filter) -> bytes:
    """Return the state of a filter, including secrets, in the format that `X_save` writes in C."""
    require(getattr(model, "partitioned", True), "partitioned", "must be True for C code", False)
    require(not getattr(model, "joinable", False), "joinable", "must be False for C code", True)
    parts = [
        part.astype(part.dtype.newbyteorder("<")).tobytes() for part in _parts(model.core_state())
    ]
    return b"".join([model.spec.fingerprint, *parts])


def _parts(state: CoreState) -> list[NDArray[Any]]:
    secrets = compilation.halves(state.secrets).reshape(-1)
    return [*state.numbers, secrets, *state.arrays.values()]


def from_c(spec: Specification, data: bytes) -> Filter:
    """Build a filter from a state that `X_save` wrote in C.

    StateFileError if the state is damaged or belongs to a filter with another specification.
    """
    model = from_spec(spec)
    numbers, _, arrays = state = model.core_state()
    parts = _parts(state)
    size = 8 + sum(part.nbytes for part in parts)
    if data[:8] != spec.fingerprint or len(data) != size:
        raise StateFileError(
            f"state: expected {size} bytes that begin with {spec.fingerprint.hex()}, "
            f"but got {len(data)} that begin with {data[:8].hex()}"
        )
    at, taken = 8, []
    for part in parts:
        little = np.frombuffer(data, part.dtype.newbyteorder("<"), part.size, at)
        taken.append(little.astype(part.dtype).reshape(part.shape))
        at += part.nbytes
    low, high = taken[len(numbers)].reshape(-1, 2).T.tolist()
    secrets = [first | second << 64 for first, second in zip(low, high, strict=True)]
    memory = dict(zip(arrays, taken[len(numbers) + 1 :], strict=True))
    try:
        model.take_core_state(CoreState(taken[: len(numbers)], secrets, memory))
    except (TypeError, ValueError) as error:
        raise StateFileError(f"state: damaged: {error}") from None
    return model


def _has_first(spec: Specification) -> bool:
    """Return whether the C state contains the first secret, on which text digests depend."""
    return spec.keyed and spec.digest == "siphash"
