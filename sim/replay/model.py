"""Compiled models: Verilog and a C++ driver, compiled to a library and cached."""

import ctypes
import fcntl
import hashlib
import os
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from ...golden.files import replace_file
from ...golden.spec.base import require
from ..toolchain import cache_directory, models, shared_runtime, verilate, verilator_version
from .upset_elements import UPSETS, element_macros, opened

HEADER = "generated.h"  # name of the generated header that drivers include

_OPTIONS = ("--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal",
            "-Wno-lint", "-Wno-style", "-Wno-MULTITOP")  # fmt: skip

# Result and arguments of each function in a library, as ctypes types.
Signatures = dict[str, tuple[Any, tuple[Any, ...]]]


def cached_model(
    verilog: str,
    *,
    top: str,
    driver: Path,
    header: str,
    memory: str = "portable",
    inverted: bool = False,
    optimisation: int = 3,
    upsets: bool = False,
) -> Path:
    """Return the library for a module and its driver, building it if it is not in the cache.

    The driver uses the module `top` as the class ``Vmodel``, and includes `header` under the name
    `HEADER`. With `upsets`, bits can be flipped; such a model is slower, and explicit block RAMs
    are not supported. If several processes need the same model, one builds it and the others wait.
    """
    blocks = models(memory, inverted=inverted)
    require(not (upsets and blocks), "memory", "must be 'portable' with upsets", memory)
    verilog = "\n".join([verilog, *(path.read_text() for path in blocks)])
    # So that the driver finds block RAMs by name.
    flattened = ["--flatten"] if blocks or upsets else []
    options = [*_OPTIONS, f"-O{max(1, optimisation)}", *flattened]
    if optimisation <= 1:
        # Otherwise the compiler would spend most of its time on headers, once per file.
        options += ["--output-split", "0"]
    if upsets:
        header += defines(*element_macros(verilog))
        verilog = opened(verilog)
    texts = {"unit.v": verilog, HEADER: header, "driver.cpp": driver.read_text()}
    if upsets:
        texts[UPSETS.name] = UPSETS.read_text()
    recipe = "\0".join([*texts.values(), verilator_version(), *options])
    directory = cache_directory()
    library = directory / f"{hashlib.sha256(recipe.encode()).hexdigest()[:32]}.so"
    if library.exists():
        return library
    directory.mkdir(parents=True, exist_ok=True)
    with (
        open(library.with_suffix(".lock"), "w") as lock,
        tempfile.TemporaryDirectory(prefix="lately-") as work,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have built it in the meantime.
        if not library.exists():
            made = _build(Path(work), texts, ["--top-module", top, *options], optimisation)
            with replace_file(library) as file:
                file.write(made.read_bytes())
        Path(lock.name).unlink(missing_ok=True)
    return library


def _build(folder: Path, texts: dict[str, str], options: list[str], optimisation: int) -> Path:
    for name, text in texts.items():
        (folder / name).write_text(text)
    with shared_runtime(folder / "obj_dir", f"shared library, -O{optimisation}"):
        verilate(
            [
                *options,
                "--exe",
                "--prefix", "Vmodel",
                "-CFLAGS", "-std=c++20 -fPIC",
                "-LDFLAGS", "-shared",
                "-o", "model.so",
                "unit.v",
                "driver.cpp",
            ],
            directory=folder,
            optimisation=optimisation,
        )  # fmt: skip
    return folder / "obj_dir" / "model.so"


def defines(*lines: str) -> str:
    return "".join(f"#define {line}\n" for line in lines)


def load_model(path: Path, signatures: Signatures) -> ctypes.CDLL:
    library = ctypes.CDLL(os.fspath(path))
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        # Without these, ctypes would truncate 64-bit values.
        function.restype, function.argtypes = result, arguments
    return library


class Closable(ABC):
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Free the model, which must not be used afterwards."""
