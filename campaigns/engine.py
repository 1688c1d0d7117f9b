"""The campaign engine: measures independent points in several processes and saves each result.

Each campaign has one file of JSON lines. During a run, lines are only appended, so an interrupted
run loses no finished points, and the next run resumes from the file.
"""

import hashlib
import importlib.util
import json
import os
import platform
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from lately.golden.errors import LatelyError
from lately.golden.files import check_output, replace_file

from . import workers

Point = dict[str, Any]
"""Parameters of a measurement, including its seed, as JSON values."""

Result = dict[str, Any]  # JSON values from one measurement

Progress = Callable[[int, int, Mapping[str, tuple[str, float]]], None]
"""Called with the number of finished points, the number of points, and the running points."""

WAITING = ("waiting for workers", 0.0)  # shown until the first worker starts


class RecordError(LatelyError, ValueError):
    """Raised if a file does not contain results of a campaign."""


@dataclass(frozen=True)
class Record:
    point: Point
    identity: dict[str, Any]  # sources and versions that produced the result
    result: Result
    earlier: bool = False  # whether the result is from an earlier state of sources or versions


Records = Sequence[Record]  # records of a campaign


@dataclass(frozen=True, kw_only=True)
class Campaign:
    name: str  # used on the command line, and for the results file
    about: str  # help text; its first line is the summary
    packages: tuple[str, ...]  # packages whose sources determine the results
    # The keyword parameters of this function are the options of the command.
    points: Callable[..., Sequence[Point]]
    # Deterministic, and at module level, so that other processes can call it.
    run: Callable[[Point], Result]
    # Results are stored by label: a new record replaces an earlier one with the same label.
    label: Callable[[Point], str] = json.dumps
    tools: tuple[str, ...] = ("numpy",)  # distributions whose versions determine the results
    # Replaces the packages' sources as the identity of a point, if given.
    identity: Callable[[Point], dict[str, Any]] | None = None
    wrong: Callable[[Result], Iterable[str]] = lambda result: ()  # returns one line per failure
    # Returns one line for each way in which a result is worse than the baseline; without it, there
    # is no command to check the campaign.
    worse: Callable[[Result, Result], Iterable[str]] | None = None
    # Rows of the table that the command prints.
    rows: Callable[[Records], Sequence[Mapping[str, object]]] | None = None

    def state(self) -> dict[str, Any]:
        return state(self.packages, self.tools)


def mismatches(result: Result) -> list[str]:
    count = result["mismatches"]
    return [f"mismatches: must be 0, not {count}"] if count else []


@cache
def sources(packages: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue
        folder = Path(spec.origin).parent
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{package}/{path.relative_to(folder)} {content}\n".encode())
    return digest.hexdigest()[:16]


def state(packages: tuple[str, ...], tools: tuple[str, ...]) -> dict[str, Any]:
    major, minor, _ = platform.python_version_tuple()
    versions = {"python": f"{major}.{minor}"}
    for tool in tools:
        with suppress(metadata.PackageNotFoundError):
            versions[tool] = metadata.version(tool)
    return {"sources": sources(packages), "versions": versions}


def key(point: Point) -> str:
    return json.dumps(point, sort_keys=True, allow_nan=False)


def read(path: str | os.PathLike[str]) -> list[Record]:
    """Read a results file; ignore an incomplete last line, which a crash may have left."""
    records = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(keepends=True), 1):
        try:
            record = Record(**json.loads(line))
            if not all(isinstance(value, dict) for value in (record.point, record.result)):
                raise TypeError("point and result must be objects")
            records.append(record)
        except (ValueError, TypeError, RecursionError) as error:
            if line.endswith(b"\n"):
                message = f"{os.fspath(path)}, line {number}: not a record: {error}"
                raise RecordError(message) from None
    return records


def write(path: str | os.PathLike[str], records: Records) -> None:
    with replace_file(path) as file:
        file.write("".join(map(_line, records)).encode())


def _line(record: Record) -> str:
    values = {name: value for name, value in vars(record).items() if name != "earlier" or value}
    return json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"


class _File:
    def __init__(self, campaign: Campaign, points: Sequence[Point], path: Path) -> None:
        check_output(path)
        self.campaign, self.points = campaign, points
        self._label, self._path = campaign.label, path
        records = read(path) if path.exists() else []
        self._known = {self._label(record.point): record for record in records}
        self.present: dict[str, dict[str, Any]] = {}
        self.failures: list[str] = []
        for point in points:
            label = self._label(point)
            try:
                identity = campaign.identity
                self.present[label] = identity(point) if identity else campaign.state()
            except LatelyError as error:
                self.failures.append(f"{label}: {error}")

    def find(self, point: Point) -> Record | None:
        label = self._label(point)
        record = self._known.get(label)
        present = record and record.point == point and record.identity == self.present.get(label)
        return record if present else None

    def append(self, point: Point, result: Result) -> None:
        label = self._label(point)
        self._known[label] = record = Record(point, self.present[label], result)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(record))

    def arrange(self) -> None:
        for label, identity in self.present.items():
            if (record := self._known.get(label)) is not None:
                earlier = record.identity != identity
                self._known[label] = Record(record.point, record.identity, record.result, earlier)
        if self._known:
            write(self._path, [self._known[label] for label in sorted(self._known)])


@dataclass(frozen=True)
class Outcome:
    # For each campaign, the records of its points, in order; failed points have none.
    records: list[list[Record]]
    failures: list[str] = field(default_factory=list)  # one line for each failed point
    measured: int = 0  # number of points measured in this run
    known: int = 0  # number of points with an earlier result


Work = tuple[Campaign, Sequence[Point], str | os.PathLike[str]]


def complete(
    work: Sequence[Work],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    anew: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Measure all points that lack an up-to-date result, and save each result immediately."""
    files = [_File(campaign, points, Path(path)) for campaign, points, path in work]
    failures = [line for file in files for line in file.failures]
    refused, known = len(failures), 0
    calls: list[tuple[_File, str, Point]] = []
    orders: list[_Order] = []
    for file in files:
        campaign = file.campaign
        for point in file.points:
            label = campaign.label(point)
            if file.find(point) is not None and not anew:
                known += 1
            elif label in file.present:
                calls.append((file, label, point))
                orders.append((campaign.run, point, campaign.packages, campaign.tools,
                               campaign.state()))  # fmt: skip
    running: dict[str, tuple[str, float]] = {"points": WAITING} if calls else {}
    left = dict(enumerate(calls))
    lock = threading.Lock()  # guards against messages, which arrive in another thread

    def show() -> None:
        if progress is not None:
            total = known + refused + len(calls)
            progress(total - len(left), total, running.copy())

    def hear(number: int, stage: str, share: float) -> None:
        with lock:
            # A message may arrive after the result of its call.
            if number in left:
                running.pop("points", None)
                running[calls[number][1]] = (stage, share)
                show()

    def settle(number: int, outcome: Any) -> None:
        file, label, point = calls[number]
        if isinstance(outcome, LatelyError):
            failures.append(f"{label}: {outcome}")
        else:
            file.append(point, json.loads(outcome))
        with lock:
            del left[number]
            running.pop(label, None)
            show()

    show()
    try:
        workers.run(_measure, orders, settle, jobs=jobs, scheduler=scheduler, hear=hear)
    finally:
        for file in files:
            file.arrange()
    records = [
        [record for point in file.points if (record := file.find(point)) is not None]
        for file in files
    ]
    measured = len(calls) - (len(failures) - refused)
    return Outcome(records, sorted(failures), measured, known)


_Order = tuple[Callable[[Point], Result], Point, tuple[str, ...], tuple[str, ...], dict[str, Any]]


def _measure(order: _Order) -> str:
    run, point, packages, tools, wanted = order
    workers.tell("start", 0.0)
    if (present := state(packages, tools)) != wanted:
        versions = ", ".join(f"{name} {version}" for name, version in present["versions"].items())
        raise workers.MismatchError(f"worker: its sources or versions differ ({versions})")
    return json.dumps(run(point), allow_nan=False)
