"""Measurement of studies by the engine of campaigns."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from campaigns.engine import Campaign, complete, key

from .records import Report, StudyEntry
from .study import Study

PACKAGES = ("lately.golden", "papers")
"""Packages whose sources determine the results of studies."""


def cache_directory() -> Path:
    """Return the folder of finished points; LATELY_CACHE overrides the user's cache folder."""
    folder = os.environ.get("LATELY_CACHE") or platformdirs.user_cache_dir("lately")
    return Path(folder) / "reproduction"


@dataclass(frozen=True)
class Reproduction:
    """Outcome of a run.

    Attributes
    ----------
    report : Report
        Report on the studies all of whose points have a result.
    failures : list of str
        One line for each point that could not be measured.
    measured, found : int
        Number of points measured now, and number measured before.
    """

    report: Report
    failures: list[str] = field(default_factory=list)
    measured: int = 0
    found: int = 0


def campaign(study: Study) -> Campaign:
    """Return the campaign that measures the points of a study."""
    return Campaign(
        name=study.name,
        about=study.title,
        packages=PACKAGES,
        tools=("numpy", "scipy"),
        points=study.points,
        run=study.measure,
        label=lambda point: f"{study.name} at {key(point)}",
    )


def reproduce(
    studies: Sequence[Study], folder: Path, *, quick: bool = False, **how: Any
) -> Reproduction:
    """Measure the points of studies, except known ones, and conclude.

    The report depends neither on the number of processes nor on where they run. The files of
    results are in `folder`. The other options are as for `campaigns.engine.complete`.
    """
    work = [
        (campaign(study), study.points(quick), folder / f"{study.name}.jsonl") for study in studies
    ]
    folder.mkdir(parents=True, exist_ok=True)
    done = complete(work, **how)
    entries = [
        StudyEntry(
            study.name,
            study.title,
            study.source,
            study.conclude([(r.point, r.result) for r in own]),
        )
        for study, (_, points, _), own in zip(studies, work, done.records, strict=True)
        if len(own) == len(points)
    ]
    return Reproduction(Report(quick, entries), done.failures, done.measured, done.found)
