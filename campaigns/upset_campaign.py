"""Campaigns of upsets: single bits of a compiled unit flip under load, and what comes of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden.spec.base import require
from lately.hdl.build import UnitSpec

from .soak import software
from .upset_course import promised, upset_course, window_operations
from .upset_outcomes import OUTCOMES, judge

BATCH = 1000
"""Upsets in one sequence of operations, each in a run of its own."""

WINDOWS = 3
"""Windows for which results are compared after an upset."""

LOAD = 3000
"""Operations of a sequence in which bits flip."""


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """What a campaign is of.

    Attributes
    ----------
    spec : UnitSpec
    upsets : int
    seed : int
        Of operations and upsets.
    kinds : sequence of str
        What is struck, some of `lately.sim.replay.upset_elements.KINDS`.
    options : dict
        Of the unit.
    """

    spec: UnitSpec
    upsets: int
    seed: int
    kinds: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)


def run(
    campaign: Campaign,
    known: Mapping[str, Any] | None = None,
    *,
    progress: Callable[[int], None] = lambda done: None,
    keep: Callable[[dict[str, Any]], None] = lambda figures: None,
) -> dict[str, Any]:
    """Flip bits of a unit, one in each run, and judge what it tells from then on.

    Every bit is as likely, and so is every clock of sequences whose results are those of the golden
    model; the unit is offered an operation at every clock, and its results are taken. An interrupt
    ends the campaign and returns what was found until then.

    Parameters
    ----------
    campaign : Campaign
    known : dict, optional
        What an earlier run returned, which is continued if it is of the same hardware.
    progress : callable
        Called with the number of upsets done since its last call.
    keep : callable
        Called with the figures after each batch.

    Returns
    -------
    dict
        Upsets by outcome, silent and told, of each kind and by element, and how many of both had
        left something at the end of their runs; mismatches with golden without an upset; and what
        it ran with.

    Raises
    ------
    SpecificationError
        If tables of thresholds answer, or the unit has nothing of one of the kinds.
    ToolError
        If a tool is missing or fails.
    """
    from lately.sim import compiled_unit

    classes = getattr(campaign.spec, "classes", None)
    require(classes is None, "classes", "must not be given for upsets", classes)
    interrupted = False
    with compiled_unit(campaign.spec, upsets=True, **campaign.options) as unit:
        tally = _Tally(campaign, unit.upsets)
        tally.resume(known)
        progress(tally.done)
        try:
            while (left := campaign.upsets - tally.done) > 0:
                upsets = min(BATCH, left)
                tally.add(*_batch(campaign, unit, tally, upsets))
                keep(tally.figures())
                progress(upsets)
        except KeyboardInterrupt:
            interrupted = True
    return tally.figures() | {"interrupted": interrupted}


class _Tally:
    """Counts of outcomes so far."""

    def __init__(self, campaign: Campaign, upsets: Any) -> None:
        self._elements = upsets.elements
        self.targets = [at for at, one in enumerate(self._elements) if one.kind in campaign.kinds]
        held = sorted({one.kind for one in self._elements})
        for kind in campaign.kinds:
            require(kind in held, "kind", f"must be one the unit has, {' or '.join(held)}", kind)
        self._identity = {
            "spec": campaign.spec.to_dict(),
            "options": dict(campaign.options),
            "kinds": list(campaign.kinds),
            "seed": campaign.seed,
            "hardware": upsets.digest,
        }
        self._asked = campaign.upsets
        self._began = time.perf_counter()
        self._mismatches = 0
        # Of each element and outcome: silent, told, and of both those that last.
        self._counts = np.zeros((len(self._elements), len(OUTCOMES), 3), np.int64)

    @property
    def done(self) -> int:
        """Upsets so far."""
        return int(self._counts[..., :2].sum())

    def resume(self, known: Mapping[str, Any] | None) -> None:
        """Go on from figures, if they are of this campaign and hardware."""
        if known is None or any(known.get(name) != value for name, value in self._identity.items()):
            return
        # A batch that was smaller as the campaign ended with it is made again.
        if known["done"] > self._asked or (known["done"] < self._asked and known["done"] % BATCH):
            return
        self._mismatches = known["mismatches"]
        self._began -= known["seconds"]
        for at in self.targets:
            self._counts[at] = np.transpose(known["elements"][self._elements[at].name][2:])

    def add(self, struck: Any, ranks: Any, told: Any, lasts: Any, mismatches: int) -> None:
        """Count the outcomes of upsets of elements."""
        np.add.at(self._counts, (struck, ranks, told.astype(int)), 1)
        np.add.at(self._counts, (struck, ranks, 2), lasts)
        self._mismatches += mismatches

    def figures(self) -> dict[str, Any]:
        """Return what was counted, as JSON can hold it."""
        elements = {
            one.name: [one.kind, one.bits, *self._counts[at].T.tolist()]
            for at, one in enumerate(self._elements)
            if at in self.targets
        }
        return self._identity | {
            "done": self.done,
            "mismatches": self._mismatches,
            "found": [row for kind in self._identity["kinds"] for row in self._rows(kind)],
            "elements": elements,
            "windows": WINDOWS,
            "seconds": time.perf_counter() - self._began,
            "versions": software(),
        }

    def _rows(self, kind: str) -> list[dict[str, Any]]:
        """Return how many upsets of a kind came to what."""
        own = [at for at, one in enumerate(self._elements) if one.kind == kind]
        counts = self._counts[own].sum(axis=0)
        return [
            {"kind": kind, "outcome": outcome, "silent": silent, "told": told,
             "share": (silent + told) / max(1, int(counts[:, :2].sum())), "lasting": lasting}
            for outcome, (silent, told, lasting) in zip(OUTCOMES, counts.tolist(), strict=True)
        ]  # fmt: skip


def _batch(
    campaign: Campaign, unit: Any, tally: _Tally, upsets: int
) -> tuple[list[int], NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_], int]:
    """Return elements struck, ranks, what was told, what lasts, and mismatches without an upset."""
    spec, runs, profile = campaign.spec, unit.upsets, unit.profile
    random = np.random.default_rng([campaign.seed, tally.done])
    window = window_operations(unit, spec)
    beats = -(-WINDOWS * window // profile.lanes) + 2 * profile.latency
    unit.reset()
    course = upset_course(unit, spec, int(random.integers(1 << 63)))
    course.perform(window + LOAD + beats * profile.lanes)
    patience = 4 * (profile.latency + profile.longest_pause) + 2 * profile.least_period + 256
    ends = (-(-window // profile.lanes), runs.beats - beats)
    reference, (earliest, latest) = runs.reference(patience * runs.beats, *ends)
    clocks = np.sort(random.integers(earliest, latest, upsets))
    struck = _drawn(random, runs.elements, tally.targets, clocks)
    outcome = runs.strike(struck, beats=beats, patience=patience)
    due = promised(spec, runs.sent, reference)
    ranks, told = judge(runs.sent, reference, due, outcome, beats)
    wrong = sum(course.mismatches.values()) + runs.told
    return [one.element for one in struck], ranks, told, ~outcome.healed, wrong


def _drawn(random: np.random.Generator, elements: Any, targets: list[int], clocks: Any) -> Any:
    """Draw a bit of the targets for each clock, every bit as likely."""
    from lately.sim.replay.upset_runs import Upset

    ends = np.cumsum([elements[number].bits for number in targets])
    bits = random.integers(0, ends[-1], len(clocks))
    chosen = np.searchsorted(ends, bits, "right")
    starts = ends - [elements[number].bits for number in targets]
    return [
        Upset(clock, targets[target], *divmod(bit, elements[targets[target]].width))
        for clock, target, bit in zip(
            clocks.tolist(), chosen.tolist(), (bits - starts[chosen]).tolist(), strict=True
        )
    ]
