"""Files that keep the figures of long runs, each under a name."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lately.golden.errors import LatelyError
from lately.golden.files import check_output, replace_file

Runs = dict[str, dict[str, Any]]
"""Figures of runs by their names."""


class RunRecordError(LatelyError, ValueError):
    """A file is no record of such runs, or damaged."""


@dataclass(frozen=True)
class RecordKind:
    """Records of one kind of runs.

    Attributes
    ----------
    command : str
        The command whose figures they hold, as it is typed.
    fields : dict
        What figures must have, and of which type.
    """

    command: str
    fields: Mapping[str, type]

    def load(self, path: str | os.PathLike[str]) -> Runs:
        """Read a record; return the figures of each run by its name.

        Parameters
        ----------
        path : path

        Raises
        ------
        RunRecordError
            If it is none, or damaged.
        OSError
            If it cannot be read.
        """
        try:
            runs = json.loads(Path(path).read_text("utf-8"))
            if not isinstance(runs, dict):
                raise ValueError("it must be an object")
            for name, figures in runs.items():
                if not isinstance(figures, dict):
                    raise ValueError(f"{name} must be an object")
                for key, kind in self.fields.items():
                    if not isinstance(figures.get(key), kind):
                        raise ValueError(f"{name} must have {key} of type {kind.__name__}")
        except (ValueError, RecursionError) as error:
            raise RunRecordError(
                f"{os.fspath(path)}: must hold figures of {self.command}, but: {error}"
            ) from None
        return runs


UPSETS = RecordKind(
    "upsets",
    {"done": int, "mismatches": int, "seconds": float, "found": list, "elements": dict},
)
"""Campaigns of upsets: the `command` and the `fields` of their records."""

SOAKS = RecordKind(
    "endurance",
    {"case": str, "seed": int, "hardware": str, "operations": int, "mismatches": dict,
     "memory_comparisons": int, "seconds": float, "spec": dict},
)  # fmt: skip
"""Runs of hardware beside golden models: the `command` and the `fields` of their records."""


class RunRecord:
    """Figures of runs in a file, which is written anew with each that is kept.

    Parameters
    ----------
    path : path
        The file. If it is there, what it holds is found again.
    kind : RecordKind
        Of which kind the runs are.

    Raises
    ------
    RunRecordError
        If the file is damaged.
    OSError
        If the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], kind: RecordKind) -> None:
        check_output(path)
        self._path = path
        self._kind = kind
        self._runs = self._read()

    def _read(self) -> Runs:
        return self._kind.load(self._path) if os.path.exists(self._path) else {}

    def find(self, name: str) -> dict[str, Any] | None:
        """Return the figures of that `name`, if there are any."""
        return self._runs.get(name)

    def keep(self, name: str, figures: dict[str, Any]) -> None:
        """Keep `figures` under a `name`, beside what others have kept in the file meanwhile."""
        self.replace(self._read() | {name: figures})

    def replace(self, runs: Runs) -> None:
        """Hold the figures of these `runs`, by their names, and no others."""
        self._runs = runs
        # A run is a line: its figures are many, and of no use to a reader one below another.
        lines = (
            f"{json.dumps(one)}: {json.dumps(values, allow_nan=False)}"
            for one, values in sorted(runs.items())
        )
        with replace_file(self._path) as file:
            file.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())
