"""A dictionary unit in compiled simulation."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from amaranth.back import verilog
from numpy.typing import ArrayLike, NDArray

from ...golden.errors import SpecificationError
from ...golden.hash.keys import check_keys
from ...golden.operations import Operation
from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...hdl.build import filter_unit
from ...hdl.dictionary.dictionary_figures import COUNTERS, DictionaryProfile
from ...hdl.latencies import PAUSE, SECRET_LEAD
from ...hdl.verilog import TAG_BITS, TOP
from ..toolchain import models
from .beats import VALID
from .driven import DRIVER, DrivenModel, Progress, counter_macro
from .model import cached_model, defines


class DictionaryAnswers(NamedTuple):
    """Results of operations, shape (n,) each."""

    seen: NDArray[np.bool_]
    """Whether the key was reported."""
    age: NDArray[np.int64]
    """Insertions since that of the key; -1 where it is not reported."""
    status: NDArray[np.uint8]
    """1 where keys of the window may have been missed, as it is longer than the guaranteed one."""


def compiled_dictionary(
    spec: WindowDictionarySpec, memory: str = "portable", *, optimisation: int = 3
) -> Path:
    """Return the compiled model of a dictionary unit, built now if it is not in the cache.

    Parameters
    ----------
    spec : WindowDictionarySpec
    memory : str
        As for `lately.hdl.DictionaryUnit`.
    optimisation : int
        As for `lately.sim.replay.model.cached_model`.

    Errors: as `lately.sim.replay.compiled.compiled_model`.
    """
    blocks = models(memory)
    unit = filter_unit(spec, tag_bits=TAG_BITS, memory=memory)
    words = [f"{TOP}__DOT__core__DOT__column{at}__DOT__memory__DOT__words"
             for at in range(spec.columns)] if not blocks else []  # fmt: skip
    text = verilog.convert(unit, name=TOP, emit_src=False)
    memories = " ".join(f"MEMORY({number}, {name})" for number, name in enumerate(words))
    return cached_model(
        "\n".join([text, *(path.read_text() for path in blocks)]),
        top=TOP,
        driver=DRIVER,
        header=defines(
            *unit.signature.macros(),
            "AGE_BITS 32",
            f"MEMORIES {memories}",
            counter_macro(COUNTERS),
            *(["KEYED"] if spec.hash == "siphash" else []),
        ),
        options=["--flatten"] if blocks else [],
        optimisation=optimisation,
    )


class CompiledDictionary(DrivenModel):
    """A dictionary unit in compiled simulation; see `DrivenModel`.

    Parameters
    ----------
    spec : WindowDictionarySpec
        What to build.
    memory : str
        Variant of the memory, as for `lately.hdl.DictionaryUnit`.
    optimisation : int
        As for `lately.sim.replay.model.cached_model`.
    progress : callable, optional
        As for `DrivenModel`.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification.
    """

    def __init__(
        self,
        spec: WindowDictionarySpec,
        *,
        memory: str = "portable",
        optimisation: int = 3,
        progress: Progress | None = None,
    ) -> None:
        self.spec = spec
        self.profile = DictionaryProfile(spec, memory=memory)
        super().__init__(
            compiled_dictionary(spec, memory, optimisation=optimisation),
            lanes=1,
            counters=COUNTERS,
            keyed=spec.hash == "siphash",
            latency=self.profile.latency,
            progress=progress,
        )
        self.reset()

    def reset(self) -> None:
        """Reset the unit, which clears its memory, and wait for that."""
        self._library.lately_reset(self._unit)
        self.idle(self.profile.longest_pause)

    def rekey(self, secret: int) -> None:
        """Load a new secret, which applies from the next clear on; as the golden model's method.

        Errors: as `WindowDictionary.rekey`.
        """
        if self.spec.hash != "siphash":
            raise SpecificationError(
                f"secret: must not be given for hash {self.spec.hash}, which takes none"
            )
        self._load_secret(secret, self.profile.latency + PAUSE)
        self.idle(SECRET_LEAD)

    @property
    def memory(self) -> NDArray[np.int64]:
        """Age plus 1 and rest of the live entry in each cell, or 0; as the golden model's.

        Returns
        -------
        ndarray of int64, shape (2, columns, rows)

        Raises
        ------
        SpecificationError
            If the memory is not the portable one.
        """
        spec = self.spec
        if self.profile.memory != "portable":
            raise SpecificationError(
                f"memory: must be portable for its cells to be read, not {self.profile.memory!r}"
            )
        now = self.statistics["insertions"]
        values = np.int64(1) << np.arange(spec.cell_bits, dtype=np.int64)
        cells = np.stack(
            [self._read(column, spec.rows, spec.cell_bits) @ values
             for column in range(spec.columns)]
        )  # fmt: skip
        time = cells >> 1 & (1 << spec.timestamp_bits) - 1
        distance = (now - time) % (1 << spec.timestamp_bits)
        live = (cells & 1 > 0) & (distance <= spec.window)
        return np.stack([distance * live, (cells >> 1 + spec.timestamp_bits) * live])

    def check_and_insert(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Query and insert keys, one per cycle; as the golden model's method.

        Parameters
        ----------
        keys : array_like of int
            As for `WindowDictionary.check_and_insert`.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        return self.perform(np.full(len(np.asarray(keys)), Operation.CHECK_AND_INSERT), keys).seen

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        windows: ArrayLike | None = None,
        *,
        pause_before: float = 0.0,
        pause_after: float = 0.0,
        seed: int = 1,
    ) -> DictionaryAnswers:
        """Perform a mixed sequence of operations; as the golden model's method.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
        keys, windows : array_like of int
            As for `WindowDictionary.perform`.
        pause_before, pause_after : float
            Shares of the cycles in which no operation is offered, and no answer taken.
        seed : int
            Seed of the pauses.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        codes = np.asarray(operations, np.uint8) | np.uint8(VALID)
        checked = np.ascontiguousarray(check_keys(keys, self.spec.key_bits))
        asked = self.spec.window if windows is None else np.asarray(windows)
        count = len(codes)
        alone, seen, status = (np.zeros(count + 1, np.uint8) for _ in range(3))
        age = np.full(count + 1, -1, np.int32)
        wanted = np.broadcast_to(asked, count).astype(np.uint64)
        arrays = (alone[:count], codes, checked, wanted, seen, age, status)
        self._drive(arrays, (round(256 * pause_before), round(256 * pause_after)), seed)
        return DictionaryAnswers(seen[:count] > 0, age[:count].astype(np.int64), status[:count])
