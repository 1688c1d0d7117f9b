"""The planner finds the cheapest filter that meets a requirement.

Names are imported on first use, because importing all families is slow.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plans import Candidate, Plan, choose, plan
    from .requirement import PLANNER_FAMILIES, PlannerFamily, Requirement, RequirementError, Span

__all__ = [
    "PLANNER_FAMILIES", "Candidate", "Plan", "PlannerFamily", "Requirement", "RequirementError",
    "Span", "choose", "plan",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import plans, requirement

    return getattr(plans, name, None) or getattr(requirement, name)
