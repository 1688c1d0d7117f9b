"""Pauses of cocotbext-axi's models."""

import itertools


def pauses(choose, probability):
    """Yield, clock by clock, whether a model pauses; `choose` is a `random.Random`."""
    return (choose.random() < probability for _ in itertools.count())
