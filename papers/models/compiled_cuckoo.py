"""Compiled loop over the insertions of a time-decaying cuckoo dictionary.

The list of whole keys becomes a hash table with open addressing for the length
of a batch, and a queue in the order of insertion. A timestamp of 0 stands for a
free slot, `_GONE` for one whose key has left.
"""

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden.compilation import jit

NOW, WINDOW, POSITIONS, MOVES, MOVED, PEAK, LISTED, HEAD, TAIL, NUMBERS = range(10)
"""Place in the vector that carries the dictionary through the loop; the last is its length."""

_GONE = np.int64(-1)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)

Integers = NDArray[np.int64]
"""Places in tables, timestamps and codes."""


class ListTable:
    """List of a dictionary as the loop takes it, with room for the keys of a batch.

    Parameters
    ----------
    listed : OrderedDict
        Keys of 64 bits or fewer and their timestamps, oldest first.
    batch : int
        Keys that may come.
    """

    def __init__(self, listed: "OrderedDict[Any, int]", batch: int) -> None:
        room = len(listed) + batch
        # Every key that comes may take a slot and leave it.
        size = 1 << (2 * room).bit_length()
        self.keys = np.zeros(size, np.uint64)
        self.stamps = np.zeros(size, np.int64)
        self.slots = np.zeros(room, np.int64)
        self.times = np.zeros(room, np.int64)
        names = np.fromiter(listed.keys(), np.uint64, len(listed))
        _fill(
            names,
            np.fromiter(listed.values(), np.int64, len(listed)),
            self.keys,
            self.stamps,
            self.slots,
            self.times,
        )

    def entries(self, head: int, tail: int) -> "OrderedDict[Any, int]":
        """Return the entries of the queue from place `head` up to `tail`, oldest first."""
        slots, times = self.slots[head:tail], self.times[head:tail]
        left = self.stamps[slots] == times
        names = self.keys[slots[left]].tolist()
        return OrderedDict(zip(names, times[left].tolist(), strict=True))


@jit
def _find(keys, stamps, key):
    """Slot of a key, or the free one where it would be looked for last."""
    last = np.uint64(len(keys) - 1)
    slot = (key * _SPREAD >> _HALF) & last
    while stamps[slot] != 0 and (stamps[slot] == _GONE or keys[slot] != key):
        slot = (slot + np.uint64(1)) & last
    return slot


@jit
def _append(key, now, keys, stamps, slots, times, tail):
    slot = _find(keys, stamps, key)
    keys[slot], stamps[slot] = key, now
    slots[tail], times[tail] = slot, now


@jit
def _fill(names, values, keys, stamps, slots, times):
    for tail in range(len(names)):
        _append(names[tail], values[tail], keys, stamps, slots, times, tail)


@jit
def _distance(now, time, span):
    return now - time if now >= time else now - time + span


@jit
def _toss(coin):
    """`CuckooDictionary._toss`."""
    bits = coin[0]
    bits ^= bits << np.uint64(13)
    bits ^= bits >> np.uint64(7)
    bits ^= bits << np.uint64(17)
    coin[0] = bits
    return bits & np.uint64(1)


@jit
def _relocate(times, codes, before, now, first, second, signature, numbers, coin):
    """`CuckooDictionary._relocate`."""
    n, addresses = numbers[WINDOW], 2 * numbers[POSITIONS]
    at, other = first, second
    if _toss(coin):
        at, other = second, first
    time, code = now, signature + other
    for moved in range(1, numbers[MOVES] + 1):
        before[moved - 1, 0], before[moved - 1, 1], before[moved - 1, 2] = at, times[at], codes[at]
        times[at], time = time, times[at]
        codes[at], code = code, codes[at]
        other = code % addresses
        at, code = other, code - other + at
        if times[at] == 0 or _distance(now, times[at], 2 * n) >= n:
            times[at], codes[at] = time, code
            numbers[MOVED] += moved
            return True
    for moved in range(numbers[MOVES] - 1, -1, -1):
        at = before[moved, 0]
        times[at], codes[at] = before[moved, 1], before[moved, 2]
    return False


@jit
def _sweep(times, now, numbers, width):
    """Empty the expired ones of the positions whose turn it is, in both tables."""
    n, positions = numbers[WINDOW], numbers[POSITIONS]
    low = now % n * width
    for table in range(2):
        for at in range(low, min(low + width, positions)):
            place = at + table * positions
            if times[place] != 0 and _distance(now, times[place], 2 * n) >= n:
                times[place] = 0


@jit
def insert_keys(
    times, codes, first, second, signature, names, keys, stamps, slots, queue, numbers, coin, ages
):
    """Insert keys one after another; `CuckooDictionary._insert_chunk`.

    Parameters
    ----------
    times, codes : ndarray of int64, shape (2 positions,)
        The tables.
    first, second, signature : ndarray of int64, shape (n,)
        As `CuckooDictionary._addresses` returns them.
    names : ndarray of uint64, shape (n,)
        The keys.
    keys, stamps, slots, queue : ndarray
        Arrays of a `ListTable`.
    numbers : ndarray of int64, shape (9,)
        Is changed.
    coin : ndarray of uint64, shape (1,)
        Is changed.
    ages : ndarray of int64, shape (n,)
        Is written.
    """
    n, span = numbers[WINDOW], 2 * numbers[WINDOW]
    width = (numbers[POSITIONS] + n - 1) // n
    now = numbers[NOW]
    before = np.empty((numbers[MOVES], 3), np.int64)
    for i in range(len(names)):
        now = now + 1 if now < span else 1
        at, other, name = first[i], second[i], names[i]
        listed = 0
        if numbers[LISTED] > 0:
            slot = _find(keys, stamps, name)
            if stamps[slot] > 0:
                listed, stamps[slot] = stamps[slot], _GONE
                numbers[LISTED] -= 1
        age = span
        if times[at] != 0 and codes[at] == signature[i] + other:
            age, times[at] = _distance(now, times[at], span), now
        elif times[other] != 0 and codes[other] == signature[i] + at:
            age, times[other] = _distance(now, times[other], span), now
        elif times[at] == 0 or _distance(now, times[at], span) >= n:
            times[at], codes[at] = now, signature[i] + other
        elif times[other] == 0 or _distance(now, times[other], span) >= n:
            times[other], codes[other] = now, signature[i] + at
        elif not _relocate(times, codes, before, now, at, other, signature[i], numbers, coin):
            _append(name, now, keys, stamps, slots, queue, numbers[TAIL])
            numbers[TAIL] += 1
            numbers[LISTED] += 1
        ages[i] = _distance(now, listed, span) if listed and age > n else age
        _sweep(times, now, numbers, width)
        if numbers[LISTED] > 0:
            head = numbers[HEAD]
            while stamps[slots[head]] != queue[head]:
                head += 1
            if _distance(now, queue[head], span) >= n:
                stamps[slots[head]] = _GONE
                numbers[LISTED] -= 1
                head += 1
            elif numbers[LISTED] > numbers[PEAK]:
                numbers[PEAK] = numbers[LISTED]
            numbers[HEAD] = head
    numbers[NOW] = now
