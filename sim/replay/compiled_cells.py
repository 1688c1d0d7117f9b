"""Units whose memory has cells, in compiled simulation: dictionaries and timing filters."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from amaranth.back import verilog
from numpy.typing import ArrayLike, NDArray

from ...golden.hash.keys import check_keys
from ...golden.spec.base import Specification
from ...hdl.build import filter_unit, unit_profile
from ...hdl.latencies import DEFAULT_LEVELS
from ...hdl.verilog import TAG_BITS, TOP
from .beats import VALID
from .cell_blocks import CellBlocks
from .driven import DRIVER, DrivenModel, Progress, Told, counter_macro
from .model import cached_model, defines


class CompiledCells(DrivenModel):
    """Base of units of one lane whose memory has cells; see `DrivenModel`.

    Parameters
    ----------
    spec : Specification
        What to build.
    blocks : CellBlocks
        Where its cells are.
    optimisation : int
        As for `lately.sim.replay.model.cached_model`.
    progress, upsets
        As for `DrivenModel`.
    protect, levels, check
        As for `lately.hdl.build.filter_unit`.
    inverted : bool
        As for `lately.sim.replay.compiled.compiled_model`.
    options
        Further options of the unit.

    Raises
    ------
    ToolError
        If a tool is missing or fails.
    SpecificationError
        If the hardware cannot hold the specification.
    """

    def __init__(
        self,
        spec: Specification,
        blocks: CellBlocks,
        *,
        optimisation: int = 3,
        progress: Progress | None = None,
        upsets: bool = False,
        protect: str = "none",
        levels: int = DEFAULT_LEVELS,
        check: bool = False,
        inverted: bool = False,
        **options: Any,
    ) -> None:
        shape: Any = {"memory": blocks.memory, "protect": protect, "levels": levels}
        options["check"] = check
        unit = filter_unit(spec, tag_bits=TAG_BITS, **shape, **options)
        self.profile = unit_profile(spec, **shape)
        self._blocks = blocks
        self._key_bits = spec.key_bits
        ports = unit.signature.members
        counts = [*unit.COUNTERS, *(["alarms"] if check else [])]
        super().__init__(
            _compiled(unit, blocks, counts, inverted, optimisation=optimisation, upsets=upsets),
            lanes=1,
            counters=counts,
            keyed="secret" in ports,
            deciding="table" in ports,
            latency=self.profile.latency,
            progress=progress,
            upsets=upsets,
        )
        self.reset()

    def reset(self) -> None:
        """Reset the unit, which clears its memory, and wait for that."""
        self._library.lately_reset(self._unit)
        self.idle(self.profile.longest_pause)

    def _cells(self) -> NDArray[np.int64]:
        """Return the words of all cells, shape (parts, cells)."""
        return self._blocks.gather(self._read)

    def _send(
        self, operations: ArrayLike, keys: ArrayLike, windows: ArrayLike, **pauses: Any
    ) -> Told:
        """Perform operations; return what the unit tells of each, shape (n,)."""
        codes = np.asarray(operations, np.uint8) | np.uint8(VALID)
        told = self._drive(
            np.zeros(len(codes), np.uint8),
            codes,
            np.ascontiguousarray(check_keys(keys, self._key_bits)),
            np.broadcast_to(windows, len(codes)).astype(np.uint64),
            **pauses,
        )
        return Told._make(array[:-1] for array in told)


def _compiled(
    unit: Any,
    blocks: CellBlocks,
    counts: Sequence[str],
    inverted: bool,
    *,
    optimisation: int,
    upsets: bool,
) -> Any:
    """Return the compiled model of a unit, built now if it is not in the cache."""
    ports = unit.signature.members
    text = verilog.convert(unit, name=TOP, emit_src=False)
    memories = " ".join(
        f"MEMORY({number}, {TOP}__DOT__{name})" for number, name in enumerate(blocks.names)
    )
    return cached_model(
        text,
        top=TOP,
        driver=DRIVER,
        header=defines(
            *unit.signature.macros(),
            f"MEMORIES {memories}",
            counter_macro(counts),
            *(["KEYED"] if "secret" in ports else []),
            *(["DECIDING"] if "table" in ports else []),
        ),
        memory=blocks.memory,
        inverted=inverted,
        optimisation=optimisation,
        upsets=upsets,
    )
