"""The planner: from what is asked of a filter to the cheapest one that does it."""

from .plan import Candidate, Plan, choose, plan
from .requirement import Requirement, RequirementError

__all__ = ["Candidate", "Plan", "Requirement", "RequirementError", "choose", "plan"]
