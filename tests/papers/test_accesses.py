"""Accesses of queries, against the walks of the APBF paper one key at a time."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from paths import PATHS, taking
from ring_oracle import RingOracle
from small_filters import CLASSES, as_keys, key_lists, specs

from lately.golden import Operation, analysis
from papers import apbf


def algorithm_1(matches, k, l):
    """Algorithm 1 of section 5.4: segments read, and whether it found a run."""
    i, p, c, read = l, 0, 0, 0
    while i >= 0:
        read += 1
        if matches[i]:
            c, i = c + 1, i + 1
            if p + c == k:
                return read, True
        else:
            i, p, c = i - k, c, 0
    return read, False


def scanned(matches, k, l):
    """Segments that a scan reads which stops when F of section 5.3 is 0 or 1."""
    a = read = 0
    for i, match in enumerate(matches):
        if a == k or i > l + a:
            break
        read += 1
        a = a + 1 if match else 0
    return read


def has_run(matches, k, l):
    return any(all(matches[j : j + k]) for j in range(l + 1))


@given(st.integers(1, 5), st.integers(0, 9), st.data())
@example(k=2, l=3, data=None)
def test_walks(k, l, data):
    row = st.lists(st.booleans(), min_size=k + l, max_size=k + l)
    rows = data.draw(st.lists(row, max_size=20)) if data else []
    matches = np.array(rows, np.bool_).reshape(-1, k + l).T
    walks = [algorithm_1(row, k, l) for row in rows]
    assert apbf.backward(matches, k).tolist() == [read for read, _ in walks]
    assert [seen for _, seen in walks] == [has_run(row, k, l) for row in rows]
    mirrored = [algorithm_1(row[::-1], k, l)[0] for row in rows]
    assert apbf.forward(matches, k).tolist() == mirrored
    assert apbf.linear(matches, k).tolist() == [scanned(row, k, l) for row in rows]


@given(spec=specs(lanes=(1,)), path=st.sampled_from(PATHS), data=st.data())
def test_matches_are_those_of_the_definition(spec, path, data):
    partitioned = not spec.family.endswith("gebf") or data.draw(st.booleans(), "partitioned")
    with taking(path):
        model = CLASSES[spec.family](spec, partitioned=partitioned)
    oracle = RingOracle(spec, partitioned=partitioned)
    inserted, asked = (data.draw(key_lists(spec.key_bits, 30)) for _ in range(2))
    model.insert(as_keys(inserted, spec.key_bits))
    for key in inserted:
        oracle.perform(Operation.INSERT, key)
    matches = model.matches(as_keys(asked, spec.key_bits))
    runs = [has_run(column, spec.run, spec.window_generations) for column in matches.T]
    assert runs == [oracle.ask(key)["seen"] for key in asked]
    segments = range(spec.ring_segments)
    rows = [[oracle.bits(key, at) <= oracle.segment(at) for at in segments] for key in asked]
    assert matches.T.tolist() == rows


def test_mean_is_that_of_the_recursion():
    """Matches drawn with the fill ratios: A(k, l, ...) / (1 - F) of section 5.4."""
    k, l = 4, 7
    fills = np.array(analysis.apbf_fills(k, l))
    rng = np.random.default_rng(1)
    matches = rng.random((k + l, 100_000)) < fills[:, None]
    read = apbf.backward(matches, k)
    seen = np.array([has_run(column, k, l) for column in matches.T[:20_000]])
    for case, chosen in (("false", ~seen), ("false positive", seen)):
        mean = read[:20_000][chosen].mean()
        assert mean == pytest.approx(analysis.apbf_accesses(k, l, case, fills=fills), rel=0.02)
