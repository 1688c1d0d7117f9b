"""Compiled replay: the generated Verilog, verilated to a library and driven from arrays."""

import ctypes
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import platformdirs
from numpy.typing import ArrayLike, NDArray

from ...golden.errors import RekeyError, SpecificationError
from ...golden.hash.functions import KeyHash
from ...golden.hash.siphash import check_secret
from ...golden.operations import Operation, Verdicts
from ...golden.spec import FilterSpec
from ...hdl.interface import UnitSignature
from ...hdl.memory.map import MemoryMap, PhysicalMemory, memory_map
from ...hdl.profile import HardwareProfile
from ...hdl.registers import Holder, counters
from ...hdl.unit import FilterUnit
from ...hdl.verilog import TAG_BITS, TOP, unit_verilog
from ..toolchain import ToolError, verilate, verilator_version

_CHUNK = 1 << 16
_DRIVER = Path(__file__).with_name("driver.cpp")
_OPTIONS = ("--x-assign", "fast", "--x-initial", "fast", "--noassert", "-Wno-fatal",
            "-Wno-lint", "-Wno-style", "-Wno-MULTITOP")  # fmt: skip

COUNTERS = [register.name for register in counters(Holder.UNIT)]
"""Names of the counters that a unit has."""

Progress = Callable[[int], None]
"""Called with the number of operations done since the last call."""

Signatures = dict[str, tuple[Any, tuple[Any, ...]]]
"""Result and arguments of each function of a library, as ctypes names them."""


def cache_directory() -> Path:
    """Return the folder of compiled models; LATELY_CACHE overrides the user's cache folder."""
    return Path(os.environ.get("LATELY_CACHE") or platformdirs.user_cache_dir("lately")) / "models"


def compiled_model(spec: FilterSpec, organisation: str = "separate") -> Path:
    """Return the compiled model of a filter unit, built now if it is not in the cache.

    The cache is keyed by the generated Verilog, the driver and the version of
    Verilator, so that a change to any of them builds anew. A model appears in
    the cache complete or not at all.

    Parameters
    ----------
    spec : FilterSpec
    organisation : str
        As for `lately.hdl.unit.FilterUnit`.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification.
    """
    return cached_model(
        unit_verilog(spec, organisation=organisation),
        top=TOP,
        driver=_DRIVER,
        defines=[
            *defines(spec, memory_map(spec, organisation=organisation)),
            *(["KEYED"] if spec.hash == "siphash" else []),
        ],
    )


def cached_model(
    verilog: str, *, top: str, driver: Path, defines: list[str], optimisation: int = 3
) -> Path:
    """Return a top compiled together with its driver, built now if it is not in the cache.

    Parameters
    ----------
    verilog : str
        The design; its module `top` is class ``Vmodel`` for the driver.
    driver : path
        A source in C++.
    defines : list of str
        Names and values of its macros.
    optimisation : int
        As for `verilate`.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    """
    options = [*_OPTIONS, f"-O{optimisation}"]
    recipe = "\0".join([verilog, driver.read_text(), verilator_version(), *defines, *options])
    directory = cache_directory()
    library = directory / f"{hashlib.sha256(recipe.encode()).hexdigest()[:32]}.so"
    if library.exists():
        return library
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lately-") as work:
        folder = Path(work)
        (folder / "unit.v").write_text(verilog)
        # Not included by an option: the precompiled header of a large model must come first.
        (folder / "driver.cpp").write_text(
            "".join(f"#define {line}\n" for line in defines) + driver.read_text()
        )
        verilate(
            [
                *options,
                "--exe",
                "--top-module", top,
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
        # Renamed into place from the same file system, so that no half is ever seen.
        staged = directory / f".{library.name}.{os.getpid()}"
        shutil.copy(folder / "obj_dir" / "model.so", staged)
        staged.replace(library)
    return library


def defines(spec: FilterSpec, memories: MemoryMap) -> list[str]:
    """Return the macros that a driver has of any unit.

    Parameters
    ----------
    spec : FilterSpec
    memories : MemoryMap
        Of the unit.
    """
    counts = " ".join(f"COUNTER({n}, {name})" for n, name in enumerate(COUNTERS))
    rows = " ".join(
        f"MEMORY({number}, {'__DOT__'.join((TOP, *memory.path))})"
        for number, memory in enumerate(memories.memories)
    )
    return [
        *UnitSignature.from_spec(spec, tag_bits=TAG_BITS).macros(),
        f"COUNTERS {counts}",
        f"MEMORIES {rows}",
    ]


class CompiledModel:
    """A compiled model whose driver keeps one instance: opened, clocked, and freed at the end.

    Parameters
    ----------
    profile : HardwareProfile
        What was built.
    model : path
        The library.
    signatures : dict
        Result and arguments of what its driver offers beside the common functions.
    progress : callable, optional
        Called with the number of operations done since the last call.
    """

    def __init__(
        self,
        profile: HardwareProfile,
        model: Path,
        signatures: Signatures,
        *,
        progress: Progress | None,
    ) -> None:
        self.spec = profile.spec
        self.profile = profile
        self._progress = progress
        unit, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
        common: Signatures = {
            "lately_new": (unit, ()),
            "lately_delete": (None, (unit,)),
            "lately_cycles": (count, (unit,)),
            "lately_idle": (None, (unit, count)),
            "lately_memory": (None, (unit, count, count, array)),
        }
        self._library = load_model(model, common | signatures)
        self._unit = ctypes.c_void_p(self._library.lately_new())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the model; nothing can be asked of it afterwards."""
        if self._unit:
            self._library.lately_delete(self._unit)
            self._unit = ctypes.c_void_p()

    def idle(self, cycles: int) -> None:
        """Let clocks pass without an operation.

        Parameters
        ----------
        cycles : int
        """
        self._library.lately_idle(self._unit, cycles)

    @property
    def cycles(self) -> int:
        """Clocks so far."""
        return int(self._library.lately_cycles(self._unit))

    def _read(self, memories: MemoryMap) -> NDArray[np.bool_]:
        """Return the bits of all cells; shape as golden's `memory`."""
        numbers = {memory.path: number for number, memory in enumerate(memories.memories)}

        def read(memory: PhysicalMemory) -> NDArray[np.bool_]:
            words = np.empty(memory.words, np.uint64)
            number = numbers[memory.path]
            self._library.lately_memory(self._unit, number, len(words), words.ctypes.data)
            bits = np.arange(memory.width, dtype=np.uint64)
            return (words[:, None] >> bits & np.uint64(1)).astype(np.bool_)

        return memories.gather(read)


def load_model(path: Path, signatures: Signatures) -> ctypes.CDLL:
    """Load a compiled model; ctypes would pass half of a word without the signatures.

    Parameters
    ----------
    path : path
    signatures : dict
        Result and arguments of each function, by its name.
    """
    library = ctypes.CDLL(os.fspath(path))
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class CompiledUnit(CompiledModel):
    """A filter unit in compiled simulation, clocked only while it is asked something.

    Parameters
    ----------
    spec : FilterSpec
        What to build.
    organisation : str
        Of the memory, as for `FilterUnit`.
    progress : callable, optional
        Called with the number of operations done since the last call.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification, or it has several lanes.
    """

    def __init__(
        self,
        spec: FilterSpec,
        *,
        organisation: str = "separate",
        progress: Progress | None = None,
    ) -> None:
        if spec.lanes > 1:
            raise SpecificationError(f"lanes: must be 1 for CompiledUnit, not {spec.lanes}")
        self._organisation = organisation
        self._hash = KeyHash(
            key_bits=spec.key_bits,
            sizes=spec.index_sizes,
            functions=1,
            seed=spec.seed,
            hash=spec.hash,
        )
        unit, count, array = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
        signatures: Signatures = {
            "lately_reset": (None, (unit, count)),
            "lately_generation": (None, (unit, count)),
            "lately_statistics": (None, (unit, array)),
            "lately_begin": (None, (unit,)),
            "lately_run": (ctypes.c_int64, (unit, count, count, *(array,) * 4)),
        }
        if spec.hash == "siphash":
            signatures["lately_secret"] = (ctypes.c_int, (unit, count, count))
        model = compiled_model(spec, organisation)
        profile = HardwareProfile(spec, organisation=organisation)
        super().__init__(profile, model, signatures, progress=progress)
        self.reset()

    def reset(self) -> None:
        """Reset the unit, which clears its memory. Counts one clock."""
        self._library.lately_reset(self._unit, self.spec.generation)

    def set_generation(self, generation: int) -> None:
        """Drive the generation length, in insertions; it counts from the next shift on."""
        self._library.lately_generation(self._unit, generation)
        self.idle(FilterUnit.GENERATION_LEAD)

    def rekey(self, secret: int) -> None:
        """Load a new secret, as the golden model's method: it counts from the next shift on.

        Raises
        ------
        RekeyError
            If the unit takes none now. Clocks have passed then, nothing else has changed.
        SpecificationError
            If ``spec.hash`` takes no secret.
        TypeError, ValueError
            If the secret is not an integer of 128 bits.
        """
        if self.spec.hash != "siphash":
            raise SpecificationError(
                f"secret: must not be given for hash {self.spec.hash}, which takes none"
            )
        check_secret(secret)
        low, high = secret & (1 << 64) - 1, secret >> 64
        # Until what is under way has had its effect.
        self.idle(self.profile.latency + FilterUnit.PAUSE)
        if not self._library.lately_secret(self._unit, low, high):
            raise RekeyError("rekey: must come when all segments of the ring have one secret")
        self.idle(FilterUnit.SECRET_LEAD)

    @property
    def statistics(self) -> dict[str, int]:
        """The unit's counters of `lately.hdl.registers`: events since reset."""
        self.idle(2 * self.profile.latency)
        counts = (ctypes.c_uint64 * len(COUNTERS))()
        self._library.lately_statistics(self._unit, counts)
        return dict(zip(COUNTERS, counts, strict=True))

    @property
    def memory(self) -> NDArray[np.bool_]:
        """Bits of all physical segments, once the spare is clear.

        Returns
        -------
        ndarray of bool, shape (segments, parts, part_bits)
        """
        spec = self.spec
        self.idle(2 * self.profile.latency + self.profile.clear_cycles)
        return self._read(memory_map(spec, organisation=self._organisation))

    def check_and_insert(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Query and insert keys, one per clock; as the golden model's method.

        Parameters
        ----------
        keys : array_like of int
            As for `SlidingFilter.check_and_insert`.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        checked = self._hash.check_keys(keys)
        operations = np.full(len(checked), Operation.CHECK_AND_INSERT, np.uint8)
        return self._run(operations, checked).seen

    def apply(self, operations: ArrayLike, keys: ArrayLike) -> Verdicts:
        """Perform a mixed sequence of operations; as the golden model's method.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
        keys : array_like of int
            As for `SlidingFilter.apply`.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        codes = np.ascontiguousarray(operations, np.uint8)
        return self._run(codes, self._hash.check_keys(keys))

    def _run(self, operations: NDArray[np.uint8], keys: NDArray[np.uint64]) -> Verdicts:
        keys = np.ascontiguousarray(keys)
        seen = np.empty(len(keys), np.bool_)
        age = np.empty(len(keys), np.int16)
        pointers = [array.ctypes.data for array in (operations, keys, seen, age)]
        self._library.lately_begin(self._unit)
        # In parts, so that an interrupt is heard between them; the unit knows nothing of them.
        for start in range(0, len(keys), _CHUNK):
            enough = min(start + _CHUNK, len(keys))
            failed = self._library.lately_run(self._unit, len(keys), enough, *pointers)
            if failed:
                reason = "a result with a foreign tag" if failed < 0 else f"none in {failed} clocks"
                raise ToolError(f"replay: expected one result per operation, found {reason}")
            if self._progress is not None:
                self._progress(enough - start)
        return Verdicts(seen, age.astype(np.int64))


def replay(
    spec: FilterSpec, keys: ArrayLike, *, progress: Progress | None = None
) -> tuple[NDArray[np.bool_], int]:
    """Check and insert keys in the compiled unit of a specification.

    Parameters
    ----------
    spec : FilterSpec
        What to build.
    keys : array_like of int
        As for `SlidingFilter.check_and_insert`.
    progress : callable, optional
        Called with the number of operations done since the last call.

    Returns
    -------
    verdicts : ndarray of bool, shape (n,)
    cycles : int
        Clocks from reset to the last result.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification.
    """
    with CompiledUnit(spec, progress=progress) as unit:
        return unit.check_and_insert(keys), unit.cycles
