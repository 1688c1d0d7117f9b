"""The planner: from the requirements of a filter to the cheapest filter that meets them."""

from ..golden.spec.base import import_families
from .plan import Candidate, Plan, choose, plan
from .requirement import PLANNER_FAMILIES, PlannerFamily, Requirement, RequirementError
from .rings import PlannedRing
from .stamped import CountedTiming, Dictionary, TimedTiming

_PLANNED: tuple[PlannerFamily, ...] = (
    PlannedRing("apbf"),
    PlannedRing("apbbf"),
    PlannedRing("gebf"),
    PlannedRing("blocked-gebf"),
    Dictionary("window-dictionary"),
    CountedTiming("partitioned-timing"),
    TimedTiming("timed-timing"),
)

PLANNER_FAMILIES.update({family.name: family for family in _PLANNED})
import_families()

__all__ = [
    "PLANNER_FAMILIES", "Candidate", "Plan", "PlannerFamily", "Requirement", "RequirementError",
    "choose", "plan",
]  # fmt: skip
