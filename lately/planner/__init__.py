"""The planner: from the requirements of a filter to the cheapest filter that meets them."""

from .families import PLANNED
from .plan import Candidate, Plan, choose, plan
from .requirement import PLANNER_FAMILIES, Requirement, RequirementError

PLANNER_FAMILIES.update({family.name: family for family in PLANNED})

__all__ = ["Candidate", "Plan", "Requirement", "RequirementError", "choose", "plan"]
