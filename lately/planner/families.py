"""The families that the planner chooses from: one entry is all that it knows of a family."""

from .requirement import PlannerFamily
from .rings import PlannedRing
from .stamped import CountedTiming, Dictionary, TimedTiming

PLANNED: tuple[PlannerFamily, ...] = (
    PlannedRing("apbf"),
    PlannedRing("apbbf"),
    PlannedRing("gebf"),
    PlannedRing("blocked-gebf"),
    Dictionary("window-dictionary"),
    CountedTiming("partitioned-timing"),
    TimedTiming("timed-timing"),
)
"""Families in the order of `lately plan`."""
