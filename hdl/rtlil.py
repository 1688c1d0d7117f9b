"""Writes the RTLIL of every preset, for comparison before and after a source change."""

import hashlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import UnusedElaboratable

from ..golden.errors import SpecificationError
from ..golden.spec.presets import ALL_PRESETS
from .build import family_of, filter_unit


def units() -> Iterator[tuple[str, object]]:
    presets = {spec: name for name, spec in reversed(ALL_PRESETS.items())}
    for spec, preset in presets.items():
        for memory in family_of(spec).profile.MEMORIES:
            try:
                yield f"{preset}.{memory}", filter_unit(spec, memory=memory)
            except SpecificationError:
                continue


def write(folder: Path) -> None:
    # Rejected units have already been partly constructed.
    warnings.simplefilter("ignore", UnusedElaboratable)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, unit in units():
        text = rtlil.convert(unit, emit_src=False)
        (folder / f"{name}.il").write_text(text)
        lines.append(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}.il\n")
    (folder / "SHA256SUMS").write_text("".join(lines))
    print(f"{len(lines)} units in {folder}")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
