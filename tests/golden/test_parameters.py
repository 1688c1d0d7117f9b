"""Parameters of the ring filters: each that is wrong gets an error that names it."""

import inspect
import re

import numpy as np
import pytest

from lately.golden import (
    APBBF,
    APBF,
    GEBF,
    BlockedGEBF,
    FilterSpec,
    SpecificationError,
    StateFileError,
)

SMALL = {
    APBF: {"k": 2, "l": 3, "slice_bits": 64},
    APBBF: {"k": 2, "l": 3, "block_bits": 64, "hashes_per_block": 4, "blocks": 8},
    GEBF: {"window": 12, "epochs": 3, "hashes": 2, "bits": 256},
    BlockedGEBF: {"window": 12, "epochs": 3, "hashes": 2, "bits": 256, "block_bits": 32},
}

OPTIONAL = {"generation"}
CHOICES = {"hash": "h3, siphash", "digest": "blake2b, siphash"}
BOOLS = {"rekey", "partitioned"}
OUTSIDE = {"secret", "partitioned"}
"""No fields of a specification."""

PARAMETERS = [(cls, name) for cls in SMALL for name in inspect.signature(cls).parameters]
INTEGERS = [(cls, name) for cls, name in PARAMETERS if name not in BOOLS | CHOICES.keys()]


def refused(kind, message, cls, **changed):
    with pytest.raises(kind, match=f"^{re.escape(message)}$") as caught:
        cls(**SMALL[cls] | changed)
    assert type(caught.value) is kind


def error_of(name):
    return TypeError if name in OUTSIDE else SpecificationError


def test_every_parameter_is_of_a_known_kind():
    names = {name for _, name in PARAMETERS}
    assert BOOLS | OPTIONAL | OUTSIDE | CHOICES.keys() | {"seed", "key_bits"} < names
    for cls, small in SMALL.items():
        assert set(small) == {
            name
            for name, parameter in inspect.signature(cls).parameters.items()
            if parameter.default is inspect.Parameter.empty
        }


@pytest.mark.parametrize(("cls", "name"), INTEGERS)
@pytest.mark.parametrize("value", [None, 1.5, "x", True, [1], b"1"], ids=repr)
def test_no_integer(cls, name, value):
    shown = type(value).__name__ if name == "secret" else repr(value)
    message = f"{name}: must be an integer, not {shown}"
    if value is None and name in OPTIONAL:
        assert cls(**SMALL[cls], generation=None) == cls(**SMALL[cls])
        return
    if value is None and name in SMALL[cls]:
        message = f"{name}: must be given for family {cls.specification.family}, not None"
    refused(error_of(name), message, cls, **{name: value})


@pytest.mark.parametrize("hash", ["h3", "siphash"])
@pytest.mark.parametrize("cls", SMALL)
@pytest.mark.parametrize("value", [None, 1.0, "1", False, [1]], ids=repr)
def test_no_secret(cls, value, hash):
    message = f"secret: must be an integer, not {type(value).__name__}"
    refused(TypeError, message, cls, secret=value, hash=hash)


@pytest.mark.parametrize(("cls", "name"), [each for each in PARAMETERS if each[1] in BOOLS])
@pytest.mark.parametrize("value", [None, 1.5, "x", 0, 1, []], ids=repr)
def test_no_bool(cls, name, value):
    message = f"{name}: must be True or False, not {value!r}"
    refused(error_of(name), message, cls, **{name: value})


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("cls", SMALL)
@pytest.mark.parametrize("value", [None, 1.5, "x", True, 3, ["h3"]], ids=repr)
def test_no_choice(cls, value, name):
    message = f"{name}: must be one of {CHOICES[name]}, not {value!r}"
    refused(SpecificationError, message, cls, **{name: value})


MOST = {
    "k": 4096, "l": 32767, "slice_bits": "2**48", "generation": "2**48", "key_bits": 4096,
    "block_bits": "2**48", "hashes_per_block": 4096, "blocks": "2**48", "window": "2**48",
    "epochs": 32767, "hashes": 4096, "bits": "2**48",
}  # fmt: skip
RANGES = [(cls, name) for cls, name in INTEGERS if name not in ("seed", "secret")]


@pytest.mark.parametrize(("cls", "name"), RANGES)
@pytest.mark.parametrize("value", [0, -1])
def test_too_small(cls, name, value):
    message = f"{name}: must be at least 1, not {value}"
    refused(SpecificationError, message, cls, **{name: value})


@pytest.mark.parametrize(("cls", "name"), RANGES)
def test_too_large(cls, name):
    most = MOST[name]
    value = (most if isinstance(most, int) else 1 << 48) + 1
    message = f"{name}: must be at most {most}, not {value}"
    refused(SpecificationError, message, cls, **{name: value})


@pytest.mark.parametrize("cls", SMALL)
def test_seed_wrong(cls):
    refused(SpecificationError, "seed: must be at least 0, not -1", cls, seed=-1)
    message = f"seed: must be below 2**64, not {1 << 64}"
    refused(SpecificationError, message, cls, seed=1 << 64)
    assert cls(**SMALL[cls], seed=(1 << 64) - 1).spec.seed == (1 << 64) - 1


@pytest.mark.parametrize("cls", SMALL)
def test_secret_wrong(cls):
    message = "secret: must not be given for hash h3, which takes none"
    refused(SpecificationError, message, cls, secret=1)
    for hash in ("h3", "siphash"):
        refused(ValueError, "secret: must be at least 0, not negative", cls, secret=-1, hash=hash)
        message = "secret: must be below 2**128, not of 129 bits"
        refused(ValueError, message, cls, secret=1 << 128, hash=hash)
    largest = (1 << 128) - 1
    assert cls(**SMALL[cls], secret=largest, hash="siphash").secrets[0] == largest


@pytest.mark.parametrize("cls", SMALL)
def test_rekey_wrong(cls):
    refused(SpecificationError, "rekey: must be False for hash h3, not True", cls, rekey=True)


BLOCKS = "2**32 cells or blocks in a part"


@pytest.mark.parametrize(
    ("cls", "changed", "message"),
    [
        (APBF, {"slice_bits": (1 << 32) + 1}, f"slice_bits: must give at most {BLOCKS}"),
        (APBBF, {"blocks": (1 << 32) + 1}, f"blocks: must give at most {BLOCKS}"),
        (GEBF, {"bits": 1 << 36}, f"bits: must give at most {BLOCKS}"),
        (BlockedGEBF, {"bits": 1 << 40}, f"bits: must give at most {BLOCKS}"),
        (BlockedGEBF, {"block_bits": 48}, "block_bits: must be a power of two"),
        (APBBF, {"hashes_per_block": 3}, "hashes_per_block: must divide block_bits = "),
        (APBBF, {"hashes_per_block": 64}, "hashes_per_block: must divide block_bits = "),
        (GEBF, {"bits": 15}, "bits: must be at least 2 per hash and segment = 16"),
        (BlockedGEBF, {"bits": 127}, "bits: must be at least one block in each segment = 128"),
        (BlockedGEBF, {"hashes": 32}, "hashes: must be below block_bits = 32"),
    ],
    ids=str,
)
def test_size_wrong(cls, changed, message):
    with pytest.raises(SpecificationError, match=f"^{re.escape(message)}.*, not [0-9]+$"):
        cls(**SMALL[cls] | changed)


@pytest.mark.parametrize("name", ["seed", "key_bits", "lanes"])
def test_none_is_no_value_of_a_field_with_a_default(name):
    """Of a specification as of a filter."""
    with pytest.raises(SpecificationError, match=f"^{name}: must be an integer, not None$"):
        FilterSpec(family="apbf", k=2, l=3, slice_bits=64, **{name: None})


@pytest.mark.parametrize("value", [1, None, "true"])
def test_no_bool_in_a_state_file(tmp_path, value, monkeypatch):
    model = GEBF(**SMALL[GEBF])
    monkeypatch.setattr(model, "partitioned", value)
    path = tmp_path / "filter.npz"
    model.save(path)
    with pytest.raises(StateFileError, match=f"partitioned: must be True or False, not {value!r}"):
        GEBF.load(path)


@pytest.mark.parametrize("cls", SMALL)
def test_integers_of_numpy_are_secrets(cls):
    model = cls(**SMALL[cls], hash="siphash", secret=np.uint64(7))
    assert model == cls(**SMALL[cls], hash="siphash", secret=7)
