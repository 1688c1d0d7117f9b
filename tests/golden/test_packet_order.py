"""Order of packets from several inputs."""

import numpy as np
import pytest

from lately.golden.packets.packet_order import due_times, merged_order


def plain(inputs, bound):
    """The definition, one packet after the other."""
    rows, count = [], 0
    for number, times in enumerate(inputs):
        latest = 0
        for time in times:
            latest = max(latest, time)
            rows.append((latest if time < 0 else max(time, latest - bound), number, count))
            count += 1
    return [count for *_, count in sorted(rows)]


def random_inputs(random, bound):
    """Times of up to four inputs, most of them late by `bound` or less, some without a time."""
    inputs = []
    for size in random.integers(0, 60, random.integers(1, 5)):
        times = np.cumsum(random.integers(0, 9, size)) + 10 - random.integers(0, bound + 3, size)
        inputs.append(np.where(random.random(size) < 0.1, -1, np.maximum(times, 0)))
    return inputs


@pytest.mark.parametrize("bound", [0, 1, 7, 40])
def test_definition(bound):
    seed = 31 + bound
    random = np.random.default_rng(seed)
    for _ in range(50):
        inputs = random_inputs(random, bound)
        lists = [times.tolist() for times in inputs]
        assert merged_order(inputs, bound).tolist() == plain(lists, bound), seed
        times, cut = inputs[0], len(inputs[0]) // 2
        reached = max([0, *times[:cut].tolist()])
        parts = [due_times(times[:cut], bound), due_times(times[cut:], bound, reached)]
        assert np.concatenate(parts).tolist() == due_times(times, bound).tolist(), seed


def test_edges():
    """A packet that is late by the bound is in order; one more nanosecond and it is not."""
    assert merged_order([np.array([100, 93, 95])], 7).tolist() == [1, 2, 0]
    assert merged_order([np.array([100, 92, 95])], 7).tolist() == [1, 2, 0]
    assert merged_order([np.array([100, 92]), np.array([93])], 7).tolist() == [1, 2, 0]
    assert merged_order([np.array([100, 92]), np.array([92])], 7).tolist() == [2, 1, 0]
    # Equal times: the first input first; packets without a time stay behind the packet before.
    assert merged_order([np.array([5, -1, 6]), np.array([5])], 0).tolist() == [0, 1, 3, 2]
    assert merged_order([], 3).tolist() == []
