"""A dictionary unit in compiled simulation."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...golden.spec.dictionary_sizes import WindowDictionarySpec
from ...hdl.dictionary.dictionary_figures import DictionaryProfile
from ...hdl.latencies import PAUSE, SECRET_LEAD
from .cell_blocks import CellBlocks, first_copy
from .compiled_cells import CompiledCells


class DictionaryAnswers(NamedTuple):
    """Results of operations, shape (n,) each."""

    seen: NDArray[np.bool_]
    """Whether the key was reported."""
    age: NDArray[np.int64]
    """Insertions since that of the key; -1 where it is not reported."""
    status: NDArray[np.uint8]
    """1 where keys of the window may have been missed, as it is longer than the guaranteed one."""


class CompiledDictionary(CompiledCells):
    """A dictionary unit in compiled simulation; see `CompiledCells`.

    Parameters
    ----------
    spec : WindowDictionarySpec
        What to build.
    memory : str
        Variant of the memory, as for `lately.hdl.DictionaryUnit`; explicit block RAMs are simulated
        with the models that answer with garbage what vendors leave undefined.
    protect : str
        As for `lately.hdl.DictionaryUnit`.
    options
        As for `CompiledCells`.

    Errors: as `CompiledCells`.
    """

    def __init__(
        self,
        spec: WindowDictionarySpec,
        *,
        memory: str = "portable",
        protect: str = "none",
        **options: Any,
    ) -> None:
        self.spec = spec
        bits = DictionaryProfile(spec, protect=protect).cell_bits
        held = first_copy(protect)
        blocks = CellBlocks("column", spec.columns, spec.rows, bits, memory, held=held)
        super().__init__(spec, blocks, protect=protect, **options)

    def rekey(self, secret: int) -> None:
        """Load a new secret, which applies from the next clear on; as the golden model's method.

        Errors: as `WindowDictionary.rekey`.
        """
        self._load_secret(self.spec.hash, secret, self.profile.latency + PAUSE)
        self.idle(SECRET_LEAD)

    @property
    def memory(self) -> NDArray[np.int64]:
        """Age plus 1 and rest of the live entry in each cell, or 0; as the golden model's.

        Returns
        -------
        ndarray of int64, shape (2, columns, rows)
        """
        spec = self.spec
        now = self.statistics["insertions"]
        cells = self._cells()
        time = cells >> 1 & (1 << spec.timestamp_bits) - 1
        distance = (now - time) % (1 << spec.timestamp_bits)
        live = (cells & 1 > 0) & (distance <= spec.window)
        rest = cells >> 1 + spec.timestamp_bits & (1 << spec.rest_bits) - 1
        return np.stack([distance * live, rest * live])

    def apply(
        self, operations: ArrayLike, keys: ArrayLike, windows: ArrayLike | None = None
    ) -> DictionaryAnswers:
        """Perform a mixed sequence of operations; as `perform`."""
        return self.perform(operations, keys, windows=windows)

    def perform(
        self,
        operations: ArrayLike,
        keys: ArrayLike,
        times: None = None,
        windows: ArrayLike | None = None,
        **pauses: Any,
    ) -> DictionaryAnswers:
        """Perform a mixed sequence of operations; as the golden model's method.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
        keys, windows : array_like of int
            As for `WindowDictionary.perform`.
        pauses
            ``pause_before`` and ``pause_after``, the shares of the cycles in which no operation is
            offered, and no answer taken; and their ``seed``.

        Raises
        ------
        ToolError
            If there are not as many results as operations.
        """
        asked = self.spec.window if windows is None else windows
        told = self._send(operations, keys, asked, **pauses)
        return DictionaryAnswers(told.seen, told.age.astype(np.int64), told.status)
