"""Plans, for the terminal."""

from typing import TYPE_CHECKING, Any

from ..planner.cost import models
from ..planner.plan import Candidate, Plan
from ..planner.timed import COUNTED, TimedModel
from ..replay.report import count_text, rate_text
from .tables import head_table, terminal

if TYPE_CHECKING:
    pass


def print_plan(plan: Plan, timed: list[TimedModel] | None = None) -> None:
    """Print the candidates, the chosen one first, and the effect of a changing rate.

    Parameters
    ----------
    plan : Plan
    timed : list of TimedModel, optional
        Golden models for a span of time.
    """
    console = terminal()
    console.print(f"Asked: {plan.requirement.text()}", soft_wrap=True)
    console.print(_candidates(plan))
    console.print("* the cheapest; what binds: the next smaller one of each parameter, and what")
    console.print("  it breaks. Rates are of fresh keys while all keys are distinct.")
    if plan.requirement.device is not None:
        model = models()[plan.requirement.device.family]
        console.print(
            f"~ predicted: LUTs within {model['lut_error']:.0%} and flip-flops within "
            f"{model['ff_error']:.0%} of what units took that were synthesised."
        )
        most = plan.chosen.limit_mhz
        console.print(
            f"The vendor allows at most {most:g} MHz, {most:g} million operations a second; "
            "`lately synth` says what static timing allows."
        )
    if timed is not None:
        console.print(f"A filter of the table {COUNTED}.", soft_wrap=True)
        console.print("For spans of time there are golden models, without hardware:")
        console.print(_timed(timed))


def _candidates(plan: Plan) -> Any:
    device = plan.requirement.device
    cost = ("block RAMs", "LUTs", "FFs") if device else ("bits",)
    last = "accesses" if plan.requirement.any_size else "clocks"
    table = head_table("", "filter", right=("worst", "average", "slack", *cost, last))
    table.add_column("what binds")
    for candidate in plan.candidates:
        spec = candidate.spec
        table.add_row(
            "*" if candidate is plan.chosen else "",
            spec.shape,
            rate_text(spec.worst_false_positive_rate),
            rate_text(spec.mean_false_positive_rate),
            f"{candidate.slack:.3g}",
            *_cost_texts(candidate),
            _last_text(candidate),
            "; ".join(str(binding) for binding in candidate.bindings),
        )
    return table


def _cost_texts(candidate: Candidate) -> list[str]:
    if candidate.area is None:
        return [count_text(candidate.bits)]
    area = candidate.area
    return [count_text(area["bram"]), f"~{area['lut']:,}", f"~{area['ff']:,}"]


def _last_text(candidate: Candidate) -> str:
    return f"{candidate.accesses:.1f}" if candidate.latency is None else str(candidate.latency)


def _timed(models: list[TimedModel]) -> Any:
    table = head_table("model", right=("worst", "slack", "bits"))
    table.add_column("when the rate changes")
    for model in models:
        parameters = ", ".join(f"{name}={value}" for name, value in model.parameters.items())
        table.add_row(
            f"{model.model}({parameters})",
            rate_text(model.worst_false_positive_rate),
            f"{model.slack:.3g}",
            count_text(model.bits),
            model.when_the_rate_changes,
        )
    return table
