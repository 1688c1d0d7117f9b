"""Timing Bloom filters against their scalar twin, and what their window promises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lately.golden import timing
from lately.golden.scalar_timing import ScalarBTBF
from lately.golden.timing import BlockTimingBloomFilter, TimingBloomFilter


@st.composite
def filters(draw):
    chosen = {
        "window": draw(st.integers(1, 30)),
        "cells": draw(st.integers(1, 40)),
        "hashes": draw(st.integers(1, 5)),
        "padding": draw(st.one_of(st.none(), st.integers(0, 20))),
        "seed": draw(st.integers(0, 3)),
        "key_bits": draw(st.sampled_from([4, 64, 100])),
    }
    if draw(st.booleans()):
        return TimingBloomFilter(**chosen)
    return BlockTimingBloomFilter(**chosen, block=draw(st.integers(1, 40)))


def twin_of(model):
    return ScalarBTBF(
        w=model.window,
        m=model.cells,
        k=model.hashes,
        P=model.padding,
        B=model.block,
        seed=model.seed,
        key_bits=model.key_bits,
    )


def as_keys(keys, key_bits):
    return np.array([[key, 0] for key in keys]) if key_bits > 64 else np.array(keys)


def assert_same_state(model, twin):
    assert model.timestamps.tolist() == twin.theta
    assert (model.timestamp, model.filled) == (twin.T_plus, twin.b)


@settings(max_examples=300, deadline=None)
@given(model=filters(), chunk=st.sampled_from([1, 3, 1 << 14]), data=st.data())
def test_scalar_twin(model, chunk, data):
    twin = twin_of(model)
    keys = data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=150), "keys")
    while keys:
        size = data.draw(st.integers(1, len(keys)), "size")
        batch, keys = keys[:size], keys[size:]
        array = as_keys(batch, model.key_bits)
        kind = data.draw(st.sampled_from(["insert", "check", "inspect"]), "kind")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(timing, "_CHUNK", chunk)
            if kind == "insert":
                model.insert(array)
                for key in batch:
                    twin.insert(key)
            elif kind == "check":
                seen = model.check_and_insert(array).tolist()
                assert seen == [twin.check_and_insert(key) for key in batch]
            else:
                found = evidence_of(model.inspect_and_insert(array))
                for key, ours in zip(batch, found, strict=True):
                    assert ours == twin.evidence(key)
                    twin.insert(key)
        assert_same_state(model, twin)
        asked = as_keys(range(16), model.key_bits)
        assert evidence_of(model.inspect(asked)) == [twin.evidence(key) for key in range(16)]
        window = data.draw(st.integers(1, model.window), "window")
        for w in (window, None):
            assert model.query(asked, w).tolist() == [twin.query(key, w) for key in range(16)]


def evidence_of(evidence):
    ages = [math.inf if age < 0 else age for age in evidence.age.tolist()]
    columns = [evidence.oldest, evidence.touched, evidence.filled]
    return list(zip(ages, *(column.tolist() for column in columns), strict=True))
