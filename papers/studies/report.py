"""Conclusions of studies as records of campaigns, and how they are reached."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import platformdirs

from campaigns.engine import Outcome, Record, RecordError, complete
from lately.replay.drawing import Chart, Series

from .criteria import Verdict
from .study import Conclusion, Finding, Study
from .thinning import thinned

DIGITS = {True: 10, False: 6}
"""Significant digits of a recorded value, by whether it is computed; the page shows fewer."""


def cache_directory() -> Path:
    """Return the folder of finished points; LATELY_CACHE overrides the user's cache folder."""
    folder = os.environ.get("LATELY_CACHE") or platformdirs.user_cache_dir("lately")
    return Path(folder) / "reproduction"


def reproduce(
    studies: Sequence[Study], folder: Path, *, quick: bool = False, **options: Any
) -> tuple[list[Record], Outcome]:
    """Measure the points of studies, except known ones, and conclude the studies that have all.

    The files of points are in `folder`. The other options are those of `campaigns.engine.complete`.
    """
    work = [(study, study.points(quick), folder / f"{study.name}.jsonl") for study in studies]
    folder.mkdir(parents=True, exist_ok=True)
    done = complete(work, **options)
    records = [
        to_record(study, quick, study.conclude([(one.point, one.result) for one in own]))
        for (study, points, _), own in zip(work, done.records, strict=True)
        if len(own) == len(points)
    ]
    return records, done


def to_record(study: Study, quick: bool, outcome: Conclusion) -> Record:
    """Record a conclusion: no more digits than a page shows, no more points than can be seen."""
    findings = [*map(_rounded, outcome.findings)]
    lean = _lean(replace(outcome, findings=findings, charts=[*map(thinned, outcome.charts)]))
    return Record({"study": study.name, "quick": quick}, study.state(), lean)


def conclusion(record: Record) -> Conclusion:
    """Return the conclusion that a record holds."""
    try:
        findings = [_finding(**one) for one in record.result["findings"]]
        charts = [
            Chart(**one | {"series": [Series(**series) for series in one["series"]]})
            for one in record.result["charts"]
        ]
        values, missing = record.result["values"], record.result["missing"]
        return Conclusion(findings, charts, values, missing)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{record.point}: must hold a study's conclusion, but: {error}") from None


@dataclass(frozen=True)
class Report:
    """Studies with their conclusions, all of the same form."""

    quick: bool
    entries: list[tuple[Study, Conclusion]]

    @classmethod
    def of(cls, records: Iterable[Record], studies: Sequence[Study]) -> "Report":
        """Pair studies, in their order, with the records that they have."""
        known = {record.point["study"]: record for record in records}
        forms = {record.point["quick"] for record in known.values()}
        if len(forms) > 1:
            raise RecordError("records: must be all of the quick form, or all of the full one")
        entries = [(one, conclusion(known[one.name])) for one in studies if one.name in known]
        return cls(any(forms), entries)

    @property
    def findings(self) -> list[Finding]:
        return [finding for _, outcome in self.entries for finding in outcome.findings]

    @property
    def charts(self) -> list[Chart]:
        return [chart for _, outcome in self.entries for chart in outcome.charts]

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Names of studies, each with a sentence on what could not be measured."""
        return [(study.name, text) for study, outcome in self.entries for text in outcome.missing]


def _finding(*, verdict: str, within: Any = None, **members: Any) -> Finding:
    return Finding(verdict=Verdict(verdict), within=within and tuple(within), **members)


def _rounded(finding: Finding) -> Finding:
    """Keep no more digits of a finding's values than their error leaves meaningful."""
    digits = DIGITS[finding.low is None]
    ends = (finding.low, finding.high)
    low, high = (None if end is None else float(f"{end:.{digits}g}") for end in ends)
    return replace(finding, ours=float(f"{finding.ours:.{digits}g}"), low=low, high=high)


def _lean(value: Any) -> Any:
    """Convert to what JSON can hold, without members that have their default value."""
    if is_dataclass(value):
        members = ((one.name, getattr(value, one.name), one.default) for one in fields(value))
        return {name: _lean(one) for name, one, default in members if one != default}
    return [_lean(one) for one in value] if isinstance(value, list | tuple) else value
