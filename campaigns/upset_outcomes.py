"""What an upset comes to: results with it against results without it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lately.golden.operations import OperationBit

OUTCOMES: Mapping[str, str] = {
    "masked": "no result differs, and nothing is left of it",
    "latent": "no result differs, but a register or memory does at the end",
    "false positive": "keys are reported that would not be, and nothing else differs",
    "other": "an age, a status, a time or a tag is wrong, or a key that was not promised is lost",
    "false negative": "a key of the window is not reported",
    "lost result": "results stop, or one is missing or comes twice",
}
"""Outcomes of upsets, from the least to the worst, which counts, and what they mean."""

END = 8
"""Beats at the end of a run by which a lost result is told from a wrong tag."""


def judge(
    sent: Any, reference: Any, promised: NDArray[np.bool_], outcome: Any, beats: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Judge runs with upsets.

    Parameters
    ----------
    sent : Sent
        What was sent to the unit.
    reference : Beheld
        What it told without an upset.
    promised : ndarray of bool, shape (lanes times beats,)
        Results that must report their key.
    outcome : Outcome
        Of upsets.
    beats : int
        Results that were due after each.

    Returns
    -------
    ranks : ndarray of int, shape (n,)
        Numbers of `OUTCOMES`.
    told : ndarray of bool, shape (n,)
        Whether the unit told of a fault, or each key that it lost had a status other than 0.
    """
    lanes = len(sent.codes) // len(sent.alone)
    slots = outcome.first[:, None] * lanes + np.arange(beats * lanes)
    due, found = reference.part(slots), outcome.beheld
    asks = (sent.codes & OperationBit.QUERY > 0) & (sent.codes & OperationBit.ALONE == 0)
    misplaced = (found.tag != due.tag) | ((found.seen > 0) != (due.seen > 0))
    missed = promised[slots] & (found.seen < 2)
    gained = asks[slots] & (due.seen == 1) & (found.seen == 2)
    wrong = misplaced | (due.seen == 2) & (found.seen < 2)
    # Where a key is reported by mistake, nothing can be said of its age.
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
