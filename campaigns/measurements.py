"""Synthesis reports as they are kept in files, summed up and compared."""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from lately.boards.flow.synthesis import SynthesisReport, with_limits
from lately.golden import Specification
from lately.golden.errors import LatelyError
from lately.golden.files import replace_file

from .cases import Case

FORMAT = 1
"""Version of the file format."""

_KINDS: dict[type, tuple[str, ...]] = {
    int: ("seed", "lut", "ff", "bram", "lanes", "latency_cycles"),
    float: ("timing_mhz", "limit_mhz"),
    str: ("limit", "critical_path", "caveat"),
    dict: ("versions",),
}


class MeasurementsFileError(LatelyError, ValueError):
    """A file holds no measurements, or is damaged."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """All that determines a measurement: filter, device, `seed` of the placement, and more."""

    spec: Specification
    device: str
    seed: int
    rtlil: str
    """SHA-256 of the hardware as text."""
    flow: str
    """Options that the device gives the tools."""
    versions: tuple[tuple[str, str], ...]
    """Tools and their versions, sorted."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A synthesis report, and of what it is: `spec`, `rtlil` and `flow` are as in `Identity`."""

    spec: Specification
    rtlil: str
    flow: str
    report: SynthesisReport

    @property
    def identity(self) -> Identity:
        """Everything that determined the report."""
        return Identity(
            spec=self.spec,
            device=self.report.device,
            seed=self.report.seed,
            rtlil=self.rtlil,
            flow=self.flow,
            versions=tuple(sorted(self.report.versions.items())),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return vars(self) | {"spec": self.spec.to_dict(), "report": asdict(self.report)}

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the measurement whose `values` `to_dict` returned.

        Raises
        ------
        ValueError
            If it did not.
        """
        try:
            spec, report = Specification.from_dict(values["spec"]), _report(values["report"])
            texts = {name: str(values[name]) for name in ("rtlil", "flow")}
            return cls(spec=spec, report=report, **texts)
        except KeyError as error:
            raise ValueError(f"a measurement lacks {error}") from None
        except (TypeError, AttributeError) as error:
            raise ValueError(f"a measurement is malformed: {error}") from None


def _report(values: dict[str, Any]) -> SynthesisReport:
    report = SynthesisReport(**with_limits(values))
    for kind, names in _KINDS.items():
        for name in names:
            value = getattr(report, name)
            if not isinstance(value, (int, float) if kind is float else kind):
                raise ValueError(f"{name} must be of type {kind.__name__}, not {value!r}")
    for name in ("timing_mhz", "limit_mhz"):
        if not 0 < (mhz := getattr(report, name)) < math.inf:
            raise ValueError(f"{name} must be above 0, not {mhz}")
    if not all(isinstance(version, str) for version in report.versions.values()):
        raise ValueError(f"versions must be texts, not {report.versions!r}")
    return report


# Files


def load(path: str | os.PathLike[str]) -> list[Measurement]:
    """Read a file of measurements, in order.

    Parameters
    ----------
    path : path

    Raises
    ------
    MeasurementsFileError
        If it is none, or damaged.
    OSError
        If it cannot be read.
    """
    try:
        values = json.loads(Path(path).read_text("utf-8"))
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise ValueError(f"it must be an object of format {FORMAT}")
        if not isinstance(values.get("measurements"), list):
            raise ValueError("it must have a list of measurements")
        return [Measurement.from_dict(entry) for entry in values["measurements"]]
    except (ValueError, RecursionError) as error:
        raise MeasurementsFileError(
            f"{os.fspath(path)}: must hold measurements of hardware, but: {error}"
        ) from None


def save(path: str | os.PathLike[str], measurements: Iterable[Measurement]) -> None:
    """Write a file of measurements to `path`, whole or not at all."""
    values = {"format": FORMAT, "measurements": [entry.to_dict() for entry in measurements]}
    with replace_file(path) as file:
        file.write(json.dumps(values, indent=1, allow_nan=False).encode() + b"\n")


class Store:
    """Measurements in a file that is written anew with each of them.

    Parameters
    ----------
    path : path
        The file. If it is there, what it holds is found again.

    Raises
    ------
    MeasurementsFileError
        If the file is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        entries = load(path) if os.path.exists(path) else []
        self._entries = {entry.identity: entry for entry in entries}

    def find(self, identity: Identity) -> Measurement | None:
        """Return the measurement of just that, if there is one."""
        return self._entries.get(identity)

    def add(self, measurement: Measurement) -> None:
        """Keep a measurement."""
        self._entries[measurement.identity] = measurement
        save(self._path, self._entries.values())

    def arrange(self, identities: Iterable[Identity]) -> None:
        """Put the measurements of these, as far as there are any, behind all others, in order."""
        before = list(self._entries)
        for identity in identities:
            if (entry := self._entries.pop(identity, None)) is not None:
                self._entries[identity] = entry
        if list(self._entries) != before:
            save(self._path, self._entries.values())


# Summaries


@dataclass(frozen=True)
class Summary:
    """A case and its measurements, one for each seed."""

    case: Case
    measurements: Sequence[Measurement]

    @property
    def reports(self) -> list[SynthesisReport]:
        """Reports in the order of their static timing."""
        return sorted((entry.report for entry in self.measurements), key=lambda r: r.timing_mhz)

    @property
    def seeds(self) -> list[int]:
        """Seeds in order."""
        return sorted(entry.report.seed for entry in self.measurements)

    @property
    def median(self) -> SynthesisReport:
        """Report of the median static timing; of an even number, the lower of the two."""
        reports = self.reports
        return reports[(len(reports) - 1) // 2]

    @property
    def at_limit(self) -> int:
        """Number of seeds with which the unit is as fast as the vendor allows."""
        return sum(report.fmax_mhz >= report.limit_mhz for report in self.reports)

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdicts on the goals: "met" or "not met", and for some seeds how many of them meet it.

        The area is that of the median clock.
        """
        return {name: self._verdict(name, goal) for name, goal in self.case.goals.items()}

    def _verdict(self, name: str, goal: int) -> str:
        if name != "fmax_mhz":
            return "met" if getattr(self.median, name) <= goal else "not met"
        met, seeds = sum(report.fmax_mhz >= goal for report in self.reports), len(self.reports)
        return {0: "not met", seeds: "met"}.get(met, f"{met} of {seeds} seeds")

    def per_segment(self) -> dict[str, float]:
        """LUTs, flip-flops and block RAMs of all, divided by the segments, the spare's included.

        Of a dictionary, by the columns.
        """
        return self._area(self.case.profile.segments)

    def per_lane(self) -> dict[str, float]:
        """LUTs, flip-flops and block RAMs of all, divided by the lanes."""
        return self._area(self.case.profile.lanes)

    def _area(self, divisor: int) -> dict[str, float]:
        return {name: getattr(self.median, name) / divisor for name in ("lut", "ff", "bram")}

    def to_dict(self) -> dict[str, Any]:
        """All figures, as JSON can hold them."""
        case, median, reports = self.case, self.median, self.reports
        return {
            "name": case.name,
            "group": case.group,
            "device": case.device,
            "spec": case.spec.to_dict(),
            "seeds": self.seeds,
            "timing_mhz": median.timing_mhz,
            "timing_mhz_range": [reports[0].timing_mhz, reports[-1].timing_mhz],
            "limit_mhz": median.limit_mhz,
            "limited_by": median.limited_by,
            "fmax_mhz": median.fmax_mhz,
            "fmax_mhz_range": [reports[0].fmax_mhz, reports[-1].fmax_mhz],
            "seeds_at_limit": self.at_limit,
            "all_seeds_at_limit": self.at_limit == len(reports),
            "lut": median.lut,
            "ff": median.ff,
            "bram": median.bram,
            "latency_cycles": median.latency_cycles,
            "latency_ns": median.latency_ns,
            "operations_per_second": median.operations_per_second,
            "per_segment": self.per_segment(),
            "per_lane": self.per_lane(),
            "goals": dict(case.goals),
            "verdicts": self.verdicts,
            "critical_path": median.critical_path,
            "versions": median.versions,
            "runs": [report.to_dict() for report in sorted(reports, key=lambda r: r.seed)],
        }


def summarise(cases: Iterable[Case], measurements: Iterable[Measurement]) -> list[Summary]:
    """Return summaries of those cases that have measurements, in order."""
    own: dict[tuple[Specification, str], list[Measurement]] = {}
    for entry in measurements:
        own.setdefault((entry.spec, entry.report.device), []).append(entry)
    return [Summary(case, own[at]) for case in cases if (at := (case.spec, case.device)) in own]


# Comparison

RENEW = "make performance"
"""Command that writes a new baseline."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Measurements beside a baseline; those `better` in a figure are worse in none."""

    regressions: tuple[str, ...]
    """Runs that are worse, or cannot be compared, one line each."""
    equal: int
    """Runs that are neither worse nor better."""
    better: int
    changed: int
    """Runs among these whose hardware is not that of the baseline."""

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)

    def __str__(self) -> str:
        changed = f"; of changed hardware: {self.changed}" if self.changed else ""
        return (
            f"runs as in the baseline: {self.equal}, better: {self.better}{changed}; "
            f"to make this the baseline: {RENEW}"
        )


def compare(summaries: Iterable[Summary], baseline: Iterable[Measurement]) -> Comparison:
    """Hold measurements against those of a baseline with the same unit, device and seed.

    A clock frequency below the baseline's is a regression, and so is one LUT,
    flip-flop or block RAM more. Figures of other versions of the tools are
    not compared; that is a regression too, and so is a run that the baseline
    lacks.
    """
    known = {(m.spec, m.report.device, m.report.seed): m for m in baseline}
    # A dictionary, to tell once what is so for many runs.
    lines: dict[str, None] = {}
    equal = better = changed = 0
    for summary in summaries:
        for now in sorted(summary.measurements, key=lambda entry: entry.report.seed):
            name = f"{summary.case.name} seed {now.report.seed}"
            before = known.get((now.spec, now.report.device, now.report.seed))
            if before is None:
                lines[f"{name}: not in the baseline; renew it: {RENEW}"] = None
                continue
            wrong = _other_versions(now.report, before.report)
            wrong = wrong or [f"{name}: {line}" for line in _worse(now.report, before.report)]
            lines |= dict.fromkeys(wrong)
            if not wrong:
                same = _figures(now.report) == _figures(before.report)
                equal += same
                better += not same
                changed += now.rtlil != before.rtlil
    return Comparison(regressions=tuple(lines), equal=equal, better=better, changed=changed)


def _figures(report: SynthesisReport) -> tuple[float, ...]:
    return report.fmax_mhz, report.lut, report.ff, report.bram


def _other_versions(now: SynthesisReport, before: SynthesisReport) -> list[str]:
    return [
        f"{tool} is {now.versions.get(tool, 'absent')}, for the baseline it was "
        f"{before.versions.get(tool, 'absent')}; renew it: {RENEW}"
        for tool in dict.fromkeys([*now.versions, *before.versions])
        if now.versions.get(tool) != before.versions.get(tool)
    ]


def _worse(now: SynthesisReport, before: SynthesisReport) -> list[str]:
    lines = []
    if now.fmax_mhz < before.fmax_mhz:
        lines.append(f"{now.fmax_mhz:.2f} MHz, baseline {before.fmax_mhz:.2f}")
    for name, noun in (("lut", "LUTs"), ("ff", "flip-flops"), ("bram", "block RAMs")):
        if getattr(now, name) > getattr(before, name):
            lines.append(f"{getattr(now, name)} {noun}, baseline {getattr(before, name)}")
    return lines
