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


@pytest.mark.parametrize("name", ["seed", "key_bits", "lanes"])
def test_none_is_no_value_of_a_field_with_a_default(name):
    """Of a specification as of a filter."""
    with pytest.raises(SpecificationError, match=f"^{name}: must be an integer, not None$"):
        FilterSpec(family="apbf", k=2, l=3, slice_bits=64, **{name: None})


@pytest.mark.parametrize("value", [1, None, "true"])
def test_no_bool_in_a_state_file(tmp_path, value, monkeypatch):
    model = GEBF(**SMALL[GEBF])
    monkeypatch.setitem(vars(model), "partitioned", value)
    path = tmp_path / "filter.npz"
    model.save(path)
    with pytest.raises(StateFileError, match=f"partitioned: must be True or False, not {value!r}"):
        GEBF.load(path)


@pytest.mark.parametrize("cls", SMALL)
def test_integers_of_numpy_are_secrets(cls):
    model = cls(**SMALL[cls], hash="siphash", secret=np.uint64(7))
    assert model == cls(**SMALL[cls], hash="siphash", secret=7)
