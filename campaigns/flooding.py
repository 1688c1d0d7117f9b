"""Floods of filters whose window is a time: what more keys than there is room for do to it.

No hash helps against them, as the keys may be any. What gives way is the window, which the filter
tells, or the false-positive rate.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden import FilterSpec, from_spec, preset
from lately.golden.hash.keys import random_keys
from lately.golden.times import Times

FLOODED = ("default", "gebf-default")
"""Units that are flooded."""

SPAN = 1000
"""Ticks of the window."""

FACTORS = (2, 10)
"""Keys of floods for each that there is room for; others fill half of the room."""

Words = NDArray[np.uint64]
"""Keys, shape (n,)."""


def flood(queries: int, random: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Insert more keys than there is room for, for the last span of two.

    Parameters
    ----------
    queries : int
        Random keys that are asked.
    random : Generator

    Yields
    ------
    dict
        As those of `campaigns.attacks.measure`. Where the window is shortened, what is
        measured are the keys of others that are not reported though they came within the span;
        as `false_negatives` count those within the window that the filter tells, `guaranteed`.
    """
    for name, when_full, factor in product(FLOODED, ("shorten", "overfill"), FACTORS):
        spec = replace(preset(name), span=SPAN, when_full=when_full)
        streams = _streams(spec, factor, random)
        asked = random_keys(random, queries, spec.key_bits)
        secret = int.from_bytes(random.bytes(16), "little")
        keyed = from_spec(replace(spec, hash="siphash"), secret=secret)
        for way, model in {"h3, seed known": from_spec(spec), "siphash": keyed}.items():
            yield {
                "unit": f"{name}, span, {when_full}",
                "hash": way,
                "cost": f"{factor} times as many keys as there is room for",
                **_flooded(model, streams, asked),
            }


def _flooded(model: Any, streams: list[tuple[Words, Times]], asked: Words) -> dict[str, Any]:
    """Insert the keys of others alone, and those of a flood with them; return what they gain."""
    shortens = model.spec.when_full == "shorten"
    now = 2 * SPAN - 1
    figures = []
    for stream in (streams[:1], streams):
        model.clear()
        keys, times = _merged(stream)
        model.insert(keys, times)
        window = model.guaranteed_span(now) if shortens else SPAN
        missed = _missed(model, keys, times, now, window)
        own = streams[0][1] >= now - SPAN
        forgotten = _missed(model, *streams[0], now, SPAN) / own.sum()
        reported = model.query(asked, np.full(len(asked), now)).mean()
        figures.append(float(forgotten if shortens else reported))
    return {
        "figure": "keys of the span forgotten" if shortens else "false-positive rate",
        "usual": figures[0],
        "attacked": figures[1],
        "false_negatives": missed,
        **({"guaranteed": window} if shortens else {}),
    }


def _streams(
    spec: FilterSpec, factor: int, random: np.random.Generator
) -> list[tuple[Words, Times]]:
    """Return keys and times of others, for two spans, and of the flood, for the last of them."""
    assert spec.generation_span is not None
    room = spec.generation / spec.generation_span
    streams = []
    for rate, first in ((room / 2, 0), (factor * room, SPAN)):
        count = int(rate * (2 * SPAN - first))
        times = first + np.arange(count) * (2 * SPAN - first) // count
        streams.append((random_keys(random, count, spec.key_bits), times))
    return streams


def _merged(streams: list[tuple[Words, Times]]) -> tuple[Words, Times]:
    keys, times = map(np.concatenate, zip(*streams, strict=True))
    order = np.argsort(times, kind="stable")
    return keys[order], times[order]


def _missed(model: Any, keys: Words, times: Times, now: int, window: int) -> int:
    """Count keys, inserted at most a window ago, that are not reported."""
    recent = keys[times >= now - window]
    return int((~model.query(recent, np.full(len(recent), now))).sum())
