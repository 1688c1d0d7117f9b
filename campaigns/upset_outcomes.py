"""Outcomes of upsets, and how a run is judged."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden.operations import OperationBit

OUTCOMES: Mapping[str, str] = {
    "masked": "no result differs, and the final state is correct",
    "latent": "no result differs, but a register or memory differs at the end",
    "false positive": "the unit reports more keys, and nothing else differs",
    "other": "an age, status, time or tag is wrong, or the unit misses a key without a guarantee",
    "false negative": "the unit misses a key of the window",
    "lost result": "results stop, or a result is missing or doubled",
}
"""Outcomes of upsets with their meanings, in order; the worst one counts."""

MISSED = [*OUTCOMES].index("false negative")
LOST = [*OUTCOMES].index("lost result")

END = 8  # beats at the end of a run that distinguish a lost result from a wrong tag


def judge(
    sent: Any, reference: Any, promised: NDArray[np.bool_], outcome: Any, beats: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Judge runs with upsets."""
    lanes = len(sent.codes) // len(sent.alone)
    slots = outcome.first[:, None] * lanes + np.arange(beats * lanes)
    due, found = reference.part(slots), outcome.beheld
    asks = (sent.codes & OperationBit.QUERY > 0) & (sent.codes & OperationBit.ALONE == 0)
    misplaced = (found.tag != due.tag) | ((found.seen > 0) != (due.seen > 0))
    missed = promised[slots] & (found.seen < 2)
    gained = asks[slots] & (due.seen == 1) & (found.seen == 2)
    wrong = misplaced | (due.seen == 2) & (found.seen < 2)
    # If a key is reported by mistake, its age is undefined.
    wrong |= ~asks[slots] & (found.seen != due.seen)
    wrong |= (found.status != due.status) | (found.time != due.time)
    tells = asks[slots] & ~gained & ((due.seen == 2) | (due.oldest > 0))
    wrong |= tells & ((found.age != due.age) | (found.oldest != due.oldest))
    ends = misplaced[:, -END * lanes :]
    counts = (due.seen[:, -END * lanes :] > 0).sum(axis=1)
    lost = (outcome.beats < beats) | (2 * ends.sum(axis=1) > counts)
    ranks = np.zeros(len(slots), np.int64)
    # The worst comes last.
    for rank, holds in enumerate(
        (~outcome.healed, gained.any(axis=1), wrong.any(axis=1), missed.any(axis=1), lost), 1
    ):
        ranks[holds] = rank
    excused = missed.any(axis=1) & ~(missed & (found.status == 0)).any(axis=1) & ~lost
    return ranks, outcome.told | excused


def judge_frames(due: Any, promised: NDArray[np.bool_], left: Any) -> int:
    """Judge a run of a deduplicator of frames that marks duplicates."""
    found = "masked"
    if len(due.digests) == len(left.digests):
        damaged = due.digests != left.digests
        missed = due.marked & ~left.marked & ~damaged
        # The worst comes last.
        for outcome, holds in (
            ("false positive", (left.marked & ~due.marked).any()),
            ("other", damaged.any() or missed.any()),
            ("false negative", (missed & promised).any()),
            ("lost result", 2 * damaged[-END:].sum() > END),
        ):
            found = outcome if holds else found
    else:
        found = "lost result"
    return [*OUTCOMES].index(found)
