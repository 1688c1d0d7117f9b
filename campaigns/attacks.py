"""Attacks on filters by one who chooses the keys: what they gain against each hash.

An attacker who knows the constants of "h3" solves for keys (`lately.golden.hash.chosen_keys`). The
same keys are then given to filters whose constants he does not know: to h3 with another seed, and
to siphash. What he gains without knowing the constants, from verdicts alone, is measured too.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lately import __version__
from lately.chosen_digests import crowded_digests, dictionary_hash, keys_of_digests
from lately.golden import FilterSpec, any_preset, from_spec, preset
from lately.golden.hash.chosen_keys import ChosenKeys
from lately.golden.hash.functions import STATE_BITS, KeyHash
from lately.golden.hash.keys import random_keys
from lately.golden.ring.layout import Layout
from lately.golden.spec.dictionary_sizes import dictionary_preset
from lately.golden.spec.timestamp import StampedPartsSpec

from .flooding import flood

Run = dict[str, Any]
"""What one attack gained on one unit; see `measure`."""

Words = NDArray[np.uint64]
"""Keys, shape (n,) or (n, words)."""

Spec = Any
"""Specification of a ring or of a dictionary."""

Model = Any
"""Its golden model."""

FORGED = ("default", "large", "apbf-default", "gebf-default", "blocked-gebf-default")
"""Units on which strangers are forged."""

FILLED = ("default", "gebf-default")
"""Units that are filled without overlaps."""

TIMING = ("timing-default", "timing-counted-default")
"""Timing filters on which strangers are forged."""

DICTIONARIES = ("1000", "ring-1000")
"""Dictionaries that are overfilled."""

STRANGERS = 300
"""Keys that never came, each of which is to be reported."""

WIDE = 104
"""Width of keys that fold to fewer bits, those of a TCP flow."""

FOLDED = (16, 20, 24)
"""Bits of the narrowed folds for which a difference is searched by verdicts."""

REPLAYED = "gebf-default"
"""Unit whose false positives are used again."""

TRIALS = 8
"""Searches of which the mean number of queries is told."""

_SPREAD = 997
_BATCH = 1 << 12
_PROBES = 4

WAYS = ("h3, seed known", "h3, seed unknown", "siphash")
"""Hashes that the same keys meet."""


def measure(
    *,
    queries: int = 100_000,
    seed: int = 1,
    progress: Callable[[str, str], None] = lambda attack, unit: None,
) -> dict[str, Any]:
    """Run all attacks on golden models.

    Parameters
    ----------
    queries : int
        Keys that are asked for each rate.
    seed : int
        Of all keys, seeds and secrets that are drawn.
    progress : callable
        Takes the name of each attack, and of a unit where it takes long, before it runs.

    Returns
    -------
    dict
        ``runs``, each with ``attack``, ``unit``, ``hash``, what is measured as ``figure``, its
        value with random keys as ``usual`` and under the attack as ``attacked``, the ``cost`` of
        the attack, and the ``false_negatives`` among keys that were guaranteed; ``queries``,
        ``seed`` and ``version``.
    """
    attacks: dict[str, Callable[[int, np.random.Generator], Iterator[Run]]] = {
        "forged": forge,
        "filled": fill,
        "twins": twins,
        "crowded": crowd,
        "difference": differences,
        "replayed": replayed,
        "forged cells": forge_cells,
        "flooded": flood,
    }
    runs = []
    for number, (name, attack) in enumerate(attacks.items()):
        progress(name, "golden models")
        found = attack(queries, np.random.default_rng([seed, number]))
        runs += [{"attack": name} | run for run in found]
    return {"runs": runs, "queries": queries, "seed": seed, "version": __version__}


def _ways(spec: Spec, random: np.random.Generator) -> dict[str, Model]:
    """Return an empty filter for each of `WAYS`; the attacker knows `spec` alone."""
    other = int(random.integers(1, 1 << 63))
    return {
        WAYS[0]: from_spec(spec),
        WAYS[1]: from_spec(replace(spec, seed=other)),
        WAYS[2]: _keyed(replace(spec, hash="siphash"), random),
    }


def _keyed(spec: Spec, random: np.random.Generator) -> Model:
    """Return an empty filter with a secret that the attacker does not know."""
    model = from_spec(spec)
    model.rekey(_secret(random))
    model.clear()
    return model


def _secret(random: np.random.Generator) -> int:
    # Repeatable; what is to be kept secret takes secrets.randbits(128).
    return int.from_bytes(random.bytes(16), "little")


def _chosen(spec: FilterSpec) -> ChosenKeys:
    return ChosenKeys(Layout.of(spec, True).hash)


def _missed(model: Model, keys: Words, window: int) -> int:
    """Count keys of the window, the last of `keys`, that are not reported."""
    return int((~model.query(keys[len(keys) - window :])).sum())


def forge(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Have strangers reported: insert keys that share all of their cells.

    Parameters
    ----------
    queries : int
        As for `measure`; not used, as the answers are certain.
    random : Generator
    """
    for name in FORGED:
        spec = preset(name)
        others = random_keys(random, spec.window, spec.key_bits)
        strangers = random_keys(random, STRANGERS, spec.key_bits)
        models = _ways(spec, random)
        for model in models.values():
            model.insert(others)
            # A new generation, so that none ends while the chosen keys are inserted.
            model.shift()
        chosen = covering_keys(spec, models[WAYS[0]].ring_position, strangers, random)
        for way, model in models.items():
            usual = float(model.query(strangers).mean())
            model.insert(chosen)
            yield {
                "unit": name,
                "hash": way,
                "figure": "strangers reported",
                "usual": usual,
                "attacked": float(model.query(strangers).mean()),
                "cost": f"{len(chosen) // STRANGERS} insertions per stranger",
                "false_negatives": _missed(model, chosen, len(chosen)),
            }


def covering_keys(
    spec: FilterSpec, position: int, strangers: Words, random: np.random.Generator
) -> Words:
    """Return keys that set all cells of `strangers`, of shape (n,), when they are inserted.

    Parameters
    ----------
    spec : FilterSpec
        With the hash h3 and keys of 64 bits.
    position : int
        Physical segment that is the youngest.
    strangers : ndarray of uint64, shape (n,)
    random : Generator

    Returns
    -------
    ndarray of uint64, shape (m n,)
        As many keys for each stranger as 64 bits need to cover the cells of a run.
    """
    chosen = _chosen(spec)
    key_hash = Layout.of(spec, True).hash
    functions = [(position + index) % key_hash.functions for index in range(spec.run)]
    at_once = STATE_BITS // sum(field.bits for field in key_hash.fields)
    keys = [
        chosen.with_cells_of(strangers, functions[first : first + at_once], random)
        for first in range(0, len(functions), at_once)
    ]
    return np.concatenate(keys)[:, 0]


def forge_cells(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Have strangers reported by timing filters, whose hash is h3: all cells of one have one hash.

    Parameters
    ----------
    queries : int
        As for `forge`.
    random : Generator
    """
    for name in TIMING:
        spec = cast(StampedPartsSpec, any_preset(name))
        key_hash = KeyHash(
            key_bits=spec.key_bits, sizes=spec.index_sizes, functions=1, seed=spec.seed
        )
        others = random_keys(random, spec.cells // 2, spec.key_bits)
        strangers = random_keys(random, STRANGERS, spec.key_bits)
        chosen = ChosenKeys(key_hash).with_cells_of(strangers, [0], random)[:, 0]
        other = replace(spec, seed=int(random.integers(1, 1 << 63)))
        for way, own in zip(WAYS, (spec, other), strict=False):
            model: Model = from_spec(own)
            # All of them come at one time, if there is time.
            times = [np.zeros(len(keys), np.int64) for keys in (others, chosen)]
            early, now = [[one] for one in times] if spec.timed else ([], [])
            model.insert(others, *early)
            usual = float(model.query(strangers, *now).mean())
            model.insert(chosen, *now)
            yield {
                "unit": name,
                "hash": way,
                "figure": "strangers reported",
                "usual": usual,
                "attacked": float(model.query(strangers, *now).mean()),
                "cost": "1 insertions per stranger",
                "false_negatives": int((~model.query(chosen, *now)).sum()),
            }


def fill(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Set as many cells as insertions can: no two keys of a segment share one.

    Parameters
    ----------
    queries : int
        Random keys that are asked.
    random : Generator
    """
    for name in FILLED:
        spec = preset(name)
        count = spec.ring_segments * spec.generation
        ordinary = random_keys(random, count, spec.key_bits)
        asked = random_keys(random, queries, spec.key_bits)
        chosen = _filling_keys(spec, random)
        for way, model in _ways(spec, random).items():
            usual = from_spec(model.spec)
            usual.insert(ordinary)
            model.insert(chosen)
            yield {
                "unit": name,
                "hash": way,
                "figure": "false-positive rate",
                "usual": float(usual.query(asked).mean()),
                "attacked": float(model.query(asked).mean()),
                "cost": "all insertions",
                "false_negatives": _missed(model, chosen, spec.window),
            }


def _filling_keys(spec: FilterSpec, random: np.random.Generator) -> Words:
    """Return keys of which those of a segment have no cell in common, generation by generation."""
    chosen, key_hash = _chosen(spec), Layout.of(spec, True).hash
    model = from_spec(spec)
    keys = []
    for generation in range(spec.ring_segments):
        # The cells of a segment last for all generations in which it is written.
        numbers = np.arange(spec.generation) + generation * spec.generation
        block, row = numbers % spec.segment_blocks, numbers // spec.segment_blocks
        # Where all segments have one hash function, other combinations in each.
        spread = generation * _SPREAD if key_hash.functions == 1 else 0
        cells = [(row + part * spread) % spec.cells for part in range(spec.parts)]
        indices = [block, *cells] if len(key_hash.fields) > spec.parts else cells
        wanted = {
            (model.ring_position + index) % key_hash.functions: indices for index in range(spec.run)
        }
        keys.append(chosen.with_indices(wanted, random)[:, 0])
        model.shift()
    return np.concatenate(keys)


def twins(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Ask for keys that differ from seen ones by what the fold of wide keys does not show.

    Parameters
    ----------
    queries : int
        Keys that are asked, at most the window.
    random : Generator
    """
    for name in FORGED:
        spec = replace(preset(name), key_bits=WIDE)
        keys = random_keys(random, spec.window, WIDE)
        asked = keys[-min(queries, spec.window) :] ^ _chosen(spec).kernel()[0]
        strangers = random_keys(random, len(asked), WIDE)
        for way, model in _ways(spec, random).items():
            model.insert(keys)
            yield {
                "unit": f"{name}, {WIDE}-bit keys",
                "hash": way,
                "figure": "strangers reported",
                "usual": float(model.query(strangers).mean()),
                "attacked": float(model.query(asked).mean()),
                "cost": "nothing inserted",
                "false_negatives": _missed(model, keys, spec.window),
            }


def crowd(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Have a dictionary give up entries: insert digests that share few cells.

    Parameters
    ----------
    queries : int
        As for `measure`; not used, as all keys of a window are asked.
    random : Generator
    """
    for name in DICTIONARIES:
        spec = dictionary_preset(name)
        digests, cells = crowded_digests(spec)
        chosen = keys_of_digests(spec, digests, random)
        for way, model in _ways(spec, random).items():
            usual = from_spec(model.spec)
            usual.insert(random_keys(random, spec.window, spec.key_bits))
            model.insert(chosen)
            yield {
                "unit": f"dictionary-{name}",
                "hash": way,
                "figure": "entries given up",
                "usual": usual.lost / spec.window,
                "attacked": model.lost / spec.window,
                "cost": f"{spec.window:,} insertions, for {cells} cells",
                "guaranteed": model.guaranteed_window,
                "false_negatives": _missed(model, chosen, model.guaranteed_window),
            }


def differences(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Find a difference of keys that the fold hides, by verdicts alone; use it on other keys.

    So that the search ends, all keys lie in a subspace of which the fold shows fewer than 64 bits.
    The attacker does not know it, and tries pairs of keys.

    Parameters
    ----------
    queries : int
        Strangers that are asked.
    random : Generator
    """
    for bits in FOLDED:
        trials = [_use_difference(bits, queries, random) for _ in range(TRIALS)]
        usual, attacked, asked, missed = (sum(figures) for figures in zip(*trials, strict=True))
        yield {
            "unit": f"dictionary-1000, fold of {bits} bits",
            "hash": WAYS[1],
            "figure": "strangers reported",
            "usual": usual / TRIALS,
            "attacked": attacked / TRIALS,
            "cost": f"{asked / TRIALS:,.0f} queries before, on average",
            "folded_bits": bits,
            "queries": asked / TRIALS,
            "false_negatives": missed,
        }


def _use_difference(
    bits: int, queries: int, random: np.random.Generator
) -> tuple[float, float, int, int]:
    """Find a difference and use it: rates without and with it, queries before, keys missed."""
    spec = replace(dictionary_preset("1000"), key_bits=WIDE, seed=int(random.integers(1 << 63)))
    draw = _narrow_keys(spec, bits, random)
    model: Model = from_spec(spec)
    difference, asked = _find_difference(model, draw)
    others, strangers = draw(spec.window), draw(queries)
    model.insert(others)
    usual, attacked = model.query(strangers).mean(), model.query(others ^ difference).mean()
    return float(usual), float(attacked), asked, _missed(model, others, model.guaranteed_window)


def _narrow_keys(spec: Spec, bits: int, random: np.random.Generator) -> Callable[[int], Words]:
    """Return what draws keys of a subspace whose states have so many bits."""
    hidden = ChosenKeys(dictionary_hash(spec)).kernel()
    basis = np.concatenate([hidden, random_keys(random, bits, WIDE)])

    def draw(count: int) -> Words:
        keys = np.zeros((count, basis.shape[1]), np.uint64)
        for vector in basis:
            keys[random.random(count) < 0.5] ^= vector
        return keys

    return draw


def _find_difference(model: Model, draw: Callable[[int], Words]) -> tuple[Words, int]:
    """Return a difference that two keys of one state have, and the queries that it took."""
    asked = 0
    while True:
        own, tried = draw(model.window), draw(_BATCH)
        model.insert(own)
        for number in np.flatnonzero(model.query(tried)):
            # The age tells with which key it collides. Whether more than their digests are equal,
            # other keys tell.
            age = int(model.age(tried[number : number + 1])[0])
            difference = own[len(own) - 1 - age] ^ tried[number]
            probes = draw(_PROBES)
            model.insert(probes)
            confirmed = model.query(probes ^ difference).all()
            model.insert(own)
            asked += _PROBES
            if confirmed:
                return difference, asked + int(number) + 1
        asked += _BATCH


def replayed(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Use false positives again that were found by asking, on a stream that comes again.

    Parameters
    ----------
    queries : int
        Keys that are asked at first.
    random : Generator
    """
    spec = preset(REPLAYED)
    stream = random_keys(random, spec.window, spec.key_bits)
    asked = random_keys(random, queries, spec.key_bits)
    models = _ways(spec, random)
    del models[WAYS[0]]
    models["siphash, re-keyed"] = _keyed(replace(spec, hash="siphash", rekey=True), random)
    for way, model in models.items():
        model.insert(np.tile(stream, 2))
        found = asked[model.query(asked)]
        for _ in range(3):
            if model.spec.rekey and model.rekey_ready:
                model.rekey(_secret(random))
            model.insert(stream)
        yield {
            "unit": REPLAYED,
            "hash": way,
            "figure": "strangers reported again",
            "usual": float(model.query(asked).mean()),
            "attacked": float(model.query(found).mean()),
            "cost": f"{queries / len(found):.0f} queries per stranger",
            "false_negatives": _missed(model, stream, spec.window),
        }
