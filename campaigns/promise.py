"""Check of planned filters: random requirements, and measurements."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from lately.golden import FAMILIES, Specification
from lately.intervals import clopper_pearson
from lately.planner.plans import choose
from lately.planner.requirement import PLANNER_FAMILIES, Requirement, RequirementError, Span

from .engine import Campaign, Point, Records, Result
from .planner_measurement import measure_rates, measure_trace

ERROR = 1e-6
"""Probability, at most, that a filter which keeps a rate is found not to, for each rate."""

HITS = 1500  # false positives that are expected at the required rate

SMALL = {"windows": (1000, 8000), "rates": (0.02, 0.3)}
"""Ranges that requirements are drawn from, both on a logarithmic scale.

A rate is at least one in a window, as a fill allows only few queries.
"""

LARGE = {"windows": (3, 100_000), "rates": (0.003, 0.3)}  # ranges likewise, for ``--large``


def points(
    *,
    requirements: int = 50,
    seed: int = 1,
    large: bool = False,
    timestamps: bool = False,
    quick: bool = False,
) -> list[Point]:
    """Draw requirements from `SMALL` or `LARGE` until enough of them can be met.

    With `timestamps`, they are such that filters with timestamps meet them.
    """
    rng = np.random.default_rng(seed)
    drawn: list[Point] = []
    while len(drawn) < (5 if quick else requirements):
        point = _draw(rng, LARGE if large else SMALL)
        if timestamps:
            point = _stamped(rng, point)
        try:
            spec = choose(requirement(point))
        except RequirementError:
            continue
        drawn.append(point | {"spec": spec.to_dict()})
    return drawn


def _draw(rng: np.random.Generator, ranges: dict[str, tuple[float, float]]) -> Point:
    window, rate, slack = (
        math.exp(rng.uniform(math.log(low), math.log(high)))
        for low, high in (ranges["windows"], ranges["rates"], (0.1, 1.0))
    )
    rate = min(max(rate, 1 / window), ranges["rates"][1])
    family = rng.choice([*FAMILIES, ""])
    return {
        "window": round(window),
        "false_positive_rate": float(f"{rate:.3g}"),
        "slack": float(f"{slack:.3g}") if rng.random() < 0.5 else None,
        "families": [str(family)] if family else list(FAMILIES),
        "any_size": bool(rng.random() < 0.5),
        "seed": int(rng.integers(1 << 31)),
    }


def _stamped(rng: np.random.Generator, point: Point) -> Point:
    """Return a requirement that only timestamps can meet, often without slack."""
    family = str(rng.choice([family for family in PLANNER_FAMILIES if family not in FAMILIES]))
    own: Point = {"families": [family], "window_per_query": True}
    if rng.random() < 0.5 or family != "partitioned-timing":
        own["slack"] = 0.0
    if family == "timed-timing":
        own["ticks"] = int(rng.integers(1, 3000))
    return point | own


def requirement(point: Point) -> Requirement:
    """Return the requirement of a point; of few bits, as such filters have the least to spare."""
    names = ("window", "false_positive_rate", "slack", "any_size", "window_per_query")
    asked = {name: point[name] for name in names if name in point}
    if "ticks" in point:
        asked["span"] = Span(ticks=point["ticks"], tick=Fraction(1))
    return Requirement(**asked, families=tuple(point["families"]), bits_only=True)


def run(point: Point) -> Result:
    """Measure the specification of a point; see `measure_rates` and `measure_trace`."""
    spec: Any = Specification.from_dict(point["spec"])
    trials = math.ceil(HITS / point["false_positive_rate"])
    worst, mean = PLANNER_FAMILIES[spec.family].rates(spec, requirement(point))
    how: Point = {"trials": trials, "seed": point["seed"], "keys": point["window"]}
    result = measure_rates(spec, rate=worst, **how)
    result |= {"predicted": [worst, mean], "trace": measure_trace(spec, seed=point["seed"])}
    return result | {"broken": broken(point, result)}


def broken(point: Point, result: Result) -> list[str]:
    """Return the promises that a measurement refutes, with an error probability of `ERROR` each.

    The bound of the rate is refuted if this number of hits would
    have, at that rate, a probability below `ERROR` in independent trials.
    """
    asked = requirement(point)
    found = []
    for name in ("worst", "mean"):
        hits, trials = result[name]
        if _tail(hits, trials, asked.false_positive_rate) < ERROR:
            found.append(f"{name} rate {hits / trials:.4g}, asked {asked.false_positive_rate:g}")
    if result["missed"]:
        found.append(f"{result['missed']} of {result['due']} keys of the window's edge missed")
    trace, unit = result["trace"], "insertions" if asked.span is None else "ticks"
    least, most = _kept(asked)
    if trace < least:
        found.append(f"a key kept for {trace} {unit}, asked {least}")
    if most is not None and trace >= most:
        found.append(f"a trace after {trace} {unit}, asked {most}")
    return found


def _kept(asked: Requirement) -> tuple[int, int | None]:
    """Return after how many insertions, or ticks, a key is still reported, and no trace is left."""
    if asked.span is not None:
        return asked.span.ticks, math.floor((1 + (asked.slack or 0)) * asked.span.ticks) + 1
    # A ring keeps a key for an insertion more than those that its own is one of.
    return asked.window - asked.able[0].exact_window, asked.longest_trace


def _tail(hits: int, trials: int, rate: float) -> float:
    """Probability of as many hits or more."""
    from scipy.special import betainc

    return float(betainc(hits, trials - hits + 1, rate)) if hits else 1.0


def conclude(records: Records) -> list[str]:
    """Return sentences on all measurements: spread of hits, missed keys, and the longest trace."""
    measured = [(record.point, record.result) for record in records]
    spread = float(np.mean([result["spread"] for _, result in measured]))
    slack = max(_slack(point, result) for point, result in measured)
    missed = sum(bool(result["missed"]) for _, result in measured)
    return [
        f"Hits of one fill vary {spread:.3f} times as much as independent ones.",
        f"Of {len(measured)} requirements, {missed or 'none'} missed a key of the window's edge.",
        f"The longest trace past the window was {slack:.3f} of the requested slack."
        if slack
        else "No slack was requested.",
    ]


def _slack(point: Point, result: Result) -> float:
    if not point["slack"]:
        return 0.0
    return float((result["trace"] - point["window"]) / (point["slack"] * point["window"]))


def rows(records: Records) -> list[dict[str, object]]:
    """Return a row for each requirement."""
    return [_row(record.point, record.result) for record in records]


def _row(point: Point, result: Result) -> dict[str, object]:
    hits, trials = result["worst"]
    low, high = clopper_pearson(hits, trials) or (0.0, 1.0)
    kind = "any size" if point["any_size"] else "buildable"
    slack = "" if point["slack"] is None else f", slack {point['slack']:g}"
    ticks = f" in {point['ticks']:,} ticks" if "ticks" in point else ""
    family = point["spec"]["family"]
    return {
        "requirement": f"{family}, {kind}, window {point['window']:,}{ticks}{slack}",
        "at most": f"{point['false_positive_rate']:g}",
        "measured": f"{hits / trials:.4g}",
        "95 % interval": f"{low:.4g} to {high:.4g}",
        "": "; ".join(result["broken"]) or "met",
    }


PLANNER = Campaign(
    name="planner",
    about="""Draw requirements, plan a filter for each, and measure its golden model.

    The measurements are the false-positive rate, just before a shift and on average, the keys at
    the edge of the window, and how long a key is remembered at most. The campaign fails if a
    promise is broken.
    """,
    packages=("lately.golden", "lately.planner", "campaigns"),
    tools=("numpy", "scipy"),
    points=points,
    run=run,
    wrong=lambda result: result["broken"],
    rows=rows,
)
