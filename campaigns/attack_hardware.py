"""Attacks on the speed of compiled units: all keys to one shard, or to few cells."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.chosen_digests import crowded_digests, keys_of_digests
from lately.golden import FilterSpec, Operation, preset
from lately.golden.hash.keys import random_keys
from lately.golden.ring.layout import Layout
from lately.golden.spec.dictionary_sizes import dictionary_preset
from lately.sim import compiled_unit

LANES = "two-lanes"
"""Unit of several lanes."""

DICTIONARIES = ("1000", "ring-1000")
"""Dictionaries that are overfilled."""

WAYS = ("h3, seed known", "siphash")
"""Hashes that the same keys meet."""

OPERATIONS = 50_000
"""Operations for which a rate is taken, if nothing else is said."""

PROBE = 256
"""Operations for which two keys take turns, so that their time tells whether they share a shard."""

LEARNED = 8
"""Keys of one shard that are learned."""

Run = dict[str, Any]
"""As that of `campaigns.attacks`."""

Words = NDArray[np.uint64]
"""Keys, shape (n,)."""


def measure(
    *,
    lanes: str = LANES,
    dictionaries: Sequence[str] = DICTIONARIES,
    operations: int = OPERATIONS,
    seed: int = 1,
    progress: Callable[[str, str], None] = lambda attack, unit: None,
) -> list[Run]:
    """Measure operations per clock of compiled units under chosen keys.

    Parameters
    ----------
    lanes : str
        Preset of several lanes.
    dictionaries : sequence of str
        Names of dictionaries.
    operations : int
        For which a rate is taken.
    seed : int
        Of keys and of the secrets.
    progress : callable
        Takes the names of attack and unit before each unit runs.

    Returns
    -------
    list of dict
        As ``runs`` of `campaigns.attacks.measure`, without false negatives.

    Errors: as `lately.sim.compiled_unit`.
    """
    random = np.random.default_rng([seed, 100])
    runs: list[Run] = []
    for way in WAYS:
        progress("one shard", f"{lanes}, {way}")
        runs += _one_shard_runs(lanes, way, operations, random)
    for name in dictionaries:
        spec = dictionary_preset(name)
        chosen = np.resize(keys_of_digests(spec, crowded_digests(spec)[0], random), operations)
        for way in WAYS:
            progress("crowded", f"dictionary-{name}, {way}")
            with _cleared(spec, way, random) as unit:
                usual = _rate(unit, random_keys(random, operations, spec.key_bits))
                found: Run = {"attack": "crowded", "unit": f"dictionary-{name}", "hash": way}
                runs.append(found | _figures(usual, _rate(unit, chosen), "all operations"))
    return runs


def _one_shard_runs(
    name: str, way: str, operations: int, random: np.random.Generator
) -> Iterator[Run]:
    spec = preset(name)
    found: Run = {"attack": "one shard", "unit": name, "hash": way}
    with _cleared(spec, way, random) as unit:
        usual = _rate(unit, random_keys(random, operations, spec.key_bits))
        chosen = one_shard(spec, operations, random)
        yield found | _figures(usual, _rate(unit, chosen), "all operations")
        learned, asked = learn_shard(unit, random)
        rate = _rate(unit, np.resize(learned, operations))
        found |= {"attack": "one shard, by time", "queries": asked}
        yield found | _figures(usual, rate, f"all operations, after {asked:,} queries")


def _figures(usual: float, attacked: float, cost: str) -> Run:
    return {
        "figure": "operations per clock",
        "usual": usual,
        "attacked": attacked,
        "cost": cost,
    }


@contextmanager
def _cleared(spec: Any, way: str, random: np.random.Generator) -> Iterator[Any]:
    """Open a compiled unit, clear, with the hash that a way names; siphash has a secret."""
    other = spec if way == WAYS[0] else replace(spec, hash="siphash")
    with compiled_unit(other) as unit:
        if other.hash == "siphash":
            unit.rekey(int.from_bytes(random.bytes(16), "little"))
        unit.apply([Operation.CLEAR], [0])
        # Taken when all is clear.
        unit.apply([Operation.QUERY], [0])
        yield unit


def one_shard(spec: FilterSpec, count: int, random: np.random.Generator) -> Words:
    """Return keys of the first shard, as one draws them who knows the hash h3.

    Parameters
    ----------
    spec : FilterSpec
    count : int
    random : Generator

    Returns
    -------
    ndarray of uint64, shape (count,)
    """
    key_hash = Layout.of(spec, True).hash
    drawn = random_keys(random, 2 * spec.shards * count, spec.key_bits)
    shards = key_hash.shard(key_hash.state(key_hash.check_keys(drawn)))
    return drawn[shards == 0][:count]


def learn_shard(unit: Any, random: np.random.Generator) -> tuple[Words, int]:
    """Find keys of one shard by the time that queries take, whatever the hash is.

    Parameters
    ----------
    unit : CompiledLanes
    random : Generator

    Returns
    -------
    keys : ndarray of uint64, shape (LEARNED,)
    queries : int
    """
    first, *others = random_keys(random, 1 << 8, unit.spec.key_bits)
    keys = [first]
    # A key shares the shard with itself.
    slow = _clocks(unit, np.full(PROBE, first))
    queries = PROBE
    for other in others:
        if len(keys) == LEARNED:
            break
        queries += PROBE
        if _clocks(unit, np.resize(np.array([first, other]), PROBE)) > slow - PROBE // 4:
            keys.append(other)
    return np.array(keys), queries


def _rate(unit: Any, keys: Words) -> float:
    return len(keys) / _clocks(unit, keys, Operation.CHECK_AND_INSERT)


def _clocks(unit: Any, keys: Words, operation: Operation = Operation.QUERY) -> int:
    before = unit.cycles
    unit.apply(np.full(len(keys), operation, np.uint8), keys)
    return int(unit.cycles - before)
